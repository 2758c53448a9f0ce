//! `Bodies`: the metadata of all objects in a cache, and whole objects on demand.
//!
//! For programs that need a few objects of a large collection, such as an operator that reads the Secrets its resources
//! refer to. A cache of all Secrets holds every Secret value of the cluster in memory. A cache of their metadata holds
//! none, still delivers every change, and shows which of the fetched objects are stale.
//!
//! ```
//! use k8s_openapi::api::core::v1::Secret;
//! use kube::core::PartialObjectMeta;
//! use kube_informers::{Informer, bodies::Bodies};
//!
//! # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let metadata = Informer::<PartialObjectMeta<Secret>>::all(client.clone()).start();
//! let secrets = Bodies::<Secret>::new(client, &metadata)?;
//! metadata.synced().await?;
//!
//! let token = secrets.fetch("shop/token").await?; // a request
//! let again = secrets.fetch("shop/token").await?; // none, unless the Secret has changed
//! # Ok(())
//! # }
//! ```

mod cache;
pub(crate) mod error;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use kube::core::PartialObjectMeta;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::codec::{Encoded, decode};
use crate::errors::StoppedError;
use crate::event::Event;
use crate::informer::Informer;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::registration::Registration;
use crate::source::{ResourceType, SourceError, get};
use crate::store::{KeyRef, Store};
use crate::version::ResourceVersion;
use cache::{Body, BodyCache};
use error::FetchError;

/// Requests for one object whose answers are all older than the cached metadata.
const MAX_STALE: usize = 3;

/// Fetches whole objects of a collection whose metadata is cached. Cloning is cheap. See the
/// [module documentation](self).
///
/// - An object is requested once per version. Concurrent callers share one request.
/// - A fetched object is never older than the cached metadata. When the metadata changes, the fetched object is dropped.
/// - Fetched objects are bounded in size and age: [`BodyLimits`].
pub struct Bodies<K: kube::Resource> {
    inner: Arc<BodiesInner<K>>,
    registration: Arc<Registration>,
}

struct BodiesInner<K: kube::Resource> {
    client: kube::Client,
    resource: ResourceType,
    metadata: Store<PartialObjectMeta<K>>,
    state: Mutex<BodiesState<K>>,
}

struct BodiesState<K> {
    cache: BodyCache<K>,
    in_flight: HashMap<ObjectKey, WeakShared<Fetch<K>>>,
}

type Fetch<K> = BoxFuture<'static, Result<Body<K>, FetchError>>;

/// The limits of fetched objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BodyLimits {
    /// Their size as JSON, in bytes. The objects that were used last are kept. Default: 16 MiB.
    pub max_bytes: usize,
    /// How long an object is kept after it was fetched. Default: ten minutes.
    pub max_age: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            max_bytes: 16 << 20,
            max_age: Duration::from_secs(10 * 60),
        }
    }
}

impl<K> Bodies<K>
where
    K: kube::Resource<DynamicType: Default> + DeserializeOwned + Send + Sync + 'static,
{
    /// Fetches objects of the collection that `metadata` caches, with the default limits. The informer is started by the
    /// caller, and kept alive by the result.
    ///
    /// # Errors
    ///
    /// The informer has stopped.
    pub fn new(
        client: kube::Client,
        metadata: &Informer<PartialObjectMeta<K>>,
    ) -> Result<Self, StoppedError> {
        Self::with_limits(client, metadata, BodyLimits::default())
    }

    /// The same with other limits.
    ///
    /// # Errors
    ///
    /// The informer has stopped.
    pub fn with_limits(
        client: kube::Client,
        metadata: &Informer<PartialObjectMeta<K>>,
        limits: BodyLimits,
    ) -> Result<Self, StoppedError> {
        let inner = Arc::new(BodiesInner {
            client,
            resource: metadata.resource().cloned().unwrap_or_else(ResourceType::of::<K>),
            metadata: metadata.store(),
            state: Mutex::new(BodiesState {
                cache: BodyCache::new(limits),
                in_flight: HashMap::new(),
            }),
        });
        let weak: Weak<BodiesInner<K>> = Arc::downgrade(&inner);
        let registration = metadata.add_event_handler(move |event: Event<PartialObjectMeta<K>>| {
            if let Some(inner) = weak.upgrade() {
                inner.observe(&event);
            }
        })?;
        Ok(Self {
            inner,
            registration: Arc::new(registration),
        })
    }

    /// The object with this key, from memory if it was fetched in the current version.
    ///
    /// The result is at least as new as the metadata in the cache when this was called. Dropping the future cancels the
    /// request, unless another caller waits for it.
    ///
    /// # Errors
    ///
    /// The cache does not have the object, the request failed or took longer than 30 s, or the object cannot be decoded.
    pub async fn fetch<'a>(&self, key: impl Into<KeyRef<'a>>) -> Result<Arc<K>, FetchError> {
        let key = key.into();
        let key = ObjectKey::new(key.namespace(), key.name());
        let mut attempts = 0;
        loop {
            let Some(metadata) = self.inner.metadata.get(&key) else {
                return Err(FetchError::NotFound { key });
            };
            let fetch = {
                let mut state = self.inner.state.lock();
                if let Some(body) = state.cache.get(&key, Instant::now())
                    && body.is_current(&*metadata)
                {
                    return Ok(body.object);
                }
                state.fetch(&self.inner, &key)
            };
            let body = fetch.await?;
            if body.is_current(&*metadata) {
                return Ok(body.object);
            }
            // A request that was in flight before the metadata changed, or a server that lags behind.
            attempts += 1;
            if attempts >= MAX_STALE {
                return Err(FetchError::Stale {
                    key,
                    found: body.version().to_owned(),
                    seen: metadata.object_version().unwrap_or_default().to_owned(),
                });
            }
        }
    }

    /// The number of fetched objects that are kept, and their size as JSON.
    pub fn held(&self) -> (usize, usize) {
        self.inner.state.lock().cache.size()
    }

    /// The handler that observes the metadata, for statistics.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }
}

impl<K> BodiesState<K>
where
    K: kube::Resource<DynamicType: Default> + DeserializeOwned + Send + Sync + 'static,
{
    /// Joins the request for this object, or starts one.
    fn fetch(&mut self, inner: &Arc<BodiesInner<K>>, key: &ObjectKey) -> Shared<Fetch<K>> {
        let joined = self.in_flight.get(key).and_then(WeakShared::upgrade);
        if let Some(fetch) = joined.filter(|fetch| fetch.peek().is_none()) {
            return fetch;
        }
        self.in_flight.retain(|_, fetch| fetch.upgrade().is_some());
        let (inner, wanted) = (inner.clone(), key.clone());
        let fetch: Fetch<K> = async move { inner.request(wanted).await }.boxed();
        let fetch = fetch.shared();
        if let Some(weak) = fetch.downgrade() {
            self.in_flight.insert(key.clone(), weak);
        }
        fetch
    }
}

impl<K> BodiesInner<K>
where
    K: kube::Resource<DynamicType: Default> + DeserializeOwned + Send + Sync + 'static,
{
    async fn request(self: Arc<Self>, key: ObjectKey) -> Result<Body<K>, FetchError> {
        let bytes = match get(&self.client, &self.resource, &key).await {
            Ok(bytes) => bytes,
            Err(SourceError::Api(error)) if error.code == 404 => {
                self.state.lock().cache.remove(&key);
                return Err(FetchError::NotFound { key });
            }
            Err(source) => {
                let source = Arc::new(source);
                return Err(FetchError::Request { key, source });
            }
        };
        let mut expected = self.resource.expected();
        expected.metadata_only = false;
        let decoded = decode::<K>(Encoded {
            bytes: &bytes,
            message: None,
            expected: &expected,
        });
        let object = match decoded {
            Ok(object) => Arc::new(object),
            Err(problem) => return Err(FetchError::Undecodable { key, problem }),
        };
        let body = Body {
            object,
            size: bytes.len(),
            fetched: Instant::now(),
        };
        let evicted = self.state.lock().cache.put(key, body.clone());
        drop(evicted);
        Ok(body)
    }

    /// Drops an object whose metadata has changed.
    fn observe(&self, event: &Event<PartialObjectMeta<K>>) {
        let key = event.key();
        let mut state = self.state.lock();
        let outdated = match event {
            Event::Deleted { .. } => true,
            Event::Added { object, .. } | Event::Updated { new: object, .. } => state
                .cache
                .peek(&key)
                .is_some_and(|body| !body.is_current(&**object)),
        };
        let removed = outdated.then(|| state.cache.remove(&key));
        drop(state);
        drop(removed);
    }
}

impl<K: kube::Resource> Body<K>
where
    K: Send + Sync + 'static,
{
    fn version(&self) -> &str {
        self.object.object_version().unwrap_or_default()
    }

    /// Whether it is the state of this metadata, or a newer one.
    fn is_current(&self, metadata: &impl Object) -> bool {
        let (held, seen) = (self.version(), metadata.object_version().unwrap_or_default());
        // An object that was deleted and created again has another UID and a later version.
        let is_same = held == seen && self.object.object_uid() == metadata.object_uid();
        is_same || ResourceVersion::compare(held, seen).is_some_and(|order| order.is_gt())
    }
}

impl<K: kube::Resource> Clone for Bodies<K> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            registration: self.registration.clone(),
        }
    }
}

/// Counts only: the objects may be Secrets.
impl<K: kube::Resource> fmt::Debug for Bodies<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (objects, bytes) = self.inner.state.lock().cache.size();
        f.debug_struct("Bodies")
            .field("resource", &self.inner.resource)
            .field("objects", &objects)
            .field("bytes", &bytes)
            .finish_non_exhaustive()
    }
}
