//! The only place that spawns tasks. The caller keeps the `JoinSet`, so it observes how its tasks end.

use std::future::Future;
use tokio::task::JoinSet;

/// Starts a task as a member of `set`.
///
/// # Panics
///
/// Outside a Tokio runtime.
pub(crate) fn spawn<R: Send + 'static>(
    set: &mut JoinSet<R>,
    future: impl Future<Output = R> + Send + 'static,
) {
    set.spawn(future);
}
