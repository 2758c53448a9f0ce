//! Tests with the embedded server: a watch breaks, a pod is deleted meanwhile, the history is compacted; nothing is
//! missed.
//!
//! In your own test, use `#[tokio::test(start_paused = true)]`. The clock advances only when no task can run, so that
//! an hour of waiting takes no time and the result does not depend on the speed of the machine.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::Informer;
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};
use tokio::time::Instant;

#[tokio::main(flavor = "current_thread", start_paused = true)]
pub async fn run() -> Result<(), Box<dyn std::error::Error>> {
    relist_reports_missing_pods_as_deleted().await?;
    informer_syncs_within_seconds_after_an_outage().await?;
    println!("both tests pass");
    Ok(())
}

async fn relist_reports_missing_pods_as_deleted() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let pods = Informer::<Pod>::all(server.client()).start();
    let mut events = pods.subscribe();
    pods.synced().await?;

    server.delete::<Pod>("shop", "cart"); // deleted while no watch can deliver it …
    server.skip_versions(5);
    server.compact(); // … the history is compacted …
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

async fn informer_syncs_within_seconds_after_an_outage() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let outage = server.fault(RequestMatcher::any().forever(), Fault::status(503));
    let pods = Informer::<Pod>::all(server.client()).start();

    let error = pods.synced_within(Duration::from_secs(3600)).await.unwrap_err();
    println!("{error}");
    let requests = server.requests().len();
    // An outage is retried at most 5 s apart, and never more than 30 times a minute.
    assert!((720..=1800).contains(&requests), "{requests} requests in an hour");

    outage.clear();
    let since = Instant::now();
    pods.synced().await?;
    assert!(since.elapsed() <= Duration::from_secs(5), "{:?}", since.elapsed());
    assert_eq!(
        server.count_requests(Verb::Create, "pods"),
        0,
        "an informer only reads"
    );
    pods.shutdown().await;
    Ok(())
}
