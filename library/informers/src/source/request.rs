//! Builds requests: paths and query strings, exactly as the reflector means them.

use std::fmt;

use http::header::{ACCEPT, ACCEPT_ENCODING};

use super::resource::ResourceType;
use super::response::GZIP;
use super::{ListRequest, SourceError, VersionMatch, WatchRequest};
use crate::scope::Scope;
use crate::shard::Shard;

/// The parameters of one list or watch request, as a request hook sees them.
///
/// A hook may add parameters and may set the selectors if the [`Scope`] does not. What drives the informer
/// is not its to change: setting one of those makes the request fail, with a sentence that says so.
#[derive(Clone, PartialEq, Eq)]
#[doc(alias = "ListOptions")]
pub struct Query {
    is_watch: bool,
    /// Whether the response may be compressed.
    may_compress: bool,
    pairs: Vec<(String, String)>,
    /// Ours, and fixed.
    fixed: usize,
    refused: Option<String>,
}

/// The parameters that drive the informer.
const RESERVED: [&str; 8] = [
    "watch",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "timeoutSeconds",
];

impl Query {
    /// Whether this is a watch, and not a list.
    pub fn is_watch(&self) -> bool {
        self.is_watch
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Sets a parameter, in the place of the value set before.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        if RESERVED.contains(&name.as_str()) {
            self.refused.get_or_insert_with(|| {
                format!("the request hook must not set {name:?}: it belongs to the informer")
            });
            return;
        }
        match self.pairs.iter().position(|(key, _)| *key == name) {
            Some(index) if index < self.fixed => {
                self.refused.get_or_insert_with(|| {
                    format!("the request hook must not set {name:?}: the scope does already")
                });
            }
            Some(index) => {
                if let Some(pair) = self.pairs.get_mut(index) {
                    pair.1 = value;
                }
            }
            None => self.pairs.push((name, value)),
        }
    }

    fn new(is_watch: bool, pairs: Vec<(&'static str, Option<String>)>, scope: &Scope) -> Self {
        let labels = scope.label_selector();
        let selectors = [
            (
                "labelSelector",
                (!labels.is_everything()).then(|| labels.to_string()),
            ),
            ("fieldSelector", scope.field_selector()),
        ];
        let pairs: Vec<_> = pairs
            .into_iter()
            .chain(selectors)
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect();
        Self {
            is_watch,
            may_compress: !is_watch,
            fixed: pairs.len(),
            pairs,
            refused: None,
        }
    }

    pub(crate) fn list(request: &ListRequest, scope: &Scope) -> Self {
        let version_match = request.version_match.map(|how| match how {
            VersionMatch::Exact => "Exact",
            VersionMatch::NotOlderThan => "NotOlderThan",
        });
        let pairs = vec![
            ("limit", request.limit.map(|limit| limit.to_string())),
            ("continue", text(&request.continue_token)),
            ("resourceVersion", text(&request.resource_version)),
            ("resourceVersionMatch", version_match.map(str::to_owned)),
        ];
        Self::new(false, pairs, scope)
    }

    pub(crate) fn watch(request: &WatchRequest, scope: &Scope) -> Self {
        let when = |set: bool, value: &str| set.then(|| value.to_owned());
        let pairs = vec![
            ("watch", when(true, "true")),
            ("resourceVersion", text(&request.resource_version)),
            // The server insists on it together with the initial events, and refuses it without.
            (
                "resourceVersionMatch",
                when(request.initial_events, "NotOlderThan"),
            ),
            ("sendInitialEvents", when(request.initial_events, "true")),
            ("allowWatchBookmarks", when(request.bookmarks, "true")),
            // 0 would mean half an hour or more to the server.
            (
                "timeoutSeconds",
                Some(request.timeout.as_secs().max(1).to_string()),
            ),
        ];
        Self {
            may_compress: request.initial_events,
            ..Self::new(true, pairs, scope)
        }
    }

    /// Requests only the objects of a shard.
    pub(crate) fn restrict_to(mut self, shard: Option<&Shard>) -> Self {
        if let Some(selector) = shard.and_then(Shard::selector) {
            self.pairs.push(("shardSelector".to_owned(), selector));
            self.fixed = self.pairs.len();
        }
        self
    }

    /// The request, or the reason why there can be none. With `gzip`, lists and watch-lists may be compressed.
    pub(crate) fn into_request(
        self,
        resource: &ResourceType,
        scope: &Scope,
        accept: &str,
        gzip: bool,
    ) -> Result<http::Request<()>, SourceError> {
        if let Some(refused) = self.refused {
            return Err(SourceError::Request(refused));
        }
        let mut uri = path(resource, scope).map_err(SourceError::Request)?;
        if !self.pairs.is_empty() {
            uri.push('?');
            let start = uri.len();
            uri = form_urlencoded::Serializer::for_suffix(uri, start)
                .extend_pairs(&self.pairs)
                .finish();
        }
        let mut request = http::Request::get(uri).header(ACCEPT, accept);
        if gzip && self.may_compress {
            request = request.header(ACCEPT_ENCODING, GZIP);
        } else if self.is_watch {
            // A watch carries few bytes, and a proxy that compresses it delays events until a block is full.
            request = request.header(ACCEPT_ENCODING, "identity");
        }
        request
            .body(())
            .map_err(|error| SourceError::Request(format!("the request cannot be made: {error}")))
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.pairs.iter().map(|(k, v)| (k, v)))
            .finish()
    }
}

/// An empty text means the same as none to the server.
fn text(value: &Option<String>) -> Option<String> {
    value.clone().filter(|value| !value.is_empty())
}

/// The path of a collection, if the resource and the scope go together.
pub(crate) fn path(resource: &ResourceType, scope: &Scope) -> Result<String, String> {
    let Some(namespaces) = scope.selected_namespaces() else {
        return resource.path(None);
    };
    if resource.is_namespaced() == Some(false) {
        return Err(format!(
            "{resource} do not live in namespaces, but the scope is {scope}: use `Scope::all()`"
        ));
    }
    let mut names = namespaces.iter();
    match (names.next(), names.next()) {
        (Some(namespace), None) => resource.path(Some(namespace)),
        (None, _) => Err(format!("the scope of {resource} names no namespace")),
        (Some(_), Some(_)) => Err(format!(
            "one request covers one namespace or all, but the scope of {resource} is {scope}: \
             use one source per member of the scope (`Scope::members`)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::{Node, Pod};

    use super::*;

    fn uri(query: Query, scope: &Scope) -> Result<String, String> {
        query
            .into_request(&ResourceType::of::<Pod>(), scope, "application/json", false)
            .map(|request| request.uri().to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_sends_only_the_given_parameters() {
        let list = |request: ListRequest| uri(Query::list(&request, &Scope::all()), &Scope::all()).unwrap();

        assert_eq!(list(ListRequest::default()), "/api/v1/pods");
        assert_eq!(
            list(ListRequest {
                limit: Some(500),
                resource_version: Some("0".into()),
                version_match: Some(VersionMatch::NotOlderThan),
                continue_token: None,
                shard: None,
            }),
            "/api/v1/pods?limit=500&resourceVersion=0&resourceVersionMatch=NotOlderThan"
        );
        assert_eq!(
            list(ListRequest {
                limit: Some(2),
                continue_token: Some("eyJ2IjoiL=+&".into()),
                ..Default::default()
            }),
            "/api/v1/pods?limit=2&continue=eyJ2IjoiL%3D%2B%26"
        );
        assert_eq!(
            list(ListRequest {
                resource_version: Some("7".into()),
                version_match: Some(VersionMatch::Exact),
                ..Default::default()
            }),
            "/api/v1/pods?resourceVersion=7&resourceVersionMatch=Exact"
        );
        assert_eq!(
            list(ListRequest {
                resource_version: Some(String::new()),
                ..Default::default()
            }),
            "/api/v1/pods"
        );
    }

    #[test]
    fn a_watch_sends_only_the_given_parameters() {
        let scope = Scope::namespace("shop").labels("app in (a,b)").unwrap();
        let watch = |request: WatchRequest| uri(Query::watch(&request, &scope), &scope).unwrap();
        let labels = "labelSelector=app+in+%28a%2Cb%29";

        assert_eq!(
            watch(WatchRequest {
                resource_version: Some("5".into()),
                bookmarks: true,
                timeout: Duration::from_millis(300_900),
                initial_events: false,
                shard: None,
            }),
            format!(
                "/api/v1/namespaces/shop/pods?watch=true&resourceVersion=5&allowWatchBookmarks=true&timeoutSeconds=300&{labels}"
            )
        );
        assert_eq!(
            watch(WatchRequest {
                initial_events: true,
                ..Default::default()
            }),
            format!(
                "/api/v1/namespaces/shop/pods?watch=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=1&{labels}"
            )
        );
    }

    #[test]
    fn lists_and_watch_lists_are_compressed_on_request_and_plain_watches_never() {
        let scope = Scope::all();
        let encodings = |gzip: bool| {
            let watch = |initial_events| WatchRequest {
                initial_events,
                ..Default::default()
            };
            let queries = [
                Query::list(&ListRequest::default(), &scope),
                Query::watch(&watch(true), &scope),
                Query::watch(&watch(false), &scope),
            ];
            queries.map(|query| {
                let request = query.into_request(&ResourceType::of::<Pod>(), &scope, "x/y", gzip);
                let request = request.unwrap();
                assert_eq!(request.headers()["accept"], "x/y");
                let encoding = request.headers().get("accept-encoding");
                encoding.map_or(String::new(), |encoding| encoding.to_str().unwrap().to_owned())
            })
        };

        assert_eq!(encodings(false), ["", "identity", "identity"]);
        assert_eq!(encodings(true), ["gzip", "gzip", "identity"]);
    }

    #[test]
    fn a_scope_that_does_not_fit_is_refused_with_a_sentence() {
        let node = ResourceType::of::<Node>();
        assert_eq!(path(&node, &Scope::all()).unwrap(), "/api/v1/nodes");
        assert_eq!(
            path(&node, &Scope::namespace("shop")).unwrap_err(),
            "nodes do not live in namespaces, but the scope is namespace shop: use `Scope::all()`"
        );
        let pod = ResourceType::of::<Pod>();
        let two = path(&pod, &Scope::namespaces(["a", "b"])).unwrap_err();
        assert!(two.contains("one source per member of the scope"), "{two}");
        let none = path(&pod, &Scope::namespaces([""; 0])).unwrap_err();
        assert_eq!(none, "the scope of pods names no namespace");
    }

    #[test]
    fn a_hook_can_add_but_not_take_over() {
        let scope = Scope::all().labels("a=1").unwrap();
        let list = || Query::list(&ListRequest::default(), &scope);

        let mut query = list();
        assert_eq!(query.get("labelSelector"), Some("a=1"));
        query.set("fieldSelector", "x=1");
        query.set("shardSelector", "one");
        query.set("shardSelector", "two words");
        assert_eq!(
            uri(query, &scope).unwrap(),
            "/api/v1/pods?labelSelector=a%3D1&fieldSelector=x%3D1&shardSelector=two+words"
        );

        for reserved in RESERVED {
            let mut query = list();
            query.set(reserved, "1");
            let error = uri(query, &scope).unwrap_err();
            assert!(
                error.contains(reserved) && error.contains("belongs to the informer"),
                "{error}"
            );
        }
        let mut query = list();
        query.set("labelSelector", "b=1");
        assert!(uri(query, &scope).unwrap_err().contains("the scope does already"));
    }
}
