//! Shared helpers: informers on a server, a reconciler with a log, virtual time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Resource;
use kube_controller::{Reconcile, reconcile_fn};
use kube_informers::reflector::Jitter;
use kube_informers::source::{FromWire, KnownResource};
use kube_informers::{Informer, ObjectKey};
pub use kube_test_kit::{CapturedLogs, ms, owned, pass, secs, settle, soon};
use kube_testserver::TestServer;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// An informer of all objects of a type.
pub fn informer<K>(server: &TestServer) -> Informer<K>
where
    K: FromWire + KnownResource,
{
    Informer::<K>::all(server.client())
        .configure(|config| config.jitter = Jitter::Seeded(7))
        .start()
}

pub fn pods(server: &TestServer) -> Informer<Pod> {
    kube_test_kit::pods(server).start()
}

pub fn maps(server: &TestServer) -> Informer<ConfigMap> {
    kube_test_kit::maps(server).start()
}

/// Replaces the owners of a stored object.
pub fn give<K>(server: &TestServer, name: &str, owner: &impl Resource<DynamicType = ()>)
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let owners = Vec::from_iter(owner.controller_owner_ref(&()));
    server.modify::<K>("shop", name, |object| {
        object.meta_mut().owner_references = Some(owners)
    });
}

/// The log of a reconciler, and its runs in flight.
#[derive(Clone)]
pub struct Runs(Arc<Mutex<RunsState>>);

struct RunsState {
    began: Instant,
    log: Vec<(Duration, String)>,
    finished: usize,
    inside: BTreeSet<String>,
    most: usize,
    twice: bool,
}

impl Runs {
    pub fn new() -> Self {
        Runs(Arc::new(Mutex::new(RunsState {
            began: Instant::now(),
            log: Vec::new(),
            finished: 0,
            inside: BTreeSet::new(),
            most: 0,
            twice: false,
        })))
    }

    /// Records the start of a run; it ends when the guard is dropped.
    pub fn enter(&self, key: &ObjectKey) -> Inside {
        let mut state = self.0.lock();
        let began = state.began.elapsed();
        state.log.push((began, key.to_string()));
        state.twice |= !state.inside.insert(key.to_string());
        state.most = state.most.max(state.inside.len());
        Inside {
            runs: self.clone(),
            key: key.to_string(),
        }
    }

    /// A reconciler that only keeps the log.
    pub fn reconciler(&self) -> impl Reconcile<ObjectKey> + use<> {
        self.taking(Duration::ZERO)
    }

    /// A reconciler with runs of this duration.
    pub fn taking(&self, time: Duration) -> impl Reconcile<ObjectKey> + use<> {
        let runs = self.clone();
        reconcile_fn(async move |key: ObjectKey| {
            let _inside = runs.enter(&key);
            if !time.is_zero() {
                pass(time).await;
            }
            runs.0.lock().finished += 1;
            Ok::<(), String>(())
        })
    }

    /// The keys in the order of their runs, since the last call.
    pub fn take(&self) -> Vec<String> {
        let log = std::mem::take(&mut self.0.lock().log);
        log.into_iter().map(|(_, key)| key).collect()
    }

    /// The same, sorted and deduplicated.
    pub fn take_set(&self) -> Vec<String> {
        let keys: BTreeSet<String> = self.take().into_iter().collect();
        keys.into_iter().collect()
    }

    pub fn count(&self) -> usize {
        self.0.lock().log.len()
    }

    /// The pauses between consecutive runs.
    pub fn gaps(&self) -> Vec<Duration> {
        let log = &self.0.lock().log;
        log.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }

    /// The number of completed runs.
    pub fn finished(&self) -> usize {
        self.0.lock().finished
    }

    pub fn inside(&self) -> usize {
        self.0.lock().inside.len()
    }

    /// The maximum number of concurrent runs.
    pub fn most(&self) -> usize {
        self.0.lock().most
    }

    /// Whether one key had two concurrent runs.
    pub fn twice(&self) -> bool {
        self.0.lock().twice
    }

    /// Waits for a number of runs since the last call of [`Runs::take`].
    pub async fn wait_for_count(&self, count: usize) {
        soon("the number of runs", async {
            while self.count() < count {
                settle().await;
            }
        })
        .await;
    }
}

/// A run in flight.
pub struct Inside {
    runs: Runs,
    key: String,
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.runs.0.lock().inside.remove(&self.key);
    }
}
