//! Shared by the end-to-end tests: an informer on the embedded server, a log of events as text, virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_informers::{Event, Informer, Object};
use kube_testserver::{SeenRequest, TestServer};
use parking_lot::Mutex;

/// Expires the version the informer would resume from and breaks its watch, so that it must list again.
pub fn force_relist(server: &TestServer) {
    server.skip_versions(5);
    server.compact();
    server.break_watches();
}

/// `namespace/name@version` of every object in the cache, sorted.
pub fn cached<K: Object>(informer: &Informer<K>) -> Vec<String> {
    let mut objects: Vec<_> = informer
        .store()
        .list()
        .iter()
        .map(|object| at(&**object))
        .collect();
    objects.sort();
    objects
}

/// The same of every object of a resource at the server.
pub fn stored(server: &TestServer, resource: &str) -> Vec<String> {
    let text = |object: &serde_json::Value, pointer: &str| {
        object
            .pointer(pointer)
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let objects = server.objects(resource);
    let mut objects: Vec<_> = objects
        .iter()
        .map(|object| {
            let namespace = text(object, "/metadata/namespace");
            let slash = if namespace.is_empty() { "" } else { "/" };
            let name = text(object, "/metadata/name");
            format!(
                "{namespace}{slash}{name}@{}",
                text(object, "/metadata/resourceVersion")
            )
        })
        .collect();
    objects.sort();
    objects
}

pub fn at<K: Object>(object: &K) -> String {
    let namespace = object
        .object_namespace()
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    format!(
        "{namespace}{}@{}",
        object.object_name(),
        object.object_version().unwrap_or_default()
    )
}

/// Names only, without versions.
pub fn names<K: Object>(informer: &Informer<K>) -> Vec<String> {
    let mut names: Vec<_> = informer
        .store()
        .list()
        .iter()
        .map(|object| object.object_name().to_owned())
        .collect();
    names.sort();
    names
}

/// The events delivered to a handler, as text without versions.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn new() -> Self {
        Self::default()
    }

    /// A handler that writes to the log.
    pub fn handler<K: Object>(&self) -> impl FnMut(Event<K>) + Send + 'static {
        let log = self.clone();
        move |event| log.push(&event)
    }

    pub fn push<K: Object>(&self, event: &Event<K>) {
        self.0.lock().push(event_text(event));
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }

    pub fn len(&self) -> usize {
        self.0.lock().len()
    }
}

/// `updated shop/cart` for `updated shop/cart 7 -> 9`.
pub fn event_text<K: Object>(event: &Event<K>) -> String {
    match event {
        Event::Updated { resync: false, .. } => format!("updated {}", event.key()),
        _ => event.to_string(),
    }
}

/// The number of requests in each full minute since the server started.
pub fn requests_per_minute(server: &TestServer) -> BTreeMap<u64, usize> {
    let mut minutes = BTreeMap::new();
    for request in server.requests() {
        *minutes.entry(request.at.as_secs() / 60).or_default() += 1;
    }
    minutes
}

/// The maximum request rate of an informer, whatever the server does (faults.md, L1).
#[track_caller]
pub fn assert_gentle(server: &TestServer) {
    for (minute, count) in requests_per_minute(server) {
        assert!(count <= 30, "{count} requests in minute {minute}");
    }
}

/// The delays between consecutive requests.
pub fn gaps(requests: &[SeenRequest]) -> Vec<Duration> {
    requests.windows(2).map(|pair| pair[1].at - pair[0].at).collect()
}
