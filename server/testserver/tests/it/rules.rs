//! The rules of custom kinds (`x-kubernetes-validations`). The recorded exchanges compare many more with a real server.

use http::Method;
use kube_testserver::TestServer;
use serde_json::{Value, json};

use crate::common::{send, send_as};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/shop/widgets";
const MERGE: &str = "application/merge-patch+json";

fn definition(rules: Value, size_rules: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-validations": rules, "properties": {
                    "spec": { "type": "object", "properties": {
                        "size": { "type": "integer", "x-kubernetes-validations": size_rules },
                        "color": { "type": "string" },
                    } },
                } } },
            }],
        },
    })
}

async fn server(rules: Value, size_rules: Value) -> TestServer {
    let server = TestServer::new();
    let defined = send(&server, Method::POST, DEFINITIONS, &definition(rules, size_rules)).await;
    assert_eq!(defined.status, 201, "{}", defined.text);
    server
}

fn widget(metadata: Value, spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec })
}

#[tokio::test(start_paused = true)]
async fn objects_that_break_a_rule_are_rejected_by_every_kind_of_write() {
    let server = server(
        json!([]),
        json!([{ "rule": "self < 5", "message": "is too large" }]),
    )
    .await;
    let refusal = |name: &str| {
        let message =
            format!("Widget.example.com \"{name}\" is invalid: spec.size: Invalid value: 9: is too large");
        (422, "Invalid".to_owned(), message)
    };

    let created = send(
        &server,
        Method::POST,
        WIDGETS,
        &widget(json!({ "name": "a" }), json!({ "size": 9 })),
    )
    .await;
    assert_eq!(created.error(), refusal("a"));
    let created = send(
        &server,
        Method::POST,
        WIDGETS,
        &widget(json!({ "name": "a" }), json!({ "size": 1 })),
    )
    .await;
    assert_eq!(created.status, 201);
    let path = format!("{WIDGETS}/a");
    let patched = send_as(
        &server,
        Method::PATCH,
        &path,
        MERGE,
        json!({ "spec": { "size": 9 } }).to_string(),
    )
    .await;
    assert_eq!(patched.error(), refusal("a"));
    let mut changed = created.json();
    changed["spec"]["size"] = json!(9);
    assert_eq!(
        send(&server, Method::PUT, &path, &changed).await.error(),
        refusal("a")
    );
    let applied = widget(json!({ "name": "b" }), json!({ "size": 9 })).to_string();
    let apply = "application/apply-patch+yaml";
    let applied = send_as(
        &server,
        Method::PATCH,
        &format!("{WIDGETS}/b?fieldManager=test"),
        apply,
        applied,
    )
    .await;
    assert_eq!(applied.error(), refusal("b"));
}

#[tokio::test(start_paused = true)]
async fn rules_see_the_metadata_of_the_object() {
    let rule = "self.metadata.name.startsWith('a') && self.kind == 'Widget'";
    let server = server(json!([{ "rule": rule }]), json!([])).await;

    let refused = send(
        &server,
        Method::POST,
        WIDGETS,
        &widget(json!({ "name": "b" }), json!({})),
    )
    .await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    for metadata in [json!({ "name": "a" }), json!({ "generateName": "a-" })] {
        let created = send(&server, Method::POST, WIDGETS, &widget(metadata, json!({}))).await;
        assert_eq!(created.status, 201, "{}", created.text);
    }
}

#[tokio::test(start_paused = true)]
async fn definitions_with_rules_that_do_not_compile_are_rejected() {
    let server = TestServer::new();

    let refused = send(
        &server,
        Method::POST,
        DEFINITIONS,
        &definition(json!([]), json!([{ "rule": "self.size() < 5" }])),
    )
    .await;

    let (status, _, message) = refused.error();
    assert_eq!(status, 422);
    assert!(
        message.contains(
            "found no matching overload for 'size' applied to 'int.()'\n | self.size() < 5\n | .........^"
        ),
        "{message}"
    );
}

/// A hostile definition cannot occupy the server, nor exhaust the stack of a thread.
#[tokio::test(start_paused = true)]
async fn expensive_rules_end() {
    let deep = format!("{}self{} > 0", "(".repeat(45), ")".repeat(45));
    let long = vec!["self > 0"; 200].join(" && ");
    let sum = format!("self{} > 0", " + 1".repeat(100));
    let costly = "lists.range(1000).all(a, lists.range(1000).all(b, a + b >= 0))";
    let rules: Vec<Value> = [deep.as_str(), &long, &sum, costly]
        .iter()
        .map(|rule| json!({ "rule": rule }))
        .collect();
    let server = server(json!([]), json!(rules)).await;

    let refused = send(
        &server,
        Method::POST,
        WIDGETS,
        &widget(json!({ "name": "a" }), json!({ "size": 1 })),
    )
    .await;

    let (status, _, message) = refused.error();
    assert_eq!(status, 422);
    assert!(
        message.contains("no further validation rules will be run"),
        "{message}"
    );
}

/// The recording `costs` compares many more with a real server.
#[tokio::test(start_paused = true)]
async fn rules_that_may_become_too_expensive_are_rejected_when_they_are_defined() {
    let server = TestServer::new();
    let mut definition = definition(json!([]), json!([]));
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let mut define = |list: Value| {
        let spec = definition.pointer_mut(schema).unwrap();
        spec["properties"]["list"] = list;
        spec["x-kubernetes-validations"] = json!([{ "rule": "self.list.all(x, self.list.all(y, x == y))" }]);
        definition.clone()
    };
    let numbers = json!({ "type": "array", "items": { "type": "integer" } });

    let unlimited = send(&server, Method::POST, DEFINITIONS, &define(numbers.clone())).await;
    let (status, _, message) = unlimited.error();
    assert_eq!(status, 422);
    let field = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Forbidden: estimated rule \
                 cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, \
                 and maxLength where arrays, maps, and strings are declared)";
    assert!(message.contains(field), "{message}");
    assert!(
        message.contains("estimated rule cost total for entire OpenAPIv3 schema exceeds budget"),
        "{message}"
    );

    let mut limited = numbers;
    limited["maxItems"] = json!(500);
    let limited = send(&server, Method::POST, DEFINITIONS, &define(limited)).await;
    assert_eq!(limited.status, 201, "{}", limited.text);
}
