//! A controller that creates pods and has a stale cache.
//!
//! Each ConfigMap requests a number of pods. The server generates their names, so a run that does not see the pods of
//! the previous run creates them again. The fix is to wait for the version of the last own write before deciding.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, Resource};
use kube_controller::{Controller, Watch};
use kube_informers::{Informer, Object, ObjectKey, Store};
use kube_testserver::builders::{Build, config_map, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb, Which};

type Error = Box<dyn std::error::Error + Send + Sync>;

const WANTED: usize = 3;

struct Replicator {
    client: Client,
    sets: Store<ConfigMap>,
    pods: Informer<Pod>,
    /// The version of the last own write for each key; `None`: acts on the cache as it is.
    written: Option<Mutex<HashMap<ObjectKey, String>>>,
}

impl Replicator {
    async fn reconcile(&self, key: &ObjectKey) -> Result<(), Error> {
        // First, so that it also holds after a run that failed half-way.
        self.caught_up(key).await?;
        let Some(set) = self.sets.get(key) else {
            self.forget(key);
            return Ok(());
        };
        let data = set.data.as_ref().and_then(|data| data.get("replicas"));
        let wanted: usize = data.ok_or("a set without replicas")?.parse()?;

        let api = Api::<Pod>::namespaced(self.client.clone(), key.namespace().unwrap_or_default());
        let there = self.pods.lister().controlled_by(&*set);
        for _ in there.len()..wanted {
            let made = api.create(&PostParams::default(), &pod_of(&set)).await?;
            self.wrote(key, made.metadata.resource_version);
        }
        for surplus in there.iter().skip(wanted) {
            let gone = api
                .delete(surplus.object_name(), &DeleteParams::default())
                .await?;
            self.wrote(key, gone.left().and_then(|pod| pod.metadata.resource_version));
        }
        Ok(())
    }

    async fn caught_up(&self, key: &ObjectKey) -> Result<(), Error> {
        let version = match &self.written {
            Some(written) => written.lock().unwrap().get(key).cloned(),
            None => None,
        };
        if let Some(version) = version {
            self.pods.wait_for(&version, Duration::from_secs(10)).await?;
        }
        Ok(())
    }

    fn wrote(&self, key: &ObjectKey, version: Option<String>) {
        if let (Some(written), Some(version)) = (&self.written, version) {
            written.lock().unwrap().insert(key.clone(), version);
        }
    }

    fn forget(&self, key: &ObjectKey) {
        if let Some(written) = &self.written {
            written.lock().unwrap().remove(key);
        }
    }
}

fn pod_of(set: &ConfigMap) -> Pod {
    let mut pod = pod(set.object_namespace().unwrap_or_default(), "");
    pod.metadata.name = None;
    pod.metadata.generate_name = Some(format!("{}-", set.object_name()));
    pod.metadata.owner_references = Some(Vec::from_iter(set.controller_owner_ref(&())));
    pod
}

/// Runs the controller against a server with delayed watches, adds keys repeatedly, and returns the number of pods
/// created.
async fn run(careful: bool) -> Result<usize, Error> {
    let server = TestServer::new();
    let mut set = config_map("shop", "cart");
    set.data = Some([("replicas".to_owned(), WANTED.to_string())].into());
    server.create(set);
    // Every pod event is delayed by 50 ms.
    server.fault(
        RequestMatcher::watch("pods").forever(),
        Fault::delay_events(Which::All, Duration::from_millis(50)),
    );

    let sets = Informer::<ConfigMap>::all(server.client()).start();
    let pods = Informer::<Pod>::all(server.client()).start();
    let replicator = Arc::new(Replicator {
        client: server.client(),
        sets: sets.store(),
        pods: pods.clone(),
        written: careful.then(Mutex::default),
    });
    let controller = Controller::new("replicator")
        .watches(Watch::object(&sets))
        .watches(Watch::owner::<ConfigMap>(&pods))
        .start(move |key: ObjectKey| {
            let replicator = replicator.clone();
            async move { replicator.reconcile(&key).await }
        })?;

    let finished = |runs: u64| {
        let queue = controller.queue();
        async move {
            while queue.stats().work_duration.count() < runs {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    finished(1).await;
    for touch in 1..=5 {
        server.modify::<ConfigMap>("shop", "cart", |set| {
            *set = set.clone().label("touched", &touch.to_string());
        });
        finished(1 + touch).await;
    }
    controller.shutdown().await?;
    sets.shutdown().await;
    pods.shutdown().await;
    Ok(server.count_requests(Verb::Create, "pods"))
}

// On a paused clock, so that the cache is stale on every machine.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Error> {
    let made = run(true).await?;
    println!("{WANTED} pods wanted, {made} created by a controller that waits for its own writes");
    assert_eq!(made, WANTED);

    let made = run(false).await?;
    println!("{WANTED} pods wanted, {made} created by one that does not");
    assert!(made > WANTED, "the cache was not stale, so this proves nothing");
    Ok(())
}
