//! Tasks that process a queue until it is shut down and empty.

use crate::held::Verdict;
use crate::item::Item;
use crate::{Key, WorkQueue, runner, task};
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::task::JoinSet;

/// Starts `n` tasks that process `queue`: each takes a key, awaits `work` for it, and takes the next.
///
/// The output of `work` is the [`Verdict`], unless the item was finished before: `()` ends the run, `Ok(())` also
/// forgets the key's failures, `Err(_)` retries the key, rate-limited. A panic of `work` ends only this run: it is
/// counted in [`Stats::panics`](crate::Stats::panics), the key is retried, rate-limited, and the worker takes the next
/// key. If the workers are aborted, their keys are also retried.
///
/// The workers end when the queue is shut down and empty. `n = 0` starts none.
///
/// ```
/// # use kube_workqueue::{Item, WorkQueue, workers};
/// # async fn reconcile(_: &str) -> Result<(), std::io::Error> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let queue = WorkQueue::default();
/// let workers = workers(4, &queue, |item: Item<String>| async move {
///     reconcile(&item).await.inspect_err(|error| eprintln!("{}: {error}", *item))
/// });
///
/// queue.add("shop/cart".to_owned());
///
/// queue.drain().await;
/// workers.join().await;
/// # }
/// ```
///
/// # Panics
///
/// Outside a Tokio runtime.
pub fn workers<T, F, R>(n: usize, queue: &WorkQueue<T>, work: F) -> Workers
where
    T: Key,
    F: Fn(Item<T>) -> R + Send + Sync + 'static,
    R: Future<Output: Into<Verdict>> + Send + 'static,
{
    let work = Arc::new(work);
    let mut tasks = JoinSet::new();
    for _ in 0..n {
        task::spawn(&mut tasks, work_off(queue.clone(), work.clone()));
    }
    Workers { tasks }
}

async fn work_off<T, F, R>(queue: WorkQueue<T>, work: Arc<F>)
where
    T: Key,
    F: Fn(Item<T>) -> R,
    R: Future<Output: Into<Verdict>>,
{
    while let Some(item) = queue.get().await {
        let mut run = pin!(runner::run(item, &*work));
        // A panic ends only this run. The future is not polled after a panic, so it is unwind safe.
        let ended = poll_fn(
            |cx| match catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx))) {
                Ok(poll) => poll.map(Ok),
                Err(panic) => Poll::Ready(Err(panic)),
            },
        );
        if ended.await.is_err() {
            queue.shared.change(|state, _| state.meter.panics += 1);
        }
    }
}

/// The tasks that [`workers`] started.
///
/// Dropping it aborts the workers. The keys in flight are retried.
#[must_use = "dropping it aborts the workers"]
pub struct Workers {
    tasks: JoinSet<()>,
}

impl Workers {
    /// Waits until all workers have ended, which happens once the queue is shut down and empty.
    ///
    /// # Panics
    ///
    /// If a worker panicked outside its work: in `Hash`, `Eq`, `Clone` or `Drop` of the key.
    pub async fn join(mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended
                && let Ok(panic) = error.try_into_panic()
            {
                resume_unwind(panic);
            }
        }
    }

    /// Aborts the workers at their next `.await` and waits until they have ended. The keys in flight are retried,
    /// rate-limited.
    pub async fn abort(mut self) {
        self.tasks.shutdown().await;
    }

    /// Lets the workers run without observing their end.
    pub fn detach(mut self) {
        self.tasks.detach_all();
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers")
            .field("running", &self.tasks.len())
            .finish()
    }
}
