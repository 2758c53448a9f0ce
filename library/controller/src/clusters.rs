//! `Clusters`: one view of a kind across several clusters that come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use kube_informers::error::StoppedError;
use kube_informers::handler::{EventHandler, HandlerOptions};
use kube_informers::reflector::ReflectorState;
use kube_informers::{Event, Informer, Object, ObjectKey, Registration};
use kube_workqueue::WorkQueue;
use parking_lot::Mutex;

use crate::handle::ControllerHandle;
use crate::watch::{Feed, Watch};

/// The key of an object in one of several clusters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterKey {
    /// The name of the cluster.
    pub cluster: Arc<str>,
    /// The object in it.
    pub key: ObjectKey,
}

impl ClusterKey {
    /// The key of an object in a cluster.
    pub fn new(cluster: impl Into<Arc<str>>, key: ObjectKey) -> Self {
        Self {
            cluster: cluster.into(),
            key,
        }
    }
}

/// `east:shop/cart`.
impl fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.cluster, self.key)
    }
}

/// What a [handler](Clusters::add_event_handler) of several clusters receives.
pub enum ClusterEvent<K> {
    /// An object of a cluster changed.
    Object {
        /// In which cluster.
        cluster: Arc<str>,
        /// The change.
        event: Event<K>,
    },
    /// A cluster was removed, or its informer stopped. Its objects are no longer in the view, and no more of its events
    /// follow.
    Left {
        /// Which one.
        cluster: Arc<str>,
    },
}

/// Names only: the objects may be Secrets.
impl<K: Object> fmt::Debug for ClusterEvent<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `east: added shop/cart`.
impl<K: Object> fmt::Display for ClusterEvent<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object { cluster, event } => write!(f, "{cluster}: {event}"),
            Self::Left { cluster } => write!(f, "{cluster} left"),
        }
    }
}

/// The state of one cluster in a view.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClusterState {
    /// Its name.
    pub cluster: Arc<str>,
    /// Whether its initial list is in the cache.
    pub synced: bool,
    /// The age of the last proof that its cache is current: [`Informer::freshness`].
    pub freshness: Option<Duration>,
    /// The state of its watch.
    pub state: ReflectorState,
}

/// A cluster was not added to a view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddClusterError {
    /// A cluster of this name exists, or is being removed.
    #[error("cluster {cluster:?} already exists: choose another name, or remove it and wait for the removal")]
    Duplicate {
        /// Its name.
        cluster: Arc<str>,
    },
    /// The informer has stopped.
    #[error(transparent)]
    Stopped(#[from] StoppedError),
}

/// The objects of a kind in several clusters: one informer per cluster, with keys that name the cluster.
///
/// Clusters can be [added](Self::add) and [removed](Self::remove) at any time. Each has its own cache, watch and
/// handlers, so an unreachable cluster delays no other: its objects stay readable in their last known state, and
/// [`states`](Self::states) shows how old that is. The informers belong to the caller, who may take them from a
/// [`SharedInformerFactory`](kube_informers::SharedInformerFactory) per cluster.
///
/// A clone is another handle to the same view.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_controller::{ClusterKey, Clusters, Controller, Watch};
/// use kube_informers::SharedInformerFactory;
/// # use kube_testserver::{TestServer, builders::pod};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// # let (east, west) = (TestServer::new(), TestServer::new());
/// # west.create(pod("shop", "cart"));
/// # let (seen, mut keys) = tokio::sync::mpsc::unbounded_channel();
/// let pods = Clusters::<Pod>::new();
/// let view = pods.clone();
/// let controller = Controller::<ClusterKey>::new("fleet").start(async move |key: ClusterKey| {
///     println!("{key} exists: {}", view.get(&key).is_some());
///     # seen.send(key.to_string()).ok();
///     Ok::<(), kube::Error>(())
/// })?;
/// pods.watch_with(&controller, Watch::object);
///
/// for (name, client) in [("east", east.client()), ("west", west.client())] {
///     let factory = SharedInformerFactory::new(client);
///     pods.add(name, &factory.informer::<Pod>())?;
///     factory.start();
/// }
/// # assert_eq!(keys.recv().await.unwrap(), "west:shop/cart");
/// # controller.shutdown().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct Clusters<K: Object> {
    shared: Arc<Mutex<View<K>>>,
}

struct View<K: Object> {
    clusters: BTreeMap<Arc<str>, Cluster<K>>,
    /// Names of removed clusters whose last events are being delivered.
    leaving: BTreeSet<Arc<str>>,
    /// What is attached to every cluster. Only grows.
    attachers: Vec<Arc<Attacher<K>>>,
    /// The number of clusters added so far.
    added: u64,
}

type Attacher<K> = dyn Fn(&Arc<str>, &Informer<K>) -> Result<Registration, StoppedError> + Send + Sync;

struct Cluster<K: Object> {
    /// Distinguishes it from another cluster of the same name, before or after it.
    id: u64,
    informer: Informer<K>,
    attached: Vec<Registration>,
}

impl<K: Object> View<K> {
    fn is_taken(&self, cluster: &Arc<str>) -> bool {
        self.clusters.contains_key(cluster) || self.leaving.contains(cluster)
    }
}

/// Without a view nothing can be removed any more, and handlers keep informers alive.
impl<K: Object> Drop for View<K> {
    fn drop(&mut self) {
        self.clusters
            .values()
            .flat_map(|cluster| &cluster.attached)
            .for_each(detach);
    }
}

/// Removes a handler without waiting for its call in flight.
fn detach(registration: &Registration) {
    drop(registration.remove());
}

impl<K: Object> Clusters<K> {
    /// A view without clusters.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Mutex::new(View {
                clusters: BTreeMap::new(),
                leaving: BTreeSet::new(),
                attachers: Vec::new(),
                added: 0,
            })),
        }
    }

    /// Adds a cluster by its informer, which the caller starts, before or afterwards. Handlers receive its objects.
    ///
    /// # Errors
    ///
    /// A cluster of this name exists, or the informer has stopped. Nothing changes in these cases.
    pub fn add(&self, cluster: impl Into<Arc<str>>, informer: &Informer<K>) -> Result<(), AddClusterError> {
        let cluster = cluster.into();
        let mut attached = Vec::new();
        loop {
            let next = {
                let mut view = self.shared.lock();
                if view.is_taken(&cluster) {
                    drop(view);
                    attached.iter().for_each(detach);
                    return Err(AddClusterError::Duplicate { cluster });
                }
                match view.attachers.get(attached.len()) {
                    Some(next) => next.clone(),
                    None => {
                        view.added += 1;
                        let added = Cluster {
                            id: view.added,
                            informer: informer.clone(),
                            attached,
                        };
                        view.clusters.insert(cluster, added);
                        return Ok(());
                    }
                }
            };
            // Without the lock: it is user code.
            match next(&cluster, informer) {
                Ok(registration) => attached.push(registration),
                Err(error) => {
                    attached.iter().for_each(detach);
                    return Err(error.into());
                }
            }
        }
    }

    /// Removes a cluster. Its objects leave the view at once; handlers receive none of its events after
    /// [`ClusterEvent::Left`]. Keys that are queued in a controller are still reconciled.
    ///
    /// Returns the informer, to be [shut down](Informer::shutdown) if nothing else needs it; `None` if there is no such
    /// cluster. The name can be used again when this returns.
    pub async fn remove(&self, cluster: &str) -> Option<Informer<K>> {
        let (name, removed) = {
            let mut view = self.shared.lock();
            let (name, removed) = view.clusters.remove_entry(cluster)?;
            view.leaving.insert(name.clone());
            (name, removed)
        };
        // Also if this future is dropped.
        let _leaving = Leaving {
            shared: self.shared.clone(),
            name,
        };
        let Cluster {
            informer, attached, ..
        } = removed;
        join_all(attached.iter().map(Registration::remove)).await;
        Some(informer)
    }

    /// The object of a key; `None` if it is not in the cache, or the cluster is not in the view.
    pub fn get(&self, key: &ClusterKey) -> Option<Arc<K>> {
        self.informer(&key.cluster)?.store().get(&key.key)
    }

    /// All objects, by cluster: one snapshot of each cache.
    pub fn list(&self) -> Vec<(Arc<str>, Arc<K>)> {
        let informers = self.informers();
        let objects = informers.iter().flat_map(|(cluster, informer)| {
            let snapshot = informer.store().list();
            let objects: Vec<_> = snapshot.iter().cloned().collect();
            objects.into_iter().map(|object| (cluster.clone(), object))
        });
        objects.collect()
    }

    /// The informer of a cluster.
    ///
    /// A reconciler uses it to distinguish an object that was deleted from a cluster that was removed.
    pub fn informer(&self, cluster: &str) -> Option<Informer<K>> {
        let view = self.shared.lock();
        view.clusters.get(cluster).map(|cluster| cluster.informer.clone())
    }

    /// The informers of all clusters, by name.
    pub fn informers(&self) -> Vec<(Arc<str>, Informer<K>)> {
        let view = self.shared.lock();
        let clusters = view.clusters.iter();
        clusters
            .map(|(name, cluster)| (name.clone(), cluster.informer.clone()))
            .collect()
    }

    /// How current each cluster is.
    pub fn states(&self) -> Vec<ClusterState> {
        let informers = self.informers().into_iter();
        informers
            .map(|(cluster, informer)| ClusterState {
                cluster,
                synced: informer.has_synced(),
                freshness: informer.freshness(),
                state: informer.state(),
            })
            .collect()
    }

    /// Adds a handler for all clusters, present and future. It receives the cached objects of each first.
    ///
    /// The events of one cluster arrive in order, one at a time; those of different clusters may arrive concurrently,
    /// so no cluster waits for another. The handler should be fast, and must not block. It is called for as long as the
    /// clusters are in the view.
    pub fn add_event_handler(&self, handler: impl Fn(ClusterEvent<K>) + Send + Sync + 'static) {
        let handler: Arc<Handler<K>> = Arc::new(handler);
        self.attach(Arc::new(move |cluster: &Arc<str>, informer: &Informer<K>| {
            let forward = Forward {
                cluster: cluster.clone(),
                handler: handler.clone(),
            };
            let options = HandlerOptions::default().name(format!("clusters/{cluster}"));
            informer.add_event_handler_with(options, forward)
        }));
    }

    /// Reconciles the keys of a watch in all clusters, present and future. Like every [added
    /// watch](ControllerHandle::add_watch) it is optional: the controller neither waits for a cluster nor ends with it.
    /// The function returns the watch of one cluster, for example [`Watch::object`].
    pub fn watch_with(
        &self,
        controller: &ControllerHandle<ClusterKey>,
        watch: impl Fn(&Informer<K>) -> Watch<K, ObjectKey> + Send + Sync + 'static,
    ) {
        let name = controller.name().to_owned();
        let queue: WorkQueue<ClusterKey> = controller.queue().clone();
        self.attach(Arc::new(move |cluster: &Arc<str>, informer: &Informer<K>| {
            let of = cluster.clone();
            let watch = watch(informer).with_key(move |key| ClusterKey::new(of.clone(), key));
            let attached = Box::new(watch).attach(&format!("{name}/{cluster}"), queue.clone())?;
            Ok(attached.registration)
        }));
    }

    /// Attaches something to every cluster, present and future.
    fn attach(&self, attacher: Arc<Attacher<K>>) {
        let clusters: Vec<_> = {
            let mut view = self.shared.lock();
            // From now on it is attached to clusters that are added.
            view.attachers.push(attacher.clone());
            let clusters = view.clusters.iter();
            clusters
                .map(|(name, cluster)| (name.clone(), cluster.id, cluster.informer.clone()))
                .collect()
        };
        for (name, id, informer) in clusters {
            // An informer that has stopped has nothing to deliver.
            let Ok(registration) = attacher(&name, &informer) else {
                continue;
            };
            let mut view = self.shared.lock();
            match view.clusters.get_mut(&name).filter(|cluster| cluster.id == id) {
                Some(cluster) => cluster.attached.push(registration),
                None => {
                    drop(view);
                    detach(&registration);
                }
            }
        }
    }
}

impl<K: Object> Default for Clusters<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Object> Clone for Clusters<K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

/// Names only.
impl<K: Object> fmt::Debug for Clusters<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let informers = self.informers();
        let names: Vec<&str> = informers.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("Clusters").field("clusters", &names).finish()
    }
}

/// Frees the name of a cluster that was removed.
struct Leaving<K: Object> {
    shared: Arc<Mutex<View<K>>>,
    name: Arc<str>,
}

impl<K: Object> Drop for Leaving<K> {
    fn drop(&mut self) {
        self.shared.lock().leaving.remove(&self.name);
    }
}

type Handler<K> = dyn Fn(ClusterEvent<K>) + Send + Sync;

/// The handler of one cluster. An informer drops it after its last call, which is the moment to say that the cluster left.
struct Forward<K: Object> {
    cluster: Arc<str>,
    handler: Arc<Handler<K>>,
}

impl<K: Object> EventHandler<K> for Forward<K> {
    fn on_event(&mut self, event: Event<K>) {
        (self.handler)(ClusterEvent::Object {
            cluster: self.cluster.clone(),
            event,
        });
    }
}

impl<K: Object> Drop for Forward<K> {
    fn drop(&mut self) {
        (self.handler)(ClusterEvent::Left {
            cluster: self.cluster.clone(),
        });
    }
}
