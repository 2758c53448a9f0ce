//! Modelled handlers: fast, slow, panicking, coalescing, joining late and leaving.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::StreamExt;
use kube_informers::handler::{AsyncEventHandler, HandlerOptions};
use kube_informers::sim::{Dispatcher, add_handler, subscription};
use kube_informers::store::Snapshot;
use kube_informers::{Event, Registration, Subscription};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::invariants::HandlerModel;
use crate::object::Thing;

/// How events reach a handler.
enum Consumer {
    /// Read by the world.
    Stream(Box<Subscription<Thing>>),
    /// A task that calls a handler.
    Task {
        registration: Registration,
        shared: Arc<SharedCalls>,
    },
}

/// What a handler on a task shares with the world.
#[derive(Default)]
struct SharedCalls {
    state: Mutex<Calls>,
    changed: Notify,
}

#[derive(Default)]
struct Calls {
    /// The calls that may return.
    permits: u32,
    panics: bool,
    calling: bool,
    /// A call began before the previous one had returned.
    overlapped: bool,
    received: VecDeque<Event<Thing>>,
}

/// A handler that returns when the tape lets it.
struct Gated(Arc<SharedCalls>);

/// Ends a call, also if it is cancelled.
struct Calling<'a>(&'a SharedCalls);

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.0.state.lock().calling = false;
    }
}

impl AsyncEventHandler<Thing> for Gated {
    async fn on_event(&mut self, event: Event<Thing>) {
        {
            let mut calls = self.0.state.lock();
            let overlaps = std::mem::replace(&mut calls.calling, true);
            calls.overlapped |= overlaps;
            calls.received.push_back(event);
        }
        let _calling = Calling(&self.0);
        loop {
            let changed = self.0.changed.notified();
            {
                let mut calls = self.0.state.lock();
                if calls.permits > 0 {
                    calls.permits -= 1;
                    if std::mem::take(&mut calls.panics) {
                        drop(calls);
                        // Without the panic hook, which would print a message.
                        std::panic::resume_unwind(Box::new("a fault of the model"));
                    }
                    return;
                }
            }
            changed.await;
        }
    }
}

/// A handler and what the model expects of it.
pub struct SimHandler {
    consumer: Consumer,
    /// What it must have received.
    pub model: HandlerModel,
    removed: bool,
}

impl SimHandler {
    /// Adds a handler to a dispatcher.
    pub fn join(
        dispatcher: &mut Dispatcher<Thing>,
        options: &HandlerOptions,
        on_task: bool,
        snapshot: Snapshot<Thing>,
        synced: bool,
        model: HandlerModel,
    ) -> Option<Self> {
        let consumer = if on_task {
            let shared = Arc::new(SharedCalls::default());
            let handler = Gated(shared.clone());
            let registration = add_handler(dispatcher, options, handler, snapshot, synced).ok()?;
            Consumer::Task { registration, shared }
        } else {
            let listener = dispatcher.subscribe(options, Instant::now(), snapshot, synced);
            Consumer::Stream(Box::new(subscription(listener)))
        };
        Some(Self {
            consumer,
            model,
            removed: false,
        })
    }

    /// Lets it receive up to `count` events.
    pub fn receive(&mut self, count: u32) -> Vec<Event<Thing>> {
        match &mut self.consumer {
            Consumer::Stream(subscription) => {
                let mut events = Vec::new();
                let mut cx = Context::from_waker(Waker::noop());
                while (events.len() as u32) < count {
                    match subscription.poll_next_unpin(&mut cx) {
                        Poll::Ready(Some(event)) => events.push(event),
                        Poll::Ready(None) | Poll::Pending => break,
                    }
                }
                events
            }
            Consumer::Task { shared, .. } => {
                shared.state.lock().permits = count;
                shared.changed.notify_one();
                Vec::new()
            }
        }
    }

    /// What a task received since the last call.
    pub fn received(&mut self) -> Vec<Event<Thing>> {
        match &mut self.consumer {
            Consumer::Stream(_) => Vec::new(),
            Consumer::Task { shared, .. } => shared.state.lock().received.drain(..).collect(),
        }
    }

    /// Its next call panics.
    pub fn panic_next(&mut self) {
        if let Consumer::Task { shared, .. } = &self.consumer {
            shared.state.lock().panics = true;
        }
    }

    /// Removes it.
    pub fn leave(&mut self) {
        self.removed = true;
        // Dropping a subscription removes it, and the world drops it.
        if let Consumer::Task { registration, .. } = &self.consumer {
            drop(registration.remove());
        }
    }

    /// Whether two calls overlapped.
    pub fn overlapped(&self) -> bool {
        match &self.consumer {
            Consumer::Stream(_) => false,
            Consumer::Task { shared, .. } => shared.state.lock().overlapped,
        }
    }

    /// The events that it has not received.
    pub fn pending(&self) -> usize {
        match &self.consumer {
            Consumer::Stream(subscription) => subscription.pending(),
            Consumer::Task { registration, .. } => registration.pending(),
        }
    }

    /// Whether it has received everything that was dispatched. A call that has not returned is still pending.
    pub fn is_idle(&self) -> bool {
        self.pending() == 0
    }

    /// Whether it has received the initial list.
    pub fn has_synced(&self) -> bool {
        match &self.consumer {
            Consumer::Stream(subscription) => subscription.has_synced(),
            Consumer::Task { registration, .. } => registration.has_synced(),
        }
    }

    /// As a log shows it.
    pub fn describe(&self) -> String {
        match &self.consumer {
            Consumer::Stream(subscription) => format!("{subscription:?}"),
            Consumer::Task { registration, .. } => format!("{registration:?}"),
        }
    }

    /// Whether it was removed.
    pub fn is_removed(&self) -> bool {
        self.removed
    }

    /// Whether it runs on a task.
    pub fn is_on_task(&self) -> bool {
        matches!(self.consumer, Consumer::Task { .. })
    }
}
