//! Why a path is invalid.

use std::fmt;

/// The longest path, in bytes.
pub(super) const MAX_LENGTH: usize = 1024;
/// The most steps of a path.
pub(super) const MAX_STEPS: usize = 32;

/// Why a path is invalid, in general or for a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// It is longer than 1024 bytes or 32 steps.
    TooLong,
    /// It does not follow the grammar.
    Syntax {
        /// Where, in bytes.
        at: usize,
    },
    /// The kind has no such field.
    UnknownField {
        /// The message that has no such field.
        message: &'static str,
        /// The name.
        field: String,
    },
    /// A step selects from a value that has no parts, or an element by identity where the elements have none.
    NotSelectable {
        /// The step.
        step: String,
    },
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(
                f,
                "the path is longer than {MAX_LENGTH} bytes or {MAX_STEPS} steps"
            ),
            Self::Syntax { at } => write!(
                f,
                "invalid path at byte {at}: write it like `spec.containers[web].image`, and quote keys with brackets"
            ),
            Self::UnknownField { message, field } => write!(f, "{message} has no field {field:?}"),
            Self::NotSelectable { step } => write!(f, "nothing can be selected by {step:?} here"),
        }
    }
}

impl std::error::Error for PathError {}
