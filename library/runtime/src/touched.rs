//! The objects an informer's events are about, for owned and watched kinds. No copy: the `Arc`s of the cache.

use std::future::ready;
use std::sync::Arc;

use futures_core::Stream;
use futures_util::{StreamExt, stream};
use kube_informers::lazy::Lazy;
use kube_informers::{Cause, Event, Informer, Object};
use serde::de::DeserializeOwned;

/// Every object that is added, updated or deleted; for an update both states, so that mappings of the old state are triggered
/// as well. Ends when the informer stops.
///
/// For `owns_shared_stream` and `watches_shared_stream`. An object that left the scope of the informer but still exists is not
/// emitted.
///
/// Events are kept in a backlog until the stream is polled.
pub fn touched<K: Object>(informer: &Informer<K>) -> impl Stream<Item = Arc<K>> + Send + use<K> {
    touched_when(informer, |_| true)
}

/// The same for events that the predicate accepts. It sees both states of an update, unlike kube-runtime's predicates, and
/// those of `kube_controller::predicates` fit.
pub fn touched_when<K: Object, P>(
    informer: &Informer<K>,
    mut predicate: P,
) -> impl Stream<Item = Arc<K>> + Send + use<K, P>
where
    P: FnMut(&Event<K>) -> bool + Send + 'static,
{
    let events = informer.subscribe().filter(move |event| ready(predicate(event)));
    events.flat_map(|event| {
        let states = match event {
            Event::Added { object, .. } => [None, Some(object)],
            Event::Updated {
                new, resync: true, ..
            } => [None, Some(new)],
            Event::Updated { old, new, .. } => [Some(old), Some(new)],
            Event::Deleted {
                cause: Cause::LeftScope,
                ..
            } => [None, None],
            Event::Deleted { object, .. } => [None, Some(object)],
        };
        stream::iter(states.into_iter().flatten())
    })
}

/// The same for an informer of packed objects. Each object is decoded when it is emitted, and dropped with its last reader. One
/// that cannot be decoded is not emitted; the informer [counts](kube_informers::stats::InformerStats::access_errors) and
/// logs it.
pub fn touched_lazy<K>(informer: &Informer<Lazy<K>>) -> impl Stream<Item = Arc<K>> + Send + use<K>
where
    K: DeserializeOwned + Send + Sync + 'static,
{
    touched(informer).filter_map(|object| std::future::ready(object.get().ok()))
}
