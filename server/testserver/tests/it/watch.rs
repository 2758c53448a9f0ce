//! Watches: events, bookmarks, initial events, ends.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, config_map, pod};

use crate::common::{Watch, get};

#[tokio::test(start_paused = true)]
async fn watch_sends_changes_after_its_version() {
    let server = TestServer::new();
    server.create(pod("shop", "a"));
    let mut watch = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=2").await;
    assert_eq!(watch.ready().await, Vec::<String>::new());

    server.create(pod("shop", "b"));
    server.update(pod("shop", "a").label("app", "web"));
    server.delete::<Pod>("shop", "b");

    assert_eq!(
        watch.ready().await,
        ["ADDED shop/b@3", "MODIFIED shop/a@4", "DELETED shop/b@5"]
    );
}

#[tokio::test(start_paused = true)]
async fn initial_events_are_sorted_by_key_and_end_with_a_marker() {
    let server = TestServer::new();
    for name in ["c", "a", "b"] {
        server.create(pod("shop", name));
    }
    let path = "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = Watch::open(&server, path).await;
    server.create(pod("shop", "d"));

    assert_eq!(
        watch.ready().await,
        [
            "ADDED shop/a@3",
            "ADDED shop/b@4",
            "ADDED shop/c@2",
            "BOOKMARK end @4",
            "ADDED shop/d@5"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn watch_without_a_version_starts_with_initial_events() {
    let server = TestServer::new();
    server.create(pod("shop", "a"));

    let mut plain = Watch::open(&server, "/api/v1/pods?watch=true").await;
    let mut marked = Watch::open(
        &server,
        "/api/v1/pods?watch=true&resourceVersion=0&allowWatchBookmarks=true",
    )
    .await;

    assert_eq!(plain.ready().await, ["ADDED shop/a@2"]);
    assert_eq!(marked.ready().await, ["ADDED shop/a@2", "BOOKMARK end @2"]);
}

#[tokio::test(start_paused = true)]
async fn object_leaving_the_selection_is_deleted_with_its_previous_state() {
    let server = TestServer::new();
    let path = "/api/v1/pods?watch=true&resourceVersion=1&labelSelector=app%3Dweb";
    let mut watch = Watch::open(&server, path).await;

    server.create(pod("shop", "a").label("app", "db"));
    server.update(pod("shop", "a").label("app", "web"));
    server.update(pod("shop", "a").label("app", "web").label("tier", "1"));
    server.update(pod("shop", "a").label("app", "db").label("tier", "2"));
    server.delete::<Pod>("shop", "a");

    assert_eq!(watch.next().await, "ADDED shop/a@3");
    assert_eq!(watch.next().await, "MODIFIED shop/a@4");
    let left = watch.frame().await.expect("whole").expect("a frame");
    assert_eq!(left["type"], "DELETED");
    assert_eq!(left["object"]["metadata"]["resourceVersion"], "5");
    assert_eq!(left["object"]["metadata"]["labels"]["app"], "web");
    assert_eq!(watch.ready().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn watch_covers_only_its_namespace() {
    let server = TestServer::new();
    let mut watch = Watch::open(
        &server,
        "/api/v1/namespaces/shop/pods?watch=true&resourceVersion=1",
    )
    .await;

    server.create(pod("other", "a"));
    server.create(config_map("shop", "a"));
    server.create(pod("shop", "b"));

    assert_eq!(watch.ready().await, ["ADDED shop/b@4"]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_sent_every_minute_and_shortly_before_the_end() {
    let server = TestServer::new();
    let path = "/api/v1/pods?watch=true&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=100";
    let mut watch = Watch::open(&server, path).await;
    let started = tokio::time::Instant::now();
    server.create(config_map("shop", "elsewhere"));

    assert_eq!(
        (watch.next().await.as_str(), started.elapsed().as_secs()),
        ("BOOKMARK @2", 60)
    );
    assert_eq!(
        (watch.next().await.as_str(), started.elapsed().as_secs()),
        ("BOOKMARK @2", 98)
    );
    assert_eq!(
        (watch.next().await.as_str(), started.elapsed().as_secs()),
        ("end", 100)
    );
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_sent_on_request_only() {
    let server = TestServer::new();
    let mut watch = Watch::open(
        &server,
        "/api/v1/pods?watch=true&resourceVersion=1&timeoutSeconds=600",
    )
    .await;

    assert_eq!(watch.next().await, "end");
}

#[tokio::test(start_paused = true)]
async fn watch_from_a_compacted_version_receives_a_410_event() {
    let server = TestServer::new();
    for name in ["a", "b", "c"] {
        server.create(pod("shop", name));
    }
    server.compact();

    let mut watch = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=2").await;

    assert_eq!(watch.next().await, "ERROR 410 too old resource version: 2 (4)");
    assert_eq!(watch.next().await, "end");
}

#[tokio::test(start_paused = true)]
async fn small_window_expires_watches() {
    let server = TestServer::builder().watch_window(2).build();
    let mut slow = Watch::open(&server, "/api/v1/configmaps?watch=true&resourceVersion=1").await;
    for name in ["a", "b", "c"] {
        server.create(config_map("shop", name));
    }

    let mut watch = Watch::open(&server, "/api/v1/configmaps?watch=true&resourceVersion=1").await;

    assert_eq!(watch.next().await, "ERROR 410 too old resource version: 1 (2)");
    assert_eq!(
        slow.next().await,
        "end",
        "a watch that falls out of the window is closed without an error"
    );
}

#[tokio::test(start_paused = true)]
async fn slow_watch_is_closed() {
    let server = TestServer::builder().slow_watch_limit(10).build();
    let mut watch = Watch::open(&server, "/api/v1/configmaps?watch=true&resourceVersion=1").await;
    for number in 0..10 {
        server.create(config_map("shop", &format!("a{number}")));
    }
    assert_eq!(watch.ready().await.len(), 10);

    for number in 0..11 {
        server.create(config_map("shop", &format!("b{number}")));
    }

    assert_eq!(watch.ready().await, ["end"]);
}

#[tokio::test(start_paused = true)]
async fn watch_from_a_future_version_is_silent_until_that_version() {
    let server = TestServer::new();
    let path = "/api/v1/pods?watch=true&resourceVersion=4&allowWatchBookmarks=true&timeoutSeconds=300";
    let mut watch = Watch::open(&server, path).await;
    server.create(pod("shop", "a"));
    server.create(pod("shop", "b"));
    tokio::time::advance(Duration::from_secs(100)).await;
    assert_eq!(watch.ready().await, Vec::<String>::new());

    server.create(pod("shop", "c"));
    server.create(pod("shop", "d"));

    assert_eq!(watch.ready().await, ["ADDED shop/d@5"]);
}

#[tokio::test(start_paused = true)]
async fn non_numeric_version_is_a_500_without_a_reason() {
    let server = TestServer::new();

    let refused = get(&server, "/api/v1/pods?watch=true&resourceVersion=x").await;

    assert_eq!(
        refused.error(),
        (
            500,
            String::new(),
            "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax"
                .to_owned()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn watches_are_closed_and_broken_on_request() {
    let server = TestServer::new();
    let mut closed = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=1").await;
    assert_eq!(server.close_watches(), 1);
    assert_eq!(closed.next().await, "end");
    drop(closed);

    let mut broken = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=1").await;
    assert_eq!(server.break_watches(), 1);
    assert_eq!(broken.next().await, "broken: ConnectionReset");
}

#[tokio::test(start_paused = true)]
async fn dropped_watch_is_closed_at_once() {
    let server = TestServer::new();
    let watch = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=1").await;
    assert_eq!(
        (
            server.open_watches(),
            server.open_watches_of("pods"),
            server.open_requests()
        ),
        (1, 1, 1)
    );

    drop(watch);

    assert_eq!(server.open_watches(), 0);
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn single_object_is_watched_by_name() {
    let server = TestServer::new();
    for path in [
        "/api/v1/namespaces/shop/configmaps?watch=true&fieldSelector=metadata.name%3Da",
        "/api/v1/watch/namespaces/shop/configmaps/a?",
    ] {
        let version = server.resource_version();
        let mut watch = Watch::open(&server, &format!("{path}&resourceVersion={version}")).await;

        server.create(config_map("shop", "b"));
        server.create(config_map("shop", "a"));
        server.delete::<ConfigMap>("shop", "a");
        server.delete::<ConfigMap>("shop", "b");

        let (added, deleted) = (version + 2, version + 3);
        assert_eq!(
            watch.ready().await,
            [
                format!("ADDED shop/a@{added}"),
                format!("DELETED shop/a@{deleted}")
            ],
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn watch_parameter_has_no_effect_on_a_get() {
    let server = TestServer::new();
    server.create(config_map("shop", "a"));

    let shown = get(&server, "/api/v1/namespaces/shop/configmaps/a?watch=true").await;

    assert_eq!(
        (shown.status, shown.json()["kind"].as_str()),
        (200, Some("ConfigMap"))
    );
}

#[tokio::test(start_paused = true)]
async fn restored_backup_silences_watches_and_reuses_versions() {
    let server = TestServer::new();
    server.create(pod("shop", "a"));
    let then = server.resource_version();
    server.create(pod("shop", "b"));
    server.create(pod("shop", "c"));
    let path = format!(
        "/api/v1/pods?watch=true&resourceVersion={}",
        server.resource_version()
    );
    let mut watch = Watch::open(&server, &path).await;

    server.rewind(then);
    server.create(pod("shop", "x"));

    assert_eq!(
        get(&server, "/api/v1/pods").await.items(),
        ["shop/a@2", "shop/x@3"]
    );
    assert_eq!(watch.ready().await, Vec::<String>::new());
    server.create(pod("shop", "y"));
    server.create(pod("shop", "z"));
    assert_eq!(watch.ready().await, ["ADDED shop/z@5"]);
}

#[tokio::test(start_paused = true)]
async fn largest_timeout_is_accepted() {
    let server = TestServer::new();
    let path = format!(
        "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds={}",
        i64::MAX
    );

    let mut watch = Watch::open(&server, &path).await;

    assert_eq!(
        [watch.next().await, watch.next().await],
        ["BOOKMARK end @1", "BOOKMARK @1"]
    );
}
