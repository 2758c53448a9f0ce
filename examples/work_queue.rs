//! A hand-written controller: handlers add keys to a rate-limited queue, workers process them and retry failures.
//!
//! `kube_controller::Controller` does the same with less code; see the sample controller.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::Resource;
use kube_controller::OwnerKeys;
use kube_informers::{Event, Lister, ObjectKey, SharedInformerFactory};
use kube_testserver::TestServer;
use kube_testserver::builders::{deployment, replica_set};
use kube_workqueue::{Item, WorkQueue, limiter, workers};

/// The number of runs of each key.
type Runs = Arc<Mutex<BTreeMap<String, u32>>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    let cart: Deployment = server.create(deployment("shop", "cart"));
    server.create(deployment("shop", "broken"));
    let factory = SharedInformerFactory::new(server.client());
    let deployments = factory.apps().v1().deployments();
    let replica_sets = factory.apps().v1().replica_sets();

    let queue = WorkQueue::new(limiter::controller_default());
    let keys = queue.clone();
    let own = deployments.add_event_handler(move |event: Event<Deployment>| keys.add(event.key()))?;
    let (keys, owners) = (queue.clone(), OwnerKeys::of::<Deployment>());
    let owned = replica_sets.add_event_handler(move |event: Event<ReplicaSet>| {
        // Also for the old state of an update, which may have had another owner.
        if let Event::Updated { old, .. } = &event {
            owners.keys(&**old).into_iter().for_each(|owner| keys.add(owner));
        }
        owners
            .keys(&**event.object())
            .into_iter()
            .for_each(|owner| keys.add(owner));
    })?;
    factory.start();
    // Start after all initial objects are queued: a worker must not act on an incomplete cache.
    own.synced().await?;
    owned.synced().await?;

    let (lister, runs) = (deployments.lister(), Runs::default());
    let (read, log) = (lister.clone(), runs.clone());
    let workers = workers(4, &queue, move |item: Item<ObjectKey>| {
        let (lister, log) = (read.clone(), log.clone());
        async move {
            match reconcile(&lister, &log, &item) {
                Ok(()) => item.forget(),
                Err(error) if item.num_requeues() < 5 => {
                    println!("{}: {error}, tries again", *item);
                    item.retry();
                }
                Err(error) => {
                    println!("{}: {error}, gives up", *item);
                    item.forget();
                }
            }
        }
    });

    let count = |key: &str| runs.lock().unwrap().get(key).copied().unwrap_or_default();
    wait_for("both were reconciled", || {
        count("shop/cart") == 1 && count("shop/broken") == 6
    })
    .await?;

    let mut set = replica_set("shop", "cart-1");
    set.metadata.owner_references = Some(Vec::from_iter(cart.controller_owner_ref(&())));
    server.create(set);
    wait_for("its replica set leads to cart", || count("shop/cart") == 2).await?;

    queue.drain().await;
    workers.join().await;
    factory.shutdown().await;
    server.assert_nothing_open();
    println!("{} keys were retried, none is left", queue.stats().retries);
    assert_eq!((queue.stats().retries, queue.len()), (5, 0));
    Ok(())
}

fn reconcile(deployments: &Lister<Deployment>, runs: &Runs, key: &ObjectKey) -> Result<(), String> {
    *runs.lock().unwrap().entry(key.to_string()).or_default() += 1;
    let Some(deployment) = deployments.get(key) else {
        println!("{key} is gone");
        return Ok(());
    };
    if key.name() == "broken" {
        return Err("cannot be rolled out".to_owned());
    }
    println!("{key} wants {} replicas", deployment.spec.replicas.unwrap_or(1));
    Ok(())
}

/// Checks every 10 ms, for at most 10 s.
async fn wait_for(what: &str, condition: impl Fn() -> bool) -> Result<(), String> {
    for _ in 0..1000 {
        if condition() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("{what}: not met after 10 s"))
}
