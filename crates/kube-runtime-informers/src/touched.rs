//! The objects an informer's events are about, for owned and watched kinds. No copy: the `Arc`s of the cache.

use std::sync::Arc;

use futures_core::Stream;
use futures_util::{StreamExt, stream};
use kube_informers::{Cause, Event, Informer, Object};

/// Every object that appears, changes or goes; of a change both states, so that whoever the object no longer has to do
/// with is told as well. Ends when the informer stops.
///
/// For `owns_shared_stream` and `watches_shared_stream`. An object that has merely left the scope of the informer is not
/// told: it lives on.
///
/// Events wait until the stream is polled, all of them.
pub fn touched<K: Object>(informer: &Informer<K>) -> impl Stream<Item = Arc<K>> + Send + use<K> {
    informer.subscribe().flat_map(|event| {
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
