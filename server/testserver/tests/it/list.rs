//! Lists: versions, pages, selectors.

use kube_testserver::TestServer;
use kube_testserver::builders::{Build, node, pod};

use crate::common::{get, get_as};

fn with_pods(names: &[&str]) -> TestServer {
    let server = TestServer::new();
    for name in names {
        server.create(pod("shop", name));
    }
    server
}

#[tokio::test(start_paused = true)]
async fn empty_list_has_items_and_a_version() {
    let server = TestServer::new();

    let list = get(&server, "/api/v1/pods").await;

    assert_eq!(
        list.text,
        "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}\n"
    );
    assert_eq!(list.headers["content-type"], "application/json");
    assert_eq!(list.headers["cache-control"], "no-cache, private");
    assert!(list.headers.contains_key("audit-id"));
}

#[tokio::test(start_paused = true)]
async fn items_are_sorted_by_key_and_have_no_type() {
    let server = TestServer::new();
    server.create(pod("a", "x"));
    server.create(pod("a-b", "x"));
    server.create(pod("a", "b"));

    let list = get(&server, "/api/v1/pods").await;

    // By the storage key as one string: a dash comes before the slash.
    assert_eq!(list.names(), ["a-b/x", "a/b", "a/x"]);
    assert!(list.json()["items"][0].get("kind").is_none());
    assert_eq!(
        get(&server, "/api/v1/namespaces/a/pods").await.names(),
        ["a/b", "a/x"]
    );
}

#[tokio::test(start_paused = true)]
async fn pages_show_one_snapshot() {
    let server = with_pods(&["a", "b", "c", "d", "e"]);
    let first = get(&server, "/api/v1/pods?limit=2").await;
    server.create(pod("shop", "bb"));
    server.delete::<k8s_openapi::api::core::v1::Pod>("shop", "d");

    let token = first.continue_token().expect("more");
    let second = get(&server, &format!("/api/v1/pods?limit=2&continue={token}")).await;
    let third = get(
        &server,
        &format!(
            "/api/v1/pods?limit=2&continue={}",
            second.continue_token().expect("more")
        ),
    )
    .await;

    assert_eq!(first.names(), ["shop/a", "shop/b"]);
    assert_eq!(first.json()["metadata"]["remainingItemCount"], 3);
    assert_eq!(second.names(), ["shop/c", "shop/d"]);
    assert_eq!(second.json()["metadata"]["remainingItemCount"], 1);
    let other_size = get(&server, &format!("/api/v1/pods?limit=1&continue={token}")).await;
    assert_eq!(other_size.json()["metadata"]["remainingItemCount"], 2);
    assert_eq!(third.names(), ["shop/e"]);
    assert_eq!(third.continue_token(), None);
    assert_eq!([second.version(), third.version()], [first.version(); 2]);
}

#[tokio::test(start_paused = true)]
async fn continue_token_expires_with_the_history() {
    let server = with_pods(&["a", "b", "c"]);
    let token = get(&server, "/api/v1/namespaces/shop/pods?limit=1")
        .await
        .continue_token()
        .expect("more");
    server.create(pod("shop", "d"));
    server.compact();

    let expired = get(
        &server,
        &format!("/api/v1/namespaces/shop/pods?limit=1&continue={token}"),
    )
    .await;
    let (code, reason, message) = expired.error();
    assert_eq!((code, reason.as_str()), (410, "Expired"));
    assert!(message.starts_with("The provided continue parameter is too old"));

    let resumable = expired.continue_token().expect("a resumable token");
    let rest = get(
        &server,
        &format!("/api/v1/namespaces/shop/pods?continue={resumable}"),
    )
    .await;
    assert_eq!(rest.names(), ["shop/b", "shop/c", "shop/d"]);
}

#[tokio::test(start_paused = true)]
async fn version_match_and_limit_select_the_state() {
    let server = with_pods(&["a", "b"]);
    let then = server.resource_version();
    server.create(pod("shop", "c"));

    let names = async |query: &str| get(&server, &format!("/api/v1/pods?{query}")).await.names().len();
    assert_eq!(names("").await, 3);
    assert_eq!(names("resourceVersion=0").await, 3);
    assert_eq!(
        names("resourceVersion=0&limit=1").await,
        3,
        "the limit is ignored at version 0"
    );
    assert_eq!(names(&format!("resourceVersion={then}")).await, 3);
    assert_eq!(
        names(&format!("resourceVersion={then}&limit=5")).await,
        2,
        "a limit makes it exact"
    );
    assert_eq!(
        names(&format!("resourceVersion={then}&resourceVersionMatch=Exact")).await,
        2
    );
    assert_eq!(
        names(&format!(
            "resourceVersion={then}&resourceVersionMatch=NotOlderThan&limit=1"
        ))
        .await,
        1
    );
}

#[tokio::test(start_paused = true)]
async fn future_version_is_waited_for_and_then_rejected() {
    let server = with_pods(&["a"]);
    let future = server.resource_version() + 1;
    let started = tokio::time::Instant::now();

    let refused = get(&server, &format!("/api/v1/pods?resourceVersion={future}")).await;

    assert_eq!(started.elapsed().as_secs(), 3);
    assert_eq!(refused.status, 504);
    assert_eq!(
        refused.json()["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    assert_eq!(refused.headers["retry-after"], "1");

    let path = format!("/api/v1/pods?resourceVersion={future}");
    let (list, ()) = tokio::join!(get(&server, &path), async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        server.create(pod("shop", "b"));
    });
    assert_eq!(list.names(), ["shop/a", "shop/b"]);
}

#[tokio::test(start_paused = true)]
async fn exact_versions_before_the_window_are_expired() {
    let server = with_pods(&["a"]);
    let then = server.resource_version();
    server.create(pod("shop", "b"));
    server.compact();

    let gone = get(
        &server,
        &format!("/api/v1/pods?resourceVersion={then}&resourceVersionMatch=Exact"),
    )
    .await;

    assert_eq!(
        gone.error(),
        (
            410,
            "Expired".to_owned(),
            "The resourceVersion for the provided list is too old.".to_owned()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn selectors_filter_and_hide_the_remaining_count() {
    let server = TestServer::new();
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web"), ("d", "db")] {
        let mut object = pod("shop", name).label("app", app);
        object.spec.as_mut().expect("a spec").node_name = Some(format!("node-{app}"));
        server.create(object);
    }

    assert_eq!(
        get(&server, "/api/v1/pods?labelSelector=app%3Dweb").await.names(),
        ["shop/a", "shop/c"]
    );
    assert_eq!(
        get(&server, "/api/v1/pods?labelSelector=app+notin+(web)")
            .await
            .names(),
        ["shop/b", "shop/d"]
    );
    assert_eq!(
        get(&server, "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-db")
            .await
            .names(),
        ["shop/b", "shop/d"]
    );
    assert_eq!(
        get(&server, "/api/v1/pods?fieldSelector=metadata.name%3Db")
            .await
            .names(),
        ["shop/b"]
    );
    assert_eq!(
        get(&server, "/api/v1/pods?fieldSelector=spec.color%3Dred")
            .await
            .status,
        400
    );

    let page = get(&server, "/api/v1/pods?labelSelector=app%3Dweb&limit=1").await;
    assert!(page.continue_token().is_some());
    assert!(page.json()["metadata"].get("remainingItemCount").is_none());
}

#[tokio::test(start_paused = true)]
async fn metadata_only_lists_contain_only_metadata() {
    let server = with_pods(&["a"]);

    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = get_as(&server, "/api/v1/pods", accept).await;

    assert_eq!(list.json()["kind"], "PartialObjectMetadataList");
    let item = &list.json()["items"][0];
    assert_eq!(item["kind"], "PartialObjectMetadata");
    assert_eq!(item["metadata"]["name"], "a");
    assert!(item.get("spec").is_none());
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_are_rejected_as_by_a_real_server() {
    let server = with_pods(&["a"]);

    let error = async |path: &str| get(&server, path).await.error();
    assert_eq!(
        error("/api/v1/pods?resourceVersionMatch=Exact").await,
        (
            422,
            "Invalid".to_owned(),
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is \
             forbidden unless resourceVersion is provided"
                .to_owned()
        )
    );
    assert_eq!(error("/api/v1/pods?continue=zzz").await.0, 400);
    assert_eq!(error("/api/v1/pods?resourceVersion=abc").await.0, 400);
    assert_eq!(error("/api/v1/pods/a").await.0, 404);
    assert_eq!(
        error("/api/v1/foos").await.2,
        "the server could not find the requested resource"
    );
    assert_eq!(
        error("/api/v1/namespaces/shop/pods/zzz").await,
        (404, "NotFound".to_owned(), "pods \"zzz\" not found".to_owned())
    );
    let nowhere = get(&server, "/apis/nowhere.example/v1/things").await;
    assert_eq!(
        (nowhere.status, nowhere.text.as_str()),
        (404, "404 page not found\n")
    );
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_kinds_have_no_namespace() {
    let server = TestServer::new();
    server.create(node("worker-1"));

    assert_eq!(get(&server, "/api/v1/nodes").await.names(), ["worker-1"]);
    assert_eq!(
        get(&server, "/api/v1/nodes/worker-1").await.json()["metadata"]["name"],
        "worker-1"
    );
    assert_eq!(get(&server, "/api/v1/namespaces/shop/nodes").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn shards_partition_a_collection() {
    let server = TestServer::builder().sharding().build();
    for number in 0..40 {
        server.create(pod("shop", &format!("p{number}")));
    }
    let shard = async |from: &str, to: &str| {
        let selector = format!("shardRange(object.metadata.uid,%20'{from}',%20'{to}')");
        get(&server, &format!("/api/v1/pods?shardSelector={selector}")).await
    };

    let low = shard("0x0000000000000000", "0x8000000000000000").await;
    let high = shard("0x8000000000000000", "0x10000000000000000").await;

    assert!(
        low.json()["metadata"]["shardInfo"]["selector"]
            .as_str()
            .is_some_and(|echo| echo.starts_with("shardRange("))
    );
    assert!(!low.names().is_empty() && !high.names().is_empty());
    let mut all = [low.names(), high.names()].concat();
    all.sort();
    assert_eq!(all, {
        let mut names = get(&server, "/api/v1/pods").await.names();
        names.sort();
        names
    });
    let bad = shard("0x0", "0x1").await.error();
    assert_eq!((bad.0, bad.1.as_str()), (500, ""));
    let ignorant = TestServer::new();
    assert_eq!(
        get(&ignorant, "/api/v1/pods?shardSelector=nonsense").await.status,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn responses_for_people_are_indented() {
    let server = with_pods(&["a"]);

    let plain = get(&server, "/api/v1/pods").await;
    let pretty = get(&server, "/api/v1/pods?pretty=true").await;

    assert_eq!(plain.text.lines().count(), 1);
    assert!(pretty.text.lines().count() > 10);
    assert_eq!(plain.json(), pretty.json());
}
