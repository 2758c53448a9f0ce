//! Traces one object through every stage, with the library's trace logs.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::{Event, Informer};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod};

pub async fn run() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_env_filter("kube_informers=trace")
        .with_target(true)
        .without_time()
        .init();

    let server = TestServer::new();
    let pods = Informer::<Pod>::all(server.client()).start();
    pods.add_event_handler(|event: Event<Pod>| println!("the handler received: {event}"))?;
    pods.synced().await?;

    println!("--- a pod is created");
    server.create(pod("shop", "cart"));
    pods.wait_for_within(&server.resource_version().to_string(), Duration::from_secs(5))
        .await?;
    println!("--- it gets a label");
    server.modify::<Pod>("shop", "cart", |pod| *pod = pod.clone().label("tier", "front"));
    pods.wait_for_within(&server.resource_version().to_string(), Duration::from_secs(5))
        .await?;
    println!("--- it is deleted");
    server.delete::<Pod>("shop", "cart");
    pods.wait_for_within(&server.resource_version().to_string(), Duration::from_secs(5))
        .await?;

    pods.drain_within(Duration::from_secs(5)).await;
    Ok(())
}
