//! Several replicas over one storage.

use http::Request;
use http_body_util::Full;
use k8s_openapi::api::core::v1::Pod;
use kube_testserver::builders::pod;
use kube_testserver::{ReplicaHandle, TestServer};

use crate::common::{FullResponse, Watch, call, finish, get};

async fn get_from(replica: &ReplicaHandle, path: &str) -> FullResponse {
    let request = Request::get(path).body(Full::default()).expect("a request");
    finish(call(&replica.service(), request).await.expect("an response")).await
}

#[tokio::test(start_paused = true)]
async fn f01_lagging_replica_serves_stale_reads() {
    let server = TestServer::builder().replicas(2).build();
    for name in ["a", "b", "c"] {
        server.create(pod("shop", name));
    }
    let slow = server.replica(1);
    slow.lag(2);

    assert_eq!(
        get_from(&slow, "/api/v1/pods?resourceVersion=0").await.items(),
        ["shop/a@2"]
    );
    assert_eq!(
        get(&server, "/api/v1/pods?resourceVersion=0").await.items().len(),
        3
    );

    let started = tokio::time::Instant::now();
    let consistent = get_from(&slow, "/api/v1/pods").await;
    assert_eq!(
        (consistent.items().len(), started.elapsed().as_secs()),
        (3, 3),
        "bypasses the cache after a wait"
    );
    let too_new = get_from(&slow, "/api/v1/pods?resourceVersion=4").await;
    assert_eq!(
        too_new.error().2,
        "Timeout: Too large resource version: 4, current: 2"
    );

    slow.catch_up();
    assert_eq!(
        get_from(&slow, "/api/v1/pods?resourceVersion=4")
            .await
            .items()
            .len(),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn watch_on_a_frozen_replica_waits_until_it_catches_up() {
    let server = TestServer::builder().replicas(2).build();
    let frozen = server.replica(1);
    frozen.freeze();
    let path = "/api/v1/pods?watch=true&resourceVersion=1&allowWatchBookmarks=true";
    let mut watch = Watch::open_as(&frozen.service(), path, "").await;
    server.create(pod("shop", "a"));
    assert_eq!(watch.ready().await, Vec::<String>::new());
    assert_eq!(
        watch.next().await,
        "BOOKMARK @1",
        "a bookmark is not ahead of the replica"
    );

    frozen.catch_up();

    assert_eq!(watch.ready().await, ["ADDED shop/a@2"]);
}

#[tokio::test(start_paused = true)]
async fn f02_watch_list_on_a_lagging_replica_fails_in_band() {
    let server = TestServer::builder().replicas(2).build();
    server.create(pod("shop", "a"));
    server.replica(1).lag(1);
    let path =
        "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=2";

    let mut watch = Watch::open_as(&server.replica(1).service(), path, "").await;

    assert_eq!(
        watch.next().await,
        "ERROR 504 Timeout: Too large resource version: 2, current: 1"
    );
    assert_eq!(watch.next().await, "end");
}

#[tokio::test(start_paused = true)]
async fn frozen_replica_serves_a_version_of_the_past_until_it_catches_up() {
    let server = TestServer::builder().build();
    server.create(pod("shop", "a"));
    let before = server.resource_version();
    server.delete::<Pod>("shop", "a");

    server.replica(0).freeze_at(before);

    let path = "/api/v1/pods?resourceVersion=0";
    assert_eq!(get(&server, path).await.names(), ["shop/a"]);
    assert_eq!(get(&server, "/api/v1/pods").await.names().len(), 0, "consistent");
    server.replica(0).catch_up();
    assert_eq!(get(&server, path).await.names().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn new_requests_are_routed_to_another_replica() {
    let server = TestServer::builder().replicas(2).build();
    server.create(pod("shop", "a"));
    server.replica(1).lag(1);

    server.switch_to_replica(1);

    assert_eq!(
        get(&server, "/api/v1/pods?resourceVersion=0").await.items().len(),
        0
    );
    assert_eq!(server.requests()[0].replica, 1);
}

#[tokio::test(start_paused = true)]
async fn f24_replica_that_is_not_ready_responds_with_retry_after() {
    let server = TestServer::builder().replicas(2).build();
    let unready = server.replica(0);
    let mut watch = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=1").await;

    unready.unready(7);

    assert_eq!(watch.next().await, "end");
    let refused = get(&server, "/api/v1/pods").await;
    assert_eq!(
        (refused.status, refused.headers["retry-after"].to_str().ok()),
        (429, Some("7"))
    );
    assert_eq!(get_from(&server.replica(1), "/api/v1/pods").await.status, 200);
    unready.ready();
    assert_eq!(get(&server, "/api/v1/pods").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn f04_lost_event_leaves_a_phantom_in_one_cache() {
    let server = TestServer::builder().replicas(2).build();
    server.create(pod("shop", "a"));
    server.create(pod("shop", "b"));
    let lossy = server.replica(1);
    let path = "/api/v1/pods?watch=true&resourceVersion=3";
    let mut watch = Watch::open_as(&lossy.service(), path, "").await;
    let mut good = Watch::open(&server, path).await;

    lossy.lose_next("pods", "shop/a");
    server.delete::<Pod>("shop", "a");
    server.delete::<Pod>("shop", "b");

    assert_eq!(watch.ready().await, ["DELETED shop/b@5"]);
    assert_eq!(good.ready().await, ["DELETED shop/a@4", "DELETED shop/b@5"]);
    assert_eq!(
        get_from(&lossy, "/api/v1/pods?resourceVersion=0").await.items(),
        ["shop/a@2"]
    );
    assert_eq!(
        get(&server, "/api/v1/pods?resourceVersion=0").await.items().len(),
        0
    );
    let exact = get_from(
        &lossy,
        "/api/v1/pods?resourceVersion=5&resourceVersionMatch=Exact",
    )
    .await;
    assert_eq!(exact.items().len(), 0, "an exact read uses the storage");

    server.create(pod("shop", "a"));
    assert_eq!(
        get_from(&lossy, "/api/v1/pods?resourceVersion=0").await.items(),
        ["shop/a@6"]
    );
}
