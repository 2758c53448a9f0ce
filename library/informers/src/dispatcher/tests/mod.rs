//! The dispatcher with its workers, on a paused clock and without an informer.

mod coalescing;
mod delivery;
mod faults;
mod folding;
mod panics;
mod properties;
mod removal;
mod reports;
mod resync;
mod stop;
mod subscriptions;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tracing::Span;

use super::*;
use crate::event::Cause;
use crate::handler::{Backlog, IntoHandler, erase};
use crate::subscription::Subscription;

/// A small object with everything the line looks at.
pub(super) struct Thing {
    name: String,
    uid: String,
    version: String,
}

impl Object for Thing {
    fn object_name(&self) -> &str {
        &self.name
    }

    fn object_namespace(&self) -> Option<&str> {
        None
    }

    fn object_uid(&self) -> Option<&str> {
        Some(&self.uid)
    }

    fn object_version(&self) -> Option<&str> {
        Some(&self.version)
    }
}

/// `thing("a", 1)` is version 1 of `a`; all versions of a name share a UID.
fn thing(name: &str, version: u64) -> Arc<Thing> {
    thing_of_uid(name, name, version)
}

fn thing_of_uid(name: &str, uid: &str, version: u64) -> Arc<Thing> {
    Arc::new(Thing {
        name: name.to_owned(),
        uid: uid.to_owned(),
        version: version.to_string(),
    })
}

fn things(objects: &[&Arc<Thing>]) -> Snapshot<Thing> {
    objects.iter().map(|object| Arc::clone(object)).collect()
}

fn no_objects() -> Snapshot<Thing> {
    things(&[])
}

fn added(object: &Arc<Thing>) -> Event<Thing> {
    Event::Added {
        object: object.clone(),
        initial: false,
    }
}

fn initial(object: &Arc<Thing>) -> Event<Thing> {
    Event::Added {
        object: object.clone(),
        initial: true,
    }
}

fn updated(old: &Arc<Thing>, new: &Arc<Thing>) -> Event<Thing> {
    Event::Updated {
        old: old.clone(),
        new: new.clone(),
        resync: false,
    }
}

fn deleted(object: &Arc<Thing>) -> Event<Thing> {
    Event::Deleted {
        object: object.clone(),
        cause: Cause::Observed,
    }
}

fn missed(object: &Arc<Thing>) -> Event<Thing> {
    Event::Deleted {
        object: object.clone(),
        cause: Cause::Missed,
    }
}

/// `add a1`, `initial a1`, `update a1 a2`, `again a2`, `delete a3`, `miss a2`, `leave a2`.
fn text(event: &Event<Thing>) -> String {
    let say = |object: &Arc<Thing>| format!("{}{}", object.name, object.version);
    match event {
        Event::Added {
            object,
            initial: true,
        } => format!("initial {}", say(object)),
        Event::Added {
            object,
            initial: false,
        } => format!("add {}", say(object)),
        Event::Updated {
            old,
            new,
            resync: true,
        } => {
            assert!(Arc::ptr_eq(old, new), "a resync tells one state");
            format!("again {}", say(new))
        }
        Event::Updated { old, new, .. } => format!("update {} {}", say(old), say(new)),
        Event::Deleted { object, cause } => {
            let verb = match cause {
                Cause::Observed => "delete",
                Cause::Missed => "miss",
                Cause::LeftScope => "leave",
            };
            format!("{verb} {}", say(object))
        }
    }
}

/// The events a handler received, as text.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Vec<String>>>);

impl Record {
    fn note(&self, event: &Event<Thing>) {
        self.0.lock().push(text(event));
    }

    fn handler(&self) -> impl FnMut(Event<Thing>) + Send + 'static {
        let record = self.clone();
        move |event: Event<Thing>| record.note(&event)
    }

    /// The events received since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

/// A dispatcher and what an informer would hold beside it.
struct Stage {
    dispatcher: Dispatcher<Thing>,
    spawner: Spawner,
}

impl Stage {
    /// Not started.
    fn new() -> Self {
        Self {
            dispatcher: Dispatcher::default(),
            spawner: Spawner::new(Handle::current(), Span::none()),
        }
    }

    fn started() -> Self {
        let mut stage = Self::new();
        stage.start();
        stage
    }

    fn start(&mut self) {
        self.dispatcher.start(&self.spawner, Instant::now());
    }

    /// Adds a handler to a synced informer that holds nothing.
    fn add<Kind>(&mut self, handler: impl IntoHandler<Thing, Kind>) -> Registration {
        self.add_with(HandlerOptions::default(), handler, no_objects())
    }

    /// Adds a handler to a synced informer.
    fn add_with<Kind>(
        &mut self,
        options: HandlerOptions,
        handler: impl IntoHandler<Thing, Kind>,
        snapshot: Snapshot<Thing>,
    ) -> Registration {
        self.dispatcher
            .add(&options, erase(handler), Instant::now(), snapshot, true)
            .unwrap()
    }

    fn subscribe(&mut self, options: HandlerOptions, snapshot: Snapshot<Thing>) -> Subscription<Thing> {
        Subscription::new(
            self.dispatcher
                .subscribe(&options, Instant::now(), snapshot, true),
        )
    }

    fn dispatch(&mut self, events: impl IntoIterator<Item = Event<Thing>>) {
        self.dispatcher.dispatch(events.into_iter().collect());
    }

    /// Stops, and fails if that takes more than 100 ms or leaves a task behind.
    async fn stop(mut self, drain: bool) {
        drop(self.dispatcher.close(drain));
        self.ended().await;
    }

    async fn ended(&self) {
        let start = Instant::now();
        self.spawner.wait().await;
        assert!(
            start.elapsed() <= Duration::from_millis(100),
            "stop took {:?}",
            start.elapsed()
        );
        assert_eq!(self.spawner.running(), 0);
    }
}

fn coalescing() -> HandlerOptions {
    HandlerOptions::default().backlog(Backlog::CoalesceByKey)
}

/// Waits until no task has anything to do: only then does a paused clock move on.
async fn quiet() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
