//! What webhooks see, and what becomes of the objects.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_testserver::builders::{Build, config_map, deployment, namespace, pod};
use kube_testserver::{Admission, Operation, TestServer, Webhook, WebhookRule};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{CONFIG_MAPS, MERGE, PODS, Seen, everything, settings};
use crate::common::{send, send_as};

#[tokio::test(start_paused = true)]
async fn mutating_webhook_changes_the_object_and_no_manager_owns_the_change() {
    let patch = json!([{ "op": "add", "path": "/data/b", "value": "2" }]);
    let webhook = Webhook::new("add.example.com", move |_| Admission::patch(&patch));
    let server = TestServer::builder().mutating_webhook(webhook).build();

    let created = send(&server, Method::POST, CONFIG_MAPS, &settings()).await;

    assert_eq!(created.status, 201, "{}", created.text);
    assert_eq!(created.json()["data"], json!({ "a": "1", "b": "2" }));
    let owned = &created.json()["metadata"]["managedFields"][0]["fieldsV1"]["f:data"];
    assert!(
        owned.get("f:a").is_some() && owned.get("f:b").is_none(),
        "{owned}"
    );

    let changed = json!({ "data": { "c": "3" } });
    let path = format!("{CONFIG_MAPS}/settings");
    let patched = send_as(&server, Method::PATCH, &path, MERGE, changed.to_string()).await;
    assert_eq!(
        patched.json()["data"],
        json!({ "a": "1", "b": "2", "c": "3" }),
        "{}",
        patched.text
    );
    assert_eq!(server.objects("configmaps"), [patched.json()]);
}

#[tokio::test(start_paused = true)]
async fn mutating_webhooks_see_defaults_and_validating_ones_the_object_to_be_stored() {
    let (mutating, validating) = (Seen::default(), Seen::default());
    let server = TestServer::builder()
        .conformant()
        .mutating_webhook(mutating.webhook("m.example.com"))
        .validating_webhook(validating.webhook("v.example.com"))
        .build();
    server.create(namespace("shop"));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "generateName": "cart-" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });

    let created = send(&server, Method::POST, &format!("{PODS}?fieldManager=me"), &pod).await;

    assert_eq!(created.status, 201, "{}", created.text);
    let before = mutating.last();
    let object = before.object.unwrap();
    assert_eq!(object["spec"]["restartPolicy"], "Always");
    assert_eq!(object["metadata"]["managedFields"][0]["manager"], "me");
    assert!(object["metadata"].get("uid").is_none() && object["metadata"].get("name").is_none());
    assert_eq!(
        (before.name.as_str(), before.namespace.as_deref()),
        ("", Some("shop"))
    );
    assert_eq!(
        before.options,
        json!({ "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me" })
    );
    let after = validating.last();
    let object = after.object.unwrap();
    assert_eq!(object["metadata"]["uid"], created.json()["metadata"]["uid"]);
    assert_eq!(object["kind"], "Pod");
    assert_eq!(
        Some(after.name.as_str()),
        created.json()["metadata"]["name"].as_str()
    );
    assert!(after.groups.iter().any(|group| group == "system:masters"));
}

#[tokio::test(start_paused = true)]
async fn refusal_has_the_status_and_the_text_of_a_real_server() {
    let refusals = [
        (Admission::deny("no"), 403, "Forbidden", "denied the request: no"),
        (
            Admission::deny("no").code(422).reason("Invalid"),
            422,
            "Invalid",
            "denied the request: no",
        ),
        (
            Admission::deny("").code(200),
            400,
            "Forbidden",
            "denied the request: Forbidden",
        ),
        (
            Admission::deny("").reason(""),
            403,
            "",
            "denied the request without explanation",
        ),
    ];
    for (refusal, status, reason, text) in refusals {
        let webhook = Webhook::new("deny.example.com", move |_| refusal.clone());
        let server = TestServer::builder().validating_webhook(webhook).build();

        let refused = send(&server, Method::POST, CONFIG_MAPS, &settings()).await;

        let message = format!("admission webhook \"deny.example.com\" {text}");
        assert_eq!(refused.error(), (status, reason.to_owned(), message));
        assert_eq!(server.count("configmaps"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_write_is_reviewed() {
    let seen = Seen::default();
    let server = TestServer::builder()
        .validating_webhook(seen.webhook("all.example.com").rule(everything()))
        .build();
    server.create(deployment("shop", "web"));
    server.create(pod("shop", "cart"));
    assert!(seen.take().is_empty(), "the test's own writes are not reviewed");
    let deployments = "/apis/apps/v1/namespaces/shop/deployments/web";
    let settings = settings().to_string();
    let merge = "application/merge-patch+json";
    let apply = "application/apply-patch+yaml";
    let writes = [
        (
            "POST",
            CONFIG_MAPS,
            "application/json",
            settings.as_str(),
            "CREATE configmaps shop/settings",
        ),
        (
            "PUT",
            "/api/v1/namespaces/shop/configmaps/settings",
            "application/json",
            &settings,
            "UPDATE configmaps shop/settings",
        ),
        (
            "PATCH",
            "/api/v1/namespaces/shop/configmaps/settings",
            merge,
            "{}",
            "UPDATE configmaps shop/settings",
        ),
        (
            "PATCH",
            "/api/v1/namespaces/shop/configmaps/settings?fieldManager=m&force=true",
            apply,
            &settings,
            "UPDATE configmaps shop/settings",
        ),
        (
            "DELETE",
            "/api/v1/namespaces/shop/configmaps/settings",
            "application/json",
            "",
            "DELETE configmaps shop/settings",
        ),
        (
            "PATCH",
            "/api/v1/namespaces/shop/configmaps/settings?fieldManager=m",
            apply,
            &settings,
            "CREATE configmaps shop/settings",
        ),
        (
            "DELETE",
            CONFIG_MAPS,
            "application/json",
            "",
            "DELETE configmaps shop/",
        ),
        (
            "PATCH",
            &format!("{deployments}/scale"),
            merge,
            r#"{"spec":{"replicas":3}}"#,
            "UPDATE deployments/scale shop/web",
        ),
        (
            "PATCH",
            &format!("{deployments}/status"),
            merge,
            r#"{"status":{"replicas":3}}"#,
            "UPDATE deployments/status shop/web",
        ),
        (
            "POST",
            &format!("{PODS}/cart/binding"),
            "application/json",
            r#"{"target":{"name":"n"}}"#,
            "CREATE pods/binding shop/cart",
        ),
        (
            "POST",
            "/api/v1/namespaces",
            "application/json",
            r#"{"metadata":{"name":"new"}}"#,
            "CREATE namespaces new/new",
        ),
        (
            "POST",
            &format!("{PODS}/cart/eviction"),
            "application/json",
            "{}",
            "CREATE pods/eviction shop/cart",
        ),
    ];
    for (method, path, content_type, body, expected) in writes {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let response = send_as(&server, method, path, content_type, body.to_owned()).await;
        assert!(response.status < 300, "{expected}: {}", response.text);
        assert_eq!(seen.take(), [expected]);
    }
    assert_eq!(server.count("pods"), 0, "the pod was evicted");
}

#[tokio::test(start_paused = true)]
async fn scale_is_reviewed_and_changed_as_a_scale() {
    let double = Webhook::new("double.example.com", |request| {
        assert_eq!(request.kind.kind, "Scale");
        assert_eq!(request.old_object.as_ref().unwrap()["spec"]["replicas"], 1);
        let mut scale = request.object.clone().unwrap();
        let replicas = scale["spec"]["replicas"].as_i64().unwrap();
        scale["spec"]["replicas"] = (2 * replicas).into();
        Admission::replace(scale)
    })
    .rule(WebhookRule::new(
        &[Operation::Update],
        &["deployments.apps/scale"],
    ));
    let server = TestServer::builder().mutating_webhook(double).build();
    server.create(deployment("shop", "web"));
    let path = "/apis/apps/v1/namespaces/shop/deployments/web/scale";

    let scaled = send_as(&server, Method::PATCH, path, MERGE, r#"{"spec":{"replicas":3}}"#).await;

    assert_eq!(scaled.json()["spec"]["replicas"], 6, "{}", scaled.text);
}

#[tokio::test(start_paused = true)]
async fn deletion_shows_the_old_object_and_cannot_be_patched() {
    let seen = Seen::default();
    let patch = json!([{ "op": "add", "path": "/data", "value": {} }]);
    let deletes = || WebhookRule::new(&[Operation::Delete], &["configmaps"]);
    let server = TestServer::builder()
        .mutating_webhook(seen.webhook("see.example.com").rule(deletes()))
        .mutating_webhook(
            Webhook::new("patch.example.com", move |_| Admission::patch(&patch))
                .rule(deletes())
                .object_selector("patched")
                .unwrap(),
        )
        .build();
    server.create(config_map("shop", "a"));
    server.create(config_map("shop", "b").label("patched", "yes"));

    let deleted = send(
        &server,
        Method::DELETE,
        &format!("{CONFIG_MAPS}/a"),
        &json!({ "propagationPolicy": "Background" }),
    )
    .await;

    assert_eq!(deleted.status, 200, "{}", deleted.text);
    let request = seen.last();
    assert!(request.object.is_none());
    assert_eq!(request.old_object.unwrap()["metadata"]["name"], "a");
    assert_eq!(request.options["propagationPolicy"], "Background");
    let refused = send(&server, Method::DELETE, &format!("{CONFIG_MAPS}/b"), &json!({})).await;
    assert_eq!(
        refused.error(),
        (
            500,
            "InternalError".to_owned(),
            "Internal error occurred: admission webhook \"patch.example.com\" attempted to modify the object, which is \
             not supported for this operation"
                .to_owned()
        )
    );
    assert_eq!(server.count("configmaps"), 1);
}

#[tokio::test(start_paused = true)]
async fn refused_deletion_of_a_collection_keeps_the_rest() {
    let keep = Webhook::new("keep.example.com", |_| Admission::deny("it is needed"))
        .rule(WebhookRule::new(&[Operation::Delete], &["configmaps"]))
        .object_selector("needed")
        .unwrap();
    let server = TestServer::builder().validating_webhook(keep).build();
    server.create(config_map("shop", "a"));
    server.create(config_map("shop", "b").label("needed", "yes"));
    server.create(config_map("shop", "c"));

    let refused = send(&server, Method::DELETE, CONFIG_MAPS, &json!({})).await;

    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(server.get::<ConfigMap>("shop", "a").is_none());
    assert!(server.get::<ConfigMap>("shop", "b").is_some());
}

#[tokio::test(start_paused = true)]
async fn object_is_validated_after_mutating_webhooks() {
    let fix = Webhook::new("fix.example.com", |request| {
        let mut object = request.object.clone().unwrap_or_default();
        if object["metadata"]["name"] == "broken" {
            object["spec"]["containers"] = json!([{ "name": "c", "image": "i" }]);
        } else {
            object["spec"]["containers"] = json!([]);
        }
        Admission::replace(object)
    })
    .rule(WebhookRule::new(&[Operation::Create], &["pods"]));
    let seen = Seen::default();
    let server = TestServer::builder()
        .conformant()
        .mutating_webhook(fix)
        .validating_webhook(seen.webhook("see.example.com"))
        .build();
    server.create(namespace("shop"));
    let pod = |name: &str, containers: Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": { "containers": containers },
        })
    };

    let fixed = send(&server, Method::POST, PODS, &pod("broken", json!([]))).await;
    assert_eq!(fixed.status, 201, "{}", fixed.text);
    let container = &fixed.json()["spec"]["containers"][0];
    assert_eq!(container["imagePullPolicy"], "Always", "defaults are set again");
    assert_eq!(seen.take().len(), 1);
    let valid = json!([{ "name": "c", "image": "i" }]);
    let broken = send(&server, Method::POST, PODS, &pod("good", valid)).await;
    assert_eq!(
        broken.error().2,
        "Pod \"good\" is invalid: spec.containers: Required value"
    );
    assert!(seen.take().is_empty(), "an invalid object is not reviewed");
}

#[tokio::test(start_paused = true)]
async fn write_starts_again_if_the_object_changes_while_it_is_reviewed() {
    let reviews = Arc::new(Mutex::new(0));
    // Set below, because the server is built with the webhook.
    let handle: Arc<Mutex<Option<TestServer>>> = Arc::default();
    let (counted, inside) = (reviews.clone(), handle.clone());
    let webhook = Webhook::reviews("slow.example.com", move |review| {
        let (counted, inside) = (counted.clone(), inside.clone());
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            *counted.lock() += 1;
            if *counted.lock() == 1 {
                let server = inside.lock().clone().expect("the server");
                server.modify::<ConfigMap>("shop", "settings", |object| {
                    object.data = Some([("other".to_owned(), "1".to_owned())].into());
                });
            }
            json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": { "uid": review["request"]["uid"], "allowed": true },
            })
        }
    });
    let server = TestServer::builder().validating_webhook(webhook).build();
    server.create(config_map("shop", "settings"));
    *handle.lock() = Some(server.clone());

    let path = format!("{CONFIG_MAPS}/settings");
    let patch = json!({ "data": { "mine": "2" } }).to_string();
    let patched = send_as(&server, Method::PATCH, &path, MERGE, patch).await;

    assert_eq!(
        patched.json()["data"],
        json!({ "mine": "2", "other": "1" }),
        "{}",
        patched.text
    );
    assert_eq!(*reviews.lock(), 2, "once for each state");
    handle.lock().take();
}

#[tokio::test(start_paused = true)]
async fn object_in_another_version_is_converted_for_the_webhook() {
    let webhook = Webhook::new("v1.example.com", |request| {
        assert_eq!(request.resource.version, "v1");
        assert_eq!(request.request_resource.version, "v2");
        let mut object = request.object.clone().unwrap();
        assert_eq!(object["apiVersion"], "autoscaling/v1");
        assert_eq!(object["spec"]["targetCPUUtilizationPercentage"], 80);
        object["spec"]["targetCPUUtilizationPercentage"] = 50.into();
        Admission::replace(object)
    })
    .rule(
        WebhookRule::new(&[Operation::Create], &["horizontalpodautoscalers.autoscaling"]).versions(&["v1"]),
    );
    let server = TestServer::builder().mutating_webhook(webhook).build();
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" },
        "spec": { "maxReplicas": 3, "metrics": [{ "type": "Resource", "resource": {
            "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 },
        } }] },
    });
    let path = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers";

    let created = send(&server, Method::POST, path, &autoscaler).await;

    assert_eq!(created.status, 201, "{}", created.text);
    let metric = &created.json()["spec"]["metrics"][0]["resource"]["target"];
    assert_eq!(metric["averageUtilization"], 50, "{}", created.text);
}
