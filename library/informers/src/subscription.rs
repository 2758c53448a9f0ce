//! `Subscription`: the events of an informer as a stream, without a task behind it.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use crate::dispatcher::{DeliveryCursor, Listener};
use crate::event::Event;
use crate::object::Object;
use crate::registration::{Control, End, HandlerEndedError, HandlerId, wait_synced};

/// A stream of events: the cached objects as initial `Added` events, then every change, until the informer stops.
///
/// No task runs for a subscription. Events stay in its backlog until they are read, all of them or coalesced by key; see
/// [`Backlog`](crate::handler::Backlog). Dropping it unsubscribes.
pub struct Subscription<K: Object> {
    listener: Arc<Listener<K>>,
    cursor: DeliveryCursor<K>,
    /// The item of the last event, if that was its last one.
    returned: DeliveryCursor<K>,
    keep_alive: Option<Arc<dyn Any + Send + Sync>>,
}

impl<K: Object> Subscription<K> {
    pub(crate) fn new(listener: Arc<Listener<K>>) -> Self {
        Self {
            listener,
            cursor: DeliveryCursor::empty(),
            returned: DeliveryCursor::empty(),
            keep_alive: None,
        }
    }

    /// Makes this handle keep `guard` alive.
    pub(crate) fn keeping(mut self, guard: Arc<dyn Any + Send + Sync>) -> Self {
        self.keep_alive = Some(guard);
        self
    }

    /// Returns the next event, or `None` when the informer has stopped. Cancel-safe: no event is lost.
    pub async fn next(&mut self) -> Option<Event<K>> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    /// The id of the subscription within its informer.
    pub fn id(&self) -> HandlerId {
        self.listener.id()
    }

    /// Its name in statistics.
    pub fn name(&self) -> &str {
        self.listener.name()
    }

    /// Whether the informer is synced and all initial events have been read.
    #[doc(alias = "HasSynced")]
    pub fn has_synced(&self) -> bool {
        self.listener.progress().borrow().synced
    }

    /// Waits until [`has_synced`](Self::has_synced). The future does not borrow the subscription, so events can be read
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// The informer stopped, or the subscription was dropped, first.
    pub fn synced(&self) -> impl Future<Output = Result<(), HandlerEndedError>> + Send + use<K> {
        wait_synced(self.listener.progress(), self.listener.name().clone())
    }

    /// The backlog: events that have not been read.
    pub fn pending(&self) -> usize {
        self.listener.pending()
    }

    /// The number of events that have been read.
    pub fn delivered(&self) -> u64 {
        self.listener.delivered()
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event<K>>> {
        loop {
            // The event returned before has been read.
            self.returned = DeliveryCursor::empty();
            if self.listener.is_leaving() {
                // The rest of the current item is dropped, like the queue.
                self.cursor = DeliveryCursor::empty();
                return Poll::Ready(None);
            }
            if let Some((delivery, left)) = self.cursor.next(&self.listener) {
                self.listener.mark_delivered(left);
                if left == 0 {
                    self.finish_item();
                    // The last initial event makes it synced, not the read after it.
                    self.listener.observe_synced();
                }
                return Poll::Ready(Some(delivery.event));
            }
            // The current item is exhausted.
            self.finish_item();
            if ready!(self.listener.poll_ready(cx)).is_ok()
                && let Some((cursor, _)) = self.listener.take()
            {
                self.cursor = cursor;
            }
        }
    }

    fn finish_item(&mut self) {
        self.listener.finish_item(&self.cursor);
        self.returned = std::mem::replace(&mut self.cursor, DeliveryCursor::empty());
    }
}

impl<K: Object> Stream for Subscription<K> {
    type Item = Event<K>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event<K>>> {
        self.get_mut().poll_event(cx)
    }
}

impl<K: Object> Drop for Subscription<K> {
    fn drop(&mut self) {
        drop(self.listener.leave(End::Removed));
    }
}

/// Name and counters only.
impl<K: Object> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("id", &self.id().0)
            .field("name", &self.name())
            .field("pending", &self.pending())
            .field("delivered", &self.delivered())
            .finish_non_exhaustive()
    }
}
