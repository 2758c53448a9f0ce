//! Bodies that are not stored as they are sent: reviews, limits, other versions, YAML.

use http::Method;
use kube_testserver::TestServer;
use serde_json::json;

use super::{PODS, cart};
use crate::common::{Watch, get, send};

#[tokio::test(start_paused = true)]
async fn reviews_are_answered_and_not_stored() {
    let server = TestServer::new();
    let body = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}});

    let review = send(
        &server,
        Method::POST,
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        &body,
    )
    .await;

    assert_eq!(
        (review.status, review.json()["status"]["allowed"].as_bool()),
        (201, Some(true))
    );
    assert_eq!(server.resource_version(), 1);
    assert_eq!(
        get(&server, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
            .await
            .status,
        405
    );
}

#[tokio::test(start_paused = true)]
async fn body_size_and_type_are_checked() {
    let server = TestServer::builder().body_limit(1000).build();
    let mut large = cart();
    large["metadata"]["annotations"] = json!({"a": "x".repeat(2000)});

    let refused = send(&server, Method::POST, PODS, &large).await;
    assert_eq!(
        refused.error(),
        (
            413,
            "RequestEntityTooLarge".to_owned(),
            "Request entity too large: limit is 1000".to_owned()
        )
    );
    let soup = crate::common::send_as(&server, Method::POST, PODS, "text/soup", cart().to_string()).await;
    assert_eq!(soup.error().1, "UnsupportedMediaType");
    let yaml = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: cart\n";
    let created = crate::common::send_as(&server, Method::POST, PODS, "application/yaml", yaml).await;
    assert_eq!(created.status, 201);
}

#[tokio::test(start_paused = true)]
async fn object_is_served_in_several_versions() {
    let server = TestServer::new();
    let body = json!({"metadata": {"name": "web"},
        "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 80, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}});
    let v1 = "/apis/autoscaling/v1/namespaces/shop/horizontalpodautoscalers";
    let v2 = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers";

    let created = send(&server, Method::POST, v1, &body).await.json();
    assert_eq!(created["apiVersion"], "autoscaling/v1");
    assert_eq!(created["spec"]["targetCPUUtilizationPercentage"], 80);

    let newer = get(&server, &format!("{v2}/web")).await.json();
    assert_eq!(newer["apiVersion"], "autoscaling/v2");
    assert_eq!(
        newer["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"],
        80
    );
    assert_eq!(newer["metadata"]["uid"], created["metadata"]["uid"]);
    let mut watch = Watch::open(&server, &format!("{v1}?watch=true")).await;
    let frame = watch.frame().await.expect("whole").expect("a frame");
    assert_eq!(frame["object"]["apiVersion"], "autoscaling/v1");
}

#[tokio::test(start_paused = true)]
async fn yaml_alias_bombs_are_rejected() {
    let server = TestServer::new();
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }

    let refused = crate::common::send_as(&server, Method::POST, PODS, "application/yaml", bomb).await;

    assert_eq!(refused.error().0, 400);
}
