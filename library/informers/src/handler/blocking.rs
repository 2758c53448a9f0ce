//! `blocking`: a handler that is called on a dedicated thread.

use super::{Delivery, EventHandler};
use crate::event::Event;

/// A handler whose calls may block: it is called on a dedicated thread, which lives as long as the handler.
///
/// The thread is inside the runtime, so [`Handle::current`](tokio::runtime::Handle::current) works there. A call cannot
/// be interrupted. When the informer stops, a call that does not return within 100 ms is reported and abandoned; it
/// does not keep the runtime or the process from ending.
///
/// On a current-thread runtime, calls also occupy a thread of the blocking pool, so that a paused clock waits for them.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::handler::blocking;
/// use kube_informers::Event;
///
/// let handler = blocking(|event: Event<Pod>| {
///     std::fs::write("last-event", event.to_string()).ok();
/// });
/// ```
///
/// An asynchronous handler cannot be made blocking; call `spawn_blocking` in it instead.
///
/// ```compile_fail
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube_informers::handler::blocking;
/// # use kube_informers::Event;
/// let handler = blocking(|event: Event<Pod>| async move { println!("{event}") });
/// ```
pub fn blocking<K, H: EventHandler<K>>(handler: H) -> Blocking<H> {
    Blocking { handler }
}

/// Returned by [`blocking`].
#[derive(Clone, Debug)]
#[must_use = "handlers do nothing until they are added to an informer"]
pub struct Blocking<H> {
    handler: H,
}

impl<K, H: EventHandler<K>> EventHandler<K> for Blocking<H> {
    fn on_event(&mut self, event: Event<K>) {
        self.handler.on_event(event);
    }

    fn on_delivery(&mut self, delivery: Delivery<K>) {
        self.handler.on_delivery(delivery);
    }

    fn name(&self) -> String {
        self.handler.name()
    }

    fn may_block(&self) -> bool {
        true
    }
}
