//! `filtered`: a handler that is told only of some objects.

use std::sync::Arc;

use super::{EventHandler, Runner, RunnerKind};
use crate::event::{Cause, Event};
use futures_core::future::BoxFuture;

/// A handler that is told only of objects for which `keep` says yes.
///
/// An object that changes so that it is kept is told as added (not initial); one that changes so that it is no
/// longer kept is told as deleted, with its last kept state and [`Cause::LeftScope`], for it lives on.
/// `keep` must give the same answer for the same state each time. If it panics, that event is skipped and counted
/// as a panic of the handler.
///
/// Composes: what is around an [`asynchronous`](super::asynchronous) or [`blocking`](super::blocking) handler stays
/// so, and `keep` then runs where the handler runs.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::{Event, Object, filtered};
///
/// let handler = filtered(
///     |pod: &Pod| pod.label("app") == Some("web"),
///     |event: Event<Pod>| println!("{event}"),
/// );
/// ```
#[doc(alias = "FilteringResourceEventHandler")]
#[doc(alias = "TypedFilteringResourceEventHandler")]
pub fn filtered<K, P, H>(keep: P, handler: H) -> Filtered<P, H>
where
    P: FnMut(&K) -> bool + Send + 'static,
    H: EventHandler<K>,
{
    Filtered { keep, handler }
}

/// What [`filtered`] returns.
#[derive(Clone, Debug)]
#[must_use = "handlers do nothing until they are added to an informer"]
pub struct Filtered<P, H> {
    keep: P,
    handler: H,
}

impl<K, P, H> EventHandler<K> for Filtered<P, H>
where
    K: Send + Sync + 'static,
    P: FnMut(&K) -> bool + Send + 'static,
    H: EventHandler<K>,
{
    fn on_event(&mut self, event: Event<K>) {
        if let Some(event) = pass(&mut self.keep, event, None) {
            self.handler.on_event(event);
        }
    }

    fn name(&self) -> String {
        self.handler.name()
    }

    fn into_runner(self) -> Runner<K> {
        let mut keep = self.keep;
        let Runner { name, kind } = self.handler.into_runner();
        match kind {
            RunnerKind::Inline(mut call) => Runner::inline(name, move |event, told| {
                if let Some(event) = pass(&mut keep, event, told) {
                    call(event, told);
                }
            }),
            RunnerKind::Blocking(mut call) => Runner::blocking(name, move |event, told| {
                if let Some(event) = pass(&mut keep, event, told) {
                    call(event, told);
                }
            }),
            RunnerKind::Async(mut call) => {
                Runner::asynchronous(name, move |event, told| -> BoxFuture<'static, ()> {
                    match pass(&mut keep, event, told) {
                        Some(event) => call(event, told),
                        None => Box::pin(std::future::ready(())),
                    }
                })
            }
        }
    }
}

/// What is left of an event behind the filter.
fn pass<K>(keep: &mut impl FnMut(&K) -> bool, event: Event<K>, told: Option<&Arc<K>>) -> Option<Event<K>> {
    match event {
        Event::Added { ref object, .. } => keep(object).then_some(event),
        Event::Updated { ref old, ref new, .. } => {
            let kept = keep(old);
            let keeps = if Arc::ptr_eq(old, new) { kept } else { keep(new) };
            match (kept, keeps) {
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
        // A delete may have swallowed an update that crossed the filter: the handler knows the object if the
        // state it was last told passed, whatever the last state of all says.
        Event::Deleted { ref object, .. } => keep(told.unwrap_or(object)).then_some(event),
    }
}
