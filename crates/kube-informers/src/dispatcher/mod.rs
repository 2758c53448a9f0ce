//! `Dispatcher`: events in, one mailbox per handler out.
//!
//! Pure data: it owns no task and reads no clock. It is called under the lock that also guards the store's writer,
//! so that joining (snapshot plus position) is one step; it sees neither the writer nor any user code.

mod change;
mod delivery_cursor;
mod folding;
mod listener;
mod mailbox;
mod resync;
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
use crate::registration::{AddHandlerError, Control, HandlerId, Registration};
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
    /// Handlers wait for the start.
    New,
    /// Every handler has a worker.
    Started(Spawner),
    /// Nobody joins any more.
    Closed,
}

impl<K: Object> Dispatcher<K> {
    /// A dispatcher without handlers.
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            next_id: 1,
            state: DispatcherState::New,
        }
    }

    /// Adds a handler. It is told of everything in `snapshot` as initial, then of all that is dispatched from now
    /// on; `synced` says whether nothing initial is to come beyond the snapshot.
    ///
    /// Takes constant time: the snapshot is taken apart by the handler's own worker.
    ///
    /// # Errors
    ///
    /// When the dispatcher is closed.
    pub(crate) fn add(
        &mut self,
        options: &HandlerOptions,
        handler: ErasedHandler<K>,
        now: Instant,
        snapshot: Snapshot<K>,
        synced: bool,
    ) -> Result<Registration, AddHandlerError> {
        let ErasedHandler { name, kind } = handler;
        let name: Arc<str> = options.name.clone().unwrap_or(name).into();
        if matches!(self.state, DispatcherState::Closed) {
            return Err(AddHandlerError {
                handler: name,
                informer: String::new(),
            });
        }
        let listener = self.join(options, name, Consumer::Unstarted(kind), now, snapshot, synced);
        self.start_worker(&listener);
        Ok(Registration::new(listener))
    }

    /// Adds a subscription, which takes from the listener by itself. After a close it has nothing to take.
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

    /// Tells everybody. The events lie in memory once, however many handlers keep all of them.
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

    /// Everything initial has been dispatched: each handler is synced once it has returned from what it was told
    /// so far.
    pub fn synced(&mut self) {
        for entry in &self.entries {
            entry.listener.push_synced();
        }
    }

    /// When a handler is next to be told everything again; `None` before the start and while nobody wants that.
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

    /// Tells the handlers whose time has come everything again, and sets their next time.
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

    /// Ends everybody. With `drain` they are told what is queued first; without, what is queued is dropped,
    /// asynchronous calls are cancelled at their next await and blocking ones are waited for 100 ms. May be called
    /// again without `drain` to cut a drain short.
    ///
    /// What is returned may hold handlers that were never started: drop it where no lock is held.
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

    /// The handlers and subscriptions that have not ended, in the order in which they joined.
    pub(crate) fn registrations(&self) -> Vec<Registration> {
        self.entries
            .iter()
            .filter(|entry| !entry.listener.is_leaving())
            .map(|entry| Registration::new(entry.listener.clone()))
            .collect()
    }

    /// A listener that is leaving stays until its last call has returned, so that a close can reach it.
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
