//! Unified diffs of texts, with the hunks that Python's `difflib` and its port to Go find.

use std::fmt::Write;
use std::ops::Range;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

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
    let mut matches = Vec::new();
    find_matches(old, new, 0..old.len(), 0..new.len(), &mut matches);
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

/// The equal blocks in order: the longest one, and those before and after it.
fn find_matches(
    old: &[String],
    new: &[String],
    of: Range<usize>,
    with: Range<usize>,
    found: &mut Vec<(usize, usize, usize)>,
) {
    let mut best = (of.start, with.start, 0);
    // The length of the match that ends at each new line, for the previous old line.
    let mut lengths = vec![0; with.end + 1];
    for i in of.clone() {
        let mut next = vec![0; with.end + 1];
        for j in with.clone() {
            if old.get(i) == new.get(j) {
                let length = 1 + if j > with.start {
                    lengths.get(j - 1).copied().unwrap_or(0)
                } else {
                    0
                };
                if let Some(here) = next.get_mut(j) {
                    *here = length;
                }
                if length > best.2 {
                    best = (i + 1 - length, j + 1 - length, length);
                }
            }
        }
        lengths = next;
    }
    let (i, j, length) = best;
    if length == 0 {
        return;
    }
    find_matches(old, new, of.start..i, with.start..j, found);
    match found.last_mut() {
        // Adjacent blocks are one.
        Some((before, to, size)) if *before + *size == i && *to + *size == j => *size += length,
        _ => found.push((i, j, length)),
    }
    find_matches(old, new, i + length..of.end, j + length..with.end, found);
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
}
