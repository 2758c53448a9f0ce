//! Reading the cache: by label selector, by namespace and name, by owner, by node.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube_informers::{Object, Selector, SharedInformerFactory, indexes};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod, replica_set};

pub async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    let cart: ReplicaSet = server.create(replica_set("shop", "cart"));
    for (name, tier) in [("cart-1", "front"), ("cart-2", "back"), ("cart-3", "front")] {
        let mut pod = Build::label(pod("shop", name), "tier", tier);
        pod.metadata.owner_references = Some(Vec::from_iter(cart.controller_owner_ref(&())));
        pod.spec.get_or_insert_default().node_name = Some("worker-1".to_owned());
        server.create(pod);
    }
    server.create(Build::label(pod("blog", "web"), "tier", "front"));

    let factory = SharedInformerFactory::new(server.client());
    let pods = factory.core().v1().pods().lister();
    let replica_sets = factory.apps().v1().replica_sets().lister();
    factory.start();
    factory.wait_for_sync().await?;

    let front: Selector = "tier in (front, edge), !retired".parse()?;
    println!("{} pods of the front tier", pods.list(&front).len());
    assert_eq!(pods.list(&front).len(), 3);
    assert_eq!(pods.namespace("shop").list(&front).len(), 2);

    // As an `Option`, or as a `Result` with kube's 404.
    assert!(pods.namespace("shop").get("cart-1").is_some());
    let missing = match find(&pods, "cart-9") {
        Err(kube::Error::Api(status)) if status.is_not_found() => status.message,
        other => panic!("expected a 404, got {other:?}"),
    };
    println!("{missing}");

    // From an object to its controller and back.
    let pod = pods.namespace("shop").try_get("cart-2")?;
    let owner = replica_sets.controller_of(&*pod).ok_or("it has a controller")?;
    let siblings = pods.controlled_by(&*owner);
    println!(
        "{} is one of {} pods of {}",
        pod.object_name(),
        siblings.len(),
        owner.object_name()
    );
    assert_eq!((owner.object_name(), siblings.len()), ("cart", 3));

    let by_node = indexes::node_name(pods.store());
    assert_eq!(by_node.count("worker-1"), 3);

    factory.shutdown().await;
    Ok(())
}

fn find(pods: &kube_informers::Lister<Pod>, name: &str) -> Result<String, kube::Error> {
    let pod = pods.namespace("shop").try_get(name)?;
    Ok(pod.object_name().to_owned())
}
