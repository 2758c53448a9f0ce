//! Event handlers: the two handler traits, the adapters around them, and the options of a registered handler.
//!
//! A handler receives [`Event`]s one at a time and returns nothing. [`EventHandler`] is for code that returns quickly,
//! or may block ([`blocking`]); [`AsyncEventHandler`] is for code that awaits. Closures implement one or the other,
//! depending on what they return.
//!
//! # Writing an adapter
//!
//! An adapter wraps another handler and implements the same trait. It forwards [`name`](EventHandler::name) and
//! [`may_block`](EventHandler::may_block), and handles [`Delivery`] instead of [`Event`] if it drops or rewrites events:
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_informers::handler::Delivery;
//! use kube_informers::handler::{AsyncEventHandler, EventHandler};
//! use kube_informers::Event;
//!
//! struct Counted<H> {
//!     handler: H,
//!     seen: u64,
//! }
//!
//! impl<K, H: EventHandler<K>> EventHandler<K> for Counted<H> {
//!     fn on_event(&mut self, event: Event<K>) {
//!         self.on_delivery(Delivery::from(event));
//!     }
//!
//!     fn on_delivery(&mut self, delivery: Delivery<K>) {
//!         self.seen += 1;
//!         self.handler.on_delivery(delivery);
//!     }
//!
//!     fn name(&self) -> String {
//!         self.handler.name()
//!     }
//!
//!     fn may_block(&self) -> bool {
//!         self.handler.may_block()
//!     }
//! }
//!
//! impl<K: Send + Sync + 'static, H: AsyncEventHandler<K>> AsyncEventHandler<K> for Counted<H> {
//!     async fn on_event(&mut self, event: Event<K>) {
//!         self.seen += 1;
//!         self.handler.on_event(event).await;
//!     }
//! }
//! # fn add(pods: kube_informers::Informer<Pod>) -> Result<(), Box<dyn std::error::Error>> {
//!
//! pods.add_event_handler(Counted { handler: |event: Event<Pod>| println!("{event}"), seen: 0 })?;
//! pods.add_event_handler(Counted { handler: |event: Event<Pod>| async move { println!("{event}") }, seen: 0 })?;
//! # Ok(())
//! # }
//! ```

mod blocking;
mod erased;
mod filtered;
mod funcs;
mod name;
mod options;
mod sync_tracker;

pub use blocking::{Blocking, blocking};
pub(crate) use erased::{AsyncCall, Call, ErasedHandler, HandlerKind, erase};
pub use erased::{Asynchronous, IntoHandler, Synchronous};
pub use filtered::{Filtered, filtered};
pub use funcs::Handlers;
pub use options::{Backlog, HandlerOptions, OnPanic};
pub use sync_tracker::SyncTracker;

#[doc(inline)]
pub use crate::registration::{HandlerId, Removal};

use std::fmt;
use std::sync::Arc;

use crate::event::Event;
use crate::object::Object;

/// Receives every change of a cache, in order, one event at a time.
///
/// Each handler runs on its own task: a slow handler delays no other handler, and calls of one handler never overlap, so
/// `&mut self` needs no lock. Calls should return quickly and must not block. Use [`AsyncEventHandler`] for code that
/// awaits and [`blocking`] for code that blocks.
///
/// A panic skips the current event, which counts as delivered, and is reported. The handler continues with the next
/// event unless [`OnPanic::End`] is set. (In a program built with `panic = "abort"` a panic ends the program.)
///
/// A closure that returns `()` is a handler:
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::handler::EventHandler;
/// use kube_informers::Event;
///
/// fn accepts_a_handler(_: impl EventHandler<Pod>) {}
///
/// let mut seen = 0;
/// accepts_a_handler(move |event: Event<Pod>| {
///     seen += 1;
///     println!("{seen}: {event}");
/// });
/// ```
#[doc(alias = "ResourceEventHandler")]
#[doc(alias = "TypedResourceEventHandler")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event handler for `{K}`",
    label = "not an event handler for `{K}`",
    note = "a closure is a handler if it accepts one `Event<{K}>`, by value and with its type written out, and returns `()`: \
            `|event: Event<{K}>| {{ ... }}`"
)]
pub trait EventHandler<K>: Send + 'static {
    /// Called once per event.
    #[doc(alias = "OnAdd")]
    #[doc(alias = "OnUpdate")]
    #[doc(alias = "OnDelete")]
    fn on_event(&mut self, event: Event<K>);

    /// Called once per event, with additional context. The default calls [`on_event`](Self::on_event);
    /// adapters that drop or rewrite events override it.
    fn on_delivery(&mut self, delivery: Delivery<K>) {
        self.on_event(delivery.event);
    }

    /// The name of this handler in logs and statistics, unless [`HandlerOptions::name`] sets another: the path of its
    /// type, or for a closure the path of the function that contains it.
    #[doc(alias = "nameForHandler")]
    fn name(&self) -> String {
        name::of::<Self>()
    }

    /// Whether a call may block. Such a handler is called on a dedicated thread; see [`blocking`].
    fn may_block(&self) -> bool {
        false
    }
}

/// Receives every change of a cache, in order; each call is awaited before the next one is made.
///
/// The future runs on the handler's own task. When the informer stops, it is cancelled at its next await; when the
/// handler is removed, it runs to completion. Otherwise the rules of [`EventHandler`] apply.
///
/// A closure that returns a future is a handler:
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::handler::AsyncEventHandler;
/// use kube_informers::{Event, ObjectKey};
///
/// fn accepts_a_handler(_: impl AsyncEventHandler<Pod>) {}
///
/// # let (sender, _receiver) = tokio::sync::mpsc::channel::<ObjectKey>(1);
/// # let another = sender.clone();
/// accepts_a_handler(move |event: Event<Pod>| {
///     let sender = sender.clone();
///     async move {
///         // Waits while the channel is full.
///         sender.send(event.key()).await.ok();
///     }
/// });
///
/// struct Forward(tokio::sync::mpsc::Sender<ObjectKey>);
///
/// impl AsyncEventHandler<Pod> for Forward {
///     async fn on_event(&mut self, event: Event<Pod>) {
///         self.0.send(event.key()).await.ok();
///     }
/// }
/// # accepts_a_handler(Forward(another));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an asynchronous event handler for `{K}`",
    label = "not an asynchronous event handler for `{K}`",
    note = "a closure is one if it accepts one `Event<{K}>` and returns a `Send` future without borrowing from itself: \
            `move |event: Event<{K}>| async move {{ ... }}`"
)]
pub trait AsyncEventHandler<K>: Send + 'static {
    /// Called once per event; the next call is made when the future is ready.
    fn on_event(&mut self, event: Event<K>) -> impl Future<Output = ()> + Send;

    /// Called once per event, with additional context. The default calls [`on_event`](Self::on_event);
    /// adapters that drop or rewrite events override it.
    fn on_delivery(&mut self, delivery: Delivery<K>) -> impl Future<Output = ()> + Send {
        self.on_event(delivery.event)
    }

    /// The name of this handler in logs and statistics; see [`EventHandler::name`].
    fn name(&self) -> String {
        name::of::<Self>()
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

impl<K, F, Fut> AsyncEventHandler<K> for F
where
    F: FnMut(Event<K>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    fn on_event(&mut self, event: Event<K>) -> impl Future<Output = ()> + Send {
        self(event)
    }
}

/// One event on its way to one handler.
#[derive(Clone)]
#[non_exhaustive]
pub struct Delivery<K> {
    /// The event.
    pub event: Event<K>,
    /// The state that the handler last received, where the event does not carry it: a delete that replaced updates
    /// still in the backlog of a handler with [`Backlog::CoalesceByKey`].
    pub last_delivered: Option<Arc<K>>,
}

impl<K> From<Event<K>> for Delivery<K> {
    fn from(event: Event<K>) -> Self {
        Self {
            event,
            last_delivered: None,
        }
    }
}

/// The event only, which prints no object.
impl<K: Object> fmt::Debug for Delivery<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}
