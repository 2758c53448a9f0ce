//! A test with the embedded server: a connection breaks, a pod goes unseen, the server forgets; nothing is missed.
//!
//! In a test of your own, put `#[tokio::test(start_paused = true)]` over it. The clock stands still while anything can
//! run, so that an hour of waiting takes no time and nothing depends on how fast the machine is.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::Informer;
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};
use tokio::time::Instant;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    relist_reports_missing_pods_as_deleted().await?;
    an_hour_without_a_server_costs_nothing_but_time().await?;
    println!("both tests pass");
    Ok(())
}

async fn relist_reports_missing_pods_as_deleted() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let pods = Informer::<Pod>::all(server.client()).start();
    let mut events = pods.subscribe();
    pods.synced().await?;

    server.delete::<Pod>("shop", "cart"); // the pod goes before anybody looks …
    server.skip_versions(5);
    server.compact(); // … history is gone …
    server.break_watches(); // … and the connection breaks: the next watch gets a 410

    assert_eq!(
        events.next().await.ok_or("no event")?.to_string(),
        "added shop/cart (initial)"
    );
    assert_eq!(
        events.next().await.ok_or("no event")?.to_string(),
        "deleted shop/cart (missed)"
    );
    pods.shutdown().await;
    server.assert_nothing_open();
    Ok(())
}

async fn an_hour_without_a_server_costs_nothing_but_time() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let outage = server.fault(RequestMatcher::any().forever(), Fault::status(503));
    let pods = Informer::<Pod>::all(server.client()).start();

    let error = pods.synced_within(Duration::from_secs(3600)).await.unwrap_err();
    println!("{error}");
    let requests = server.requests().len();
    assert!(
        requests < 300,
        "{requests} requests in an hour: it waits between them"
    );

    outage.clear();
    let since = Instant::now();
    pods.synced().await?;
    assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
    assert_eq!(server.count_requests(Verb::Create, "pods"), 0, "it only reads");
    pods.shutdown().await;
    Ok(())
}
