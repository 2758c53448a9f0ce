//! Why an evaluation has no value.

use std::sync::Arc;

use crate::value::Value;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An error of the evaluation, such as a missing key. Can be absorbed by `&&` and `||`.
    Error {
        /// As an API server words it.
        message: Arc<str>,
        /// Without values, which may be secret: names only what the expression names.
        redacted: Arc<str>,
    },
    /// The cost limit was reached.
    OutOfBudget,
}

impl Failure {
    /// An error whose message contains no values.
    pub(super) fn new(message: impl Into<Arc<str>>) -> Failure {
        let message = message.into();
        Failure::Error {
            redacted: message.clone(),
            message,
        }
    }

    pub(super) fn no_overload() -> Failure {
        Failure::Error {
            message: "no such overload".into(),
            redacted: "a value has the wrong type".into(),
        }
    }

    /// A map has no entry for a key of the expression.
    pub(super) fn no_such_key(name: &str) -> Failure {
        Failure::Error {
            message: format!("no such key: {name}").into(),
            redacted: format!("it has no field {name:?}; test with has() if a field can be absent").into(),
        }
    }

    /// A function or operator failed with this message, or does not accept these arguments.
    pub(super) fn of_call(function: &str, arguments: &[Value], message: Option<String>) -> Failure {
        let redacted = match &message {
            None => {
                let types: Vec<&str> = arguments.iter().map(Value::type_name).collect();
                let types = types.join(", ");
                format!("no matching overload for '{function}' applied to '({types})'")
            }
            Some(_) if function.starts_with(|first: char| first.is_ascii_alphabetic()) => {
                format!("{function}() failed")
            }
            Some(message) if message.starts_with("no such key") => "a key of a map does not exist".to_owned(),
            Some(message) if message.starts_with("index out of bounds") => {
                "an index is out of bounds".to_owned()
            }
            // Those of arithmetic and comparisons are constant.
            Some(message) => message.clone(),
        };
        Failure::Error {
            message: message.map_or_else(|| "no such overload".into(), Arc::from),
            redacted: redacted.into(),
        }
    }
}
