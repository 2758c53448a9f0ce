//! The only place of the crate that starts tasks.

use std::future::Future;

use tokio::task::JoinHandle;
use tracing::{Instrument, Span};

/// Starts a task inside `span`. Whoever calls keeps the handle, and so notices how the task ends.
///
/// # Panics
///
/// Outside of a tokio runtime.
#[allow(clippy::disallowed_methods, reason = "this module is where tasks are started")]
pub(crate) fn spawn<T: Send + 'static>(
    span: Span,
    task: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(task.instrument(span))
}
