//! The only place that spawns tasks. A server without a socket has none.

use std::future::Future;

use tokio::task::{JoinHandle, JoinSet};

/// Spawns a detached task; a panic is logged under its name.
#[allow(clippy::disallowed_methods)]
pub(crate) fn spawn(name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut only = JoinSet::new();
        only.spawn(task);
        while let Some(ended) = only.join_next().await {
            report(name, ended);
        }
    })
}

/// Adds a task to a set; [`reap`] collects its result.
#[allow(clippy::disallowed_methods)]
pub(crate) fn spawn_in(set: &mut JoinSet<()>, task: impl Future<Output = ()> + Send + 'static) {
    set.spawn(task);
}

/// Removes the finished tasks from a set.
pub(crate) fn reap(name: &'static str, set: &mut JoinSet<()>) {
    while let Some(ended) = set.try_join_next() {
        report(name, ended);
    }
}

fn report(name: &'static str, ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(task = name, "a task of the test server panicked");
    }
}
