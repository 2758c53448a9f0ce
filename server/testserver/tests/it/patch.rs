//! Patches of all four types, over HTTP.

use http::Method;
use kube_testserver::TestServer;
use kube_testserver::builders::{deployment, pod};
use serde_json::{Value, json};

use crate::common::{get, send_as};

const POD: &str = "/api/v1/namespaces/shop/pods/cart";
const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

#[tokio::test(start_paused = true)]
async fn patches_of_every_type_change_the_object() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let patch = async |kind: &str, patch: Value| {
        let response = send_as(&server, Method::PATCH, POD, kind, patch.to_string()).await;
        assert_eq!(response.status, 200, "{}", response.text);
        response.json()
    };

    let merged = patch(MERGE, json!({"metadata": {"labels": {"app": "cart"}}})).await;
    assert_eq!(merged["metadata"]["labels"], json!({"app": "cart"}));
    let operated = patch(
        JSON,
        json!([{"op": "add", "path": "/metadata/labels/tier", "value": "1"}]),
    )
    .await;
    assert_eq!(
        operated["metadata"]["labels"],
        json!({"app": "cart", "tier": "1"})
    );
    let container = json!({"spec": {"containers": [{"name": "side", "image": "side:1"}]}});
    let strategic = patch(STRATEGIC, container).await;
    assert_eq!(
        strategic["spec"]["containers"].as_array().map(Vec::len),
        Some(2),
        "merged by name"
    );
    assert_eq!(strategic["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn patches_are_rejected_as_by_a_real_server() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let refused = async |path: &str, kind: &str, patch: Value| {
        send_as(&server, Method::PATCH, path, kind, patch.to_string())
            .await
            .error()
    };

    assert_eq!(refused(POD, "application/json", json!({})).await.0, 415);
    assert_eq!(
        refused(
            POD,
            JSON,
            json!([{"op": "test", "path": "/metadata/name", "value": "x"}])
        )
        .await
        .0,
        422
    );
    assert_eq!(refused(POD, MERGE, json!([])).await.0, 400);
    let conflict = refused(POD, MERGE, json!({"metadata": {"resourceVersion": "1"}})).await;
    assert_eq!((conflict.0, conflict.1.as_str()), (409, "Conflict"));
    let missing = refused("/api/v1/namespaces/shop/pods/zzz", MERGE, json!({})).await;
    assert_eq!(missing.2, "pods \"zzz\" not found");
    assert_eq!(
        refused(POD, APPLY, json!({"apiVersion": "v1", "kind": "Pod"}))
            .await
            .0,
        422,
        "no field manager"
    );
    assert_eq!(
        refused(&format!("{POD}?force=true"), MERGE, json!({})).await.0,
        422
    );
}

#[tokio::test(start_paused = true)]
async fn status_is_patched_alone() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let patch = json!({"status": {"phase": "Running"}, "metadata": {"labels": {"not": "protected"}}});

    let patched = send_as(
        &server,
        Method::PATCH,
        &format!("{POD}/status"),
        MERGE,
        patch.to_string(),
    )
    .await
    .json();
    let through_the_object = send_as(
        &server,
        Method::PATCH,
        POD,
        MERGE,
        json!({"status": {"phase": "Failed"}}).to_string(),
    )
    .await;

    assert_eq!(patched["status"]["phase"], "Running");
    assert_eq!(
        patched["metadata"]["labels"],
        json!({"not": "protected"}),
        "metadata can be written with the status"
    );
    assert_eq!(through_the_object.json()["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn apply_creates_merges_and_tracks_ownership() {
    let server = TestServer::new();
    let config = |replicas: i64| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
               "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                        "template": {"metadata": {"labels": {"app": "web"}}}}})
    };
    let apply = async |who: &str, config: Value| {
        send_as(
            &server,
            Method::PATCH,
            &format!("{WEB}?{who}"),
            APPLY,
            config.to_string(),
        )
        .await
    };

    let created = apply("fieldManager=one", config(1)).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.json()["metadata"]["namespace"], "shop");
    assert_eq!(created.json()["metadata"]["managedFields"][0]["manager"], "one");
    let again = apply("fieldManager=one", config(2)).await;
    assert_eq!(
        (again.status, again.json()["spec"]["replicas"].as_i64()),
        (200, Some(2))
    );
    assert_eq!(again.json()["metadata"]["generation"], 2);

    let conflict = apply("fieldManager=two", config(3)).await;
    let (code, reason, message) = conflict.error();
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(message.contains(".spec.replicas"), "{message}");
    assert_eq!(
        conflict.json()["details"]["causes"][0]["reason"],
        "FieldManagerConflict"
    );
    assert_eq!(
        apply("fieldManager=two&force=true", config(3)).await.json()["spec"]["replicas"],
        3
    );

    let wrong = apply(
        "fieldManager=one",
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}),
    )
    .await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test(start_paused = true)]
async fn malformed_applied_metadata_is_rejected() {
    let server = TestServer::new();
    let path = "/api/v1/namespaces/shop/configmaps/new?fieldManager=x";

    for metadata in [json!("nonsense"), json!([1]), json!(null), json!({"labels": 7})] {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string();
        let response = send_as(&server, Method::PATCH, path, APPLY, config).await;
        assert!(
            matches!(response.status, 200 | 201 | 400 | 422),
            "{}",
            response.text
        );
    }
}

#[tokio::test(start_paused = true)]
async fn scale_is_patched() {
    let server = TestServer::new();
    server.create(deployment("shop", "web"));

    let patch = json!({"spec": {"replicas": 4}}).to_string();
    let scale = send_as(&server, Method::PATCH, &format!("{WEB}/scale"), MERGE, patch).await;

    assert_eq!(
        (
            scale.json()["kind"].as_str(),
            scale.json()["spec"]["replicas"].as_i64()
        ),
        (Some("Scale"), Some(4))
    );
    assert_eq!(get(&server, WEB).await.json()["spec"]["replicas"], 4);
}

#[tokio::test(start_paused = true)]
async fn patches_cannot_exceed_the_nesting_limit() {
    let server = TestServer::new();
    let nest = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({"a": inner}));
    let mut config_map = json!({"metadata": {"name": "x"}, "data": nest(120)});
    let path = "/api/v1/namespaces/shop/configmaps";
    assert_eq!(
        send_as(
            &server,
            Method::POST,
            path,
            "application/json",
            config_map.to_string()
        )
        .await
        .status,
        400
    );

    config_map["data"] = nest(90);
    assert_eq!(
        send_as(
            &server,
            Method::POST,
            path,
            "application/json",
            config_map.to_string()
        )
        .await
        .status,
        201
    );
    let deeper = json!({"data": {"b": nest(110)}}).to_string();
    assert_eq!(
        send_as(&server, Method::PATCH, &format!("{path}/x"), MERGE, deeper)
            .await
            .status,
        400
    );
    assert_eq!(get(&server, &format!("{path}/x")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn apply_in_a_missing_namespace_is_refused() {
    let server = TestServer::builder().require_namespaces().build();
    let applied = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    let path = "/api/v1/namespaces/missing/configmaps/a?fieldManager=m";

    let refused = send_as(&server, Method::PATCH, path, APPLY, applied.to_string()).await;

    assert_eq!(refused.error().2, "namespaces \"missing\" not found");
}
