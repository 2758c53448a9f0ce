//! The only place that spawns. Whoever calls it keeps the handle, and so notices how the task ends.

use std::future::Future;

use tokio::task::JoinHandle;
use tracing::{Instrument, Span};

/// Starts a task inside `span`.
///
/// # Panics
///
/// Outside a tokio runtime.
#[allow(clippy::disallowed_methods, reason = "this module is where tasks are started")]
pub(crate) fn spawn<R: Send + 'static>(
    span: Span,
    task: impl Future<Output = R> + Send + 'static,
) -> JoinHandle<R> {
    tokio::spawn(task.instrument(span))
}
