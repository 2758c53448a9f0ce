//! The tasks and threads of one owner.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, mpsc};

use futures_util::FutureExt;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span, error};

/// A task panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPanicError {
    /// The name of the task.
    pub name: Arc<str>,
}

impl fmt::Display for TaskPanicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "task {} panicked; the panic hook has printed the message",
            self.name
        )
    }
}

impl Error for TaskPanicError {}

/// Starts the tasks and threads of one owner. Clones belong to the same owner.
#[derive(Clone, Debug)]
pub struct Spawner {
    runtime: Handle,
    tracker: TaskTracker,
    span: Span,
    first_death: Arc<watch::Sender<Option<TaskPanicError>>>,
}

impl Spawner {
    /// Tasks and threads run on `runtime` and inside `span`.
    pub fn new(runtime: Handle, span: Span) -> Self {
        Self {
            runtime,
            tracker: TaskTracker::new(),
            span,
            first_death: Arc::new(watch::Sender::new(None)),
        }
    }

    /// Starts a task. If it panics, the panic is logged with this name and [`died`](Self::died) returns.
    pub fn spawn(&self, name: impl Into<Arc<str>>, task: impl Future<Output = ()> + Send + 'static) {
        let name = name.into();
        let first_death = self.first_death.clone();
        let guarded = async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                error!(task = %name, "task panicked");
                note(&first_death, TaskPanicError { name });
            }
        };
        self.tracker
            .spawn_on(guarded.instrument(self.span.clone()), &self.runtime);
    }

    /// Records the death of a task that another spawner started on behalf of this owner.
    pub fn report(&self, died: TaskPanicError) {
        note(&self.first_death, died);
    }

    /// Starts a thread for code that may block, and returns a future that is ready when the thread has ended.
    ///
    /// It is a separate thread and not one of the runtime's blocking pool, because dropping a runtime waits for its
    /// pool: one call that never returns would keep the process from ending. [`wait`](Self::wait) does not wait for it.
    ///
    /// # Errors
    ///
    /// When the system has no more threads.
    #[allow(
        clippy::disallowed_methods,
        reason = "this crate is where threads are started"
    )]
    pub fn spawn_thread(
        &self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<impl Future<Output = ()> + Send + 'static> {
        let (alive, ended) = oneshot::channel::<()>();
        let runtime = self.runtime.clone();
        let span = self.span.clone();
        // The name of a thread must not contain a zero byte.
        let name = name.replace('\0', "");
        std::thread::Builder::new().name(name).spawn(move || {
            let _alive = alive;
            let _runtime = runtime.enter();
            span.in_scope(run);
        })?;
        Ok(async move {
            // Nothing is ever sent: the sender is dropped when the thread ends, also by a panic.
            ended.await.ok();
        })
    }

    /// Keeps tokio's paused test clock from advancing until the guard is dropped.
    ///
    /// A paused clock advances to the next deadline as soon as no task is runnable, and it ignores threads outside the
    /// runtime's pool: every deadline around such a thread would pass at once. Only a current-thread runtime can have a
    /// paused clock; on other runtimes this does nothing.
    pub fn hold_clock(&self) -> ClockHold {
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

    /// The runtime that tasks and threads use.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// How many tasks have not ended.
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Waits until every task has ended.
    pub async fn wait(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Waits until a task panics; forever if none does.
    pub async fn died(&self) -> TaskPanicError {
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

/// Only the first death is kept.
fn note(first_death: &watch::Sender<Option<TaskPanicError>>, died: TaskPanicError) {
    first_death.send_if_modified(|first| {
        let is_first = first.is_none();
        first.get_or_insert(died);
        is_first
    });
}

/// While it exists, a paused clock does not advance. See [`Spawner::hold_clock`].
#[derive(Debug)]
pub struct ClockHold {
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
    async fn a_panic_is_reported_with_the_name_of_the_task() {
        let spawner = spawner();
        spawner.spawn("fine", async {});
        assert!(timeout(Duration::from_secs(1), spawner.died()).await.is_err());

        spawner.spawn("reflect pods", async { panic!("on purpose") });
        let died = spawner.died().await;

        assert_eq!(&*died.name, "reflect pods");
        assert_eq!(
            died.to_string(),
            "task reflect pods panicked; the panic hook has printed the message"
        );
        spawner.wait().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_runs_inside_the_runtime_and_its_end_is_reported() {
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
    async fn a_thread_that_panics_counts_as_ended() {
        let spawner = spawner();
        let _hold = spawner.hold_clock();

        spawner
            .spawn_thread("dying", || panic!("on purpose"))
            .unwrap()
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_clock_does_not_advance_while_a_thread_works() {
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
                // Gives the runtime many chances to advance its clock before the worker ends.
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
