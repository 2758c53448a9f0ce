//! The main kind of a kube-runtime controller: a stream of objects, and kube-runtime's own store, filled on the way.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use futures_core::Stream;
use futures_core::future::BoxFuture;
use futures_util::stream;
use kube_informers::error::HandlerEndedError;
use kube_informers::{Event, Informer, ObjectKey, Subscription};
use kube_runtime::reflector::store::Writer;
use kube_runtime::reflector::{Lookup, Store};
use kube_runtime::watcher;

/// The objects of an informer as a stream for `Controller::for_shared_stream`, and the store that goes with it.
///
/// The store is filled by polling the stream, which the controller does. It is ready when everything that was there is in
/// it, and always holds an object before the stream emits it. Deletions are removed from the store and not emitted, as kube's
/// `applied_objects` does it. Ends when the informer stops.
///
/// Costs a copy of every object; see the [crate](crate).
pub fn reflected<K>(informer: &Informer<K>) -> (impl Stream<Item = Arc<K>> + Send + use<K>, Store<K>)
where
    K: kube::Resource<DynamicType: Default + Eq + Hash + Clone + Send> + Clone + Send + Sync + 'static,
{
    reflected_with(informer, Default::default())
}

/// The same for kinds known only at run time.
pub fn reflected_with<K>(
    informer: &Informer<K>,
    dynamic: <K as kube::Resource>::DynamicType,
) -> (impl Stream<Item = Arc<K>> + Send + use<K>, Store<K>)
where
    K: kube::Resource<DynamicType: Eq + Hash + Clone + Send> + Clone + Send + Sync + 'static,
{
    let writer = Writer::new(dynamic);
    let store = writer.as_reader();
    let subscription = informer.subscribe();
    let main = Main {
        synced: Box::pin(subscription.synced()),
        subscription,
        writer,
        first: Some(HashMap::new()),
        pending: VecDeque::new(),
    };
    let objects = stream::unfold(main, async |mut main| {
        let object = main.next().await?;
        Some((object, main))
    });
    (objects, store)
}

struct Main<K>
where
    K: Lookup<DynamicType: Eq + Hash + Clone> + kube_informers::Object + Clone,
{
    subscription: Subscription<K>,
    synced: BoxFuture<'static, Result<(), HandlerEndedError>>,
    writer: Writer<K>,
    /// What was there, until all of it is known. Not kept in the writer, which cannot take anything back before it has
    /// everything.
    first: Option<HashMap<ObjectKey, Arc<K>>>,
    /// In the store, and not yet emitted.
    pending: VecDeque<Arc<K>>,
}

impl<K> Main<K>
where
    K: Lookup<DynamicType: Eq + Hash + Clone> + kube_informers::Object + Clone,
{
    async fn next(&mut self) -> Option<Arc<K>> {
        loop {
            if let Some(object) = self.pending.pop_front() {
                return Some(object);
            }
            if self.subscription.has_synced() {
                self.begin();
            }
            if !self.pending.is_empty() {
                continue;
            }
            if self.first.is_none() {
                let event = self.subscription.next().await?;
                self.apply(event);
                continue;
            }
            // Events and their end are kept by the subscription, so that the branch that loses loses nothing. A
            // collection without objects is synced without an event.
            tokio::select! {
                biased;
                event = self.subscription.next() => self.apply(event?),
                synced = &mut self.synced => synced.ok()?,
            }
        }
    }

    /// Hands over what was there, once.
    fn begin(&mut self) {
        let Some(first) = self.first.take() else { return };
        self.writer.apply_watcher_event(&watcher::Event::Init);
        for object in first.into_values() {
            self.writer
                .apply_watcher_event(&watcher::Event::InitApply(K::clone(&object)));
            self.pending.push_back(object);
        }
        self.writer.apply_watcher_event(&watcher::Event::InitDone);
    }

    fn apply(&mut self, event: Event<K>) {
        let key = event.key();
        match (&mut self.first, event) {
            (Some(first), Event::Deleted { .. }) => {
                first.remove(&key);
            }
            (Some(first), Event::Added { object, .. } | Event::Updated { new: object, .. }) => {
                first.insert(key, object);
            }
            (None, Event::Deleted { object, .. }) => {
                self.writer
                    .apply_watcher_event(&watcher::Event::Delete(K::clone(&object)));
            }
            (
                None,
                Event::Updated {
                    new, resync: true, ..
                },
            ) => self.pending.push_back(new),
            (None, Event::Added { object, .. } | Event::Updated { new: object, .. }) => {
                self.writer
                    .apply_watcher_event(&watcher::Event::Apply(K::clone(&object)));
                self.pending.push_back(object);
            }
        }
    }
}
