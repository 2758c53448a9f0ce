//! The controller with a store and one handler.

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_informers::error::IndexError;
use kube_informers::handler::{Delivery, EventHandler};
use kube_informers::source::ListerWatcher;
use kube_informers::store::StoreWriter;
use kube_informers::{Cause, Event, Object, ObjectKey, ResourceVersion, Store};
use tracing::{error, warn};

use crate::controller::Controller;
use crate::delta::Delta;
use crate::delta_fifo::DeltaFifo;
use crate::pop::PopInfo;

impl<K: Object> Controller<K> {
    /// A store, and the controller that fills it and calls a handler for each change.
    ///
    /// One task does everything: it updates the store, calls the handler, and continues reading. So the store always
    /// holds at least the handler's event, the handler needs no mailbox, and it must return quickly. An
    /// [`Informer`](kube_informers::Informer) has several handlers, each on its own task, and a store that is exact: this one
    /// applies the changes of one object after those of another.
    ///
    /// Indexes are added to the store. With a resync period the handler receives every object again as an update with
    /// `resync: true`. A panic of the handler skips that event and is logged. The initial list has been delivered when the
    /// [queue](Self::queue) is synced.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube_informers::{Event, ListWatch, Scope};
    /// use kube_informers_classic::Controller;
    /// use kube_testserver::{TestServer, builders::pod};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
    /// let server = TestServer::new();
    /// server.create(pod("shop", "cart"));
    ///
    /// let source = ListWatch::<Pod>::new(server.client(), Scope::all());
    /// let (pods, controller) = Controller::with_handler(source, |event: Event<Pod>| println!("{event}"));
    /// let by_node = pods.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
    /// let queue = controller.queue();
    /// let stop = tokio_util::sync::CancellationToken::new();
    /// let running = tokio::spawn(controller.run(stop.clone()));
    ///
    /// queue.synced().await?;
    /// assert!(pods.contains(("shop", "cart")));
    ///
    /// stop.cancel();
    /// running.await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[doc(alias = "NewInformer")]
    #[doc(alias = "NewIndexerInformer")]
    #[doc(alias = "NewInformerWithOptions")]
    #[doc(alias = "NewTransformingInformer")]
    #[doc(alias = "NewTransformingIndexerInformer")]
    #[doc(alias = "processDeltas")]
    pub fn with_handler(
        source: impl ListerWatcher<K>,
        mut handler: impl EventHandler<K>,
    ) -> (Store<K>, Self) {
        let mut writer = StoreWriter::new();
        let store = writer.store();
        let process = move |deltas: &[Delta<K>], info: PopInfo| {
            for delta in deltas {
                let events = apply(&mut writer, delta, info.initial).unwrap_or_else(|error| {
                    warn!(%error, ?delta, "the object is not stored; its previous state stays");
                    Vec::new()
                });
                for event in events {
                    let object = event.object().clone();
                    if catch_unwind(AssertUnwindSafe(|| handler.on_delivery(Delivery::from(event)))).is_err()
                    {
                        let key = ObjectKey::of(&*object);
                        error!(%key, "the handler panicked; the event is skipped");
                    }
                }
            }
            Ok(())
        };
        let queue = Arc::new(DeltaFifo::new().known(store.clone()));
        let known = Arc::new(store.clone());
        let controller = Self::new(source, queue, process).reflector(|reflector| reflector.known(known));
        (store, controller)
    }
}

/// Applies a delta to the store. Returns the events that follow from it.
fn apply<K: Object>(
    writer: &mut StoreWriter<K>,
    delta: &Delta<K>,
    initial: bool,
) -> Result<Vec<Event<K>>, IndexError> {
    Ok(match delta {
        Delta::Added(new) | Delta::Updated(new) if is_repeated(&writer.store(), &**new) => Vec::new(),
        Delta::Added(new) | Delta::Updated(new) | Delta::Replaced(new) | Delta::Sync(new) => {
            let old = writer.insert(new.clone())?;
            put(old, new, matches!(delta, Delta::Sync(_)), initial)
        }
        Delta::Deleted(object) if is_outdated(&writer.store(), &**object) => Vec::new(),
        Delta::Deleted(object) => {
            let old = writer.remove(&ObjectKey::of(&**object));
            deleted(old.map(|_| object.clone()), Cause::Observed)
        }
        Delta::DeletedUnreadable(bad) => {
            let old = bad.key.as_ref().and_then(|key| writer.remove(key));
            deleted(old, Cause::Observed)
        }
        Delta::Vanished(tombstone) => deleted(writer.remove(&tombstone.key), Cause::Missed),
        Delta::Dropped { key, .. } => deleted(writer.remove(key), Cause::LeftScope),
        Delta::Unreadable(bad) | Delta::ReplacedUnreadable(bad) => {
            warn!(%bad, "the object cannot be read; its previous state stays");
            Vec::new()
        }
        Delta::Bookmark { resource_version } => {
            writer.set_resource_version(Some(resource_version));
            Vec::new()
        }
    })
}

/// Whether a watch event is about a state that the store holds, or an older one: a watch that is opened again may repeat
/// events.
fn is_repeated<K: Object>(store: &Store<K>, new: &K) -> bool {
    store.get(&ObjectKey::of(new)).is_some_and(|held| {
        let is_same = held.object_uid() == new.object_uid() && held.object_version() == new.object_version();
        is_same && held.object_version().is_some() || is_older(new, &held)
    })
}

/// Whether a deletion is older than what the store holds: the object has been created again since.
fn is_outdated<K: Object>(store: &Store<K>, gone: &K) -> bool {
    store
        .get(&ObjectKey::of(gone))
        .is_some_and(|held| is_older(gone, &held))
}

fn is_older<K: Object>(object: &K, held: &K) -> bool {
    let versions = object.object_version().zip(held.object_version());
    versions.is_some_and(|(object, held)| ResourceVersion::compare(object, held) == Some(Ordering::Less))
}

/// The events of an object that was stored in place of `old`.
fn put<K: Object>(old: Option<Arc<K>>, new: &Arc<K>, resync: bool, initial: bool) -> Vec<Event<K>> {
    let object = new.clone();
    let Some(old) = old else {
        return vec![Event::Added { object, initial }];
    };
    if old.object_uid() != new.object_uid() {
        let mut events = deleted(Some(old), Cause::Missed);
        events.push(Event::Added { object, initial });
        return events;
    }
    if !resync && old.object_version().is_some() && old.object_version() == new.object_version() {
        return Vec::new();
    }
    vec![Event::Updated {
        old,
        new: object,
        resync,
    }]
}

fn deleted<K>(object: Option<Arc<K>>, cause: Cause) -> Vec<Event<K>> {
    object
        .map(|object| Event::Deleted { object, cause })
        .into_iter()
        .collect()
}
