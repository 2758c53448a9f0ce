//! Differences of long texts: the changed lines of a configuration file, the changed part of a long line.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use crate::text::safe::LONGEST_VALUE;

/// Larger texts are compared as one long line: finding the shortest difference of lines may take quadratic time.
const LARGEST: usize = 256 << 10;
/// Where the comparison gives up looking for a shorter difference.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Unchanged lines shown around a change.
const CONTEXT: usize = 1;
/// Changed and unchanged lines shown; more are counted.
const MOST_LINES: usize = 40;
/// Characters shown around the changed part of a long line.
const AROUND: usize = 24;

/// One line of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiffLine {
    /// Where the following lines are: their number in the new text, from 1.
    At(usize),
    /// Unchanged.
    Same(String),
    /// Removed.
    Old(String),
    /// Added.
    New(String),
    /// The number of lines that are not shown.
    More(usize),
}

/// How two texts differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextChange {
    /// Line by line.
    Lines(Vec<DiffLine>),
    /// The part that changed, with a little of what is around it.
    Part {
        /// In the old text.
        old: String,
        /// In the new text.
        new: String,
    },
}

/// How two texts differ, if they are too long to be shown as they are.
pub fn of(old: &str, new: &str) -> Option<TextChange> {
    let multiline = old.trim_end().contains('\n') || new.trim_end().contains('\n');
    if multiline && old.len() <= LARGEST && new.len() <= LARGEST {
        return Some(TextChange::Lines(lines(old, new)));
    }
    let is_long = |text: &str| text.chars().nth(LONGEST_VALUE).is_some();
    (is_long(old) && is_long(new)).then(|| part(old, new))
}

fn lines(old: &str, new: &str) -> Vec<DiffLine> {
    let diff = TextDiff::configure().timeout(TIMEOUT).diff_lines(old, new);
    let mut lines = Vec::new();
    for group in diff.grouped_ops(CONTEXT) {
        if let Some(first) = group.first() {
            lines.push(DiffLine::At(first.new_range().start + 1));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let text = change.value().trim_end_matches('\n').to_owned();
            lines.push(match change.tag() {
                ChangeTag::Equal => DiffLine::Same(text),
                ChangeTag::Delete => DiffLine::Old(text),
                ChangeTag::Insert => DiffLine::New(text),
            });
        }
    }
    if lines.len() > MOST_LINES {
        let more = lines.len() - MOST_LINES;
        lines.truncate(MOST_LINES);
        lines.push(DiffLine::More(more));
    }
    lines
}

/// Without the common beginning and end, except for a few characters.
fn part(old: &str, new: &str) -> TextChange {
    let (old, new): (Vec<char>, Vec<char>) = (old.chars().collect(), new.chars().collect());
    let front = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let room = old.len().min(new.len()) - front;
    let back = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(room)
        .take_while(|(a, b)| a == b)
        .count();
    let cut = |text: &[char]| -> String {
        let (from, to) = (
            front.saturating_sub(AROUND),
            (text.len() - back + AROUND).min(text.len()),
        );
        let mut part: String = text.get(from..to).unwrap_or_default().iter().collect();
        if from > 0 {
            part.insert(0, '…');
        }
        if to < text.len() {
            part.push('…');
        }
        part
    };
    TextChange::Part {
        old: cut(&old),
        new: cut(&new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_shown_as_they_are() {
        assert_eq!(of("a", "b"), None);
        assert_eq!(of("", &"x".repeat(500)), None, "one of them is short");
        assert_eq!(of("a\n", "b\n"), None, "one line each");
    }

    #[test]
    fn several_lines_are_compared_line_by_line() {
        let old = "one\ntwo\nthree\nfour\nfive\nsix\n";
        let new = "one\ntwo\n3\nfour\nfive\nsix\n";
        assert_eq!(
            of(old, new),
            Some(TextChange::Lines(vec![
                DiffLine::At(2),
                DiffLine::Same("two".into()),
                DiffLine::Old("three".into()),
                DiffLine::New("3".into()),
                DiffLine::Same("four".into()),
            ]))
        );
    }

    #[test]
    fn many_changed_lines_are_counted() {
        let text = |word: &str| {
            (0..500)
                .map(|number| format!("{word} {number}\n"))
                .collect::<String>()
        };
        let Some(TextChange::Lines(lines)) = of(&text("a"), &text("b")) else {
            panic!("lines are expected")
        };
        assert_eq!(lines.len(), MOST_LINES + 1);
        assert_eq!(lines.last(), Some(&DiffLine::More(1001 - MOST_LINES)));
    }

    #[test]
    fn the_changed_part_of_a_long_line_is_shown() {
        let text = |middle: &str| format!("{}{middle}{}", "ä".repeat(300), "z".repeat(300));
        let around = |middle: &str| format!("…{}{middle}{}…", "ä".repeat(AROUND), "z".repeat(AROUND));
        assert_eq!(
            of(&text("old"), &text("newer")),
            Some(TextChange::Part {
                old: around("old"),
                new: around("newer")
            })
        );
    }

    #[test]
    fn repeated_text_is_not_counted_twice() {
        let (old, new) = ("a".repeat(200), "a".repeat(210));
        let Some(TextChange::Part { old, new }) = of(&old, &new) else {
            panic!("a part is expected")
        };
        assert_eq!((old.len(), new.len()), (AROUND + 3, AROUND + 3 + 10));
    }

    proptest::proptest! {
        #[test]
        fn any_texts_are_compared_without_a_panic(old in "(?s).{0,150}", new in "(?s).{0,150}") {
            let _ = of(&old, &new);
        }
    }
}
