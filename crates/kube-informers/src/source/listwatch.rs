//! `ListWatch`: the source that asks an API server, through kube's client.

#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::stream;
use kube::core::{ApiResource, DynamicObject};
use serde::de::DeserializeOwned;

use super::request::{Query, path};
use super::resource::ResourceType;
use super::response::{Answer, send};
use super::shard_support::ShardSelector;
use super::{
    Known, ListItem, ListRequest, ListStream, ListerWatcher, SourceError, WatchItem, WatchRequest,
    WatchStream,
};
use crate::codec::{Codec, Decoding, JsonCodec, ListDecoder, WatchDecoder};
use crate::object::Object;
use crate::scope::Scope;
use crate::shard::{Membership, Shard, shard_membership};

/// Lists and watches one resource of an API server, in one namespace or in all.
///
/// Requests go through [`kube::Client::send`], so authentication, TLS and proxies are kube's; query strings,
/// deadlines, error classes and retries are not. Two settings of a foreign client could get in the way:
///
/// - `Config::default_retry` repeats refused requests in secret. It is kept from doing so here.
/// - `Config::read_timeout` cuts every watch that is silent for so long. It cannot be undone from here: the
///   watch then ends with [`SourceError::Transport`], which the error hook sees, and is resumed. Use
///   [`kube_informers::client`](crate::client), which makes a client without it.
///
/// A scope that does not fit the resource is reported by the first request, or by [`check`](Self::check).
#[doc(alias = "NewListWatchFromClient")]
#[doc(alias = "NewFilteredListWatchFromClient")]
pub struct ListWatch<K> {
    client: kube::Client,
    resource: ResourceType,
    scope: Scope,
    codec: Arc<dyn Codec<K>>,
    drop_managed_fields: bool,
    max_object_size: usize,
    hook: Option<Hook>,
    shard_selector: ShardSelector,
}

type Hook = Arc<dyn Fn(&mut Query) + Send + Sync>;

/// Larger objects are not decoded, unless told otherwise. etcd refuses requests over 1.5 MiB by default.
const MAX_OBJECT_SIZE: usize = 32 << 20;

impl<K: Object + DeserializeOwned> ListWatch<K> {
    /// The objects of a type: `ListWatch::<Pod>::new(client, Scope::namespace("shop"))`. For
    /// [`PartialObjectMeta`](kube::core::PartialObjectMeta) only metadata is asked for.
    pub fn new(client: kube::Client, scope: Scope) -> Self
    where
        K: kube::Resource<DynamicType: Default>,
    {
        Self::projected(client, ResourceType::of::<K>(), scope)
    }

    /// The objects of a type that needs more than itself to say which.
    pub fn with(client: kube::Client, dynamic: &K::DynamicType, scope: Scope) -> Self
    where
        K: kube::Resource,
    {
        Self::projected(client, ResourceType::of_dynamic::<K>(dynamic), scope)
    }

    /// The objects of a resource, read as any type that can be made of them: a projection struct with only
    /// the fields it wants, say.
    pub fn projected(client: kube::Client, resource: impl Into<ResourceType>, scope: Scope) -> Self {
        Self {
            client,
            resource: resource.into(),
            scope,
            codec: Arc::new(JsonCodec::<K>::new()),
            drop_managed_fields: false,
            max_object_size: MAX_OBJECT_SIZE,
            hook: None,
            shard_selector: ShardSelector::default(),
        }
    }
}

impl ListWatch<DynamicObject> {
    /// The objects of a resource known only at run time.
    #[doc(alias = "ForResource")]
    #[inline]
    pub fn for_resource(client: kube::Client, resource: &ApiResource, scope: Scope) -> Self {
        Self::projected(client, resource, scope)
    }
}

impl<K> ListWatch<K> {
    /// Reads another encoding. JSON unless told otherwise.
    #[must_use]
    pub fn codec(mut self, codec: impl Codec<K>) -> Self {
        self.codec = Arc::new(codec);
        self
    }

    /// Leaves `metadata.managedFields` out of every object, before it is decoded. It is about half of the
    /// memory of a typical pod and of little use to most. Off unless told otherwise.
    #[must_use]
    #[doc(alias = "TransformStripManagedFields")]
    pub fn drop_managed_fields(mut self, drop: bool) -> Self {
        self.drop_managed_fields = drop;
        self
    }

    /// Objects of more bytes than this are not decoded but put into quarantine. 32 MiB unless told otherwise.
    #[must_use]
    pub fn max_object_size(mut self, bytes: usize) -> Self {
        self.max_object_size = bytes;
        self
    }

    /// Called for every list and every watch request, to add parameters to it.
    ///
    /// It cannot change what drives the informer (`resourceVersion`, `limit`, `watch` and the like), nor a
    /// selector the scope has set: a hook that tries makes every request fail with a sentence that names the
    /// parameter. It is not part of an informer's identity; a [`Scope`] is.
    #[must_use]
    #[doc(alias = "TweakListOptionsFunc")]
    #[doc(alias = "optionsModifier")]
    pub fn options(mut self, hook: impl Fn(&mut Query) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Whether the resource and the scope go together.
    ///
    /// # Errors
    ///
    /// A namespace for objects that live in none, more than one namespace, or a name that cannot be one.
    pub fn check(&self) -> Result<(), SourceError> {
        path(&self.resource, &self.scope)
            .map(drop)
            .map_err(SourceError::Request)
    }

    /// One for each namespace of the scope, or this one alone: a request covers one namespace or all.
    pub fn members(self) -> Vec<Self> {
        let scopes = self.scope.members();
        scopes
            .into_iter()
            .map(|scope| Self {
                scope,
                ..self.clone()
            })
            .collect()
    }

    /// The same of another resource: the same kind in another version, say.
    #[must_use]
    pub(crate) fn of_resource(mut self, resource: ResourceType) -> Self {
        self.resource = resource;
        self
    }

    /// The resource asked for.
    pub fn resource(&self) -> &ResourceType {
        &self.resource
    }

    /// The scope asked for.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    fn text(&self) -> String {
        let metadata = if self.resource.is_metadata_only() {
            "metadata of "
        } else {
            ""
        };
        let names = self
            .scope
            .selected_namespaces()
            .map(|names| names.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
        let place = match names {
            _ if self.resource.is_namespaced() == Some(false) => String::new(),
            None => " in all namespaces".to_owned(),
            Some(names) => format!(" in {names}"),
        };
        format!("{metadata}{}{place}{}", self.resource, self.scope.conditions())
    }

    /// Everything one exchange needs, taken along so that the stream borrows nothing.
    fn plan(&self, verb: &str, query: Query, accept: &str, known: Known<K>, shard: Option<Shard>) -> Plan<K> {
        let shard = shard.or_else(|| self.scope.selected_shard().cloned());
        let sent = shard.as_ref().filter(|_| self.shard_selector.may_be_sent());
        let mut query = query.restrict_to(sent);
        let hook = self.hook.as_ref();
        let ran = catch_unwind(AssertUnwindSafe(|| hook.map_or((), |hook| hook(&mut query))));
        let request = match ran {
            Ok(()) => query.into_request(&self.resource, &self.scope, accept),
            Err(_) => Err(SourceError::Request("the options hook panicked".to_owned())),
        };
        Plan {
            client: self.client.clone(),
            request,
            what: format!("{verb} {}", self.text()),
            codec: Arc::clone(&self.codec),
            decoding: Decoding {
                expected: self.resource.expected(),
                known,
                drop_managed_fields: self.drop_managed_fields,
                max_object_size: self.max_object_size,
                shard,
            },
            shard_selector: self.shard_selector.clone(),
        }
    }
}

struct Plan<K> {
    client: kube::Client,
    request: Result<http::Request<()>, SourceError>,
    what: String,
    codec: Arc<dyn Codec<K>>,
    decoding: Decoding<K>,
    shard_selector: ShardSelector,
}

/// Where an exchange stands. `Decoder` is that of a list or of a watch.
enum Exchange<K, D: ?Sized> {
    Begin(Box<Plan<K>>),
    /// The decoder may hold more items of the bytes it has.
    Reading(Box<Reading<D>>),
    Done,
}

struct Reading<D: ?Sized> {
    answer: Answer,
    shard: Option<Shard>,
    decoder: Box<D>,
}

impl<K: Object> ListerWatcher<K> for ListWatch<K> {
    fn list(&self, request: ListRequest, known: Known<K>) -> ListStream<K> {
        let accept = self.codec.accept_list(self.resource.is_metadata_only());
        let query = Query::list(&request, &self.scope);
        let plan = self.plan("list", query, accept, known, request.shard);
        Box::pin(stream::try_unfold(Exchange::Begin(Box::new(plan)), list_step))
    }

    fn watch(&self, request: WatchRequest, known: Known<K>) -> WatchStream<K> {
        let accept = self.codec.accept_watch(self.resource.is_metadata_only());
        let query = Query::watch(&request, &self.scope);
        let plan = self.plan("watch", query, accept, known, request.shard);
        Box::pin(stream::try_unfold(Exchange::Begin(Box::new(plan)), watch_step))
    }

    fn describe(&self) -> String {
        self.text()
    }

    fn resource(&self) -> Option<ResourceType> {
        Some(self.resource.clone())
    }

    fn shard(&self) -> Option<Shard> {
        self.scope.selected_shard().cloned()
    }
}

type Step<K, D, T> = Result<Option<(T, Exchange<K, D>)>, SourceError>;

async fn list_step<K: Object>(
    exchange: Exchange<K, dyn ListDecoder<K>>,
) -> Step<K, dyn ListDecoder<K>, ListItem<K>> {
    match exchange {
        Exchange::Done => Ok(None),
        Exchange::Begin(plan) => {
            let shard = plan.decoding.shard.clone();
            let sent = send(&plan.client, plan.request?, plan.what).await;
            let answer = sent.map_err(|error| plan.shard_selector.judge(error))?;
            let decoder = plan
                .codec
                .list_decoder(answer.content_type.as_deref(), plan.decoding)
                .map_err(|error| answer.explain(error))?;
            let reading = Box::new(Reading {
                answer,
                shard,
                decoder,
            });
            Ok(Some((
                ListItem::Progress { bytes: 0 },
                Exchange::Reading(reading),
            )))
        }
        Exchange::Reading(mut reading) => {
            let Reading {
                answer,
                shard,
                decoder,
            } = &mut *reading;
            // A large chunk is decoded without waiting for anything: others get their turn in between.
            tokio::task::coop::consume_budget().await;
            if let Some(item) = decoder.next().map_err(|error| answer.explain(error))? {
                let item = listed_within(item, shard.as_ref());
                return Ok(Some((item, Exchange::Reading(reading))));
            }
            match answer.chunk().await? {
                Some(chunk) => {
                    let bytes = chunk.len();
                    decoder.push(chunk);
                    Ok(Some((ListItem::Progress { bytes }, Exchange::Reading(reading))))
                }
                None => {
                    let meta = decoder.finish().map_err(|error| answer.explain(error))?;
                    Ok(Some((ListItem::End(meta), Exchange::Done)))
                }
            }
        }
    }
}

async fn watch_step<K: Object>(
    exchange: Exchange<K, dyn WatchDecoder<K>>,
) -> Step<K, dyn WatchDecoder<K>, WatchItem<K>> {
    match exchange {
        Exchange::Done => Ok(None),
        Exchange::Begin(plan) => {
            let shard = plan.decoding.shard.clone();
            let sent = send(&plan.client, plan.request?, plan.what).await;
            let answer = sent.map_err(|error| plan.shard_selector.judge(error))?;
            let decoder = plan
                .codec
                .watch_decoder(answer.content_type.as_deref(), plan.decoding)
                .map_err(|error| answer.explain(error))?;
            let reading = Box::new(Reading {
                answer,
                shard,
                decoder,
            });
            Ok(Some((
                WatchItem::Progress { bytes: 0 },
                Exchange::Reading(reading),
            )))
        }
        Exchange::Reading(mut reading) => {
            let Reading {
                answer,
                shard,
                decoder,
            } = &mut *reading;
            tokio::task::coop::consume_budget().await;
            if let Some(item) = decoder.next().map_err(|error| answer.explain(error))? {
                let item = watched_within(item, shard.as_ref());
                return Ok(Some((item, Exchange::Reading(reading))));
            }
            match answer.chunk().await? {
                Some(chunk) => {
                    let bytes = chunk.len();
                    decoder.push(chunk);
                    Ok(Some((WatchItem::Progress { bytes }, Exchange::Reading(reading))))
                }
                // What is left of a frame never happened.
                None => Ok(None),
            }
        }
    }
}

/// Leaves out what is outside the shard, for codecs that do not.
fn listed_within<K: Object>(item: ListItem<K>, shard: Option<&Shard>) -> ListItem<K> {
    match (&item, shard) {
        (ListItem::Object(object), Some(shard))
            if shard_membership(shard, object.object()) == Membership::Outside =>
        {
            ListItem::Outside
        }
        _ => item,
    }
}

/// The same for what a watch tells.
fn watched_within<K: Object>(item: WatchItem<K>, shard: Option<&Shard>) -> WatchItem<K> {
    let (WatchItem::Added(object) | WatchItem::Modified(object) | WatchItem::Deleted(object), Some(shard)) =
        (&item, shard)
    else {
        return item;
    };
    // An object whose type hides the UID was checked when it was decoded.
    if shard_membership(shard, object.object()) != Membership::Outside {
        return item;
    }
    WatchItem::Outside {
        resource_version: object.object().object_version().map(str::to_owned),
        added: matches!(item, WatchItem::Added(_)),
    }
}

impl<K> Clone for ListWatch<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            resource: self.resource.clone(),
            scope: self.scope.clone(),
            codec: Arc::clone(&self.codec),
            drop_managed_fields: self.drop_managed_fields,
            max_object_size: self.max_object_size,
            hook: self.hook.clone(),
            shard_selector: self.shard_selector.clone(),
        }
    }
}

impl<K> fmt::Debug for ListWatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ListWatch").field(&self.text()).finish()
    }
}
