//! `Following`: a source of one resource in whatever version the server serves.
//!
//! Asks in one version until that is not found, then asks the server what it serves, and goes on with that. What to
//! do about the failure itself (wait, list again) is decided by the reflector, as for every source.

use std::sync::Arc;

use futures_util::StreamExt;
use kube::discovery::Scope as KindScope;
use parking_lot::RwLock;
use tracing::info;

use super::resource::rediscover;
use crate::informer::{Informer, InformerBuilder};
use crate::object::Object;
use crate::shard::Shard;
use crate::source::{
    Known, ListRequest, ListStream, ListWatch, ListerWatcher, ResourceType, SourceError, WatchRequest,
    WatchStream,
};

pub(super) struct Following<K> {
    client: kube::Client,
    current: Arc<RwLock<ListWatch<K>>>,
}

impl<K: Object> Following<K> {
    /// An informer of these objects that follows their version.
    pub(super) fn builder(client: kube::Client, list_watch: ListWatch<K>) -> InformerBuilder<K> {
        let name = list_watch.describe();
        let members = list_watch.members().into_iter().map(|member| {
            let following = Self {
                client: client.clone(),
                current: Arc::new(RwLock::new(member)),
            };
            Arc::new(following) as Arc<dyn ListerWatcher<K>>
        });
        Informer::from_sources(members).name(name)
    }

    fn current(&self) -> ListWatch<K> {
        self.current.read().clone()
    }

    /// Looks for another version if this one is not there.
    async fn failed(&self, asked: &ResourceType, error: &SourceError) {
        if error.api().is_none_or(|error| error.code != 404) {
            return;
        }
        let api = asked.api();
        let Some((served, capabilities)) = rediscover(&self.client, &api.group, &api.plural).await else {
            return;
        };
        if served == *api {
            return;
        }
        info!(resource = %asked, from = %api.version, to = %served.version, "another version is served now");
        let namespaced = capabilities.scope == KindScope::Namespaced;
        let resource = ResourceType::from(served).namespaced(namespaced);
        let mut current = self.current.write();
        *current = current.clone().of_resource(resource);
    }
}

impl<K: Object> ListerWatcher<K> for Following<K> {
    fn list(&self, request: ListRequest, known: Known<K>) -> ListStream<K> {
        let source = self.current();
        let (following, asked) = (self.clone(), source.resource().clone());
        let answer = source.list(request, known);
        Box::pin(answer.then(move |item| {
            let (following, asked) = (following.clone(), asked.clone());
            async move {
                if let Err(error) = &item {
                    following.failed(&asked, error).await;
                }
                item
            }
        }))
    }

    fn watch(&self, request: WatchRequest, known: Known<K>) -> WatchStream<K> {
        let source = self.current();
        let (following, asked) = (self.clone(), source.resource().clone());
        let answer = source.watch(request, known);
        Box::pin(answer.then(move |item| {
            let (following, asked) = (following.clone(), asked.clone());
            async move {
                if let Err(error) = &item {
                    following.failed(&asked, error).await;
                }
                item
            }
        }))
    }

    fn describe(&self) -> String {
        self.current().describe()
    }

    fn resource(&self) -> Option<ResourceType> {
        ListerWatcher::resource(&self.current())
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
        }
    }
}
