//! Shared by the tests of reflectors and informers: pods, a source that logs its requests, a target that logs
//! its deltas, and a check that no task is left running.

mod delivered;
mod pages;
mod recorded;
mod server;
mod sink;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::reflector::{Jitter, Reflector, ReflectorConfig, ReflectorHandle, Resume, StreamEnd};
use kube_informers::source::ApiError;
use kube_informers::source::SourceError;
use kube_informers::{Object, ObjectKey};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use delivered::Delivered;
pub use kube_test_kit::{
    CapturedLogs, minutes, ms, paged_pods, pass, pods, secs, settle, synced, synced_pods, wait_for,
};
pub use pages::{defines_test, measured, workspace};
pub use recorded::Recorded;
pub use server::*;
pub use sink::Sink;

/// The virtual time after which waiting for a condition fails.
const TIMEOUT: Duration = Duration::from_secs(24 * 3600);

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A pod without a version. A live script assigns one.
pub fn pod(name: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(format!("uid of {name}"));
    pod
}

pub fn pod_at(name: &str, resource_version: &str) -> Pod {
    let mut pod = pod(name);
    pod.metadata.resource_version = Some(resource_version.to_owned());
    pod
}

/// `foo@1`.
pub fn text_of(pod: &Pod) -> String {
    format!("{}@{}", ObjectKey::of(pod), pod.object_version().unwrap_or("-"))
}

pub fn api(code: u16, reason: &str) -> ApiError {
    ApiError::new(code, reason, "")
}

/// A refused connection.
pub fn refused() -> SourceError {
    SourceError::Transport {
        context: "cannot connect".to_owned(),
        refused: true,
        source: "connection refused".into(),
    }
}

/// A lost connection.
pub fn broken() -> SourceError {
    SourceError::Transport {
        context: "the connection broke".to_owned(),
        refused: false,
        source: "reset by peer".into(),
    }
}

/// No jitter and no watch-lists: list, then watch.
pub fn list_first() -> ReflectorConfig {
    ReflectorConfig {
        watch_list: false,
        ..watch_list_first()
    }
}

/// No jitter: a watch-list if the source supports it.
pub fn watch_list_first() -> ReflectorConfig {
    ReflectorConfig {
        jitter: Jitter::None,
        ..Default::default()
    }
}

/// The end of a list or watch, as passed to the hook.
#[derive(Clone, Debug)]
pub struct End {
    pub text: String,
    pub resume: Resume,
    pub pause: Duration,
}

/// A running reflector.
pub struct Reflected {
    pub source: Recorded,
    pub sink: Sink,
    pub handle: ReflectorHandle,
    ends: Arc<Mutex<Vec<End>>>,
}

impl Reflected {
    /// The ends of lists and watches so far.
    pub fn ends(&self) -> Vec<End> {
        self.ends.lock().unwrap().clone()
    }

    /// What followed each of these ends.
    pub fn resumes(&self) -> Vec<Resume> {
        self.ends().into_iter().map(|end| end.resume).collect()
    }

    /// The delays after these ends.
    pub fn pauses(&self) -> Vec<Duration> {
        self.ends().into_iter().map(|end| end.pause).collect()
    }

    pub fn version(&self) -> Option<String> {
        self.handle.last_sync_resource_version()
    }
}

/// Runs a reflector from `source` to `sink` during `test`, and stops it. Asserts that no watch is open and no task is
/// left afterwards.
pub async fn reflect<T>(
    config: ReflectorConfig,
    source: &Recorded,
    sink: &Sink,
    test: impl AsyncFnOnce(&Reflected) -> T,
) -> T {
    let tasks = Tasks::now();
    let ends = Arc::new(Mutex::new(Vec::new()));
    let log = ends.clone();
    let hook = move |end: &StreamEnd<'_>| {
        log.lock().unwrap().push(End {
            text: end.to_string(),
            resume: end.resume,
            pause: end.pause,
        });
    };
    let reflector = Reflector::new(source.clone(), sink.clone()).config(ReflectorConfig {
        on_stream_end: Some(Arc::new(hook)),
        ..config
    });
    let reflected = Reflected {
        source: source.clone(),
        sink: sink.clone(),
        handle: reflector.handle(),
        ends,
    };
    let stop = CancellationToken::new();
    let testing = async {
        let outcome = within(TIMEOUT, test(&reflected)).await;
        stop.cancel();
        outcome
    };
    let ((), outcome) = tokio::join!(reflector.run(stop.clone()), testing);
    assert_eq!(source.script().open_watches(), 0, "a watch is still open");
    tasks.assert_gone();
    outcome
}

/// Waits for `future`, and panics after this virtual time.
pub async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> T {
    match timeout(limit, future).await {
        Ok(outcome) => outcome,
        Err(_) => panic!("the awaited condition was not met after {limit:?}"),
    }
}

/// Asserts that `future` is not ready within this virtual time.
pub async fn not_within<T>(time: Duration, future: impl Future<Output = T>) {
    assert!(timeout(time, future).await.is_err(), "the future became ready");
}

/// The tasks of the runtime at one moment.
pub struct Tasks(usize);

impl Tasks {
    pub fn now() -> Self {
        Self(Handle::current().metrics().num_alive_tasks())
    }

    fn left(&self) -> usize {
        Handle::current()
            .metrics()
            .num_alive_tasks()
            .saturating_sub(self.0)
    }

    /// Asserts that all tasks started since then have ended.
    pub fn assert_gone(&self) {
        assert_eq!(self.left(), 0, "a task is left behind");
    }

    /// Waits until they have ended, for multi-threaded runtimes.
    pub async fn gone(&self) {
        within(seconds(60), async {
            while self.left() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}
