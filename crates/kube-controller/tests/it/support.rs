//! What the tests share: informers on a server, a reconciler that keeps a log, virtual time.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Resource;
use kube_controller::Reconcile;
use kube_informers::reflector::Jitter;
use kube_informers::{Informer, Object, ObjectKey};
use kube_testserver::TestServer;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Lets so much virtual time pass. On the paused clock it passes only while nothing can run.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Lets everything run that can run now.
pub async fn settle() {
    pass(ms(1)).await;
}

/// What `future` gives, or a panic after five virtual minutes.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(secs(300), future).await {
        Ok(outcome) => outcome,
        Err(_) => panic!("{what}: not so after five minutes"),
    }
}

/// An informer of all objects of a type.
pub fn informer<K>(server: &TestServer) -> Informer<K>
where
    K: Object + Resource<DynamicType: Default> + DeserializeOwned,
{
    Informer::<K>::all(server.client())
        .configure(|config| config.jitter = Jitter::Seeded(7))
        .start()
}

pub fn pods(server: &TestServer) -> Informer<Pod> {
    informer(server)
}

pub fn maps(server: &TestServer) -> Informer<ConfigMap> {
    informer(server)
}

/// Makes `owner` the controller of an object.
pub fn owned<K: Resource>(mut object: K, owner: &impl Resource<DynamicType = ()>) -> K {
    object.meta_mut().owner_references = Some(Vec::from_iter(owner.controller_owner_ref(&())));
    object
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

/// The log of a reconciler, and who is inside it.
#[derive(Clone)]
pub struct Runs(Arc<Mutex<State>>);

struct State {
    began: Instant,
    log: Vec<(Duration, String)>,
    finished: usize,
    inside: BTreeSet<String>,
    most: usize,
    twice: bool,
}

impl Runs {
    pub fn new() -> Self {
        Runs(Arc::new(Mutex::new(State {
            began: Instant::now(),
            log: Vec::new(),
            finished: 0,
            inside: BTreeSet::new(),
            most: 0,
            twice: false,
        })))
    }

    /// Notes that a run begins; it ends when the guard is dropped.
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

    /// A reconciler that does nothing but keep the log.
    pub fn reconciler(&self) -> impl Reconcile<ObjectKey> + use<> {
        self.taking(Duration::ZERO)
    }

    /// A reconciler that takes so long.
    pub fn taking(&self, time: Duration) -> impl Reconcile<ObjectKey> + use<> {
        let runs = self.clone();
        move |key: ObjectKey| {
            let runs = runs.clone();
            async move {
                let _inside = runs.enter(&key);
                if !time.is_zero() {
                    pass(time).await;
                }
                runs.0.lock().finished += 1;
                Ok::<(), String>(())
            }
        }
    }

    /// The keys in the order of their runs, since the last look.
    pub fn take(&self) -> Vec<String> {
        let log = std::mem::take(&mut self.0.lock().log);
        log.into_iter().map(|(_, key)| key).collect()
    }

    /// The same in alphabetical order, each once.
    pub fn take_set(&self) -> Vec<String> {
        let keys: BTreeSet<String> = self.take().into_iter().collect();
        keys.into_iter().collect()
    }

    pub fn count(&self) -> usize {
        self.0.lock().log.len()
    }

    /// The pauses between one run and the next.
    pub fn gaps(&self) -> Vec<Duration> {
        let log = &self.0.lock().log;
        log.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }

    /// How many runs came to their end.
    pub fn finished(&self) -> usize {
        self.0.lock().finished
    }

    pub fn inside(&self) -> usize {
        self.0.lock().inside.len()
    }

    /// How many runs there were at most at a time.
    pub fn most(&self) -> usize {
        self.0.lock().most
    }

    /// Whether one key ran twice at a time.
    pub fn twice(&self) -> bool {
        self.0.lock().twice
    }

    /// Waits until there have been so many runs since the last look.
    pub async fn until_count(&self, count: usize) {
        soon("so many runs", async {
            while self.count() < count {
                settle().await;
            }
        })
        .await;
    }
}

/// A run that is under way.
pub struct Inside {
    runs: Runs,
    key: String,
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.runs.0.lock().inside.remove(&self.key);
    }
}
