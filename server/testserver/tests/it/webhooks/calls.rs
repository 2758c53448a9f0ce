//! When webhooks are called, and how calls fail.

use std::time::Duration;

use http::Method;
use kube_testserver::builders::{Build, namespace, pod};
use kube_testserver::{Admission, AdmissionRequest, Operation, TestServer, Webhook, WebhookRule};
use serde_json::{Value, json};

use super::{CONFIG_MAPS, MERGE, PODS, Seen, everything, settings};
use crate::common::{FullResponse, send, send_as};

fn warnings(response: &FullResponse) -> Vec<&str> {
    let warnings = response.headers.get_all("warning").iter();
    warnings.filter_map(|value| value.to_str().ok()).collect()
}

fn labelling(name: &str, key: &'static str) -> Webhook {
    Webhook::new(name, move |request| {
        let mut object = request.object.clone().unwrap_or_default();
        object["metadata"]["labels"][key] = "yes".into();
        Admission::replace(object)
    })
}

#[tokio::test(start_paused = true)]
async fn dry_run_is_refused_if_the_webhook_has_side_effects() {
    let seen = Seen::default();
    let server = TestServer::builder()
        .validating_webhook(seen.webhook("pure.example.com"))
        .build();
    let path = format!("{CONFIG_MAPS}?dryRun=All");
    let created = send(&server, Method::POST, &path, &settings()).await;
    assert_eq!((created.status, seen.last().dry_run), (201, true));

    let impure = Seen::default();
    let server = TestServer::builder()
        .validating_webhook(
            impure
                .webhook("impure.example.com")
                .with_side_effects()
                .ignore_failures(),
        )
        .build();
    let refused = send(&server, Method::POST, &path, &settings()).await;
    assert_eq!(
        refused.error(),
        (
            400,
            "BadRequest".to_owned(),
            "admission webhook \"impure.example.com\" does not support dry run".to_owned()
        )
    );
    assert!(impure.take().is_empty());
    assert_eq!(
        send(&server, Method::POST, CONFIG_MAPS, &settings()).await.status,
        201
    );
    assert_eq!(impure.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn selectors_compare_labels_of_the_namespace_and_of_both_states() {
    let seen = Seen::default();
    let webhook = seen
        .webhook("some.example.com")
        .namespace_selector("reviewed=yes")
        .unwrap()
        .object_selector("app")
        .unwrap();
    let server = TestServer::builder().validating_webhook(webhook).build();
    server.create(namespace("shop").label("reviewed", "yes"));
    server.create(namespace("other"));
    let with_label = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings", "labels": { "app": "x" } },
    });

    send(
        &server,
        Method::POST,
        "/api/v1/namespaces/other/configmaps",
        &with_label,
    )
    .await;
    send(
        &server,
        Method::POST,
        "/api/v1/namespaces/absent/configmaps",
        &with_label,
    )
    .await;
    assert!(seen.take().is_empty(), "not in these namespaces");
    send(&server, Method::POST, CONFIG_MAPS, &settings()).await;
    assert!(seen.take().is_empty(), "not without the label");
    let path = format!("{CONFIG_MAPS}/settings");
    for labels in [json!({ "app": "x" }), json!({ "app": null })] {
        let patch = json!({ "metadata": { "labels": labels } }).to_string();
        send_as(&server, Method::PATCH, &path, MERGE, patch).await;
        assert_eq!(seen.take().len(), 1, "{labels}");
    }
    let nodes =
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "labels": { "app": "x" } } });
    send(&server, Method::POST, "/api/v1/nodes", &nodes).await;
    assert_eq!(
        seen.take(),
        ["CREATE nodes /n"],
        "outside namespaces there is nothing to select by"
    );
}

#[tokio::test(start_paused = true)]
async fn warnings_are_sent_once_also_with_a_refusal() {
    let server = TestServer::builder()
        .mutating_webhook(Webhook::new("a.example.com", |_| {
            Admission::allow().warning("old").warning("a \"quoted\" one")
        }))
        .validating_webhook(Webhook::new("b.example.com", |request| match request.operation {
            Operation::Create => Admission::allow().warning("old"),
            _ => Admission::deny("no").warning("because"),
        }))
        .build();

    let created = send(&server, Method::POST, CONFIG_MAPS, &settings()).await;
    assert_eq!(
        warnings(&created),
        ["299 - \"old\"", "299 - \"a \\\"quoted\\\" one\""]
    );
    let path = format!("{CONFIG_MAPS}/settings");
    let refused = send(&server, Method::DELETE, &path, &json!({})).await;
    assert_eq!(refused.status, 403);
    assert_eq!(warnings(&refused).last(), Some(&"299 - \"because\""));
}

#[tokio::test(start_paused = true)]
async fn webhook_is_called_again_if_a_later_one_has_changed_the_object() {
    let (early, plain) = (Seen::default(), Seen::default());
    let server = TestServer::builder()
        .mutating_webhook(early.webhook("a.example.com").reinvoked())
        .mutating_webhook(plain.webhook("b.example.com"))
        .mutating_webhook(labelling("c.example.com", "c").reinvoked())
        .build();

    let created = send(&server, Method::POST, CONFIG_MAPS, &settings()).await;

    assert_eq!(created.status, 201, "{}", created.text);
    let calls = early.0.lock();
    assert_eq!(calls.len(), 2, "before and after the change");
    let labels = |request: &AdmissionRequest| request.object.as_ref().unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels(&calls[0]), Value::Null);
    assert_eq!(labels(&calls[1]), json!({ "c": "yes" }));
    assert_eq!(plain.take().len(), 1, "it did not ask for it");
}

#[tokio::test(start_paused = true)]
async fn configurations_of_webhooks_are_never_reviewed() {
    let server = TestServer::builder()
        .validating_webhook(Webhook::new("deny.example.com", |_| Admission::deny("no")).rule(everything()))
        .build();
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "x" },
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

    assert_eq!(
        send(&server, Method::POST, path, &configuration).await.status,
        201
    );
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(send(&server, Method::POST, reviews, &json!({})).await.status, 201);
    assert_eq!(
        send(&server, Method::POST, CONFIG_MAPS, &settings()).await.status,
        403
    );
}

#[tokio::test(start_paused = true)]
async fn connections_are_reviewed_with_their_options() {
    let seen = Seen::default();
    let deny = Webhook::new("exec.example.com", |_| Admission::deny("no shells"))
        .rule(WebhookRule::new(&[Operation::Connect], &["pods/exec"]));
    let server = TestServer::builder()
        .mutating_webhook(seen.webhook("see.example.com").rule(everything()))
        .validating_webhook(deny)
        .build();
    server.create(pod("shop", "cart"));

    let path = format!("{PODS}/cart/exec?command=ls&command=-l&container=c&stdout=true");
    let refused = send(&server, Method::POST, &path, &json!({})).await;

    assert_eq!(refused.status, 403, "{}", refused.text);
    let request = seen.last();
    assert_eq!(request.operation, Operation::Connect);
    assert_eq!(
        request.object.unwrap(),
        json!({
            "kind": "PodExecOptions", "apiVersion": "v1", "stdout": true, "container": "c", "command": ["ls", "-l"],
        })
    );
}

#[tokio::test(start_paused = true)]
async fn failed_call_is_refused_unless_failures_are_ignored() {
    let hanging = || Webhook::reviews("hang.example.com", |_| std::future::pending());
    let server = TestServer::builder().validating_webhook(hanging()).build();
    let start = tokio::time::Instant::now();
    let refused = send(&server, Method::POST, CONFIG_MAPS, &settings()).await;
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    assert_eq!(
        refused.error(),
        (
            500,
            "InternalError".to_owned(),
            "Internal error occurred: failed calling webhook \"hang.example.com\": failed to call webhook: context \
             deadline exceeded"
                .to_owned()
        )
    );

    let ignored = hanging().ignore_failures().timeout(Duration::from_secs(2));
    let server = TestServer::builder().validating_webhook(ignored).build();
    let start = tokio::time::Instant::now();
    assert_eq!(
        send(&server, Method::POST, CONFIG_MAPS, &settings()).await.status,
        201
    );
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn response_of_a_review_is_checked() {
    let answer = |response: Value| {
        Webhook::reviews("odd.example.com", move |_| {
            let response = response.clone();
            async move {
                json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
            }
        })
    };
    let server = TestServer::builder()
        .mutating_webhook(answer(json!({ "uid": "other", "allowed": true })))
        .build();
    let (status, _, message) = send(&server, Method::POST, CONFIG_MAPS, &settings())
        .await
        .error();
    assert_eq!(status, 500);
    assert!(
        message.starts_with(
            "Internal error occurred: failed calling webhook \"odd.example.com\": received invalid webhook response: \
             expected response.uid="
        ),
        "{message}"
    );

    let patching = Webhook::new("patch.example.com", |_| Admission::replace(json!({})));
    let server = TestServer::builder().validating_webhook(patching).build();
    let (_, _, message) = send(&server, Method::POST, CONFIG_MAPS, &settings())
        .await
        .error();
    assert!(
        message.ends_with("validating webhook may not return response.patch"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn forked_server_has_the_same_webhooks() {
    let webhook = Webhook::new("deny.example.com", |_| Admission::deny("no"));
    let server = TestServer::builder().validating_webhook(webhook).build();

    let refused = send(&server.fork(), Method::POST, CONFIG_MAPS, &settings()).await;

    assert_eq!(refused.status, 403);
}
