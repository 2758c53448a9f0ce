//! Why an evaluation has no value.

use std::sync::Arc;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An error of the evaluation, such as a missing key. Can be absorbed by `&&` and `||`.
    Error(Arc<str>),
    /// The cost limit was reached.
    OutOfBudget,
}

impl Failure {
    pub(super) fn new(message: impl Into<Arc<str>>) -> Failure {
        Failure::Error(message.into())
    }

    pub(super) fn no_overload() -> Failure {
        Failure::new("no such overload")
    }
}
