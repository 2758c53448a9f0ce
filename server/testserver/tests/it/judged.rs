//! Regression tests for former differences from a real kube-apiserver (1.37.1). The scenarios in `verify/scenarios/` check both
//! servers.

use http::header::AUTHORIZATION;
use http::{Method, Request};
use http_body_util::Full;
use kube_testserver::TestServer;
use kube_testserver::builders::pod;
use serde_json::{Value, json};

use crate::common::{FullResponse, Watch, call, describe, finish, get, send};

async fn get_as_user(server: &TestServer, token: &str, path: &str) -> FullResponse {
    let request = Request::get(path)
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .body(Full::default())
        .expect("a request");
    finish(call(&server.service(), request).await.expect("a response")).await
}

#[tokio::test(start_paused = true)]
async fn exact_future_version_times_out_with_a_retry_delay() {
    let server = TestServer::new();
    for query in ["resourceVersionMatch=Exact", "limit=5"] {
        let started = tokio::time::Instant::now();
        let answer = get(&server, &format!("/api/v1/pods?resourceVersion=99&{query}")).await;

        assert_eq!(
            answer.error().2,
            "Timeout: Too large resource version: 99, current: 1"
        );
        assert_eq!(answer.json()["details"]["retryAfterSeconds"], 1, "{query}");
        assert_eq!(started.elapsed().as_secs(), 3, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn restart_drops_watches_and_their_history_but_not_that_of_lists() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    server.create(pod("shop", "till"));
    let mut open = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=3").await;

    server.restart();

    assert!(open.frame().await.is_err(), "the connection is broken");
    let mut older = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=2").await;
    assert_eq!(older.next().await, "ERROR 410 too old resource version: 2 (3)");
    let exact = get(
        &server,
        "/api/v1/pods?resourceVersion=2&resourceVersionMatch=Exact",
    )
    .await;
    assert_eq!(exact.names(), ["shop/cart"]);
    let mut newest = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=3").await;
    server.create(pod("shop", "door"));
    assert_eq!(newest.next().await, "ADDED shop/door@4");
}

#[tokio::test(start_paused = true)]
async fn user_without_permissions_may_only_read_discovery() {
    let server = TestServer::builder()
        .token("secret")
        .user_without_permissions("other", "nobody")
        .build();
    let cases = [
        (
            "/api/v1/pods",
            "pods is forbidden: User \"nobody\" cannot list resource \"pods\" in API group \"\" at the cluster scope",
        ),
        (
            "/api/v1/namespaces/shop/pods?watch=1",
            "pods is forbidden: User \"nobody\" cannot watch resource \"pods\" in API group \"\" in the namespace \"shop\"",
        ),
        (
            "/apis/apps/v1/namespaces/shop/deployments/x",
            "deployments.apps \"x\" is forbidden: User \"nobody\" cannot get resource \"deployments\" in API group \
             \"apps\" in the namespace \"shop\"",
        ),
        (
            "/api/v1/namespaces/shop",
            "namespaces \"shop\" is forbidden: User \"nobody\" cannot get resource \"namespaces\" in API group \"\" in \
             the namespace \"shop\"",
        ),
        (
            "/api/v1/namespaces/shop/pods/x/log",
            "pods \"x\" is forbidden: User \"nobody\" cannot get resource \"pods/log\" in API group \"\" in the namespace \
             \"shop\"",
        ),
    ];
    for (path, message) in cases {
        let refused = get_as_user(&server, "other", path).await;
        assert_eq!(refused.error(), (403, "Forbidden".to_owned(), message.to_owned()));
    }
    assert_eq!(get_as_user(&server, "other", "/version").await.status, 200);
    assert_eq!(get_as_user(&server, "wrong", "/api/v1/pods").await.error().0, 401);
    assert_eq!(get_as_user(&server, "secret", "/api/v1/pods").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn pod_is_marked_before_removal_even_without_grace_period() {
    let server = TestServer::builder().graceful_pods().build();
    for (name, node) in [("waiting", None), ("bound", Some("worker-1"))] {
        let mut made = pod("shop", name);
        made.spec.get_or_insert_default().node_name = node.map(str::to_owned);
        server.create(made);
    }
    let mut watch = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=3").await;
    let delete = async |name: &str, grace: Value| {
        let path = format!("/api/v1/namespaces/shop/pods/{name}");
        let answer = send(
            &server,
            Method::DELETE,
            &path,
            &json!({ "gracePeriodSeconds": grace }),
        )
        .await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    };
    let mut next_event = async || {
        let frame = watch.frame().await.expect("a frame").expect("open");
        let grace = frame["object"]["metadata"]["deletionGracePeriodSeconds"].clone();
        (describe(&frame), grace)
    };

    delete("waiting", Value::Null).await;
    assert_eq!(
        next_event().await,
        ("MODIFIED shop/waiting@4".to_owned(), json!(0))
    );
    assert_eq!(
        next_event().await,
        ("DELETED shop/waiting@5".to_owned(), json!(0))
    );

    delete("bound", json!(20)).await;
    delete("bound", json!(25)).await; // a longer grace period than before changes nothing
    delete("bound", json!(5)).await;
    delete("bound", json!(0)).await;
    for (event, grace) in [("MODIFIED shop/bound@6", 20), ("MODIFIED shop/bound@7", 5)] {
        assert_eq!(next_event().await, (event.to_owned(), json!(grace)));
    }
    assert_eq!(next_event().await, ("MODIFIED shop/bound@8".to_owned(), json!(0)));
    assert_eq!(next_event().await, ("DELETED shop/bound@9".to_owned(), json!(0)));
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/shop/configmaps";

#[tokio::test(start_paused = true)]
async fn finalizers_and_owners_are_validated() {
    let server = TestServer::new();
    let qualified = "name is neither a standard finalizer name nor is it fully qualified";
    let owner = |change: Value| {
        let mut owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u" });
        for (key, value) in change.as_object().into_iter().flatten() {
            owner[key] = value.clone();
        }
        json!({ "ownerReferences": [owner] })
    };
    let cases = [
        (
            json!({ "finalizers": ["hold"] }),
            format!("metadata.finalizers[0]: Invalid value: \"hold\": {qualified}"),
        ),
        (
            owner(json!({ "name": "" })),
            "metadata.ownerReferences[0].name: Required value: must not be empty".to_owned(),
        ),
        (
            owner(json!({ "apiVersion": "a/b/c" })),
            "metadata.ownerReferences[0].apiVersion: Invalid value: \"a/b/c\": must be <group>/<version> or <version>"
                .to_owned(),
        ),
        (
            owner(json!({ "kind": "Event" })),
            "metadata.ownerReferences[0]: Invalid value: \
             {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"x\",\"uid\":\"u\"}: /v1, Kind=Event is disallowed from being \
             an owner"
                .to_owned(),
        ),
    ];
    for (mut metadata, why) in cases {
        metadata["name"] = json!("map");
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
        let refused = send(&server, Method::POST, CONFIG_MAPS, &map).await;
        let message = format!("ConfigMap \"map\" is invalid: {why}");
        assert_eq!(refused.error(), (422, "Invalid".to_owned(), message));
    }
    let two = json!([
        { "apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u", "controller": true },
        { "apiVersion": "v1", "kind": "Pod", "name": "y", "uid": "w", "controller": true },
    ]);
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "map", "ownerReferences": two } });
    let refused = send(&server, Method::POST, CONFIG_MAPS, &map).await.error();
    assert!(
        refused
            .2
            .ends_with("Found \"true\" in references for Pod/x and Pod/y"),
        "{}",
        refused.2
    );
    for good in ["kubernetes", "orphan", "example.com/hold"] {
        let map = json!({ "metadata": { "generateName": "map-", "finalizers": [good] } });
        assert_eq!(
            send(&server, Method::POST, CONFIG_MAPS, &map).await.status,
            201,
            "{good}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn non_numeric_version_is_not_a_conflict() {
    let server = TestServer::new();
    let map = json!({ "metadata": { "name": "map" } });
    assert_eq!(send(&server, Method::POST, CONFIG_MAPS, &map).await.status, 201);

    let path = format!("{CONFIG_MAPS}/map");
    let named = json!({ "metadata": { "name": "map", "resourceVersion": "new" } });
    let refused = send(&server, Method::PUT, &path, &named).await.error();

    assert_eq!(refused.0, 500);
    assert_eq!(refused.2, "strconv.ParseUint: parsing \"new\": invalid syntax");
}

#[tokio::test(start_paused = true)]
async fn delete_body_may_request_a_dry_run() {
    let server = TestServer::new();
    let map = json!({ "metadata": { "name": "map" } });
    assert_eq!(send(&server, Method::POST, CONFIG_MAPS, &map).await.status, 201);
    let path = format!("{CONFIG_MAPS}/map");

    let dry = send(&server, Method::DELETE, &path, &json!({ "dryRun": ["All"] })).await;
    assert_eq!(dry.status, 200);
    let other = send(
        &server,
        Method::DELETE,
        &path,
        &json!({ "dryRun": ["Some", "Other"] }),
    )
    .await;

    let invalid = "DeleteOptions.meta.k8s.io \"\" is invalid: ";
    let dry_run = "dryRun: Unsupported value: [\"Some\",\"Other\"]: supported values: \"All\"";
    assert_eq!(other.error().2, format!("{invalid}{dry_run}"));
    let policy = send(
        &server,
        Method::DELETE,
        &path,
        &json!({ "propagationPolicy": "Away" }),
    )
    .await;
    let supported = "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    assert_eq!(
        policy.error().2,
        format!("{invalid}propagationPolicy: Unsupported value: \"Away\": {supported}")
    );
    assert_eq!(get(&server, &path).await.status, 200, "the object still exists");
}
