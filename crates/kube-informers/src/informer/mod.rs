//! `Informer`: the handle users hold. One cache, kept equal to a collection of objects, and everybody who wants
//! to know what changed.

mod builder;
mod doors;
mod errors;
mod low_level;
mod process;
mod sharding;
mod stats;
mod weak;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::handler::{EventHandler, HandlerOptions};
use crate::lister::Lister;
use crate::object::Object;
use crate::reflector::ReflectorState;
use crate::registration::{NotAdded, Registration};
use crate::store::{DuplicateIndexError, Index, Quarantined, Store};
use crate::subscription::Subscription;
use crate::version::ResourceVersion;
use process::Shared;

pub use builder::{InformerBuilder, QueueKind};
pub use errors::{NotMoved, NotReached, NotSynced, Stopped};
pub use low_level::LowLevelInformer;
pub use process::InformerTask;
pub use stats::{HandlerStats, InformerStats, MemberStats, Totals};
pub(crate) use weak::{Settled, WeakInformer};

/// A local, indexed, exact copy of a collection of Kubernetes objects, shared by all who ask.
///
/// # What it promises
///
/// - **Exact.** After each step the cache equals the server's collection at the resource version the
///   [`Store`] reports, objects in [quarantine](Self::quarantine) left out. A reader never sees half a list.
/// - **In order.** A handler is told of a change after the cache and its indexes hold it, one event at a time,
///   in the order of the collection's history. `old` in an update is what this handler was last told. Deletions
///   that happened while the connection was down are told too, with [`Cause::Missed`](crate::Cause::Missed). An
///   update never joins two objects of different UIDs.
/// - **Late is not less.** A handler that joins later is first told what is there, then exactly what follows.
/// - **One bad object costs one object**, one bad handler one handler.
/// - **Gentle.** One watch, resumed where it broke; the collection is listed again only for a
///   [`RelistReason`](crate::RelistReason).
///
/// The cache may be behind the server, as any cache: see [`wait_for`](Self::wait_for) to read your own writes.
///
/// # Life
///
/// A clone is another handle of the same informer. Nothing runs before [`InformerBuilder::start`] or
/// [`InformerTask::run`]. It stops at [`shutdown`](Self::shutdown), or when the last of its handles is gone:
/// informers, stores, indexes, subscriptions and registrations. It cannot be started again.
/// A handler that itself captures one of these keeps the informer alive until it is removed or the informer is shut down.
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
#[doc(alias = "SharedInformer")]
#[doc(alias = "SharedIndexInformer")]
pub struct Informer<K: Object> {
    shared: Arc<Shared<K>>,
    alive: Arc<Alive>,
}

/// Held by every handle; the last one gone stops the informer.
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
    /// What it is called in logs and errors.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Tells a handler of every change, starting with what is there. See [`EventHandler`] for the forms a handler
    /// can take.
    ///
    /// # Errors
    ///
    /// The informer has stopped.
    pub fn add_event_handler(&self, handler: impl EventHandler<K>) -> Result<Registration, NotAdded> {
        self.add_event_handler_with(HandlerOptions::default(), handler)
    }

    /// The same, with a name, a resync period or another way to queue.
    ///
    /// # Errors
    ///
    /// The informer has stopped.
    #[doc(alias = "AddEventHandlerWithOptions")]
    #[doc(alias = "AddEventHandlerWithResyncPeriod")]
    pub fn add_event_handler_with(
        &self,
        options: HandlerOptions,
        handler: impl EventHandler<K>,
    ) -> Result<Registration, NotAdded> {
        let runner = handler.into_runner();
        let registration = self.shared.add_handler(options, runner, Instant::now())?;
        let registration = registration.keeping(self.alive.clone());
        Ok(if self.shared.handlers_keep_alive {
            registration.handler_keeping(self.alive.clone())
        } else {
            registration
        })
    }

    /// What happens, as a stream: first what is there, then every change. Ends when the informer stops.
    pub fn subscribe(&self) -> Subscription<K> {
        self.subscribe_with(HandlerOptions::default())
    }

    /// The same, with a name, a resync period or another way to queue.
    pub fn subscribe_with(&self, options: HandlerOptions) -> Subscription<K> {
        self.shared
            .subscribe(options, Instant::now())
            .keeping(self.alive.clone())
    }

    /// The cache, to read from. Cheap: another handle of the same cache.
    #[doc(alias = "GetStore")]
    #[doc(alias = "GetIndexer")]
    pub fn store(&self) -> Store<K> {
        self.shared.store.clone().keeping(self.alive.clone())
    }

    /// The cache by namespace, name, label selector and owner. Cheap, like [`store`](Self::store).
    #[doc(alias = "Lister")]
    pub fn lister(&self) -> Lister<K> {
        let lister = Lister::new(self.store());
        match &self.shared.resource {
            Some(resource) => lister.of(resource.clone()),
            None => lister,
        }
    }

    /// Adds an index: objects can then be found by the values the function gives for them. At any time; objects
    /// that are there already are indexed before this returns.
    ///
    /// # Errors
    ///
    /// There is an index of that name.
    #[doc(alias = "AddIndexers")]
    pub fn add_index<I>(
        &self,
        name: &str,
        values: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Result<Index<K>, DuplicateIndexError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        self.store().add_index(name, values)
    }

    /// Whether the first complete collection is in the cache. Never false again once it is true.
    #[doc(alias = "HasSynced")]
    pub fn has_synced(&self) -> bool {
        self.shared.life.borrow().synced
    }

    /// Waits until the first complete collection is in the cache, through all errors.
    ///
    /// # Errors
    ///
    /// The informer stopped before that.
    #[doc(alias = "HasSyncedChecker")]
    #[doc(alias = "WaitForCacheSync")]
    pub async fn synced(&self) -> Result<(), Stopped> {
        let mut life = self.shared.life.subscribe();
        match life.wait_for(|life| life.synced || life.stopped).await {
            Ok(life) if life.synced => Ok(()),
            _ => Err(self.shared.stopped_error()),
        }
    }

    /// Waits for so long, and says what is in the way if that was not long enough: the last error, how often it
    /// was tried, and what the informer is doing.
    ///
    /// # Errors
    ///
    /// The collection was not there in time, or the informer stopped.
    pub async fn synced_within(&self, timeout: Duration) -> Result<(), NotSynced> {
        let deadline = Instant::now() + timeout;
        match timeout_at(deadline, self.synced()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Stopped { .. })) | Err(_) => Err(self.shared.not_synced(timeout)),
        }
    }

    /// Waits until the cache has reached a resource version: the one an own write returned, so that it can be read
    /// back. A write outside the informer's scope may have to wait for the next bookmark (about a minute).
    ///
    /// # Errors
    ///
    /// The version is no number and cannot be compared, the deadline passed, or the informer stopped.
    #[doc(alias = "LastStoreSyncResourceVersion")]
    pub async fn wait_for(&self, resource_version: &str, timeout: Duration) -> Result<(), NotReached> {
        let wanted: ResourceVersion = resource_version.parse().map_err(NotReached::NotComparable)?;
        let mut applied = self.shared.applied.subscribe();
        let mut life = self.shared.life.subscribe();
        let deadline = Instant::now() + timeout;
        loop {
            applied.borrow_and_update();
            if self.shared.has_reached(&wanted)? {
                return Ok(());
            }
            if life.borrow_and_update().stopped {
                return Err(NotReached::Stopped(self.shared.stopped_error()));
            }
            // Both branches are cancel-safe: a change that comes meanwhile is still there at the next turn.
            let changed = async {
                tokio::select! {
                    _ = applied.changed() => {}
                    _ = life.changed() => {}
                }
            };
            if timeout_at(deadline, changed).await.is_err() {
                return Err(NotReached::Deadline {
                    wanted: resource_version.to_owned(),
                    reached: self.shared.store.resource_version(),
                    after: timeout,
                });
            }
        }
    }

    /// The version up to which the reflector has read; the [`Store`] may not hold it yet. `None` before the first
    /// list, and for informers over several watches (see [`InformerStats`]).
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn last_sync_resource_version(&self) -> Option<String> {
        match self.shared.reflectors.as_slice() {
            [reflector] => reflector.last_sync_resource_version(),
            _ => None,
        }
    }

    /// What it is doing. Of several watches, the one that is worst off.
    pub fn state(&self) -> ReflectorState {
        self.shared.state()
    }

    /// Whether it has been started.
    #[doc(alias = "HasStarted")]
    pub fn has_started(&self) -> bool {
        self.shared.life.borrow().started
    }

    /// Whether it has stopped, for good.
    #[doc(alias = "IsStopped")]
    pub fn is_stopped(&self) -> bool {
        self.shared.life.borrow().stopped
    }

    /// Waits until it has stopped, for good. Keeps the informer alive meanwhile, like every handle.
    pub fn wait_for_stop(&self) -> impl Future<Output = ()> + Send + Sync + use<K> {
        let informer = self.clone();
        async move {
            let mut life = informer.shared.life.subscribe();
            // The sender lives as long as the informer that is held here.
            life.wait_for(|life| life.stopped).await.ok();
        }
    }

    /// Objects that could not be read, transformed or indexed. They are not in the cache, or in an older version.
    pub fn quarantine(&self) -> Vec<Quarantined> {
        self.shared.store.quarantine()
    }

    /// Plain counters.
    pub fn stats(&self) -> InformerStats {
        self.shared.stats()
    }

    /// Stops and waits until nothing of it runs any more: no task, no request, no further call of a handler.
    /// Undelivered events are dropped. A call of a blocking handler that does not return is reported and left
    /// behind.
    #[doc(alias = "Shutdown")]
    pub async fn shutdown(&self) {
        self.shared.stop.cancel();
        self.shared.ended().await;
    }

    /// Stops asking the server, delivers what has been received, for at most so long, and then stops.
    pub async fn drain_within(&self, timeout: Duration) {
        self.shared.drain.cancel();
        let _ = tokio::time::timeout(timeout, self.shared.ended()).await;
        self.shutdown().await;
    }
}
