//! `EventHandler`: user code that is told of changes, and the ways to write one.
//!
//! Takes [`Event`]s one at a time, gives nothing back. Knows neither who calls it nor how events are kept for it.

mod adapters;
mod filtered;
mod funcs;
mod name;
mod options;
mod runner;

pub use adapters::{Asynchronous, Blocking, asynchronous, blocking};
pub use filtered::{Filtered, filtered};
pub use funcs::Handlers;
pub use options::{Backlog, HandlerOptions, OnPanic};
pub use runner::Runner;
pub(crate) use runner::{AsyncCall, Call, RunnerKind};

use crate::event::Event;

/// Is told of every change of a cache, in order, one event at a time.
///
/// Every handler has a task of its own, so a slow one delays nobody else, and calls of one handler never overlap:
/// `&mut self` needs no lock. Work done here should be quick and must not block; [`asynchronous`] is for code
/// that awaits, [`blocking`] for code that may block.
///
/// A panic skips the event at hand, which counts as told, and is reported; the handler goes on with the next one
/// unless [`OnPanic::End`] says otherwise. (In a program built with `panic = "abort"` a panic ends the program.)
///
/// A closure is a handler:
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::{Event, EventHandler};
///
/// fn takes_a_handler(_: impl EventHandler<Pod>) {}
///
/// let mut seen = 0;
/// takes_a_handler(move |event: Event<Pod>| {
///     seen += 1;
///     println!("{seen}: {event}");
/// });
/// ```
#[doc(alias = "ResourceEventHandler")]
#[doc(alias = "TypedResourceEventHandler")]
pub trait EventHandler<K>: Send + 'static {
    /// Called once per event.
    #[doc(alias = "OnAdd")]
    #[doc(alias = "OnUpdate")]
    #[doc(alias = "OnDelete")]
    fn on_event(&mut self, event: Event<K>);

    /// What logs and statistics call this handler, unless [`HandlerOptions::name`] says otherwise: the path of
    /// its type, or for a closure of the function it is written in.
    #[doc(alias = "nameForHandler")]
    fn name(&self) -> String {
        name::of::<Self>()
    }

    /// The form in which the dispatcher keeps it.
    #[doc(hidden)]
    fn into_runner(self) -> Runner<K>
    where
        Self: Sized,
    {
        let name = self.name();
        let mut handler = self;
        Runner::inline(name, move |event, _| handler.on_event(event))
    }
}

impl<K, F> EventHandler<K> for F
where
    F: FnMut(Event<K>) + Send + 'static,
{
    fn on_event(&mut self, event: Event<K>) {
        self(event);
    }
}
