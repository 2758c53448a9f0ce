//! A script that records its requests as text, with their times.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::source::Script;
use kube_informers::source::{
    Known, ListAnswer, ListRequest, ListStream, ListerWatcher, VersionMatch, WatchAnswer, WatchListSupport,
    WatchRequest, WatchStream,
};
use tokio::time::Instant;

/// A scripted source with a log of requests. Clones are handles to the same source.
#[derive(Clone)]
pub struct Recorded {
    script: Script<Pod>,
    log: Arc<Mutex<Vec<(Instant, String)>>>,
    started: Instant,
}

impl Recorded {
    /// A source without watch-lists.
    pub fn new() -> Self {
        Self::of(Script::new())
    }

    /// A source with watch-lists.
    pub fn with_watch_list() -> Self {
        Self::of(Script::new().with_watch_list())
    }

    fn of(script: Script<Pod>) -> Self {
        Self {
            script,
            log: Arc::default(),
            started: Instant::now(),
        }
    }

    pub fn script(&self) -> &Script<Pod> {
        &self.script
    }

    /// Queues the response to a list.
    pub fn on_list(&self, answer: ListAnswer<Pod>) -> &Self {
        self.script.on_list(answer);
        self
    }

    /// Queues the response to a watch.
    pub fn on_watch(&self, answer: WatchAnswer<Pod>) -> &Self {
        self.script.on_watch(answer);
        self
    }

    /// The requests so far: `list rv=0 limit=500`, `watch rv=7`, `watch-list rv=-`. A plus sign after a version
    /// means "or newer", an equals sign "exactly".
    pub fn requests(&self) -> Vec<String> {
        self.log
            .lock()
            .unwrap()
            .iter()
            .map(|(_, text)| text.clone())
            .collect()
    }

    /// The time of each request, relative to the creation of this source.
    pub fn times(&self) -> Vec<Duration> {
        self.log
            .lock()
            .unwrap()
            .iter()
            .map(|(at, _)| *at - self.started)
            .collect()
    }

    /// Waits for this number of requests and returns them as text.
    pub async fn seen(&self, count: usize) -> Vec<String> {
        self.script.seen(count).await;
        self.requests()
    }

    fn note(&self, text: String) {
        self.log.lock().unwrap().push((Instant::now(), text));
    }
}

impl ListerWatcher<Pod> for Recorded {
    fn list(&self, request: ListRequest, known: Known<Pod>) -> ListStream<Pod> {
        let mut text = format!("list rv={}", request.resource_version.as_deref().unwrap_or("-"));
        match request.version_match {
            Some(VersionMatch::NotOlderThan) => text.push('+'),
            Some(VersionMatch::Exact) => text.push('='),
            None => {}
        }
        if let Some(token) = &request.continue_token {
            text.push_str(&format!(" token={token}"));
        }
        if let Some(limit) = request.limit {
            text.push_str(&format!(" limit={limit}"));
        }
        self.note(text);
        self.script.list(request, known)
    }

    fn watch(&self, request: WatchRequest, known: Known<Pod>) -> WatchStream<Pod> {
        let operation = match request.initial_events {
            true => "watch-list",
            false => "watch",
        };
        let version = request.resource_version.as_deref().unwrap_or("-");
        assert!(request.bookmarks, "bookmarks are always requested");
        self.note(format!("{operation} rv={version}"));
        self.script.watch(request, known)
    }

    fn watch_list(&self) -> WatchListSupport {
        self.script.watch_list()
    }

    fn describe(&self) -> String {
        "pods".to_owned()
    }
}
