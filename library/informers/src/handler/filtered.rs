//! `filtered`: a handler that receives events of some objects only.

use std::sync::Arc;

use super::{AsyncEventHandler, Delivery, EventHandler, IntoHandler};
use crate::event::{Cause, Event};

/// A handler that receives only events of objects for which `keep` returns true.
///
/// When an update makes an object match, the handler receives `Added` (not initial). When an update makes it no longer
/// match, the handler receives `Deleted` with the last matching state and [`Cause::LeftScope`], because the object still
/// exists. `keep` must return the same result for the same state. If it panics, that event is skipped and counted
/// as a panic of the handler.
///
/// A filter around an asynchronous or [`blocking`](super::blocking()) handler is of the same kind; `keep` runs where the
/// handler runs.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::handler::filtered;
/// use kube_informers::{Event, Object};
///
/// let handler = filtered(
///     |pod: &Pod| pod.object_label("app") == Some("web"),
///     |event: Event<Pod>| println!("{event}"),
/// );
/// ```
#[doc(alias = "FilteringResourceEventHandler")]
#[doc(alias = "TypedFilteringResourceEventHandler")]
pub fn filtered<K, P, H, Kind>(keep: P, handler: H) -> Filtered<P, H>
where
    P: FnMut(&K) -> bool + Send + 'static,
    H: IntoHandler<K, Kind>,
{
    Filtered { keep, handler }
}

/// Returned by [`filtered`].
#[derive(Clone, Debug)]
#[must_use = "handlers do nothing until they are added to an informer"]
pub struct Filtered<P, H> {
    keep: P,
    handler: H,
}

impl<K, P, H> EventHandler<K> for Filtered<P, H>
where
    P: FnMut(&K) -> bool + Send + 'static,
    H: EventHandler<K>,
{
    fn on_event(&mut self, event: Event<K>) {
        self.on_delivery(event.into());
    }

    fn on_delivery(&mut self, delivery: Delivery<K>) {
        if let Some(delivery) = pass(&mut self.keep, delivery) {
            self.handler.on_delivery(delivery);
        }
    }

    fn name(&self) -> String {
        self.handler.name()
    }

    fn may_block(&self) -> bool {
        self.handler.may_block()
    }
}

impl<K, P, H> AsyncEventHandler<K> for Filtered<P, H>
where
    K: Send + Sync + 'static,
    P: FnMut(&K) -> bool + Send + 'static,
    H: AsyncEventHandler<K>,
{
    async fn on_event(&mut self, event: Event<K>) {
        AsyncEventHandler::on_delivery(self, event.into()).await;
    }

    async fn on_delivery(&mut self, delivery: Delivery<K>) {
        if let Some(delivery) = pass(&mut self.keep, delivery) {
            self.handler.on_delivery(delivery).await;
        }
    }

    fn name(&self) -> String {
        self.handler.name()
    }
}

/// The event as seen through the filter.
fn pass<K>(keep: &mut impl FnMut(&K) -> bool, delivery: Delivery<K>) -> Option<Delivery<K>> {
    let Delivery {
        event,
        last_delivered,
    } = delivery;
    let event = match event {
        Event::Added { ref object, .. } => keep(object).then_some(event),
        Event::Updated { ref old, ref new, .. } => {
            let matched = keep(old);
            let matches = if Arc::ptr_eq(old, new) { matched } else { keep(new) };
            match (matched, matches) {
                (true, true) => Some(event),
                (false, true) => Some(Event::Added {
                    object: new.clone(),
                    initial: false,
                }),
                (true, false) => Some(Event::Deleted {
                    object: old.clone(),
                    cause: Cause::LeftScope,
                }),
                (false, false) => None,
            }
        }
        // Coalescing may have dropped an update that crossed the filter. The handler knows the object if the last
        // delivered state matched, whether or not the final state does.
        Event::Deleted { ref object, .. } => keep(last_delivered.as_ref().unwrap_or(object)).then_some(event),
    }?;
    Some(Delivery {
        event,
        last_delivered,
    })
}
