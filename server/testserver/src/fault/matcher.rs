//! Selects the requests that a fault applies to, and how often it applies.
//! Knows nothing of the effects.

use kube_api_protocol::request::Verb;

use crate::journal::SeenRequest;

/// The requests that a fault applies to. By default only the next matching request.
///
/// ```
/// use kube_testserver::RequestMatcher;
///
/// RequestMatcher::list("pods");                        // the next list of pods
/// RequestMatcher::watch("pods").nth(3);                // the third watch of pods from now on
/// RequestMatcher::list("pods").continued().forever();  // every page but the first
/// RequestMatcher::any().namespace("shop").times(5);    // the next five requests in a namespace
/// ```
#[derive(Clone, Debug)]
pub struct RequestMatcher {
    verbs: Vec<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<Option<String>>,
    path: Option<String>,
    user_agent: Option<String>,
    replica: Option<usize>,
    params: Vec<(String, Option<String>)>,
    skip: u64,
    every: u64,
    limit: Option<u64>,
    chance: Option<f64>,
}

impl RequestMatcher {
    /// Any request, discovery included.
    pub fn any() -> RequestMatcher {
        RequestMatcher {
            verbs: Vec::new(),
            resource: None,
            namespace: None,
            name: None,
            subresource: None,
            path: None,
            user_agent: None,
            replica: None,
            params: Vec::new(),
            skip: 0,
            every: 1,
            limit: Some(1),
            chance: None,
        }
    }

    fn verb(verb: Verb, resource: &str) -> RequestMatcher {
        RequestMatcher {
            verbs: vec![verb],
            resource: Some(resource.to_owned()),
            ..RequestMatcher::any()
        }
    }

    /// Lists of a resource, named by its plural (`pods`) or with its group (`deployments.apps`).
    pub fn list(resource: &str) -> RequestMatcher {
        RequestMatcher::verb(Verb::List, resource)
    }

    /// Watches of a resource, with or without initial events.
    pub fn watch(resource: &str) -> RequestMatcher {
        RequestMatcher::verb(Verb::Watch, resource)
    }

    /// Watches that request the initial events (`sendInitialEvents=true`).
    pub fn watch_list(resource: &str) -> RequestMatcher {
        RequestMatcher::watch(resource).param("sendInitialEvents", "true")
    }

    /// Watches that start at a resource version.
    pub fn plain_watch(resource: &str) -> RequestMatcher {
        RequestMatcher::watch(resource).without_param("sendInitialEvents")
    }

    /// Reads of one object.
    pub fn get(resource: &str) -> RequestMatcher {
        RequestMatcher::verb(Verb::Get, resource)
    }

    /// Creates.
    pub fn create(resource: &str) -> RequestMatcher {
        RequestMatcher::verb(Verb::Create, resource)
    }

    /// Updates (`PUT`), of subresources too; see [`subresource`](Self::subresource).
    pub fn update(resource: &str) -> RequestMatcher {
        RequestMatcher::verb(Verb::Update, resource)
    }

    /// Patches of any type.
    pub fn patch(resource: &str) -> RequestMatcher {
        RequestMatcher::verb(Verb::Patch, resource)
    }

    /// Deletions of one object.
    pub fn delete(resource: &str) -> RequestMatcher {
        RequestMatcher::verb(Verb::Delete, resource)
    }

    /// All requests for a resource.
    pub fn resource(resource: &str) -> RequestMatcher {
        RequestMatcher {
            resource: Some(resource.to_owned()),
            ..RequestMatcher::any()
        }
    }

    /// Requests whose path begins with `prefix`.
    pub fn path(prefix: &str) -> RequestMatcher {
        RequestMatcher {
            path: Some(prefix.to_owned()),
            ..RequestMatcher::any()
        }
    }

    /// Only within a namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> RequestMatcher {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only for the object of that name.
    #[must_use]
    pub fn name(mut self, name: &str) -> RequestMatcher {
        self.name = Some(name.to_owned());
        self
    }

    /// Only for a subresource, such as `status`.
    ///
    /// Without this, a matcher includes the requests for subresources.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> RequestMatcher {
        self.subresource = Some(Some(subresource.to_owned()));
        self
    }

    /// Only for objects themselves, not for their subresources.
    #[must_use]
    pub fn without_subresource(mut self) -> RequestMatcher {
        self.subresource = Some(None);
        self
    }

    /// Only for clients whose `User-Agent` contains `part`.
    #[must_use]
    pub fn user_agent(mut self, part: &str) -> RequestMatcher {
        self.user_agent = Some(part.to_owned());
        self
    }

    /// Only at one replica, counted from 0.
    #[must_use]
    pub fn replica(mut self, replica: usize) -> RequestMatcher {
        self.replica = Some(replica);
        self
    }

    /// Only where a query parameter has this value.
    #[must_use]
    pub fn param(mut self, key: &str, value: &str) -> RequestMatcher {
        self.params.push((key.to_owned(), Some(value.to_owned())));
        self
    }

    /// Only where a query parameter is missing or empty.
    #[must_use]
    pub fn without_param(mut self, key: &str) -> RequestMatcher {
        self.params.push((key.to_owned(), None));
        self
    }

    /// Only pages after the first: requests with a continue token.
    #[must_use]
    pub fn continued(mut self) -> RequestMatcher {
        self.params.push(("continue".to_owned(), Some(String::new())));
        self
    }

    /// Only the n-th matching request from now on, counted from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> RequestMatcher {
        self.skip = n.saturating_sub(1);
        self.limit = Some(1);
        self
    }

    /// Skips the first `n` matching requests.
    #[must_use]
    pub fn after(mut self, n: u64) -> RequestMatcher {
        self.skip = n;
        self
    }

    /// Applies at most `n` times.
    #[must_use]
    pub fn times(mut self, n: u64) -> RequestMatcher {
        self.limit = Some(n);
        self
    }

    /// Applies to every n-th matching request until the fault is cleared.
    #[must_use]
    pub fn every(mut self, n: u64) -> RequestMatcher {
        self.every = n.max(1);
        self.limit = None;
        self
    }

    /// Applies to every matching request until the fault is cleared.
    #[must_use]
    pub fn forever(mut self) -> RequestMatcher {
        self.limit = None;
        self
    }

    /// Applies with a probability, drawn from the server's seed, until the fault is cleared.
    #[must_use]
    pub fn chance(mut self, probability: f64) -> RequestMatcher {
        self.chance = Some(probability);
        self.limit = None;
        self
    }

    pub(super) fn matches(&self, request: &SeenRequest) -> bool {
        let same = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && self
                .resource
                .as_deref()
                .is_none_or(|wanted| is_resource(wanted, request))
            && same(&self.namespace, &request.namespace)
            && same(&self.name, &request.name)
            && self
                .subresource
                .as_ref()
                .is_none_or(|wanted| *wanted == request.subresource)
            && self
                .path
                .as_deref()
                .is_none_or(|prefix| request.path.starts_with(prefix))
            && self.replica.is_none_or(|replica| replica == request.replica)
            && self.user_agent.as_deref().is_none_or(|part| {
                request
                    .user_agent
                    .as_deref()
                    .is_some_and(|agent| agent.contains(part))
            })
            && self.params.iter().all(|(key, wanted)| {
                let found = request.param(key).filter(|value| !value.is_empty());
                match wanted.as_deref() {
                    None => found.is_none(),
                    Some("") => found.is_some(),
                    Some(value) => found == Some(value),
                }
            })
    }

    /// Whether the fault applies to its `seen`-th match (from 0) after having applied `struck` times.
    pub(super) fn strikes(&self, seen: u64, struck: u64, draw: impl FnOnce() -> f64) -> bool {
        let due = seen >= self.skip && (seen - self.skip + 1).is_multiple_of(self.every);
        due && self.limit.is_none_or(|limit| struck < limit)
            && self.chance.is_none_or(|chance| draw() < chance)
    }

    pub(super) fn is_spent(&self, struck: u64) -> bool {
        self.limit.is_some_and(|limit| struck >= limit)
    }
}

fn is_resource(wanted: &str, request: &SeenRequest) -> bool {
    match wanted.split_once('.') {
        Some((plural, group)) => plural == request.resource && group == request.group,
        None => wanted == request.resource,
    }
}
