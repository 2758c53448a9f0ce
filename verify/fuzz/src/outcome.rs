//! What an execution observed, reduced to a number: two inputs with the same number took the same path, as far as one can see
//! from outside.

use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The results and errors of one execution.
#[derive(Debug, Default)]
pub struct Outcome(DefaultHasher);

impl Outcome {
    /// Adds a result.
    pub fn note(&mut self, what: impl Hash) {
        what.hash(&mut self.0);
    }

    /// Adds the number of something. Beyond a few, only the magnitude counts.
    pub fn count(&mut self, count: usize) {
        self.note(if count < 4 {
            count
        } else {
            4 + count.ilog2() as usize
        });
    }

    /// Adds an error: its text without numbers and quoted parts, which differ with every input.
    pub fn error(&mut self, error: &dyn Display) {
        let text = error.to_string();
        let mut quoted = false;
        for character in text.chars().take(200) {
            match character {
                '"' | '`' | '\'' => quoted = !quoted,
                _ if quoted || character.is_ascii_digit() => {}
                _ => character.hash(&mut self.0),
            }
        }
    }

    /// The number.
    pub fn signature(&self) -> u64 {
        self.0.finish()
    }
}
