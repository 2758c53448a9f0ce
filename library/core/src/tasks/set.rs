//! Tasks that end with their handle: a single one, and a set of them.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Span, error};

/// A background task. Dropping the handle aborts the task.
#[must_use = "the task is aborted when the handle is dropped"]
pub struct Task(AbortOnDropHandle<()>);

impl Task {
    /// Starts a task. If it panics, the panic is logged with this name.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn(name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(AbortOnDropHandle::new(super::spawn(
            Span::current(),
            supervised(name, task),
        )))
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Lets the task run on without a handle.
    pub fn detach(self) {
        drop(self.0.detach());
    }

    /// Waits until the task has ended.
    pub async fn wait(self) {
        // Panics are logged by the task; an abort needs this handle.
        self.0.await.ok();
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

/// A changing number of tasks. Dropping the set aborts those that have not ended.
#[derive(Debug, Default)]
pub struct TaskSet(JoinSet<()>);

impl TaskSet {
    /// A set without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task. If it panics, the panic is logged with this name.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[allow(clippy::disallowed_methods, reason = "this crate is where tasks are started")]
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        // Results of ended tasks would pile up otherwise.
        while self.0.try_join_next().is_some() {}
        self.0.spawn(supervised(name, task));
    }

    /// How many tasks have not ended.
    pub fn running(&mut self) -> usize {
        while self.0.try_join_next().is_some() {}
        self.0.len()
    }

    /// Waits until all tasks have ended. Cancel-safe.
    pub async fn wait(&mut self) {
        while self.0.join_next().await.is_some() {}
    }

    /// Aborts all tasks and waits until they have ended.
    pub async fn shutdown(&mut self) {
        self.0.shutdown().await;
    }
}

async fn supervised(name: &'static str, task: impl Future<Output = ()>) {
    // Unwind safe: the future is dropped after a panic and never polled again.
    if AssertUnwindSafe(task).catch_unwind().await.is_err() {
        error!(task = name, "task panicked");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    /// Sets the flag when it is dropped.
    struct SetOnDrop(Arc<AtomicBool>);

    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    fn never_ending() -> (Arc<AtomicBool>, impl Future<Output = ()> + Send + 'static) {
        let dropped = Arc::new(AtomicBool::new(false));
        let guard = SetOnDrop(dropped.clone());
        (dropped, async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_aborted_when_its_handle_is_dropped() {
        let (dropped, future) = never_ending();
        let task = Task::spawn("never ends", future);
        tokio::task::yield_now().await;
        assert!(!dropped.load(Ordering::SeqCst) && !task.is_finished());

        drop(task);
        tokio::task::yield_now().await;

        assert!(dropped.load(Ordering::SeqCst));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_task_that_panicked_returns() {
        Task::spawn("panics", async { panic!("on purpose") }).wait().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_set_forgets_ended_tasks_and_waits_for_the_others() {
        let mut tasks = TaskSet::new();
        let (finish, finished) = oneshot::channel::<()>();
        tasks.spawn("quick", async {});
        tasks.spawn("panics", async { panic!("on purpose") });
        tasks.spawn("slow", async {
            finished.await.ok();
        });
        while tasks.running() > 1 {
            tokio::task::yield_now().await;
        }

        finish.send(()).unwrap();
        tasks.wait().await;

        assert_eq!(tasks.running(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_set_aborts_its_tasks() {
        let (dropped, future) = never_ending();
        let mut tasks = TaskSet::new();
        tasks.spawn("never ends", future);

        drop(tasks);
        tokio::task::yield_now().await;

        assert!(dropped.load(Ordering::SeqCst));
    }
}
