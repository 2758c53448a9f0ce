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
