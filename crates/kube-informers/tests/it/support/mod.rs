//! What tests of reflectors and informers share: pods, a source that keeps a log of what it was asked, a target
//! that keeps a log of what it was given, and a check that nothing is left running.

mod recorded;
mod server;
mod sink;
mod told;

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

pub use recorded::Recorded;
pub use server::*;
pub use sink::Sink;
pub use told::Told;

/// Virtual time after which a test that waits for something is told that it does not come.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

pub fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A pod without a version: a live script gives it one.
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

/// Nobody listens at the address.
pub fn refused() -> SourceError {
    SourceError::Transport {
        context: "cannot connect".to_owned(),
        refused: true,
        source: "connection refused".into(),
    }
}

/// The connection broke.
pub fn broken() -> SourceError {
    SourceError::Transport {
        context: "the connection broke".to_owned(),
        refused: false,
        source: "reset by peer".into(),
    }
}

/// Without jitter and without watch-lists: list, then watch.
pub fn list_first() -> ReflectorConfig {
    let mut config = watch_list_first();
    config.watch_list = false;
    config
}

/// Without jitter: watch-list first, where the source can.
pub fn watch_list_first() -> ReflectorConfig {
    let mut config = ReflectorConfig::default();
    config.jitter = Jitter::None;
    config
}

/// The end of a list or watch, as the hook saw it.
#[derive(Clone, Debug)]
pub struct End {
    pub text: String,
    pub resume: Resume,
    pub pause: Duration,
}

/// A reflector at work, as the test sees it.
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

    /// What followed each of them.
    pub fn resumes(&self) -> Vec<Resume> {
        self.ends().into_iter().map(|end| end.resume).collect()
    }

    /// The pauses after them.
    pub fn pauses(&self) -> Vec<Duration> {
        self.ends().into_iter().map(|end| end.pause).collect()
    }

    pub fn version(&self) -> Option<String> {
        self.handle.last_sync_resource_version()
    }
}

/// Runs a reflector from `source` to `sink` while `test` looks at it, and stops it. At the end nothing is open and
/// no task is left.
pub async fn reflect<T>(
    config: ReflectorConfig,
    source: &Recorded,
    sink: &Sink,
    test: impl AsyncFnOnce(&Reflected) -> T,
) -> T {
    reflect_with(source, sink, |reflector| reflector.config(config), test).await
}

/// The same with more than a configuration.
pub async fn reflect_with<T>(
    source: &Recorded,
    sink: &Sink,
    build: impl FnOnce(Reflector<Pod>) -> Reflector<Pod>,
    test: impl AsyncFnOnce(&Reflected) -> T,
) -> T {
    let tasks = Tasks::now();
    let ends = Arc::new(Mutex::new(Vec::new()));
    let log = ends.clone();
    let reflector = build(Reflector::new(source.clone(), sink.clone()));
    let reflector = reflector.on_stream_end(move |end: &StreamEnd<'_>| {
        log.lock().unwrap().push(End {
            text: end.to_string(),
            resume: end.resume,
            pause: end.pause,
        });
    });
    let reflected = Reflected {
        source: source.clone(),
        sink: sink.clone(),
        handle: reflector.handle(),
        ends,
    };
    let stop = CancellationToken::new();
    let testing = async {
        let outcome = within(PATIENCE, test(&reflected)).await;
        stop.cancel();
        outcome
    };
    let ((), outcome) = tokio::join!(reflector.run(stop.clone()), testing);
    assert_eq!(source.script().open_watches(), 0, "a watch is still open");
    tasks.assert_gone();
    outcome
}

/// What `future` gives, or a panic after so much virtual time.
pub async fn within<T>(patience: Duration, future: impl Future<Output = T>) -> T {
    match timeout(patience, future).await {
        Ok(outcome) => outcome,
        Err(_) => panic!("what the test waits for has not happened after {patience:?}"),
    }
}

/// Asserts that `future` is not ready for so long.
pub async fn not_within<T>(time: Duration, future: impl Future<Output = T>) {
    assert!(
        timeout(time, future).await.is_err(),
        "what must not happen has happened"
    );
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

    /// Whatever was started since then has ended.
    pub fn assert_gone(&self) {
        assert_eq!(self.left(), 0, "a task is left behind");
    }

    /// The same on several threads, where the count may come a moment after the end.
    pub async fn gone(&self) {
        within(seconds(60), async {
            while self.left() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}
