//! The one place where tasks are spawned.

use std::future::Future;

use tokio::task::{AbortHandle, JoinSet};

/// A task that ends with this handle.
#[derive(Debug)]
pub(crate) struct Owned(AbortHandle);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs a task for as long as its handle lives.
#[allow(clippy::disallowed_methods)]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Owned {
    Owned(tokio::spawn(task).abort_handle())
}

/// Adds a task to a set, and takes out those that have ended.
#[allow(clippy::disallowed_methods)]
pub(crate) fn spawn_in(set: &mut JoinSet<()>, task: impl Future<Output = ()> + Send + 'static) {
    while let Some(ended) = set.try_join_next() {
        if let Err(error) = ended
            && error.is_panic()
        {
            eprintln!("a connection of the proxy ended by a panic: {error}");
        }
    }
    set.spawn(task);
}
