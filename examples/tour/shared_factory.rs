//! One factory for a whole program: informers are shared, started together, waited for together, stopped together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::PartialObjectMeta;
use kube_informers::source::SourceOptions;
use kube_informers::{Event, Scope, SharedInformerFactory};
use kube_testserver::TestServer;
use kube_testserver::builders::{deployment, node, pod};

pub async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    server.create(node("worker-1"));
    server.create(deployment("shop", "cart"));
    for name in ["cart-1", "cart-2"] {
        server.create(pod("shop", name));
    }
    server.create(pod("kube-system", "dns"));

    let factory = SharedInformerFactory::builder(server.client())
        .resync(Duration::from_secs(600))
        .source(SourceOptions {
            drop_managed_fields: Some(true),
            ..Default::default()
        })
        .build();

    // Requests for the same objects share one watch and one cache.
    let pods = factory.core().v1().pods();
    let again = factory.informer::<Pod>();
    let system = factory.scoped(Scope::namespace("kube-system")).informer::<Pod>();
    let metadata = factory.informer::<PartialObjectMeta<Pod>>();
    let deployments = factory.for_resource("deployments.v1.apps").await?;

    // A handler keeps its informer alive: the program need not keep a handle.
    let nodes_seen = Arc::new(AtomicUsize::new(0));
    let seen = nodes_seen.clone();
    factory
        .core()
        .v1()
        .nodes()
        .add_event_handler(move |event: Event<Node>| {
            println!("{event}");
            seen.fetch_add(1, Ordering::SeqCst);
        })?;

    factory.start();
    factory.wait_for_sync_within(Duration::from_secs(10)).await?;

    assert_eq!(factory.informers(), 5);
    assert_eq!(pods.store().len(), 3);
    assert!(Arc::ptr_eq(
        &pods.lister().namespace("shop").try_get("cart-1")?,
        &again.lister().namespace("shop").try_get("cart-1")?
    ));
    assert_eq!(system.store().len(), 1);
    assert_eq!(metadata.store().len(), 3);
    assert!(deployments.lister().namespace("shop").get("cart").is_some());
    println!(
        "{} informers over {} watches",
        factory.informers(),
        server.open_watches()
    );

    // A real program stops on a signal; this one stops after the node was seen.
    let node_was_seen = async {
        while nodes_seen.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    factory.run_until(node_was_seen).await?;
    server.assert_nothing_open();
    println!("everything has stopped");
    Ok(())
}
