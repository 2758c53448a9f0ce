//! A loop over numbered pieces, spread over the threads of the runtime. Has nothing to do with the queue; client-go
//! keeps it in the same package, and those who port from there look for it here.

use crate::task;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinSet, coop};

/// Calls `work` for each piece from 0 to `pieces`, once each, on up to `workers` threads of the runtime at a time.
///
/// Pieces are handed out in runs of `chunk`: the more of them and the shorter, the larger it should be. Zero counts
/// as one, for `chunk` and for `workers`. The calling task works along; it is done when all pieces are. To stop
/// early, drop the future: pieces that have not begun are left out, and dropping takes effect between two chunks.
///
/// For work that computes and does not block. For a number of *futures* at a time there is
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
/// If `work` panics: no further piece is begun, and the panic goes on to the caller. Outside a Tokio runtime.
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
    // More tasks than threads would only queue up behind each other.
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
        // Tokio keeps the task that a worker thread spawned last for that thread itself: no other may take it. It
        // would wait until the caller is done, so let it be one that has nothing to do.
        task::spawn(&mut tasks, async {});
    }

    let mut stop = StopOnDrop {
        job: &job,
        armed: true,
    };
    while job.run_chunk() {
        // Lets other tasks run, and lets the caller be cancelled.
        coop::consume_budget().await;
    }

    // Those that have not begun find nothing to do and need not be waited for.
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
    /// The first piece that has not been handed out. Not below `pieces`: there is none.
    next: AtomicUsize,
    stopped: AtomicBool,
}

impl<F: Fn(usize)> Job<F> {
    /// Works on the next chunk; false if there is none.
    fn run_chunk(&self) -> bool {
        // Looked at before it is counted up, so that a late worker does not make it grow.
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

/// Lets nobody begin another piece once one has gone before its time: by a panic, or because the caller was
/// cancelled.
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
