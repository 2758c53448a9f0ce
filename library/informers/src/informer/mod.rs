//! `Informer`: the user-facing handle of one cache, its watches and its handlers.

pub(crate) mod audit;
mod builder;
mod constructors;
pub(crate) mod drift;
pub(crate) mod errors;
mod freshness;
mod index_by_path;
mod member;
mod namespaces;
mod problem_log;
mod process;
pub(crate) mod readiness;
mod reflected;
mod run;
mod sharding;
mod shutdown;
mod state;
pub(crate) mod stats;
mod wait;
mod weak;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::errors::StoppedError;
use crate::handler::{HandlerOptions, IntoHandler, erase};
use crate::lister::Lister;
use crate::object::Object;
use crate::reflector::{ReflectorState, SyncError};
use crate::registration::Registration;
use crate::store::{Index, IndexError, Quarantined, Store};
use crate::subscription::Subscription;
use crate::time::after;
use process::InformerInner;

pub use builder::InformerBuilder;
pub(crate) use readiness::{InformerHealth, Observed};
pub use run::InformerTask;
pub use shutdown::ShutdownReport;
use stats::InformerStats;
pub(crate) use weak::{SyncOutcome, WeakInformer};

/// A local, indexed, exact copy of a collection of Kubernetes objects, with ordered change events.
///
/// # Guarantees
///
/// - **Exact.** After each step the cache equals the server's collection at the resource version the [`Store`] reports,
///   except for objects in [quarantine](Self::quarantine). A reader never sees a partial list.
/// - **In order.** A handler receives a change after the cache and its indexes hold it, one event at a time, in the
///   order of the collection's history. `old` in an update is the state that this handler last received. Missed deletes
///   are delivered as well, with [`Cause::Missed`](crate::Cause::Missed). The two states of an update have the same
///   UID.
/// - **Late handlers receive a full snapshot first**, then every later change.
/// - **Faults are contained.** A bad object affects only that object, a bad handler only that handler. Objects that
///   cannot be decoded are quarantined; [`Lazy`](crate::lazy::Lazy) objects can be validated [on
///   access](crate::lazy::Validate) instead.
/// - **Low load.** There is one watch, which resumes where it broke. The collection is listed again only for a
///   [`RelistReason`](crate::reflector::RelistReason).
/// - **Never silently stale.** Every wait for the cache has a form with a deadline. [`freshness`](Self::freshness) is the
///   age of the last proof that the cache is current. A replaced server history (for example a restored backup) and a
///   cache that lost an event are detected and repaired.
///
/// Use [`wait_for`](Self::wait_for) to read your own writes.
///
/// # Lifetime
///
/// A clone is another handle to the same informer. Nothing runs before [`InformerBuilder::start`] or
/// [`InformerTask::run`].
///
/// **An informer lives as long as something uses it:** a handle (informer, store, lister, index, subscription,
/// registration) or a registered handler. A program may therefore add a handler and drop everything else, as in Go;
/// [`Registration::remove`] or [`shutdown`](Self::shutdown) ends it. The rule is the same for informers of a
/// [`SharedInformerFactory`](crate::SharedInformerFactory). A stopped informer cannot be restarted.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::{Event, Informer};
///
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let pods = Informer::<Pod>::all(client).start();
/// pods.add_event_handler(|event: Event<Pod>| println!("{event}"))?;
/// pods.synced().await?;
/// println!("{} pods", pods.store().len());
/// # Ok(())
/// # }
/// ```
#[doc(alias = "TypedSharedIndexInformer")]
#[doc(alias = "SharedInformer")]
#[doc(alias = "SharedIndexInformer")]
pub struct Informer<K: Object> {
    shared: Arc<InformerInner<K>>,
    alive: Arc<Alive>,
}

/// Held by every handle; dropping the last one stops the informer.
pub(crate) struct Alive {
    stop: CancellationToken,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl<K: Object> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            alive: self.alive.clone(),
        }
    }
}

/// Name and state only: the objects may be Secrets.
impl<K: Object> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("name", &self.name())
            .field("state", &self.state().to_string())
            .field("store", &self.shared.store)
            .finish_non_exhaustive()
    }
}

impl<K: Object> Informer<K> {
    /// Its name in logs and errors.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Adds a handler, which receives the cached objects first and then every change. A handler is an
    /// [`EventHandler`](crate::handler::EventHandler) or an [`AsyncEventHandler`](crate::handler::AsyncEventHandler); closures are one or
    /// the other.
    ///
    /// The handler keeps the informer alive until it is [removed](Registration::remove), even if the registration is
    /// dropped.
    ///
    /// # Errors
    ///
    /// The informer has stopped.
    pub fn add_event_handler<H, Kind>(&self, handler: H) -> Result<Registration, StoppedError>
    where
        H: IntoHandler<K, Kind>,
    {
        self.add_event_handler_with(HandlerOptions::default(), handler)
    }

    /// The same with options: a name, a resync period, the kind of backlog.
    ///
    /// # Errors
    ///
    /// The informer has stopped.
    #[doc(alias = "AddEventHandlerWithOptions")]
    #[doc(alias = "AddEventHandlerWithResyncPeriod")]
    pub fn add_event_handler_with<H, Kind>(
        &self,
        options: HandlerOptions,
        handler: H,
    ) -> Result<Registration, StoppedError>
    where
        H: IntoHandler<K, Kind>,
    {
        let handler = erase(handler);
        let registration = self.shared.add_handler(options, handler, Instant::now())?;
        // The handler keeps the informer alive until it ends; the registration does even longer, for its counters.
        Ok(registration
            .handler_keeping(self.alive.clone())
            .keeping(self.alive.clone()))
    }

    /// The events as a stream: the cached objects first, then every change. Ends when the informer stops.
    #[doc(alias = "NewIndexerInformerWatcher")]
    #[doc(alias = "NewIndexerInformerWatcherWithLogger")]
    pub fn subscribe(&self) -> Subscription<K> {
        self.subscribe_with(HandlerOptions::default())
    }

    /// The same with options: a name, a resync period, the kind of backlog.
    pub fn subscribe_with(&self, options: HandlerOptions) -> Subscription<K> {
        self.shared
            .subscribe(options, Instant::now())
            .keeping(self.alive.clone())
    }

    /// The read side of the cache. Cheap: another handle to the same cache.
    #[doc(alias = "GetStore")]
    #[doc(alias = "GetIndexer")]
    pub fn store(&self) -> Store<K> {
        self.shared.store.clone().keeping(self.alive.clone())
    }

    /// Reads the cache by namespace, name, label selector and owner. Cheap, like [`store`](Self::store).
    #[doc(alias = "Lister")]
    pub fn lister(&self) -> Lister<K> {
        let lister = Lister::new(self.store());
        match &self.shared.resource {
            Some(resource) => lister.of(resource.clone()),
            None => lister,
        }
    }

    /// Adds an index: objects can then be found by the values that the function returns for them. Cached objects are
    /// indexed before this returns.
    ///
    /// # Errors
    ///
    /// An index of that name exists.
    #[doc(alias = "IndexFunc")]
    #[doc(alias = "Indices")]
    #[doc(alias = "TypedIndexFunc")]
    #[doc(alias = "TypedIndexers")]
    #[doc(alias = "AddIndexers")]
    pub fn add_index<I>(
        &self,
        name: &str,
        values: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Result<Index<K>, IndexError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        self.store().add_index(name, values)
    }

    /// The resource of its objects, if the source has one.
    pub(crate) fn resource(&self) -> Option<&crate::source::ResourceType> {
        self.shared.resource.as_ref()
    }

    /// Whether the initial list is in the cache. Stays true once it is true.
    #[doc(alias = "InformerSynced")]
    #[doc(alias = "IsDone")]
    #[doc(alias = "HasSynced")]
    pub fn has_synced(&self) -> bool {
        self.shared.life.borrow().synced
    }

    /// Waits until the initial list is in the cache, retrying through all errors.
    ///
    /// # Errors
    ///
    /// The informer stopped first.
    #[doc(alias = "DoneChecker")]
    #[doc(alias = "HasSyncedChecker")]
    #[doc(alias = "WaitForCacheSync")]
    pub async fn synced(&self) -> Result<(), StoppedError> {
        let mut life = self.shared.life.subscribe();
        match life.wait_for(|life| life.synced || life.stopped).await {
            Ok(life) if life.synced => Ok(()),
            _ => Err(self.shared.stopped_error()),
        }
    }

    /// Waits for at most `timeout`. The error says why the informer is not synced: the last error, the number of attempts
    /// and its state.
    ///
    /// # Errors
    ///
    /// The initial list was not cached in time, or the informer stopped.
    pub async fn synced_within(&self, timeout: Duration) -> Result<(), SyncError> {
        let began = Instant::now();
        match timeout_at(after(began, timeout), self.synced()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(StoppedError { .. })) | Err(_) => {
                Err(self.shared.not_synced(began.elapsed().min(timeout)))
            }
        }
    }

    /// The version up to which the reflector has read; the [`Store`] may not hold it yet. `None` before the initial list,
    /// and for informers with several watches (see [`InformerStats`]).
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn last_sync_resource_version(&self) -> Option<String> {
        match &*self.shared.members() {
            [member] => member.reflector.last_sync_resource_version(),
            _ => None,
        }
    }

    /// Its state. With several watches, the least healthy one.
    pub fn state(&self) -> ReflectorState {
        self.shared.state()
    }

    /// Whether it has been started.
    #[doc(alias = "HasStarted")]
    pub fn has_started(&self) -> bool {
        self.shared.life.borrow().started
    }

    /// Whether it has stopped.
    #[doc(alias = "IsStopped")]
    pub fn is_stopped(&self) -> bool {
        self.shared.life.borrow().stopped
    }

    /// Waits until it has stopped. Keeps the informer alive meanwhile, like every handle.
    pub fn wait_for_stop(&self) -> impl Future<Output = ()> + Send + Sync + use<K> {
        let informer = self.clone();
        async move {
            let mut life = informer.shared.life.subscribe();
            // The sender lives as long as this handle.
            life.wait_for(|life| life.stopped).await.ok();
        }
    }

    /// Ends the pause after a failure: the next attempt follows at once, or as soon as the limit of requests per minute
    /// allows. Has no effect on an informer that is not [backing off](ReflectorState::BackingOff).
    pub fn retry_now(&self) {
        for member in self.shared.members().iter() {
            member.reflector.retry_now();
        }
    }

    /// Objects that could not be decoded, transformed or indexed. The cache holds an older version of them, or none.
    pub fn quarantine(&self) -> Vec<Quarantined> {
        self.shared.store.quarantine()
    }

    /// Counters and state.
    #[doc(alias = "WithStoreMetrics")]
    #[doc(alias = "WithThreadSafeStoreMetrics")]
    #[doc(alias = "InformerMetricsProvider")]
    #[doc(alias = "SetInformerMetricsProvider")]
    #[doc(alias = "SetReflectorMetricsProvider")]
    pub fn stats(&self) -> InformerStats {
        self.shared.stats()
    }
}
