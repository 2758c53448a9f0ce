//! One view and one controller over three clusters, of which one dies and one joins later.
//!
//! Each cluster has its own factory. `Clusters` combines their informers: keys name the cluster, one handler receives the
//! events of all, and a cluster that cannot be reached delays no other.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_controller::{ClusterEvent, ClusterKey, Clusters, Controller, Watch};
use kube_informers::{ObjectKey, SharedInformerFactory};
use kube_testserver::TestServer;
use kube_testserver::builders::pod;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Adds a cluster to the view. More kinds would be more views with informers of the same factory.
fn join(pods: &Clusters<Pod>, name: &str, client: kube::Client) -> Result<SharedInformerFactory, Error> {
    let factory = SharedInformerFactory::new(client);
    pods.add(name, &factory.informer::<Pod>())?;
    factory.start();
    Ok(factory)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Error> {
    let pods = Clusters::<Pod>::new();
    pods.add_event_handler(|event: ClusterEvent<Pod>| println!("  {event}"));

    let (log, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let view = pods.clone();
    let controller = Controller::<ClusterKey>::new("fleet").start(async move |key: ClusterKey| {
        let state = match (view.informer(&key.cluster), view.get(&key)) {
            (None, _) => "its cluster was removed",
            (_, None) => "deleted",
            (_, Some(_)) => "exists",
        };
        log.send(format!("{key}: {state}")).map_err(|_| "nobody listens")
    })?;
    pods.watch_with(&controller, Watch::object);
    let mut next = async || {
        let run = tokio::time::timeout(Duration::from_secs(10), seen.recv());
        let run = run.await?.ok_or("the controller ended")?;
        println!("reconciled {run}");
        Ok::<_, Error>(run)
    };

    let [east, west, south] = std::array::from_fn(|_| TestServer::new());
    for server in [&east, &west, &south] {
        server.create(pod("shop", "cart"));
    }
    let eastern = join(&pods, "east", east.client())?;
    assert_eq!(next().await?, "east:shop/cart: exists");
    let western = join(&pods, "west", west.client())?;
    assert_eq!(next().await?, "west:shop/cart: exists");

    println!("east dies, and the others go on");
    east.refuse_connections(true);
    east.break_watches();
    west.create(pod("shop", "order"));
    assert_eq!(next().await?, "west:shop/order: exists");
    let southern = join(&pods, "south", south.client())?;
    assert_eq!(next().await?, "south:shop/cart: exists");

    println!("the last known pods of east stay readable, and their age is known");
    tokio::time::sleep(Duration::from_secs(120)).await;
    let cart = ClusterKey::new("east", ObjectKey::namespaced("shop", "cart"));
    assert!(pods.get(&cart).is_some());
    assert_eq!(pods.list().len(), 4);
    for state in pods.states() {
        let age = state.freshness.unwrap_or_default();
        println!("  {}: {}, proven current {age:?} ago", state.cluster, state.state);
        assert_eq!(age > Duration::from_secs(100), &*state.cluster == "east");
    }

    println!("east is removed");
    pods.remove("east").await.ok_or("east is there")?;
    eastern.shutdown().await;
    assert!(pods.get(&cart).is_none());
    assert_eq!(pods.list().len(), 3);
    south.delete::<Pod>("shop", "cart");
    assert_eq!(next().await?, "south:shop/cart: deleted");

    controller.shutdown().await?;
    for factory in [western, southern] {
        factory.shutdown().await;
    }
    Ok(())
}
