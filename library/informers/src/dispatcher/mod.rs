//! `Dispatcher`: distributes events to one mailbox per handler.
//!
//! Pure data: it owns no task and reads no clock. It is called under the lock that also guards the store's writer, so that
//! adding a handler (snapshot plus position) is one step. It never sees the writer and runs no user code.

mod change;
mod delivery_cursor;
mod folding;
mod listener;
mod mailbox;
mod resync;
mod share;
#[cfg(test)]
mod tests;
mod worker;

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use tracing::trace;

pub(crate) use delivery_cursor::DeliveryCursor;
pub use listener::Listener;
use mailbox::Consumer;
pub use mailbox::Leftovers;
use resync::Resync;

use crate::event::Event;
use crate::handler::{ErasedHandler, HandlerOptions};
use crate::object::Object;
use crate::registration::{Control, HandlerId, Registration};
use crate::store::Snapshot;
use crate::task::Spawner;

/// The handlers and subscriptions of one informer.
#[doc(alias = "sharedProcessor")]
pub struct Dispatcher<K: Object> {
    entries: Vec<ListenerEntry<K>>,
    next_id: u64,
    state: DispatcherState,
}

#[doc(alias = "processorListener")]
struct ListenerEntry<K: Object> {
    listener: Arc<Listener<K>>,
    resync: Option<Resync>,
}

enum DispatcherState {
    /// Handlers have no workers yet.
    New,
    /// Every handler has a worker.
    Started(Spawner),
    /// No handler can be added.
    Closed,
}

impl<K: Object> Default for Dispatcher<K> {
    /// A dispatcher without handlers.
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            next_id: 1,
            state: DispatcherState::New,
        }
    }
}

impl<K: Object> Dispatcher<K> {
    /// Adds a handler. It receives the objects of `snapshot` as initial events, then everything dispatched from now on.
    /// `synced` says whether the snapshot is the complete initial list.
    ///
    /// Constant time: the handler's own worker expands the snapshot.
    ///
    /// # Errors
    ///
    /// The dispatcher is closed. Returns the name of the handler.
    pub(crate) fn add(
        &mut self,
        options: &HandlerOptions,
        handler: ErasedHandler<K>,
        now: Instant,
        snapshot: Snapshot<K>,
        synced: bool,
    ) -> Result<Registration, Arc<str>> {
        let ErasedHandler { name, kind } = handler;
        let name: Arc<str> = options.name.clone().unwrap_or(name).into();
        if matches!(self.state, DispatcherState::Closed) {
            return Err(name);
        }
        let listener = self.join(options, name, Consumer::Unstarted(kind), now, snapshot, synced);
        self.start_worker(&listener);
        Ok(Registration::new(listener))
    }

    /// Adds a subscription, which reads from the listener itself. After a close it is empty.
    pub fn subscribe(
        &mut self,
        options: &HandlerOptions,
        now: Instant,
        snapshot: Snapshot<K>,
        synced: bool,
    ) -> Arc<Listener<K>> {
        let name = options.name.as_deref().unwrap_or("subscription").into();
        let listener = self.join(options, name, Consumer::Stream, now, snapshot, synced);
        if matches!(self.state, DispatcherState::Closed) {
            drop(listener.close(false));
        }
        listener
    }

    fn join(
        &mut self,
        options: &HandlerOptions,
        name: Arc<str>,
        consumer: Consumer<K>,
        now: Instant,
        snapshot: Snapshot<K>,
        synced: bool,
    ) -> Arc<Listener<K>> {
        let id = HandlerId(self.next_id);
        self.next_id += 1;
        let listener = Arc::new(Listener::new(id, name, options, consumer));
        listener.push_initial(snapshot);
        if synced {
            listener.push_synced();
        }
        self.forget_ended();
        self.entries.push(ListenerEntry {
            listener: listener.clone(),
            resync: options.resync.and_then(|period| Resync::every(period, now)),
        });
        listener
    }

    /// Starts a worker for every handler that has none, and from now on for each that is added.
    pub(crate) fn start(&mut self, spawner: &Spawner, now: Instant) {
        if !matches!(self.state, DispatcherState::New) {
            return;
        }
        self.state = DispatcherState::Started(spawner.clone());
        for entry in &mut self.entries {
            if let Some(resync) = &mut entry.resync {
                resync.restart(now);
            }
        }
        for entry in &self.entries {
            self.start_worker(&entry.listener);
        }
    }

    fn start_worker(&self, listener: &Arc<Listener<K>>) {
        if let DispatcherState::Started(spawner) = &self.state
            && listener.mark_spawned()
        {
            let name = format!("handler {}", listener.name());
            spawner.spawn(name, worker::work(listener.clone(), spawner.clone()));
        }
    }

    /// Queues events for every handler. Handlers that keep all events share one allocation.
    #[doc(alias = "distribute")]
    pub fn dispatch(&mut self, events: Vec<Event<K>>) {
        if events.is_empty() {
            return;
        }
        self.forget_ended();
        if tracing::enabled!(tracing::Level::TRACE) {
            let handlers = self.entries.len();
            for event in &events {
                trace!(%event, handlers, "dispatching");
            }
        }
        if self.entries.is_empty() {
            return;
        }
        let events: Arc<[Event<K>]> = events.into();
        for entry in &self.entries {
            entry.listener.push_batch(&events);
        }
    }

    /// All initial events have been dispatched: each handler is synced once it has returned from what is queued.
    pub fn synced(&mut self) {
        for entry in &self.entries {
            entry.listener.push_synced();
        }
    }

    /// When the next resync of any handler is due; `None` before the start and without resyncs.
    pub fn next_resync(&self) -> Option<Instant> {
        if !matches!(self.state, DispatcherState::Started(_)) {
            return None;
        }
        self.entries
            .iter()
            .filter(|entry| !entry.listener.is_leaving())
            .filter_map(|entry| entry.resync.as_ref().map(Resync::due))
            .min()
    }

    /// Queues a resync for each handler whose period has elapsed.
    #[doc(alias = "shouldResync")]
    pub fn resync_due(&mut self, now: Instant, snapshot: &Snapshot<K>) {
        if !matches!(self.state, DispatcherState::Started(_)) {
            return;
        }
        for entry in &mut self.entries {
            if entry.resync.as_mut().is_some_and(|resync| resync.take_due(now)) {
                entry.listener.push_resync(snapshot);
            }
        }
    }

    /// Ends all handlers. With `drain` their backlogs are delivered first. Without it backlogs are dropped, asynchronous
    /// calls are cancelled at their next await, and blocking calls get 100 ms to return. May be called again without
    /// `drain` to abort a drain.
    ///
    /// The result may hold handlers that were never started: drop it without holding a lock.
    pub fn close(&mut self, drain: bool) -> Vec<Leftovers<K>> {
        self.state = DispatcherState::Closed;
        let leftovers = self
            .entries
            .iter()
            .filter_map(|entry| entry.listener.close(drain))
            .collect();
        self.forget_ended();
        leftovers
    }

    /// The handlers and subscriptions that have not ended, in the order they were added.
    pub(crate) fn registrations(&self) -> Vec<Registration> {
        self.entries
            .iter()
            .filter(|entry| !entry.listener.is_leaving())
            .map(|entry| Registration::new(entry.listener.clone()))
            .collect()
    }

    /// The memory of the events that wait for handlers, without their objects.
    pub(crate) fn backlog_bytes(&self) -> usize {
        let pending = self.entries.iter().map(|entry| entry.listener.pending());
        pending.sum::<usize>() * size_of::<Event<K>>()
    }

    /// The names of the handlers that have been closed and whose call has not returned.
    pub(crate) fn left_behind(&self) -> Vec<Arc<str>> {
        self.entries
            .iter()
            .filter(|entry| entry.listener.is_left_behind())
            .map(|entry| entry.listener.name().clone())
            .collect()
    }

    /// The number of workers that cannot end before a call returns.
    pub(crate) fn stuck(&self) -> usize {
        self.entries
            .iter()
            .filter(|entry| entry.listener.is_stuck())
            .count()
    }

    /// A listener that is ending stays until its last call has returned, so that a close can reach it.
    fn forget_ended(&mut self) {
        self.entries.retain(|entry| !entry.listener.has_ended());
    }
}

impl<K: Object> fmt::Debug for Dispatcher<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher")
            .field("handlers", &self.registrations())
            .finish_non_exhaustive()
    }
}

impl<K: Object> Drop for Dispatcher<K> {
    fn drop(&mut self) {
        if !matches!(self.state, DispatcherState::Closed) {
            drop(self.close(false));
        }
    }
}
