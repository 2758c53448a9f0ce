//! `ListWatch`: the source that reads from an API server, through kube's client.

#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::options::SourceOptions;
use super::reading::Reading;
use super::request::{Query, path};
use super::resource::{KnownResource, ResourceType};
use super::response::send;
use super::shard_support::ShardSelector;
use super::{ListRequest, ListStream, ListerWatcher, ObjectIdentity, WatchRequest, WatchStream};
use crate::codec::{Codec, Decoder, Decoding, EncodingError, Expected, FromWire, LazyCounters};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::scope::Scope;
use crate::shard::{Membership, Shard, shard_membership};
use crate::wire::{Known, ListItem, SourceError, WatchItem};
use futures_core::stream::BoxStream;
use futures_util::stream;
use kube::core::{ApiResource, DynamicObject};

/// Lists and watches one resource of an API server, in one namespace or in all namespaces.
///
/// Requests go through [`kube::Client::send`]: kube handles authentication, TLS and proxies. Query strings,
/// deadlines, error classification and retries are handled here. Two settings of the client can interfere:
///
/// - `Config::default_retry` repeats rejected requests inside the client. It has no effect on these requests.
/// - `Config::read_timeout` ends every watch that is silent for this long, with [`SourceError::Transport`]. The watch
///   is resumed. kube leaves it unset; keep it so, because informers have deadlines of their own.
///
/// A scope or an encoding that does not fit the resource is reported by the first request, or by [`check`](Self::check).
#[doc(alias = "NewListWatchFromClient")]
#[doc(alias = "NewFilteredListWatchFromClient")]
pub struct ListWatch<K> {
    client: kube::Client,
    resource: ResourceType,
    scope: Scope,
    codec: Codec<K>,
    options: SourceOptions,
    shard_selector: ShardSelector,
}

impl<K: FromWire> ListWatch<K> {
    /// Creates a source for a type: `ListWatch::<Pod>::new(client, Scope::namespace("shop"))`. For
    /// [`PartialObjectMeta`](kube::core::PartialObjectMeta) only metadata is requested.
    pub fn new(client: kube::Client, scope: Scope) -> Self
    where
        K: KnownResource,
    {
        Self::projected(client, K::resource_type(), scope)
    }

    /// Creates a source for a type whose resource is known only at run time.
    pub fn with(client: kube::Client, dynamic: &K::DynamicType, scope: Scope) -> Self
    where
        K: kube::Resource,
    {
        Self::projected(client, ResourceType::of_dynamic::<K>(dynamic), scope)
    }

    /// Creates a source that decodes the objects of a resource as any type, such as a projection struct with
    /// a subset of the fields.
    pub fn projected(client: kube::Client, resource: impl Into<ResourceType>, scope: Scope) -> Self {
        Self {
            client,
            resource: resource.into(),
            scope,
            codec: Codec::new(),
            options: SourceOptions::default(),
            shard_selector: ShardSelector::default(),
        }
    }

    /// Sets how it reads from the server.
    #[must_use]
    pub fn options(mut self, options: SourceOptions) -> Self {
        self.codec = K::codec(options.lazy()).encoding(options.encoding);
        self.options = options;
        self
    }
}

impl ListWatch<DynamicObject> {
    /// Creates a source of dynamic objects.
    #[inline]
    pub fn dynamic(client: kube::Client, resource: &ApiResource, scope: Scope) -> Self {
        Self::projected(client, resource, scope)
    }
}

impl<K> ListWatch<K> {
    /// Checks that the scope and the encoding fit the resource.
    ///
    /// # Errors
    ///
    /// The scope names a namespace and the resource is cluster-scoped, it names several namespaces, a namespace
    /// is invalid, or the encoding is [`Encoding::Protobuf`](crate::source::Encoding::Protobuf) and the resource has no
    /// schema.
    pub fn check(&self) -> Result<(), SourceError> {
        path(&self.resource, &self.scope).map_err(SourceError::Request)?;
        let checked = self.check_schema();
        checked.map_err(|error| SourceError::Request(error.to_string()))
    }

    pub(crate) fn check_schema(&self) -> Result<(), EncodingError> {
        self.codec.check(&self.resource.expected())
    }

    /// Splits the source into one per namespace of the scope: a request covers one namespace or all of them.
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

    /// The same in one namespace.
    #[must_use]
    pub(crate) fn in_namespace(mut self, namespace: &str) -> Self {
        self.scope = self.scope.in_namespaces([namespace]);
        self
    }

    /// Replaces the resource, for example by another version of it.
    #[must_use]
    pub(crate) fn of_resource(mut self, resource: ResourceType) -> Self {
        self.resource = resource;
        self
    }

    /// The counters of its objects, if these are decoded on access.
    pub(crate) fn lazy_counters(&self) -> Option<Arc<LazyCounters>> {
        self.codec.lazy_counters()
    }

    /// The resource.
    pub fn resource(&self) -> &ResourceType {
        &self.resource
    }

    /// The scope.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    fn drops_managed_fields(&self) -> bool {
        let chosen = self.options.drop_managed_fields;
        chosen.unwrap_or_else(|| self.codec.drops_managed_fields())
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

    /// Prepares a request, so that the stream of its response borrows nothing.
    fn prepare(
        &self,
        verb: &str,
        query: Query,
        accept: fn(&Codec<K>, &Expected, bool) -> String,
        known: Known<K>,
        shard: Option<Shard>,
    ) -> PreparedRequest<K> {
        let shard = shard.or_else(|| self.scope.selected_shard().cloned());
        let sent = shard.as_ref().filter(|_| self.shard_selector.may_be_sent());
        let mut query = query.restrict_to(sent);
        let hook = self.options.request_hook.as_ref();
        let drop_managed_fields = self.drops_managed_fields();
        let result = catch_unwind(AssertUnwindSafe(|| hook.map_or((), |hook| hook(&mut query))));
        let expected = self.resource.expected();
        let request = match result {
            Ok(()) => self.check_schema().map_or_else(
                |error| Err(SourceError::Request(error.to_string())),
                |()| {
                    let accept = accept(&self.codec, &expected, drop_managed_fields);
                    query.into_request(&self.resource, &self.scope, &accept, self.options.gzip)
                },
            ),
            Err(_) => Err(SourceError::Request("the request hook panicked".to_owned())),
        };
        PreparedRequest {
            client: self.client.clone(),
            request,
            what: format!("{verb} {}", self.text()),
            codec: self.codec.clone(),
            decoding: Decoding {
                expected,
                known,
                drop_managed_fields,
                max_object_size: self.options.max_object_size,
                shard,
            },
            shard_selector: self.shard_selector.clone(),
            connect_timeout: self.options.connect_timeout,
        }
    }
}

struct PreparedRequest<K> {
    client: kube::Client,
    request: Result<http::Request<()>, SourceError>,
    /// The operation, for errors: `list pods in shop`.
    what: String,
    codec: Codec<K>,
    decoding: Decoding<K>,
    shard_selector: ShardSelector,
    connect_timeout: Duration,
}

impl<K: Object> ListerWatcher<K> for ListWatch<K> {
    fn list(&self, request: ListRequest, known: Known<K>) -> ListStream<K> {
        let accept = Codec::accept_list;
        let query = Query::list(&request, &self.scope);
        exchange(
            self.prepare("list", query, accept, known, request.shard),
            Verb {
                decoder: Codec::list_decoder,
                progress: |bytes| ListItem::Progress { bytes },
                within: listed_within,
            },
        )
    }

    fn watch(&self, request: WatchRequest, known: Known<K>) -> WatchStream<K> {
        let accept = Codec::accept_watch;
        let query = Query::watch(&request, &self.scope);
        exchange(
            self.prepare("watch", query, accept, known, request.shard),
            Verb {
                decoder: Codec::watch_decoder,
                progress: |bytes| WatchItem::Progress { bytes },
                within: watched_within,
            },
        )
    }

    fn identities(
        &self,
        request: ListRequest,
        only: Option<&ObjectKey>,
    ) -> Option<ListStream<ObjectIdentity>> {
        let scope = match only {
            Some(key) => self.scope.clone().of_object(key.namespace(), key.name()),
            None => self.scope.clone(),
        };
        let source = ListWatch {
            client: self.client.clone(),
            resource: self.resource.clone().metadata_only(),
            scope,
            codec: Codec::<ObjectIdentity>::new(),
            options: SourceOptions {
                drop_managed_fields: Some(true),
                gzip: false,
                ..self.options.clone()
            },
            shard_selector: self.shard_selector.clone(),
        };
        Some(source.list(request, None))
    }

    fn describe(&self) -> String {
        self.text()
    }

    fn resource(&self) -> Option<ResourceType> {
        Some(self.resource.clone())
    }

    fn namespace(&self) -> Option<String> {
        if self.resource.is_namespaced() == Some(false) {
            return None;
        }
        let namespaces = self.scope.selected_namespaces()?;
        let mut names = namespaces.iter();
        let only = names.next()?;
        names.next().is_none().then(|| only.to_string())
    }

    fn shard(&self) -> Option<Shard> {
        self.scope.selected_shard().cloned()
    }
}

type NewDecoder<K, T> = fn(&Codec<K>, Option<&str>, Decoding<K>) -> Result<Box<dyn Decoder<T>>, SourceError>;

/// The differences between a list and a watch, with items of type `T`.
struct Verb<K, T> {
    decoder: NewDecoder<K, T>,
    progress: fn(usize) -> T,
    /// Replaces an item outside the shard.
    within: fn(T, Option<&Shard>) -> T,
}

/// The progress of one request and its response.
enum Exchange<K, T> {
    Start(Box<PreparedRequest<K>>),
    Reading(Box<Reading<T>>, Option<Shard>),
}

/// Sends a request and decodes the response while it arrives.
fn exchange<K: Object, T: Send + 'static>(
    request: PreparedRequest<K>,
    verb: Verb<K, T>,
) -> BoxStream<'static, Result<T, SourceError>> {
    let Verb {
        decoder,
        progress,
        within,
    } = verb;
    Box::pin(stream::try_unfold(
        Exchange::Start(Box::new(request)),
        move |exchange| async move {
            match exchange {
                Exchange::Start(request) => {
                    let shard = request.decoding.shard.clone();
                    let sent = send(
                        &request.client,
                        request.request?,
                        request.what,
                        request.connect_timeout,
                    )
                    .await;
                    let response = sent.map_err(|error| request.shard_selector.judge(error))?;
                    let decoder = decoder(&request.codec, response.content_type.as_deref(), request.decoding)
                        .map_err(|error| response.add_context(error))?;
                    let reading = Reading::new(response, decoder, progress);
                    Ok(Some((progress(0), Exchange::Reading(Box::new(reading), shard))))
                }
                Exchange::Reading(mut reading, shard) => {
                    let item = reading.next().await?;
                    Ok(item.map(|item| (within(item, shard.as_ref()), Exchange::Reading(reading, shard))))
                }
            }
        },
    ))
}

/// Replaces list items outside the shard that the codec could not identify.
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

/// The same for watch items.
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
            codec: self.codec.clone(),
            options: self.options.clone(),
            shard_selector: self.shard_selector.clone(),
        }
    }
}

impl<K> fmt::Debug for ListWatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ListWatch").field(&self.text()).finish()
    }
}
