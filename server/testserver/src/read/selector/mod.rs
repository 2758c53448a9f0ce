//! Parses label and field selectors into predicates on objects.
//!
//! Parsing follows the server's grammar and wording, since clients show the message unchanged. [`crate::kinds`] defines
//! which fields a kind supports.

mod field;
mod label;

use std::fmt;

pub use field::FieldSelector;
pub use label::LabelSelector;

/// A selector that cannot be parsed. The text is the message of the 400 response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError(pub String);

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SelectorError {}
