//! The only place of the crate that starts tasks and threads.
//!
//! Each has a name and runs inside the owner's span; a task that dies of a panic is reported and remembered, and
//! the owner can wait until all of them have ended.

use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, mpsc};

use futures_util::FutureExt;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span, error};

/// One of the library's own tasks panicked. User code is caught elsewhere, so this is a fault of the library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task {name} panicked; the panic message was printed where it happened")]
pub struct TaskDied {
    /// The name of the task.
    pub name: Arc<str>,
}

/// Starts the tasks and threads of one owner. Clones start for the same owner.
#[derive(Clone)]
pub(crate) struct Spawner {
    runtime: Handle,
    tracker: TaskTracker,
    span: Span,
    first_death: Arc<watch::Sender<Option<TaskDied>>>,
}

impl Spawner {
    /// Starts on `runtime`; everything it starts runs inside `span`.
    pub(crate) fn new(runtime: Handle, span: Span) -> Self {
        Self {
            runtime,
            tracker: TaskTracker::new(),
            span,
            first_death: Arc::new(watch::Sender::new(None)),
        }
    }

    /// Starts a task.
    pub(crate) fn spawn(&self, name: impl Into<Arc<str>>, task: impl Future<Output = ()> + Send + 'static) {
        let name = name.into();
        let first_death = self.first_death.clone();
        let guarded = async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                error!(task = %name, "task panicked");
                note(&first_death, TaskDied { name });
            }
        };
        self.tracker
            .spawn_on(guarded.instrument(self.span.clone()), &self.runtime);
    }

    /// Counts as a death of ours what happened to a task of somebody we run.
    pub(crate) fn report(&self, died: TaskDied) {
        note(&self.first_death, died);
    }

    /// Starts a thread for code that may block, and returns a future that is ready when the thread has ended.
    ///
    /// A thread of its own and not one of the runtime's blocking pool, because a runtime that is dropped waits
    /// for its pool: one call that never returns would keep the process from ending. Nobody waits for this
    /// thread who does not want to; [`wait`](Self::wait) does not.
    ///
    /// # Errors
    ///
    /// When the system has no more threads.
    #[allow(
        clippy::disallowed_methods,
        reason = "this module is where threads are started"
    )]
    pub(crate) fn spawn_thread(
        &self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<impl Future<Output = ()> + Send + 'static> {
        let (alive, ended) = oneshot::channel::<()>();
        let runtime = self.runtime.clone();
        let span = self.span.clone();
        // A thread's name may not contain a zero byte; handler names come from outside.
        let name = name.replace('\0', "");
        std::thread::Builder::new().name(name).spawn(move || {
            let _alive = alive;
            let _runtime = runtime.enter();
            span.in_scope(run);
        })?;
        Ok(async move {
            // Nothing is ever sent: the sender goes when the thread does, also by panic.
            ended.await.ok();
        })
    }

    /// Keeps a paused clock from running on while a thread works, until the guard is dropped.
    ///
    /// A paused clock jumps to the next deadline as soon as no task has anything to do, and it does not know of
    /// threads outside the runtime's pool: every deadline around such a thread would pass at once. Only a
    /// current-thread runtime can have a paused clock, so on others this costs nothing.
    pub(crate) fn hold_clock(&self) -> ClockHold {
        if self.runtime.runtime_flavor() != RuntimeFlavor::CurrentThread {
            return ClockHold { _release: None };
        }
        let (release, released) = mpsc::channel::<()>();
        self.runtime.spawn_blocking(move || {
            // Nothing is ever sent: this returns when the guard is dropped.
            released.recv().ok();
        });
        ClockHold {
            _release: Some(release),
        }
    }

    /// The handle of the runtime everything is started on.
    #[cfg(test)]
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// How many tasks have not ended.
    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Waits until every task has ended.
    pub(crate) async fn wait(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Waits until a task dies; for ever if none does.
    pub(crate) async fn died(&self) -> TaskDied {
        let mut first_death = self.first_death.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        match first_death
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|died| died.clone())
        {
            Some(died) => died,
            None => std::future::pending().await,
        }
    }
}

/// Only the first death is remembered.
fn note(first_death: &watch::Sender<Option<TaskDied>>, died: TaskDied) {
    first_death.send_if_modified(|first| {
        let is_first = first.is_none();
        first.get_or_insert(died);
        is_first
    });
}

/// While it lives, a paused clock stands still.
pub(crate) struct ClockHold {
    _release: Option<mpsc::Sender<()>>,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    use super::*;

    fn spawner() -> Spawner {
        Spawner::new(Handle::current(), Span::none())
    }

    #[tokio::test(start_paused = true)]
    async fn wait_returns_when_the_last_task_has_ended() {
        let spawner = spawner();
        let (finish, finished) = oneshot::channel::<()>();
        spawner.spawn("quick", async {});
        spawner.spawn("slow", async {
            finished.await.ok();
        });

        assert!(timeout(Duration::from_secs(1), spawner.wait()).await.is_err());
        assert_eq!(spawner.running(), 1);
        finish.send(()).unwrap();
        spawner.wait().await;

        assert_eq!(spawner.running(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_noticed_by_name() {
        let spawner = spawner();
        spawner.spawn("fine", async {});
        assert!(timeout(Duration::from_secs(1), spawner.died()).await.is_err());

        spawner.spawn("reflect pods", async { panic!("a fault of ours") });
        let died = spawner.died().await;

        assert_eq!(&*died.name, "reflect pods");
        assert_eq!(
            died.to_string(),
            "task reflect pods panicked; the panic message was printed where it happened"
        );
        spawner.wait().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_is_inside_the_runtime_and_its_end_is_known() {
        let spawner = spawner();
        let entered = Arc::new(AtomicBool::new(false));
        let seen = entered.clone();
        let _hold = spawner.hold_clock();

        spawner
            .spawn_thread("with a \0 inside", move || {
                seen.store(Handle::try_current().is_ok(), Ordering::SeqCst);
            })
            .unwrap()
            .await;

        assert!(entered.load(Ordering::SeqCst));
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_panics_has_ended() {
        let spawner = spawner();
        let _hold = spawner.hold_clock();

        spawner
            .spawn_thread("dying", || panic!("on purpose"))
            .unwrap()
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_clock_stands_still_while_a_thread_works() {
        let spawner = spawner();
        let start = Instant::now();
        let (go, gone) = mpsc::channel::<()>();
        let hold = spawner.hold_clock();
        let ended = spawner
            .spawn_thread("worker", move || {
                gone.recv().ok();
            })
            .unwrap();
        let runtime = spawner.runtime().clone();
        spawner
            .spawn_thread("releaser", move || {
                // Gives the runtime every chance to run its clock ahead before the worker may end.
                for _ in 0..1000 {
                    runtime.block_on(tokio::task::yield_now());
                }
                go.send(()).ok();
            })
            .unwrap()
            .await;

        assert!(timeout(Duration::from_millis(100), ended).await.is_ok());
        assert_eq!(start.elapsed(), Duration::ZERO);
        drop(hold);
    }
}
