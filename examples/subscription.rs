//! Events as a stream: the initial objects, then every change, including deletes missed while disconnected.

use k8s_openapi::api::core::v1::Pod;
use kube_informers::{Cause, Event, Informer};
use kube_testserver::TestServer;
use kube_testserver::builders::pod;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let pods = Informer::<Pod>::all(server.client()).start();
    let mut events = pods.subscribe();
    pods.synced().await?;

    // The connection breaks, the pod is deleted meanwhile, and the server's history is compacted: the next watch is
    // rejected, and only a list shows that the pod was deleted.
    server.delete::<Pod>("shop", "cart");
    server.create(pod("shop", "till"));
    server.compact();
    server.break_watches();

    let mut received = Vec::new();
    while let Some(event) = events.next().await {
        println!("{event}");
        received.push(event.to_string());
        match event {
            Event::Deleted {
                cause: Cause::Missed, ..
            } => println!("  (missed delete)"),
            Event::Added { initial: false, .. } => break,
            _ => {}
        }
    }
    assert!(received.contains(&"added shop/cart (initial)".to_owned()));
    assert!(
        received
            .iter()
            .any(|event| event.starts_with("deleted shop/cart"))
    );
    pods.shutdown().await;
    Ok(())
}
