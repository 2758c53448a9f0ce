//! Unified diffs of texts, with the hunks that Python's `difflib` and its port to Go find.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// From this number of new lines on, those that occur often are popular: a match cannot begin with them, but extends over them.
const MANY_LINES: usize = 200;

/// The comparisons that are made at most. What remains then is one change.
///
/// Differs from difflib, which has no bound: an object of the size limit could keep it busy for minutes.
const MOST_COMPARISONS: usize = 50_000_000;

/// A range of the old and the range of the new lines that replaces it; equal ranges have equal lines.
struct Step {
    equal: bool,
    old: Range<usize>,
    new: Range<usize>,
}

/// The diff of two texts by lines, without a header.
pub(super) fn unified(old: &[String], new: &[String]) -> String {
    let mut out = String::new();
    for hunk in hunks(steps(old, new)) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
            continue;
        };
        let range = |from: usize, to: usize| match to - from {
            1 => format!("{}", from + 1),
            0 => format!("{from},0"),
            length => format!("{},{length}", from + 1),
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            out,
            "@@ -{} +{} @@",
            range(first.old.start, last.old.end),
            range(first.new.start, last.new.end)
        );
        for step in hunk {
            let mut write = |sign: char, lines: Option<&[String]>| {
                for line in lines.unwrap_or_default() {
                    let _ = writeln!(out, "{sign}{line}");
                }
            };
            if step.equal {
                write(' ', old.get(step.old.clone()));
            } else {
                write('-', old.get(step.old.clone()));
                write('+', new.get(step.new.clone()));
            }
        }
    }
    out
}

/// The way from the old to the new lines.
fn steps(old: &[String], new: &[String]) -> Vec<Step> {
    let mut matches = Matcher::run(old, new);
    let mut steps = Vec::new();
    let (mut at, mut to) = (0, 0);
    // The end, so that what follows the last match is a step, too.
    matches.push((old.len(), new.len(), 0));
    for (i, j, length) in matches {
        if at < i || to < j {
            steps.push(Step {
                equal: false,
                old: at..i,
                new: to..j,
            });
        }
        if length > 0 {
            steps.push(Step {
                equal: true,
                old: i..i + length,
                new: j..j + length,
            });
        }
        (at, to) = (i + length, j + length);
    }
    steps
}

/// Equal lines: the first old one, the first new one, and how many.
type Match = (usize, usize, usize);

#[doc(alias = "SequenceMatcher")]
struct Matcher<'a> {
    old: &'a [String],
    new: &'a [String],
    /// For each old line, where the new ones have it. Nowhere if it is popular.
    positions: Vec<&'a [usize]>,
    /// The length of the match that ends before each new line: with the present old line, and with the one before it.
    lengths: [Vec<usize>; 2],
    remaining: usize,
}

impl Matcher<'_> {
    /// Finds the equal blocks of two texts, in order.
    fn run(old: &[String], new: &[String]) -> Vec<Match> {
        let mut known: HashMap<&str, Vec<usize>> = HashMap::new();
        for (position, line) in new.iter().enumerate() {
            known.entry(line).or_default().push(position);
        }
        if new.len() >= MANY_LINES {
            known.retain(|_, positions| positions.len() <= new.len() / 100 + 1);
        }
        let nowhere: &[usize] = &[];
        let matcher = Matcher {
            old,
            new,
            positions: old
                .iter()
                .map(|line| known.get(line.as_str()).map_or(nowhere, Vec::as_slice))
                .collect(),
            lengths: [vec![0; new.len() + 1], vec![0; new.len() + 1]],
            remaining: MOST_COMPARISONS,
        };
        matcher.matches()
    }

    /// The longest match, and those before and after it.
    fn matches(mut self) -> Vec<Match> {
        let mut found: Vec<Match> = Vec::new();
        let mut open = vec![(0..self.old.len(), 0..self.new.len())];
        while let Some((of, with)) = open.pop() {
            let (i, j, length) = self.longest(of.clone(), with.clone());
            if length == 0 {
                continue;
            }
            found.push((i, j, length));
            open.push((i + length..of.end, j + length..with.end));
            open.push((of.start..i, with.start..j));
        }
        found.sort_unstable();
        let mut blocks: Vec<Match> = Vec::new();
        for (i, j, length) in found {
            match blocks.last_mut() {
                // Adjacent blocks are one.
                Some((before, to, size)) if *before + *size == i && *to + *size == j => *size += length,
                _ => blocks.push((i, j, length)),
            }
        }
        blocks
    }

    /// The longest match in these ranges, the first one of several.
    #[doc(alias = "findLongestMatch")]
    fn longest(&mut self, of: Range<usize>, with: Range<usize>) -> Match {
        let (mut first, mut to, mut size) = (of.start, with.start, 0);
        let [before, here] = &mut self.lengths;
        let mut used: &[usize] = &[];
        for i in of.clone() {
            let all = self.positions.get(i).copied().unwrap_or_default();
            let from = all.partition_point(|j| *j < with.start);
            let end = all.partition_point(|j| *j < with.end);
            let places = all.get(from..end).unwrap_or_default();
            let Some(remaining) = self.remaining.checked_sub(places.len() + 1) else {
                break;
            };
            self.remaining = remaining;
            for &j in places {
                let length = before.get(j).copied().unwrap_or(0) + 1;
                if let Some(here) = here.get_mut(j + 1) {
                    *here = length;
                }
                if length > size {
                    (first, to, size) = (i + 1 - length, j + 1 - length, length);
                }
            }
            clear(before, used);
            used = places;
            std::mem::swap(before, here);
        }
        clear(before, used);
        let equal = |i: usize, j: usize| self.old.get(i) == self.new.get(j);
        while first > of.start && to > with.start && equal(first - 1, to - 1) {
            (first, to, size) = (first - 1, to - 1, size + 1);
        }
        while first + size < of.end && to + size < with.end && equal(first + size, to + size) {
            size += 1;
        }
        (first, to, size)
    }
}

fn clear(lengths: &mut [usize], places: &[usize]) {
    for j in places {
        if let Some(length) = lengths.get_mut(j + 1) {
            *length = 0;
        }
    }
}

/// Groups of steps that are close to each other, with their context.
fn hunks(steps: Vec<Step>) -> Vec<Vec<Step>> {
    let mut hunks = Vec::new();
    let mut hunk: Vec<Step> = Vec::new();
    let count = steps.len();
    for (position, mut step) in steps.into_iter().enumerate() {
        if step.equal {
            let length = step.old.len();
            if position == 0 {
                let skipped = length.saturating_sub(CONTEXT);
                step.old.start += skipped;
                step.new.start += skipped;
            } else if position + 1 == count {
                step.old.end -= length.saturating_sub(CONTEXT);
                step.new.end -= length.saturating_sub(CONTEXT);
            } else if length > 2 * CONTEXT {
                hunk.push(Step {
                    equal: true,
                    old: step.old.start..step.old.start + CONTEXT,
                    new: step.new.start..step.new.start + CONTEXT,
                });
                hunks.push(std::mem::take(&mut hunk));
                step.old.start = step.old.end - CONTEXT;
                step.new.start = step.new.end - CONTEXT;
            }
        }
        hunk.push(step);
    }
    if hunk.iter().any(|step| !step.equal) {
        hunks.push(hunk);
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: &str, new: &str) -> String {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        unified(&lines(old), &lines(new)).replace('\n', "|")
    }

    #[test]
    fn changes_have_three_lines_of_context() {
        assert_eq!(
            diff("a b c d e f g h i", "a b c d E f g h i"),
            "@@ -2,7 +2,7 @@| b| c| d|-e|+E| f| g| h|"
        );
        assert_eq!(diff("a b", "a b"), "");
        assert_eq!(diff("a", "b"), "@@ -1 +1 @@|-a|+b|");
    }

    #[test]
    fn distant_changes_are_separate_hunks() {
        assert_eq!(
            diff("a b c d e f g h i", "A b c d e f g h I"),
            "@@ -1,4 +1,4 @@|-a|+A| b| c| d|@@ -6,4 +6,4 @@| f| g| h|-i|+I|"
        );
        assert_eq!(
            diff("a b c d e f g h", "A b c d e f g H"),
            "@@ -1,8 +1,8 @@|-a|+A| b| c| d| e| f| g|-h|+H|"
        );
    }

    #[test]
    fn an_inserted_block_is_found_by_the_longest_match() {
        assert_eq!(
            diff("[ { x } ]", "[ { y } { x } ]"),
            "@@ -1,4 +1,7 @@| [|+{|+y|+}| {| x| }|"
        );
    }

    /// Lines of a list: numbers, some of them replaced, between lines that all items have.
    fn items(numbers: impl Iterator<Item = usize>) -> Vec<String> {
        let lines = numbers.flat_map(|number| ["{".to_owned(), number.to_string(), "}".to_owned()]);
        lines.collect()
    }

    #[test]
    fn lines_that_occur_often_in_a_long_text_extend_matches_but_start_none() {
        let old = items(0..100);
        let new = items((0..100).map(|number| if number == 50 { 1050 } else { number }));
        assert_eq!(
            unified(&old, &new).replace('\n', "|"),
            "@@ -149,7 +149,7 @@| 49| }| {|-50|+1050| }| {| 51|"
        );

        // Behind the change, no line is rare, and a match cannot begin with a brace.
        let old: Vec<String> = items(0..70).into_iter().chain(items(70..73)).collect();
        let new: Vec<String> = items(0..70).into_iter().chain(items(170..173)).collect();
        assert_eq!(
            unified(&old, &new).replace('\n', "|"),
            "@@ -209,11 +209,11 @@| 69| }| {|-70|-}|-{|-71|-}|-{|-72|-}|+170|+}|+{|+171|+}|+{|+172|+}|"
        );
    }

    #[test]
    fn large_texts_are_compared_with_bounded_work() {
        let old = vec!["same".to_owned(); 60_000];
        let mut new = old.clone();
        new.push("more".to_owned());
        assert!(unified(&old, &new).contains("+more"));

        let changed = |n: usize| items((0..20_000).map(move |number| number % n));
        assert!(unified(&changed(150), &changed(151)).starts_with("@@"));
    }
}
