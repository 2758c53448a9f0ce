//! Errors of more than one module.

use std::sync::Arc;

/// A text that is not an object key, a selector or a resource version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}: {problem}{}", .position.map_or_else(String::new, |at| format!(" at position {at}")))]
pub struct ParseError {
    expected: &'static str,
    text: String,
    problem: String,
    position: Option<usize>,
}

impl ParseError {
    pub(crate) fn new(expected: &'static str, text: &str, problem: impl Into<String>) -> Self {
        Self {
            expected,
            text: text.to_owned(),
            problem: problem.into(),
            position: None,
        }
    }

    /// Sets the position of the problem, in bytes from 0.
    pub(crate) fn at(mut self, byte: usize) -> Self {
        let before = self.text.get(..byte).unwrap_or_default();
        self.position = Some(before.chars().count() + 1);
        self
    }

    /// The position of the problem in a selector, in characters from 1.
    pub fn position(&self) -> Option<usize> {
        self.position
    }
}

/// An informer or a reflector has stopped, and cannot be restarted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}the {kind} of {name} has stopped; build a new one",
    .handler.as_ref().map_or_else(String::new, |handler| format!("handler {handler} was not added: "))
)]
pub struct StoppedError {
    kind: &'static str,
    name: String,
    handler: Option<Arc<str>>,
}

impl StoppedError {
    pub(crate) fn informer(name: &str) -> Self {
        Self {
            kind: "informer",
            name: name.to_owned(),
            handler: None,
        }
    }

    pub(crate) fn reflector(resource: &str) -> Self {
        Self {
            kind: "reflector",
            ..Self::informer(resource)
        }
    }

    /// A handler was not added for this reason.
    pub(crate) fn with_handler(mut self, handler: Arc<str>) -> Self {
        self.handler = Some(handler);
        self
    }

    /// The name of the informer, or the objects of the reflector: `pods in shop`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The handler that was not added, if this is why.
    pub fn handler(&self) -> Option<&str> {
        self.handler.as_deref()
    }
}
