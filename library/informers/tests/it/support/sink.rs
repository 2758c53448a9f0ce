//! A target that records its deltas as text, and the resulting collection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use kube_informers::ObjectKey;
use kube_informers::delta::Delta;
use kube_informers::target::{Target, TargetError};
use tokio::sync::watch;

use super::text_of;

/// The target of a reflector under test. Clones are handles to the same sink.
#[derive(Clone)]
pub struct Sink {
    state: Arc<Mutex<SinkState>>,
    changes: Arc<watch::Sender<u64>>,
}

#[derive(Default)]
struct SinkState {
    log: Vec<String>,
    pods: BTreeMap<ObjectKey, Arc<Pod>>,
    /// The deltas to reject: the n-th of a name, counted from 1.
    refusals: Vec<(&'static str, usize)>,
    counts: BTreeMap<&'static str, usize>,
}

impl Sink {
    pub fn new() -> Self {
        Self {
            state: Arc::default(),
            changes: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Rejects the n-th delta of this name.
    pub fn refusing(self, name: &'static str, nth: usize) -> Self {
        self.state.lock().unwrap().refusals.push((name, nth));
        self
    }

    /// The deltas: `replaced @3 [foo@1 bar@2]`, `added foo@4`, `bookmark @5`, `sync`.
    pub fn log(&self) -> Vec<String> {
        self.state.lock().unwrap().log.clone()
    }

    /// The collection: `foo@1`, by key.
    pub fn pods(&self) -> Vec<String> {
        self.state
            .lock()
            .unwrap()
            .pods
            .values()
            .map(|pod| text_of(pod))
            .collect()
    }

    /// Removes and returns the objects of the collection, by key.
    pub fn take_pods(&self) -> Vec<Arc<Pod>> {
        let pods = std::mem::take(&mut self.state.lock().unwrap().pods);
        pods.into_values().collect()
    }

    /// Waits for this number of deltas, including rejected ones, and returns them as text.
    pub async fn seen(&self, count: usize) -> Vec<String> {
        self.wait_for(|sink| sink.log().len() >= count).await;
        self.log()
    }

    /// Waits until the collection has these contents.
    pub async fn holds(&self, pods: &[&str]) {
        self.wait_for(|sink| sink.pods() == pods).await;
    }

    async fn wait_for(&self, condition: impl Fn(&Self) -> bool) {
        let mut changes = self.changes.subscribe();
        while !condition(self) {
            changes.changed().await.unwrap();
        }
    }
}

impl SinkState {
    fn refuses(&mut self, name: &'static str) -> bool {
        let count = self.counts.entry(name).or_default();
        *count += 1;
        self.refusals.contains(&(name, *count))
    }

    fn take(&mut self, delta: &Delta<Pod>) {
        match delta {
            Delta::ReplacedAll(list) => {
                self.pods = list
                    .objects
                    .iter()
                    .map(|pod| (ObjectKey::of(&**pod), pod.clone()))
                    .collect();
            }
            Delta::Added(pod) | Delta::Updated(pod) => {
                self.pods.insert(ObjectKey::of(&**pod), pod.clone());
            }
            Delta::Deleted(pod) => {
                self.pods.remove(&ObjectKey::of(&**pod));
            }
            Delta::DeletedUnreadable(bad) => {
                if let Some(key) = &bad.key {
                    self.pods.remove(key);
                }
            }
            Delta::Dropped { key, .. } => {
                self.pods.remove(key);
            }
            _ => {}
        }
    }
}

fn text(delta: &Delta<Pod>) -> String {
    match delta {
        Delta::ReplacedAll(list) => {
            let pods: Vec<String> = list.objects.iter().map(|pod| text_of(pod)).collect();
            let version = list.resource_version.as_deref().unwrap_or("-");
            format!("replaced @{version} [{}]", pods.join(" "))
        }
        Delta::Bookmark { resource_version } => format!("bookmark @{resource_version}"),
        Delta::SyncAll => "sync".to_owned(),
        other => match (other.object(), other.key()) {
            (Some(pod), _) => format!("{} {}", other.name().to_lowercase(), text_of(pod)),
            (None, Some(key)) => format!("{} {key}", other.name().to_lowercase()),
            (None, None) => other.name().to_lowercase(),
        },
    }
}

impl Target<Pod> for Sink {
    fn accept(&self, delta: Delta<Pod>) -> Result<(), TargetError> {
        let mut state = self.state.lock().unwrap();
        state.log.push(text(&delta));
        let refused = state.refuses(delta.name());
        if !refused {
            state.take(&delta);
        }
        drop(state);
        self.changes.send_modify(|count| *count += 1);
        match refused {
            true => Err("the test says no".into()),
            false => Ok(()),
        }
    }
}
