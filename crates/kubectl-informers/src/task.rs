//! The only place of the crate that starts tasks. Each has a name, and its death by panic is reported.

use std::future::Future;

use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// A task that ends with its handle.
pub type Task = AbortOnDropHandle<()>;

/// Starts a task.
#[must_use = "the task is aborted when the handle is dropped"]
#[allow(clippy::disallowed_methods)]
pub fn spawn(name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> Task {
    AbortOnDropHandle::new(tokio::spawn(async move {
        // A set of one: dropping it aborts the task, and its panic is seen here.
        let mut only = JoinSet::new();
        only.spawn(task);
        while let Some(ended) = only.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                tracing::error!(task = name, "a task of the program panicked");
            }
        }
    }))
}
