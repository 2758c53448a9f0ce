//! The requests of clients, recorded for assertions. Never records bodies or credentials.

use std::collections::VecDeque;
use std::time::Duration;

use kube_api_protocol::request::{Query, Verb};
use parking_lot::Mutex;

/// The number of requests kept, so that a long-running server does not grow.
const KEPT: usize = 20_000;

/// One request as the server saw it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SeenRequest {
    /// The verb.
    pub verb: Verb,
    /// The HTTP method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query, decoded.
    pub query: Query,
    /// The resource's plural name, such as `pods`; empty if the path is not a resource.
    pub resource: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The object's name in the path.
    pub name: Option<String>,
    /// The subresource in the path, such as `status`.
    pub subresource: Option<String>,
    /// The `Accept` header.
    pub accept: Option<String>,
    /// The `Content-Type` header.
    pub content_type: Option<String>,
    /// The `User-Agent` header.
    pub user_agent: Option<String>,
    /// The replica that handled the request, from 0.
    pub replica: usize,
    /// The time since the server was created, on tokio's clock.
    pub at: Duration,
    /// The HTTP status of the response; `None` while there is none, and for requests without a response.
    pub status: Option<u16>,
}

impl SeenRequest {
    /// The first value of a query parameter.
    pub fn param(&self, key: &str) -> Option<&str> {
        self.query.get(key)
    }
}

impl std::fmt::Display for SeenRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        for (position, (key, value)) in self.query.pairs().iter().enumerate() {
            write!(f, "{}{key}={value}", if position == 0 { '?' } else { '&' })?;
        }
        match self.status {
            Some(status) => write!(f, " -> {status}"),
            None => f.write_str(" -> no response"),
        }
    }
}

/// The requests so far, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    first: u64,
    requests: VecDeque<SeenRequest>,
}

impl Journal {
    /// Records a request; the returned number identifies it when its response is known.
    pub(crate) fn note(&self, request: SeenRequest) -> u64 {
        let mut entries = self.entries.lock();
        if entries.requests.len() == KEPT {
            entries.requests.pop_front();
            entries.first += 1;
        }
        entries.requests.push_back(request);
        entries.first + entries.requests.len() as u64 - 1
    }

    pub(crate) fn answered(&self, number: u64, status: u16) {
        let mut entries = self.entries.lock();
        let position = number
            .checked_sub(entries.first)
            .and_then(|position| usize::try_from(position).ok());
        if let Some(request) = position.and_then(|position| entries.requests.get_mut(position)) {
            request.status = Some(status);
        }
    }

    pub(crate) fn requests(&self) -> Vec<SeenRequest> {
        self.entries.lock().requests.iter().cloned().collect()
    }

    pub(crate) fn count(&self, wanted: impl Fn(&SeenRequest) -> bool) -> usize {
        self.entries
            .lock()
            .requests
            .iter()
            .filter(|request| wanted(request))
            .count()
    }

    pub(crate) fn clear(&self) {
        let mut entries = self.entries.lock();
        entries.first += entries.requests.len() as u64;
        entries.requests.clear();
    }
}
