//! Parses label and field selectors into predicates on objects.
//!
//! Parsing follows the server's grammar and wording, since clients show the message unchanged. Which fields a kind
//! supports is up to the caller, see [`FieldSelector::rename`].

mod field;
mod label;
mod shard;
mod text;

use std::fmt;

pub use field::{FieldSelector, FieldTerm};
pub use label::{LabelSelector, Operator, Requirement};
pub use shard::{ShardSelector, fnv1a};
pub use text::selector_text;

/// A selector that cannot be parsed. The text is the message of the 400 response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError(pub String);

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SelectorError {}
