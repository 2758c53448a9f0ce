//! A controller that creates pods and has a stale cache.
//!
//! Each ConfigMap requests a number of pods. The server generates their names, so a run that does not see the pods of
//! the previous run creates them again. The fix is `OwnWrites`: a run waits until the cache holds the writes of the last one.

mod replicator;

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_controller::{Controller, OwnWrites, Watch};
use kube_informers::Informer;
use kube_testserver::builders::{Build, config_map};
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb, Which};

use crate::replicator::Replicator;

type Error = Box<dyn std::error::Error + Send + Sync>;

const WANTED: usize = 3;

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
