//! A controller that creates pods and has a stale cache.
//!
//! Each ConfigMap requests a number of pods. The server generates their names, so a run that does not see the pods of
//! the previous run creates them again. The fix is `OwnWrites`: a run waits until the cache holds the writes of the last one.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, Resource};
use kube_controller::{Action, Controller, OwnWrites, Reconcile, Watch};
use kube_informers::{Informer, Object, ObjectKey, Store};
use kube_testserver::builders::{Build, config_map, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb, Which};

type Error = Box<dyn std::error::Error + Send + Sync>;

const WANTED: usize = 3;

struct Replicator {
    client: Client,
    sets: Store<ConfigMap>,
    pods: Informer<Pod>,
    writes: OwnWrites,
}

impl Reconcile<ObjectKey> for Replicator {
    type Error = Error;

    async fn reconcile(&self, key: ObjectKey) -> Result<Action, Error> {
        let Some(set) = self.sets.get(&key) else {
            return Ok(Action::Done);
        };
        let data = set.data.as_ref().and_then(|data| data.get("replicas"));
        let wanted: usize = data.ok_or("a set without replicas")?.parse()?;

        let api = Api::<Pod>::namespaced(self.client.clone(), key.namespace().unwrap_or_default());
        // Remembers what is written for this key.
        let api = self.writes.api(&key, api, &self.pods);
        let children = self.pods.lister().controlled_by(&*set);
        for _ in children.len()..wanted {
            api.create(&PostParams::default(), &pod_of(&set)).await?;
        }
        for surplus in children.iter().skip(wanted) {
            api.delete(surplus.object_name(), &DeleteParams::default())
                .await?;
        }
        Ok(Action::Done)
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
    let replicator = Replicator {
        client: server.client(),
        sets: sets.store(),
        pods: pods.clone(),
        writes: OwnWrites::new(),
    };
    let mut controller = Controller::new("replicator")
        .watches(Watch::object(&sets))
        .watches(Watch::owner::<ConfigMap>(&pods));
    if careful {
        // Each run waits until the cache holds the writes of the previous one.
        controller = controller.own_writes(&replicator.writes);
    }
    let controller = controller.start(replicator)?;

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
