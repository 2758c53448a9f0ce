//! Label and field selectors: from the query string to a test on one object.
//!
//! Parsing follows the server's grammar and wording, since clients show the message as it is.
//! Which fields a kind allows in a field selector is the business of [`crate::kinds`].

mod field;
mod label;

use std::fmt;

pub use field::FieldSelector;
pub use label::LabelSelector;

/// A selector that cannot be understood. The text is the message of the 400 answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError(pub String);

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SelectorError {}
