//! Inputs designed to break the server or to keep it busy.

use std::time::{Duration, Instant};

use http::Method;
use kube_testserver::TestServer;
use serde_json::{Value, json};

use crate::common::{get, send};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/shop/widgets";
const PODS: &str = "/api/v1/namespaces/shop/pods";

fn definition(spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

fn widget(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn definition_with_an_invalid_pattern_is_rejected_with_its_field() {
    let server = TestServer::new();
    let spec = json!({"type": "object", "properties": {
        "name": {"type": "array", "items": {"type": "string", "pattern": "[a-z"}},
        "fine": {"type": "string", "pattern": "^[a-z]+$"},
    }});

    let (code, reason, message) = send(&server, Method::POST, DEFINITIONS, &definition(&spec))
        .await
        .error();

    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    let field = "spec.validation.openAPIV3Schema.properties[spec].properties[name].items.pattern: Invalid value: \
                 \"[a-z\": must be a valid regular expression, but isn't: ";
    assert!(message.contains(field), "{message}");
    assert!(!message.contains("[fine]"), "{message}");
    assert_eq!(get(&server, WIDGETS).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn definition_with_a_pattern_too_large_to_compile_is_rejected() {
    let server = TestServer::new();
    let spec = json!({"type": "string", "pattern": "(\\w{100}){100}"});

    let posted = send(&server, Method::POST, DEFINITIONS, &definition(&spec)).await;

    assert_eq!(posted.status, 422, "{}", posted.text);
}

/// Ten times as many elements take ten times as long if the check is linear, a hundred times if it is quadratic. The best of
/// several attempts counts: the load of the machine may change between two of them.
#[tokio::test(start_paused = true)]
async fn large_set_and_map_lists_are_checked_in_linear_time() {
    const FEW: usize = 4_000;
    let server = TestServer::builder().body_limit(64 << 20).build();
    let spec = json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}},
    }});
    send(&server, Method::POST, DEFINITIONS, &definition(&spec)).await;

    let (mut few, mut many) = (Duration::MAX, Duration::MAX);
    for _ in 0..5 {
        few = few.min(time_of_rejection(&server, FEW).await);
        many = many.min(time_of_rejection(&server, 10 * FEW).await);
        if many < few * 45 {
            return;
        }
    }
    panic!("{FEW} elements: {few:?}, ten times as many: {many:?}");
}

/// How long a list of this many elements and one duplicate takes to be rejected.
#[expect(clippy::disallowed_methods, reason = "the paused clock does not measure work")]
async fn time_of_rejection(server: &TestServer, count: usize) -> Duration {
    let mut set: Vec<Value> = (0..count).map(|number| json!(number.to_string())).collect();
    let mut map: Vec<Value> = (0..count)
        .map(|number| json!({"k": number.to_string()}))
        .collect();
    set.push(json!("7"));
    map.push(json!({"k": "7"}));
    let widget = widget(json!({"set": set, "map": map}));

    let began = Instant::now();
    let (code, _, message) = send(server, Method::POST, WIDGETS, &widget).await.error();
    let took = began.elapsed();

    assert_eq!(code, 422);
    let duplicate = format!("spec.set[{count}]: Duplicate value: \"7\"");
    assert!(message.contains(&duplicate), "{message}");
    let duplicate = format!("spec.map[{count}]: Duplicate value: {{\"k\":\"7\"}}");
    assert!(message.contains(&duplicate), "{message}");
    took
}

#[tokio::test(start_paused = true)]
async fn metadata_of_the_wrong_type_is_rejected_by_every_kind_of_write() {
    let server = TestServer::new();
    let pod = |metadata: Value| {
        let mut pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}});
        pod["metadata"]["name"] = json!("cart");
        pod
    };
    assert_eq!(
        send(&server, Method::POST, PODS, &pod(json!({}))).await.status,
        201
    );
    let cart = format!("{PODS}/cart");
    for (metadata, found, wanted) in [
        (json!({"finalizers": {}}), "object", "finalizers of type []string"),
        (json!({"finalizers": [1]}), "number", "finalizers of type string"),
        (
            json!({"ownerReferences": "x"}),
            "string",
            "ownerReferences of type []v1.OwnerReference",
        ),
        (json!({"labels": []}), "array", "labels of type map[string]string"),
        (
            json!({"annotations": {"a": true}}),
            "bool",
            "annotations of type string",
        ),
    ] {
        let expected = format!(
            "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal {found} into Go struct field \
             ObjectMeta.metadata.{wanted}"
        );
        for (method, path) in [(Method::POST, PODS), (Method::PUT, &cart)] {
            let rejected = send(&server, method, path, &pod(metadata.clone())).await;
            assert_eq!(rejected.error(), (400, "BadRequest".to_owned(), expected.clone()));
        }
    }
    assert_eq!(
        get(&server, &cart).await.json()["metadata"].get("finalizers"),
        None
    );
}
