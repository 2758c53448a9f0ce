//! The shortest useful program: a cache of pods, and a line for every change.

use k8s_openapi::api::core::v1::Pod;
use kube_informers::{Event, Informer};
use kube_informers_examples::cluster;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = cluster().await?;

    let pods = Informer::<Pod>::all(cluster.client).start();
    pods.add_event_handler(|event: Event<Pod>| println!("{event}"))?;
    pods.synced().await?;
    println!("{} pods cached", pods.store().len());

    match cluster.server {
        Some(server) => assert_eq!(pods.store().len(), server.count("pods")),
        None => tokio::signal::ctrl_c().await?,
    }
    pods.shutdown().await;
    Ok(())
}
