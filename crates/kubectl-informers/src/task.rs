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

/// Starts a task that runs until the program exits.
#[allow(clippy::disallowed_methods)]
pub fn spawn_detached(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

/// Runs a long computation off the runtime threads; `None` if it panicked.
#[allow(clippy::disallowed_methods)]
pub async fn blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(run).await.ok()
}

/// Starts a thread for calls that may block forever. It is not waited for when the program exits.
pub fn spawn_thread(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map(drop)
}

/// Tasks that come and go. Those that are left end with it.
#[derive(Default)]
pub struct Tasks(JoinSet<()>);

impl Tasks {
    /// Starts one more.
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        // Those that have ended are forgotten here, or they would pile up.
        while let Some(ended) = self.0.try_join_next() {
            report(name, ended);
        }
        self.0.spawn(task);
    }

    /// Waits until all have ended.
    pub async fn ended(&mut self) {
        while let Some(ended) = self.0.join_next().await {
            report("one of many", ended);
        }
    }
}

fn report(name: &'static str, ended: Result<(), tokio::task::JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        tracing::error!(task = name, "a task of the program panicked");
    }
}
