//! The worker of one handler: reads its mailbox and calls it, one event at a time, until it ends.
//!
//! One task per handler. A blocking handler also has a thread, which the task supervises.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::coop;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, error, trace, warn};

use super::delivery_cursor::DeliveryCursor;
use super::listener::{CALLING, Listener};
use crate::handler::{AsyncCall, Call, Delivery, HandlerKind};
use crate::object::Object;
use crate::registration::{Control, End};
use crate::task::Spawner;
use futures_core::future::BoxFuture;

/// How long a stop waits for a blocking call.
const GRACE: Duration = Duration::from_millis(100);

/// A backlog above which the calls of a handler are timed (client-go: 1024).
const FAR_BEHIND: usize = 1024;

/// Timed calls that take longer than this are logged (client-go: 100 ms).
const SLOW: Duration = Duration::from_millis(100);

/// Delivers to one handler until it ends.
pub(super) fn work<K: Object>(
    listener: Arc<Listener<K>>,
    spawner: Spawner,
) -> impl Future<Output = ()> + Send + 'static {
    // Created outside of the future, so that it also reports the end of a task that was never polled.
    let end_guard = EndGuard(listener.clone());
    let address = listener.address();
    let work = async move {
        // Dropped last, after the handler.
        let _end_guard = end_guard;
        match listener.take_handler() {
            None => {}
            Some(HandlerKind::Inline(call)) => inline(&listener, call).await,
            Some(HandlerKind::Async(call)) => asynchronous(&listener, call).await,
            Some(HandlerKind::Blocking(call)) => blocking(&listener, call, &spawner).await,
        }
    };
    CALLING.scope(address, work)
}

/// Reports the end of a worker, whatever ended it.
struct EndGuard<K: Object>(Arc<Listener<K>>);

impl<K: Object> Drop for EndGuard<K> {
    fn drop(&mut self) {
        drop(self.0.leave(End::Stopped));
        self.0.finish();
    }
}

async fn inline<K: Object>(listener: &Listener<K>, mut call: Call<K>) {
    while listener.ready().await.is_ok() {
        while let Some((mut cursor, queued)) = listener.take() {
            let clock = Stopwatch::start(listener, queued);
            while deliver(listener, &mut cursor, &mut call) {
                // Yields to other tasks now and then.
                coop::consume_budget().await;
            }
            clock.stop(listener);
            listener.finish_item(&cursor);
        }
    }
    drop_user_code(listener, call);
}

async fn asynchronous<K: Object>(listener: &Listener<K>, mut call: AsyncCall<K>) {
    while listener.ready().await.is_ok() {
        while let Some((mut cursor, queued)) = listener.take() {
            let clock = Stopwatch::start(listener, queued);
            while let Some((delivery, left)) = next(listener, &mut cursor) {
                let outcome = match begin(&mut call, delivery) {
                    Ok(future) => finish(listener, future).await,
                    Err(panic) => Some(Err(panic)),
                };
                match outcome {
                    Some(outcome) => record_outcome(listener, &cursor, left, outcome),
                    None => {
                        debug!(handler = %listener.name(), "the informer stopped: the call in flight was cancelled");
                        break;
                    }
                }
                coop::consume_budget().await;
            }
            clock.stop(listener);
            listener.finish_item(&cursor);
        }
    }
    drop_user_code(listener, call);
}

/// The outcome of one call: returned, or panicked.
type Outcome = Result<(), Box<dyn Any + Send>>;

fn begin<K: Object>(
    handler: &mut AsyncCall<K>,
    delivery: Delivery<K>,
) -> Result<BoxFuture<'_, ()>, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| handler.call(delivery)))
}

/// Awaits one call; `None` if it was cancelled.
async fn finish<K: Object>(listener: &Listener<K>, mut future: BoxFuture<'_, ()>) -> Option<Outcome> {
    let outcome = std::future::poll_fn(|cx| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Ready(())) => Poll::Ready(Some(Ok(()))),
            Err(panic) => Poll::Ready(Some(Err(panic))),
            // Checked only when the handler is pending: it is cancelled at an await, never elsewhere.
            Ok(Poll::Pending) => listener.poll_cancelled(cx).map(|()| None),
        }
    })
    .await;
    drop_user_code(listener, future);
    outcome
}

async fn blocking<K: Object>(listener: &Arc<Listener<K>>, mut call: Call<K>, spawner: &Spawner) {
    listener.runs_on_thread();
    let (rounds, begin) = mpsc::channel::<oneshot::Sender<()>>();
    let for_thread = listener.clone();
    let thread = spawner.spawn_thread(listener.name(), move || {
        let listener = &*for_thread;
        CALLING.sync_scope(listener.address(), || {
            while let Ok(done) = begin.recv() {
                while let Some((mut cursor, queued)) = listener.take() {
                    let clock = Stopwatch::start(listener, queued);
                    while deliver(listener, &mut cursor, &mut call) {}
                    clock.stop(listener);
                    listener.finish_item(&cursor);
                }
                // The task may have abandoned this thread.
                done.send(()).ok();
            }
            drop_user_code(listener, call);
        });
    });
    let thread = match thread {
        Ok(thread) => thread,
        Err(error) => {
            error!(handler = %listener.name(), %error, "no thread could be started for a blocking handler; it ends");
            drop(listener.leave(End::NoThread));
            return;
        }
    };

    let mut stop_timeout = StopTimeout {
        listener,
        until: None,
    };
    // One round: the thread delivers until the mailbox is empty.
    while listener.ready().await.is_ok() {
        let _hold = spawner.hold_clock();
        let (done, is_done) = oneshot::channel();
        if rounds.send(done).is_err() || !stop_timeout.wait(is_done).await {
            break;
        }
    }
    // The thread ends when the sender is dropped.
    drop(rounds);
    let _hold = spawner.hold_clock();
    if !stop_timeout.wait(thread).await {
        listener.abandon();
        warn!(
            handler = %listener.name(),
            "a blocking handler still runs 100 ms after the informer stopped; its thread is abandoned"
        );
    }
}

/// Waits for a thread; once the informer has stopped, for at most [`GRACE`].
struct StopTimeout<'a, K: Object> {
    listener: &'a Listener<K>,
    until: Option<Instant>,
}

impl<K: Object> StopTimeout<'_, K> {
    /// Returns whether it completed.
    async fn wait(&mut self, done: impl Future) -> bool {
        let mut done = std::pin::pin!(done);
        tokio::select! {
            // Both are cancel-safe: `done` is kept, and being cancelled is a state, not a message.
            biased;
            _ = &mut done => true,
            () = self.listener.cancelled() => {
                let until = *self.until.get_or_insert_with(|| Instant::now() + GRACE);
                timeout_at(until, done).await.is_ok()
            }
        }
    }
}

/// Delivers one event. `false` when the item is exhausted or the handler is leaving.
fn deliver<K: Object>(listener: &Listener<K>, cursor: &mut DeliveryCursor<K>, call: &mut Call<K>) -> bool {
    let Some((delivery, left)) = next(listener, cursor) else {
        return false;
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| call(delivery)));
    record_outcome(listener, cursor, left, outcome);
    true
}

fn next<K: Object>(listener: &Listener<K>, cursor: &mut DeliveryCursor<K>) -> Option<(Delivery<K>, usize)> {
    if listener.is_leaving() {
        return None;
    }
    let (delivery, left) = cursor.next(listener)?;
    trace!(handler = %listener.name(), event = %delivery.event, "delivering");
    Some((delivery, left))
}

fn record_outcome<K: Object>(
    listener: &Listener<K>,
    cursor: &DeliveryCursor<K>,
    left: usize,
    outcome: Outcome,
) {
    if outcome.is_err() {
        // The panic hook has printed the message. It may quote the object, so it is not logged.
        if let Some(suppressed) = listener.admit_panic_log() {
            let object = cursor.key().map(|key| key.to_string()).unwrap_or_default();
            let more = match suppressed {
                0 => String::new(),
                more => format!("; {more} more panics since the last message"),
            };
            error!(handler = %listener.name(), object, "handler panicked; the event counts as delivered{more}");
        }
        listener.panicked();
    }
    listener.mark_delivered(left);
}

/// Drops user code and counts a panic in it as one of the handler.
fn drop_user_code<K: Object, T>(listener: &Listener<K>, user_code: T) {
    if catch_unwind(AssertUnwindSafe(|| drop(user_code))).is_err() {
        error!(handler = %listener.name(), "handler panicked while being dropped");
        listener.panicked();
    }
}

/// Times the calls of a handler with a large backlog; others are not worth reading the clock for.
struct Stopwatch(Option<Lap>);

struct Lap {
    queued: usize,
    delivered: u64,
    start: Instant,
}

impl Stopwatch {
    fn start<K: Object>(listener: &Listener<K>, queued: usize) -> Self {
        Self((queued > FAR_BEHIND).then(|| Lap {
            queued,
            delivered: listener.delivered(),
            start: Instant::now(),
        }))
    }

    fn stop<K: Object>(self, listener: &Listener<K>) {
        let Some(lap) = self.0 else { return };
        let calls = u32::try_from(listener.delivered() - lap.delivered).unwrap_or(u32::MAX);
        let each = lap.start.elapsed() / calls.max(1);
        if each > SLOW {
            warn!(handler = %listener.name(), queued = lap.queued, ?each, "handler is slow and has a large backlog");
        }
    }
}
