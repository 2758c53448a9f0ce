//! `OwnWrites`: the writes of a controller that its caches may not hold yet.

use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Debug};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::core::response::StatusSummary;
use kube::{Resource, ResourceExt};
use kube_informers::error::WaitError;
use kube_informers::{Event, Informer, Object, ObjectKey};
use kube_workqueue::Key;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// How long a run waits for the writes of the previous one by default.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How many own versions are remembered to recognise their events.
const REMEMBERED: usize = 4096;

/// Remembers what a controller wrote, so that the next run of the key sees it.
///
/// A reconciler reads from caches, and a cache may not yet hold what the previous run wrote. A run that counts children
/// would then create them again. With `OwnWrites`, the controller waits before each run until the caches hold all
/// writes of the previous runs of that key. It replaces the expectations of Go controllers, and needs no bookkeeping.
///
/// Give it to the controller, and write through [`api`](Self::api):
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// use kube::{Api, Client, api::PostParams};
/// use kube_controller::{Controller, OwnWrites, Watch};
/// use kube_informers::{Informer, ObjectKey};
///
/// # fn example(client: Client, sets: Informer<ConfigMap>, pods: Informer<Pod>) -> Result<(), Box<dyn std::error::Error>> {
/// let writes = OwnWrites::new();
/// let controller = Controller::new("replicas")
///     .watches(Watch::object(&sets))
///     .watches(Watch::owner::<ConfigMap>(&pods))
///     .own_writes(&writes)
///     .start(async move |key: ObjectKey| {
///         let api = Api::<Pod>::namespaced(client.clone(), key.namespace().unwrap_or_default());
///         let api = writes.api(&key, api, &pods);
///         api.create(&PostParams::default(), &Pod::default()).await?; // the next run of this key finds the pod
///         Ok::<(), kube::Error>(())
///     })?;
/// # Ok(())
/// # }
/// ```
///
/// If a cache does not catch up within the [timeout](Self::timeout), the run is skipped and the key is retried with
/// back-off: acting on a stale cache would be worse. A write whose response is lost, because the connection broke, is
/// not remembered; use names that are the same in every run, so that a repeated create is rejected.
#[doc(alias = "expectations")]
#[doc(alias = "UIDTrackingControllerExpectations")]
pub struct OwnWrites<T: Key = ObjectKey> {
    shared: Arc<OwnWritesInner<T>>,
}

struct OwnWritesInner<T> {
    timeout: Duration,
    pending: Mutex<HashMap<T, Vec<Arc<Pending>>>>,
    chain: Mutex<Chain>,
}

/// One write that a cache may not hold yet.
struct Pending {
    object: ObjectKey,
    wait: Box<dyn Fn(Duration) -> BoxFuture<'static, Result<(), Unseen>> + Send + Sync>,
}

/// Why a cache does not hold a write.
type Unseen = Box<dyn std::error::Error + Send + Sync>;

/// A cache does not hold a write of this controller yet.
#[derive(Debug, thiserror::Error)]
#[error("the cache does not hold this controller's last write of {object} after {after:?}")]
pub struct UnseenWriteError {
    /// The object written.
    pub object: ObjectKey,
    /// The time waited.
    pub after: Duration,
    /// The state of the cache.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl<T: Key> Default for OwnWrites<T> {
    fn default() -> Self {
        Self::with_timeout(TIMEOUT)
    }
}

impl<T: Key> Clone for OwnWrites<T> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

/// Numbers only.
impl<T: Key> Debug for OwnWrites<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnWrites")
            .field("timeout", &self.shared.timeout)
            .field("keys", &self.shared.pending.lock().len())
            .finish_non_exhaustive()
    }
}

impl<T: Key> OwnWrites<T> {
    /// An empty `OwnWrites`. Runs wait for at most 10 s.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with another limit for the wait before a run.
    pub fn with_timeout(timeout: Duration) -> Self {
        Self {
            shared: Arc::new(OwnWritesInner {
                timeout,
                pending: Mutex::default(),
                chain: Mutex::default(),
            }),
        }
    }

    /// The limit for the wait before a run.
    pub fn timeout(&self) -> Duration {
        self.shared.timeout
    }

    /// An [`Api`] whose writes are remembered for `key`, the key being reconciled, until `cache` holds them.
    ///
    /// The type of the informer may differ from that of the API, for example metadata only.
    pub fn api<K, C>(&self, key: &T, api: Api<K>, cache: &Informer<C>) -> TrackedApi<K, C, T>
    where
        C: Object + Resource,
    {
        TrackedApi {
            api,
            cache: cache.clone(),
            key: key.clone(),
            writes: self.clone(),
        }
    }

    /// Remembers a write for `key` that went through another API: the object in the response.
    pub fn record<C: Object>(&self, key: &T, cache: &Informer<C>, written: &impl Object) {
        let (object, cache) = (ObjectKey::of(written), cache.clone());
        let version = written.object_version().unwrap_or_default().to_owned();
        let wanted = object.clone();
        self.push(key, object, move |timeout| {
            let (cache, wanted, version) = (cache.clone(), wanted.clone(), version.clone());
            Box::pin(async move { seen(cache.wait_for_key_within(&wanted, &version, timeout).await) })
        });
    }

    /// Remembers a write for `key` whose response carries no version, such as the binding of a pod: the cache holds it when
    /// `condition` is true for the object under this key, or for `None` if there is none.
    pub fn expect<C: Object>(
        &self,
        key: &T,
        cache: &Informer<C>,
        object: &ObjectKey,
        condition: impl Fn(Option<&C>) -> bool + Send + Sync + 'static,
    ) {
        let (cache, wanted, condition) = (cache.clone(), object.clone(), Arc::new(condition));
        self.push(key, object.clone(), move |timeout| {
            let (cache, wanted, condition) = (cache.clone(), wanted.clone(), condition.clone());
            Box::pin(async move {
                let holds =
                    cache.wait_until_within(|store| condition(store.get(&wanted).as_deref()), timeout);
                match holds.await {
                    // Without an informer the controller ends as well.
                    Ok(()) | Err(WaitError::Stopped(_)) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            })
        });
    }

    fn push(
        &self,
        key: &T,
        object: ObjectKey,
        wait: impl Fn(Duration) -> BoxFuture<'static, Result<(), Unseen>> + Send + Sync + 'static,
    ) {
        let pending = Arc::new(Pending {
            object,
            wait: Box::new(wait),
        });
        let mut all = self.shared.pending.lock();
        all.entry(key.clone()).or_default().push(pending);
    }

    /// Waits until the caches hold every write for `key`. Called by the controller before each run; call it in between to
    /// read back what the current run has written.
    ///
    /// # Errors
    ///
    /// A cache has not caught up within the timeout. Writes that it does not hold stay remembered.
    pub async fn wait_for_caches(&self, key: &T) -> Result<(), UnseenWriteError> {
        let pending = self.shared.pending.lock().get(key).cloned().unwrap_or_default();
        // A timeout beyond the range of the clock never passes.
        let deadline = Instant::now().checked_add(self.shared.timeout);
        for write in pending {
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            (write.wait)(left).await.map_err(|source| UnseenWriteError {
                object: write.object.clone(),
                after: self.shared.timeout,
                source,
            })?;
            let mut all = self.shared.pending.lock();
            if let Some(writes) = all.get_mut(key) {
                writes.retain(|other| !Arc::ptr_eq(other, &write));
                if writes.is_empty() {
                    all.remove(key);
                }
            }
        }
        Ok(())
    }

    /// Whether an event was caused by writes of this controller and by nothing else.
    ///
    /// Only updates with optimistic locking can be recognised: a [`replace`](TrackedApi::replace) of a known version.
    /// The event must lead from that version to the written one through own writes only. Everything else counts as
    /// foreign, in particular every event after a restart, and an event that arrives before the response to its write.
    pub fn is_only_own<K: Object>(&self, event: &Event<K>) -> bool {
        let Event::Updated { old, new, .. } = event else {
            return false;
        };
        let (Some(from), Some(to)) = (old.object_version(), new.object_version()) else {
            return false;
        };
        self.shared.chain.lock().leads(&event.key(), from, to)
    }

    /// A predicate for [`Watch::when`](crate::Watch::when) that ignores events of own writes; see
    /// [`is_only_own`](Self::is_only_own).
    pub fn foreign<K: Object>(&self) -> impl FnMut(&Event<K>) -> bool + Send + use<K, T> {
        let writes = self.clone();
        move |event| !writes.is_only_own(event)
    }
}

fn seen(reached: Result<(), WaitError>) -> Result<(), Unseen> {
    match reached {
        Err(error) if error.is_timeout() => Err(error.into()),
        // The cache will never hold the object, or cannot tell; without an informer the controller ends as well.
        _ => Ok(()),
    }
}

/// Own versions and the versions they replaced.
#[derive(Default)]
struct Chain {
    replaced: HashMap<(ObjectKey, String), String>,
    order: VecDeque<(ObjectKey, String)>,
}

impl Chain {
    fn add(&mut self, key: ObjectKey, base: &str, version: &str) {
        // A write that changes nothing keeps the version.
        if base == version {
            return;
        }
        let entry = (key, version.to_owned());
        if self.replaced.insert(entry.clone(), base.to_owned()).is_none() {
            self.order.push_back(entry);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.replaced.remove(&oldest);
        }
    }

    /// Whether own writes lead from one version to the other.
    fn leads(&self, key: &ObjectKey, from: &str, to: &str) -> bool {
        let mut at = to.to_owned();
        // Bounded, should a server ever reuse a version.
        for _ in 0..self.replaced.len() {
            let Some(base) = self.replaced.get(&(key.clone(), at)) else {
                return false;
            };
            if base == from {
                return true;
            }
            at = base.clone();
        }
        false
    }
}

/// An [`Api`] whose writes are remembered: [`OwnWrites::api`]. Reads and all other calls go to the [`Api`] unchanged.
///
/// The methods are those of [`Api`]. A dry run is not remembered.
pub struct TrackedApi<K, C: Object, T: Key = ObjectKey> {
    api: Api<K>,
    cache: Informer<C>,
    key: T,
    writes: OwnWrites<T>,
}

impl<K, C: Object, T: Key> Debug for TrackedApi<K, C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackedApi")
            .field("cache", &self.cache.name())
            .finish_non_exhaustive()
    }
}

impl<K, C: Object, T: Key> Deref for TrackedApi<K, C, T> {
    type Target = Api<K>;

    fn deref(&self) -> &Api<K> {
        &self.api
    }
}

impl<K, C, T> TrackedApi<K, C, T>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    C: Object + Resource,
    T: Key,
{
    /// Creates an object.
    ///
    /// # Errors
    ///
    /// Those of [`Api::create`].
    pub async fn create(&self, params: &PostParams, object: &K) -> kube::Result<K>
    where
        K: Serialize,
    {
        let written = self.api.create(params, object).await?;
        Ok(self.wrote(params.dry_run, None, written))
    }

    /// Replaces an object. With a resource version in `object`, its event can be [ignored](OwnWrites::foreign).
    ///
    /// # Errors
    ///
    /// Those of [`Api::replace`].
    pub async fn replace(&self, name: &str, params: &PostParams, object: &K) -> kube::Result<K>
    where
        K: Serialize,
    {
        let written = self.api.replace(name, params, object).await?;
        Ok(self.wrote(params.dry_run, object.resource_version(), written))
    }

    /// Replaces the status of an object, like [`replace`](Self::replace).
    ///
    /// # Errors
    ///
    /// Those of [`Api::replace_status`].
    pub async fn replace_status(&self, name: &str, params: &PostParams, object: &K) -> kube::Result<K>
    where
        K: Serialize,
    {
        let written = self.api.replace_status(name, params, object).await?;
        Ok(self.wrote(params.dry_run, object.resource_version(), written))
    }

    /// Patches an object, including server-side apply.
    ///
    /// # Errors
    ///
    /// Those of [`Api::patch`].
    pub async fn patch<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> kube::Result<K> {
        let written = self.api.patch(name, params, patch).await?;
        Ok(self.wrote(params.dry_run, None, written))
    }

    /// Patches the status of an object.
    ///
    /// # Errors
    ///
    /// Those of [`Api::patch_status`].
    pub async fn patch_status<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> kube::Result<K> {
        let written = self.api.patch_status(name, params, patch).await?;
        Ok(self.wrote(params.dry_run, None, written))
    }

    /// Deletes an object. The cache holds the deletion when the object is gone or marked as being deleted.
    ///
    /// # Errors
    ///
    /// Those of [`Api::delete`].
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> kube::Result<either::Either<K, Status>> {
        let deleted = self.api.delete(name, params).await?;
        let refused = deleted
            .as_ref()
            .right()
            .is_some_and(|status| status.status == Some(StatusSummary::Failure));
        if params.dry_run || refused {
            return Ok(deleted);
        }
        let uid = match &deleted {
            either::Either::Left(object) => object.uid(),
            either::Either::Right(status) => status.details.as_ref().map(|details| details.uid.clone()),
        };
        let namespace = deleted.as_ref().left().and_then(ResourceExt::namespace);
        let namespace = namespace.or_else(|| self.api.namespace().map(str::to_owned));
        let object = ObjectKey::new(namespace.as_deref(), name);
        self.writes
            .expect(&self.key, &self.cache, &object, move |cached: Option<&C>| {
                cached.is_none_or(|cached| {
                    let other = uid
                        .as_deref()
                        .is_some_and(|uid| !uid.is_empty() && cached.object_uid() != Some(uid));
                    other || cached.meta().deletion_timestamp.is_some()
                })
            });
        Ok(deleted)
    }

    fn wrote(&self, dry_run: bool, base: Option<String>, written: K) -> K {
        if dry_run {
            return written;
        }
        if let (Some(base), Some(version)) = (base, written.object_version()) {
            let mut chain = self.writes.shared.chain.lock();
            chain.add(ObjectKey::of(&written), &base, version);
        }
        self.writes.record(&self.key, &self.cache, &written);
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_leads_through_own_versions_only() {
        let (key, mut chain) = (ObjectKey::namespaced("shop", "cart"), Chain::default());
        chain.add(key.clone(), "5", "7");
        chain.add(key.clone(), "7", "9");
        chain.add(key.clone(), "12", "13");

        assert!(chain.leads(&key, "5", "7"));
        assert!(chain.leads(&key, "5", "9"), "a relist skipped one of them");
        assert!(!chain.leads(&key, "5", "13"), "someone else wrote 12");
        assert!(!chain.leads(&key, "4", "7"), "someone else wrote 5");
        assert!(!chain.leads(&ObjectKey::namespaced("shop", "other"), "5", "7"));
    }

    #[test]
    fn chain_is_bounded_and_survives_a_reused_version() {
        let (key, mut chain) = (ObjectKey::namespaced("shop", "cart"), Chain::default());
        for version in 0..2 * REMEMBERED {
            chain.add(key.clone(), &version.to_string(), &(version + 1).to_string());
        }
        assert_eq!(chain.replaced.len(), REMEMBERED);

        let mut circle = Chain::default();
        circle.add(key.clone(), "1", "2");
        circle.add(key.clone(), "2", "1");
        assert!(!circle.leads(&key, "3", "1"));
    }
}
