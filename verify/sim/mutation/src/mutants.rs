//! The mutants of a tree as cargo-mutants lists them, and names for them that survive changes elsewhere in the file.

use std::collections::HashMap;
use std::ops::Range;

use serde::Deserialize;

/// A change of the source that the tests must notice.
#[derive(Clone, Debug, Deserialize)]
pub struct Mutant {
    /// Where it is and what it does. [`named`] removes the line and numbers those that read the same.
    pub name: String,
    /// The changed file, relative to the tree.
    pub file: String,
    pub span: Span,
    /// What replaces the text at `span`.
    pub replacement: String,
    pub genre: Genre,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Genre {
    /// The body of a function becomes a constant.
    FnValue,
    BinaryOperator,
    UnaryOperator,
    /// An arm is deleted; another one of the match is `_`.
    MatchArm,
    MatchArmGuard,
    /// A field is deleted from a struct expression with a base.
    StructField,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Span {
    pub start: Position,
    pub end: Position,
}

/// Both count from 1; columns are characters.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Mutant {
    /// The bytes of `source` that the replacement takes.
    pub fn range(&self, source: &str) -> Range<usize> {
        let [start, end] = [self.span.start, self.span.end].map(|at| offset(source, at.line, at.column - 1));
        start..end
    }

    /// The text at `range` of the source, mutated. The mutant is within the range.
    pub fn applied(&self, source: &str, range: Range<usize>) -> String {
        let own = self.range(source);
        format!(
            "{}{}{}",
            &source[range.start..own.start],
            self.replacement,
            &source[own.end..range.end]
        )
    }

    /// The stage it belongs to: the first folder or file below `src`.
    pub fn part(&self) -> &str {
        let path = self
            .file
            .rsplit_once("/src/")
            .map_or(&*self.file, |(_, path)| path);
        path.split('/').next().unwrap_or(path).trim_end_matches(".rs")
    }
}

/// The byte at a line, from 1, and a column in characters, from 0.
pub fn offset(source: &str, line: usize, column: usize) -> usize {
    let before: usize = source.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let rest = &source[before..];
    before + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
}

/// The mutants in the order of their positions, named by what they do and in which function. Lines move, this does not.
pub fn named(mut mutants: Vec<Mutant>) -> Vec<Mutant> {
    mutants.sort_by_key(|mutant| {
        (
            mutant.file.clone(),
            mutant.span.start.line,
            mutant.span.start.column,
        )
    });
    let mut seen: HashMap<String, usize> = HashMap::new();
    for mutant in &mut mutants {
        let position = format!(":{}:{}: ", mutant.span.start.line, mutant.span.start.column);
        let plain = mutant.name.replacen(&position, ": ", 1).replace('\t', " ");
        let count = seen.entry(plain.clone()).or_default();
        *count += 1;
        mutant.name = if *count == 1 {
            plain
        } else {
            format!("{plain} ({count})")
        };
    }
    mutants
}

/// Some of the names, the same ones for the same seed.
pub fn sample(mut names: Vec<String>, size: usize, mut seed: u64) -> Vec<String> {
    names.sort();
    let size = size.min(names.len());
    for at in 0..size {
        let left = (names.len() - at) as u64;
        let other = at + (splitmix(&mut seed) % left) as usize;
        names.swap(at, other);
    }
    names.truncate(size);
    names
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str, line: usize, column: usize) -> Mutant {
        Mutant {
            name: format!("crates/a/src/queue/fifo.rs:{line}:{column}: {name}"),
            file: "crates/a/src/queue/fifo.rs".to_owned(),
            span: Span {
                start: Position { line, column },
                end: Position {
                    line,
                    column: column + 1,
                },
            },
            replacement: "<".to_owned(),
            genre: Genre::BinaryOperator,
        }
    }

    #[test]
    fn names_have_no_lines_and_equal_ones_are_numbered_by_position() {
        let mutants = named(vec![at("x in f", 20, 3), at("y in f", 7, 1), at("x in f", 5, 9)]);
        let names: Vec<_> = mutants
            .iter()
            .map(|mutant| (&*mutant.name, mutant.span.start.line))
            .collect();
        assert_eq!(
            names,
            [
                ("crates/a/src/queue/fifo.rs: x in f", 5),
                ("crates/a/src/queue/fifo.rs: y in f", 7),
                ("crates/a/src/queue/fifo.rs: x in f (2)", 20),
            ]
        );
    }

    #[test]
    fn columns_are_characters() {
        let source = "one\nü > ä\n";
        let mutant = at("", 2, 3);
        assert_eq!(&source[mutant.range(source)], ">");
        assert_eq!(mutant.applied(source, 4..source.len()), "ü < ä\n");
    }

    #[test]
    fn a_mutant_belongs_to_the_first_folder_of_its_crate() {
        let mut mutant = at("", 1, 1);
        assert_eq!(mutant.part(), "queue");
        mutant.file = "crates/a/src/store.rs".to_owned();
        assert_eq!(mutant.part(), "store");
    }

    #[test]
    fn a_seed_gives_the_same_sample_in_any_order_of_the_names() {
        let names: Vec<String> = (0..50).map(|number| number.to_string()).collect();
        let first = sample(names.clone(), 20, 7);
        assert_eq!(sample(names.iter().rev().cloned().collect(), 20, 7), first);
        assert_ne!(sample(names.clone(), 20, 8), first);
        assert_eq!(first.iter().collect::<std::collections::HashSet<_>>().len(), 20);
        assert_eq!(sample(names, 500, 7).len(), 50);
    }
}
