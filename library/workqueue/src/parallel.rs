//! A loop over numbered pieces, spread over the threads of the runtime. Independent of the queue; it is here because
//! client-go has it in the same package.

use crate::task;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinSet, coop};

/// Calls `work` for each piece from 0 to `pieces`, once each, on up to `workers` threads of the runtime at a time.
///
/// Pieces are processed in runs of `chunk`; use a larger chunk for many short pieces. Zero counts as one, for `chunk`
/// and for `workers`. The calling task takes part and returns when all pieces are done. To stop early, drop the future:
/// pieces that have not started are skipped, and dropping takes effect between two chunks.
///
/// For work that computes and does not block. To run a number of *futures* at a time, use
/// `StreamExt::for_each_concurrent` of the `futures` crate.
///
/// ```
/// # use kube_workqueue::parallelize;
/// # use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let sum = Arc::new(AtomicUsize::new(0));
/// let total = sum.clone();
/// parallelize(4, 1000, 100, move |piece| { total.fetch_add(piece, Ordering::Relaxed); }).await;
/// assert_eq!(sum.load(Ordering::Relaxed), 499_500);
/// # }
/// ```
///
/// # Panics
///
/// If `work` panics: no further piece is started, and the panic propagates to the caller. Outside a Tokio runtime.
#[doc(alias = "DoWorkPieceFunc")]
#[doc(alias = "WithChunkSize")]
#[doc(alias = "ParallelizeUntil")]
pub async fn parallelize(
    workers: usize,
    pieces: usize,
    chunk: usize,
    work: impl Fn(usize) + Send + Sync + 'static,
) {
    let chunk = chunk.clamp(1, pieces.max(1));
    let job = Job {
        work,
        pieces,
        chunk,
        next: AtomicUsize::new(0),
        stopped: AtomicBool::new(false),
    };
    let job = Arc::new(job);
    // More tasks than threads would only wait for each other.
    let runtime = Handle::current();
    let threads = match runtime.runtime_flavor() {
        RuntimeFlavor::CurrentThread => 0,
        _ => runtime.metrics().num_workers(),
    };
    let others = workers.min(pieces.div_ceil(chunk)).saturating_sub(1).min(threads);
    let mut tasks = JoinSet::new();
    for _ in 0..others {
        let job = job.clone();
        task::spawn(&mut tasks, async move {
            let mut stop = StopOnDrop {
                job: &job,
                armed: true,
            };
            while job.run_chunk() {}
            stop.armed = false;
        });
    }
    if others > 0 {
        // Tokio reserves the task that a worker thread spawned last for that thread: no other thread can steal it. It
        // would wait until the caller is done, so the last task spawned is an empty one.
        task::spawn(&mut tasks, async {});
    }

    let mut stop = StopOnDrop {
        job: &job,
        armed: true,
    };
    while job.run_chunk() {
        // Lets other tasks run, and the caller be cancelled.
        coop::consume_budget().await;
    }

    // Tasks that have not started find nothing to do and need not be awaited.
    tasks.abort_all();
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            resume_unwind(panic);
        }
    }
    stop.armed = false;
}

struct Job<F> {
    work: F,
    pieces: usize,
    chunk: usize,
    /// The next piece to hand out; none is left once it reaches `pieces`.
    next: AtomicUsize,
    stopped: AtomicBool,
}

impl<F: Fn(usize)> Job<F> {
    /// Processes the next chunk; false if there is none.
    fn run_chunk(&self) -> bool {
        // Checked before it is incremented, so that late workers do not make it overflow.
        if self.next.load(Ordering::Relaxed) >= self.pieces {
            return false;
        }
        let first = self.next.fetch_add(self.chunk, Ordering::Relaxed);
        for piece in first..self.pieces.min(first.saturating_add(self.chunk)) {
            if self.stopped.load(Ordering::Relaxed) {
                return false;
            }
            (self.work)(piece);
        }
        first < self.pieces
    }
}

/// Stops all workers when dropped early: after a panic, or because the caller was cancelled.
struct StopOnDrop<'a, F> {
    job: &'a Job<F>,
    armed: bool,
}

impl<F> Drop for StopOnDrop<'_, F> {
    fn drop(&mut self) {
        if self.armed {
            self.job.stopped.store(true, Ordering::Relaxed);
        }
    }
}
