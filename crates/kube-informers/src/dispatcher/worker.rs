//! The worker of one handler: takes out of its mailbox, calls it, one event at a time, until it is to leave.
//!
//! One task per handler; a blocking one has a thread as well, which the task watches over.

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

use super::change::Notice;
use super::in_hand::InHand;
use super::listener::{CALLING, Listener};
use crate::handler::RunnerKind;
use crate::handler::{AsyncCall, Call};
use crate::object::Object;
use crate::registration::{Control, End};
use crate::task::Spawner;
use futures_core::future::BoxFuture;

/// How long a stop waits for a call that blocks.
const GRACE: Duration = Duration::from_millis(100);

/// A handler this far behind is looked at more closely (client-go: 1024).
const FAR_BEHIND: usize = 1024;

/// And if its calls take longer than this, that is logged (client-go: 100 ms).
const SLOW: Duration = Duration::from_millis(100);

/// Works for one handler until it is to leave.
pub(super) fn work<K: Object>(
    listener: Arc<Listener<K>>,
    spawner: Spawner,
) -> impl Future<Output = ()> + Send + 'static {
    // Made here and not inside, so that it also reports the end of a task that never ran.
    let ending = Ending(listener.clone());
    let address = listener.address();
    let work = async move {
        // Dropped last, after the handler.
        let _ending = ending;
        match listener.attend() {
            None => {}
            Some(RunnerKind::Inline(call)) => inline(&listener, call).await,
            Some(RunnerKind::Async(call)) => asynchronous(&listener, call).await,
            Some(RunnerKind::Blocking(call)) => blocking(&listener, call, &spawner).await,
        }
    };
    CALLING.scope(address, work)
}

/// Reports the end of a worker, whatever ended it.
struct Ending<K: Object>(Arc<Listener<K>>);

impl<K: Object> Drop for Ending<K> {
    fn drop(&mut self) {
        drop(self.0.leave(End::Stopped));
        self.0.finish();
    }
}

async fn inline<K: Object>(listener: &Listener<K>, mut call: Call<K>) {
    while listener.ready().await.is_ok() {
        while let Some((mut hand, queued)) = listener.take() {
            let clock = Stopwatch::start(listener, queued);
            while tell(listener, &mut hand, &mut call) {
                // Lets others run now and then, however much there is to tell.
                coop::consume_budget().await;
            }
            clock.stop(listener);
            listener.put_down(&hand);
        }
    }
    let_go(listener, call);
}

async fn asynchronous<K: Object>(listener: &Listener<K>, mut call: AsyncCall<K>) {
    while listener.ready().await.is_ok() {
        while let Some((mut hand, queued)) = listener.take() {
            let clock = Stopwatch::start(listener, queued);
            while let Some((notice, left)) = next(listener, &mut hand) {
                let outcome = match begin(&mut call, notice) {
                    Ok(future) => finish(listener, future).await,
                    Err(panic) => Some(Err(panic)),
                };
                match outcome {
                    Some(outcome) => told(listener, &hand, left, outcome),
                    None => {
                        debug!(handler = %listener.name(), "handler cancelled inside a call: the informer stops");
                        break;
                    }
                }
                coop::consume_budget().await;
            }
            clock.stop(listener);
            listener.put_down(&hand);
        }
    }
    let_go(listener, call);
}

/// The outcome of one call: returned, or panicked.
type Outcome = Result<(), Box<dyn Any + Send>>;

fn begin<K: Object>(
    call: &mut AsyncCall<K>,
    notice: Notice<K>,
) -> Result<BoxFuture<'static, ()>, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| call(notice.event, notice.told.as_ref())))
}

/// Awaits one call; `None` if it was cancelled.
async fn finish<K: Object>(listener: &Listener<K>, mut future: BoxFuture<'static, ()>) -> Option<Outcome> {
    let outcome = std::future::poll_fn(|cx| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Ready(())) => Poll::Ready(Some(Ok(()))),
            Err(panic) => Poll::Ready(Some(Err(panic))),
            // Looked at only when the handler waits: it is cancelled at an await, never elsewhere.
            Ok(Poll::Pending) => listener.poll_cancelled(cx).map(|()| None),
        }
    })
    .await;
    let_go(listener, future);
    outcome
}

async fn blocking<K: Object>(listener: &Arc<Listener<K>>, mut call: Call<K>, spawner: &Spawner) {
    let (rounds, begin) = mpsc::channel::<oneshot::Sender<()>>();
    let for_thread = listener.clone();
    let thread = spawner.spawn_thread(listener.name(), move || {
        let listener = &*for_thread;
        CALLING.sync_scope(listener.address(), || {
            while let Ok(done) = begin.recv() {
                while let Some((mut hand, queued)) = listener.take() {
                    let clock = Stopwatch::start(listener, queued);
                    while tell(listener, &mut hand, &mut call) {}
                    clock.stop(listener);
                    listener.put_down(&hand);
                }
                // The task may have given up on this thread.
                done.send(()).ok();
            }
            let_go(listener, call);
        });
    });
    let thread = match thread {
        Ok(thread) => thread,
        Err(error) => {
            error!(handler = %listener.name(), %error, "no thread for a blocking handler: it ends");
            drop(listener.leave(End::NoThread));
            return;
        }
    };

    let mut patience = Patience {
        listener,
        until: None,
    };
    // One round: the thread takes out and tells until nothing is left.
    while listener.ready().await.is_ok() {
        let _hold = spawner.hold_clock();
        let (done, is_done) = oneshot::channel();
        if rounds.send(done).is_err() || !patience.wait(is_done).await {
            break;
        }
    }
    // The thread ends when there can be no further round.
    drop(rounds);
    let _hold = spawner.hold_clock();
    if !patience.wait(thread).await {
        warn!(
            handler = %listener.name(),
            "blocking handler still runs 100 ms after the informer stopped: it is left alone"
        );
    }
}

/// Waits for what a thread does; once the informer has stopped, not much longer.
struct Patience<'a, K: Object> {
    listener: &'a Listener<K>,
    until: Option<Instant>,
}

impl<K: Object> Patience<'_, K> {
    /// Says whether it was done.
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

/// Tells one event. `false` when there is nothing in hand to tell, or nothing is to be told any more.
fn tell<K: Object>(listener: &Listener<K>, hand: &mut InHand<K>, call: &mut Call<K>) -> bool {
    let Some((notice, left)) = next(listener, hand) else {
        return false;
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| call(notice.event, notice.told.as_ref())));
    told(listener, hand, left, outcome);
    true
}

fn next<K: Object>(listener: &Listener<K>, hand: &mut InHand<K>) -> Option<(Notice<K>, usize)> {
    if listener.is_leaving() {
        return None;
    }
    let (notice, left) = hand.next(listener)?;
    trace!(handler = %listener.name(), event = %notice.event, "telling");
    Some((notice, left))
}

fn told<K: Object>(listener: &Listener<K>, hand: &InHand<K>, left: usize, outcome: Outcome) {
    if outcome.is_err() {
        // The message of the panic was printed by the panic hook; it may quote the object, so not here.
        let object = hand.key().map(|key| key.to_string()).unwrap_or_default();
        error!(handler = %listener.name(), object, "handler panicked: the event counts as told");
        listener.panicked();
    }
    listener.told(left);
}

/// Drops user code; a panic in there is the handler's, not ours.
fn let_go<K: Object, T>(listener: &Listener<K>, user_code: T) {
    if catch_unwind(AssertUnwindSafe(|| drop(user_code))).is_err() {
        error!(handler = %listener.name(), "handler panicked while being dropped");
        listener.panicked();
    }
}

/// Measures the calls of a handler that is far behind; nothing else is worth reading a clock for.
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
            warn!(handler = %listener.name(), queued = lap.queued, ?each, "handler is slow and far behind");
        }
    }
}
