//! `Following`: a source of one resource in the version that the server serves.
//!
//! Uses one version until it is not found, then discovers the served version and continues with that. How to handle the
//! failure itself (back off, relist) is decided by the reflector, as for every source.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kube::discovery::Scope as KindScope;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;
use tracing::info;

use super::resource::rediscover;
use crate::informer::{Informer, InformerBuilder};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::shard::Shard;
use crate::source::{
    Known, ListRequest, ListStream, ListWatch, ListerWatcher, ObjectIdentity, ResourceType, SourceError,
    WatchRequest, WatchStream,
};

/// Discovery takes several requests. While a resource does not exist, it is repeated at this interval, so that the
/// requests of an informer stay below their limit.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(15);

pub(super) struct Following<K> {
    client: kube::Client,
    current: Arc<RwLock<ListWatch<K>>>,
    /// The time of the last discovery.
    discovered: Arc<Mutex<Option<Instant>>>,
}

impl<K: Object> Following<K> {
    /// An informer whose source follows the served version.
    pub(super) fn builder(client: kube::Client, list_watch: ListWatch<K>) -> InformerBuilder<K> {
        let name = list_watch.describe();
        let members = list_watch.members().into_iter().map(|member| {
            let following = Self {
                client: client.clone(),
                current: Arc::new(RwLock::new(member)),
                discovered: Arc::default(),
            };
            Arc::new(following) as Arc<dyn ListerWatcher<K>>
        });
        Informer::from_sources(members).name(name)
    }

    fn current(&self) -> ListWatch<K> {
        self.current.read().clone()
    }

    fn may_discover(&self) -> bool {
        let now = Instant::now();
        let mut discovered = self.discovered.lock();
        let due = discovered.is_none_or(|last| now.saturating_duration_since(last) >= DISCOVERY_INTERVAL);
        if due {
            *discovered = Some(now);
        }
        due
    }

    /// Discovers another version if this one is not served.
    async fn failed(&self, requested: &ResourceType, error: &SourceError) {
        if error.api().is_none_or(|error| error.code != 404) {
            return;
        }
        if !self.may_discover() {
            return;
        }
        let api = requested.api();
        let Some((served, capabilities)) = rediscover(&self.client, &api.group, &api.plural).await else {
            return;
        };
        if served == *api {
            return;
        }
        info!(resource = %requested, from = %api.version, to = %served.version, "the server now serves another version");
        let namespaced = capabilities.scope == KindScope::Namespaced;
        let resource = ResourceType::from(served).namespaced(namespaced);
        let mut current = self.current.write();
        *current = current.clone().of_resource(resource);
    }
}

impl<K: Object> ListerWatcher<K> for Following<K> {
    fn list(&self, request: ListRequest, known: Known<K>) -> ListStream<K> {
        let source = self.current();
        let (following, requested) = (self.clone(), source.resource().clone());
        let response = source.list(request, known);
        Box::pin(response.then(move |item| {
            let (following, requested) = (following.clone(), requested.clone());
            async move {
                if let Err(error) = &item {
                    following.failed(&requested, error).await;
                }
                item
            }
        }))
    }

    fn watch(&self, request: WatchRequest, known: Known<K>) -> WatchStream<K> {
        let source = self.current();
        let (following, requested) = (self.clone(), source.resource().clone());
        let response = source.watch(request, known);
        Box::pin(response.then(move |item| {
            let (following, requested) = (following.clone(), requested.clone());
            async move {
                if let Err(error) = &item {
                    following.failed(&requested, error).await;
                }
                item
            }
        }))
    }

    fn identities(
        &self,
        request: ListRequest,
        only: Option<&ObjectKey>,
    ) -> Option<ListStream<ObjectIdentity>> {
        self.current().identities(request, only)
    }

    fn describe(&self) -> String {
        self.current().describe()
    }

    fn resource(&self) -> Option<ResourceType> {
        ListerWatcher::resource(&self.current())
    }

    fn namespace(&self) -> Option<String> {
        self.current().namespace()
    }

    fn shard(&self) -> Option<Shard> {
        self.current().shard()
    }
}

impl<K> Clone for Following<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            current: self.current.clone(),
            discovered: self.discovered.clone(),
        }
    }
}
