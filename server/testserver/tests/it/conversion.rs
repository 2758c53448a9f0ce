//! Versions of custom resources: renamed, or converted by a webhook of the test. `verify/scenarios/tests/it/scenarios/conversion.rs` compares
//! webhooks over HTTPS with a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use kube_testserver::{Admission, ConversionWebhook, Operation, TestServer, Webhook, WebhookRule};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::common::{Watch, get, send, send_as};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn path(version: &str, rest: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/shop/widgets{rest}")
}

/// v1 has `spec.size`, v2 has `spec.replicas`.
fn definition(strategy: &str, stored: &str) -> Value {
    let version = |name: &str, field: &str| {
        json!({
            "name": name, "served": true, "storage": name == stored,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                "spec": { "type": "object", "properties": {
                    field: { "type": "integer" }, "color": { "type": "string" },
                } },
                "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            } } },
            "subresources": {
                "status": {},
                "scale": { "specReplicasPath": format!(".spec.{field}"), "statusReplicasPath": ".status.count" },
            },
            "selectableFields": [{ "jsonPath": format!(".spec.{field}") }],
            "additionalPrinterColumns": [
                { "name": "Number", "type": "integer", "jsonPath": format!(".spec.{field}") },
            ],
        })
    };
    let mut conversion = json!({ "strategy": strategy });
    if strategy == "Webhook" {
        conversion["webhook"] = json!({
            "conversionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1/convert" },
        });
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [version("v1", "size"), version("v2", "replicas")], "conversion": conversion,
        },
    })
}

fn widget(version: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Widget",
        "metadata": { "name": name, "namespace": "shop" }, "spec": spec,
    })
}

fn rename(mut object: Value, to: &str) -> Result<Value, String> {
    let (from, field) = match to {
        "example.com/v2" => ("size", "replicas"),
        _ => ("replicas", "size"),
    };
    let spec = object["spec"].as_object_mut().ok_or("spec is required")?;
    if let Some(number) = spec.remove(from) {
        spec.insert(field.to_owned(), number);
    }
    Ok(object)
}

/// A server with a webhook that renames the field, and the number of conversions so far.
fn server() -> (TestServer, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let webhook = ConversionWebhook::new("widgets.example.com", move |object, to| {
        counted.fetch_add(1, Ordering::Relaxed);
        rename(object, to)
    });
    let server = TestServer::builder().conversion_webhook(webhook).build();
    server.create(definition("Webhook", "v1"));
    (server, count)
}

async fn create(server: &TestServer, version: &str, name: &str, spec: Value) -> Value {
    let created = send(
        server,
        Method::POST,
        &path(version, ""),
        &widget(version, name, spec),
    )
    .await;
    assert_eq!(created.status, 201, "{}", created.text);
    created.json()
}

#[tokio::test(start_paused = true)]
async fn object_is_stored_in_the_storage_version_and_shown_in_the_requested_one() {
    let (server, _) = server();

    let created = create(&server, "v2", "cart", json!({ "replicas": 3 })).await;

    assert_eq!(created["spec"], json!({ "replicas": 3 }));
    let stored = server.object("widgets.example.com", "shop/cart").unwrap();
    assert_eq!(stored["apiVersion"], "example.com/v1");
    assert_eq!(stored["spec"], json!({ "size": 3 }));
    assert_eq!(
        get(&server, &path("v1", "/cart")).await.json()["spec"],
        json!({ "size": 3 })
    );
    let found = get(&server, &path("v2", "/cart")).await.json();
    assert_eq!(found["spec"], json!({ "replicas": 3 }));
    assert_eq!(
        found["metadata"]["resourceVersion"],
        stored["metadata"]["resourceVersion"]
    );
    let scale = get(&server, &path("v2", "/cart/scale")).await.json();
    assert_eq!(scale["spec"]["replicas"], 3);
}

#[tokio::test(start_paused = true)]
async fn writes_in_another_version_change_the_stored_object() {
    let (server, _) = server();
    create(&server, "v1", "cart", json!({ "size": 1, "color": "red" })).await;
    let stored = || server.object("widgets.example.com", "shop/cart").unwrap();

    let merge = json!({ "spec": { "replicas": 2 } }).to_string();
    let merged = send_as(
        &server,
        Method::PATCH,
        &path("v2", "/cart"),
        "application/merge-patch+json",
        merge,
    )
    .await;
    assert_eq!(merged.json()["spec"], json!({ "replicas": 2, "color": "red" }));
    assert_eq!(stored()["spec"], json!({ "size": 2, "color": "red" }));
    assert_eq!(stored()["metadata"]["generation"], 2);

    let mut replaced = merged.json();
    replaced["spec"]["replicas"] = json!(3);
    let replaced = send(&server, Method::PUT, &path("v2", "/cart"), &replaced).await;
    assert_eq!(replaced.status, 200, "{}", replaced.text);
    assert_eq!(stored()["spec"]["size"], 3);

    let before = stored();
    let same = send(&server, Method::PUT, &path("v2", "/cart"), &replaced.json()).await;
    assert_eq!(same.status, 200, "{}", same.text);
    assert_eq!(stored(), before, "nothing has changed");

    let scale = json!({ "spec": { "replicas": 4 }, "metadata": { "name": "cart" } });
    let scaled = send(&server, Method::PUT, &path("v2", "/cart/scale"), &scale).await;
    assert_eq!(scaled.json()["spec"]["replicas"], 4, "{}", scaled.text);
    assert_eq!(stored()["spec"]["size"], 4);

    let mut status = widget("v2", "cart", json!({}));
    status["status"] = json!({ "count": 4 });
    status["metadata"]["resourceVersion"] = stored()["metadata"]["resourceVersion"].clone();
    let written = send(&server, Method::PUT, &path("v2", "/cart/status"), &status).await;
    assert_eq!(written.status, 200, "{}", written.text);
    assert_eq!(stored()["status"], json!({ "count": 4 }));
    assert_eq!(stored()["spec"]["size"], 4);

    let applied = widget("v2", "cart", json!({ "replicas": 5 })).to_string();
    let apply = format!("{}?fieldManager=me&force=true", path("v2", "/cart"));
    let applied = send_as(
        &server,
        Method::PATCH,
        &apply,
        "application/apply-patch+yaml",
        applied,
    )
    .await;
    assert_eq!(applied.json()["spec"]["replicas"], 5, "{}", applied.text);
    assert_eq!(stored()["spec"]["size"], 5);
}

#[tokio::test(start_paused = true)]
async fn lists_and_watches_select_and_show_converted_objects() {
    let (server, count) = server();
    create(&server, "v1", "a", json!({ "size": 1 })).await;
    create(&server, "v1", "b", json!({ "size": 2 })).await;
    count.store(0, Ordering::Relaxed);

    let listed = get(&server, &path("v2", "")).await;
    assert_eq!(listed.names(), ["shop/a", "shop/b"]);
    assert_eq!(listed.json()["items"][1]["spec"], json!({ "replicas": 2 }));
    assert_eq!(count.load(Ordering::Relaxed), 2);
    let selected = get(&server, &path("v2", "?fieldSelector=spec.replicas%3D2")).await;
    assert_eq!(selected.names(), ["shop/b"]);
    assert_eq!(get(&server, &path("v2", "?limit=1")).await.names(), ["shop/a"]);
    assert_eq!(count.load(Ordering::Relaxed), 2, "each object is converted once");
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let table = crate::common::get_as(&server, &path("v2", ""), table)
        .await
        .json();
    assert_eq!(table["rows"][1]["cells"], json!(["b", 2]));

    let initial = path(
        "v2",
        "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    );
    let mut initial = Watch::open(&server, &initial).await;
    assert_eq!(
        initial.frame().await.unwrap().unwrap()["object"]["spec"],
        json!({ "replicas": 1 })
    );
    let selected = format!(
        "{}&resourceVersion={}",
        path("v2", "?watch=true&fieldSelector=spec.replicas%3D2"),
        listed.version()
    );
    let mut watch = Watch::open(&server, &selected).await;
    let mut changed = get(&server, &path("v1", "/b")).await.json();
    changed["spec"]["size"] = json!(3);
    send(&server, Method::PUT, &path("v1", "/b"), &changed).await;
    let left = watch.frame().await.unwrap().unwrap();
    assert_eq!(
        (&left["type"], &left["object"]["spec"]),
        (&json!("DELETED"), &json!({ "replicas": 2 }))
    );
    let mut changed = get(&server, &path("v1", "/a")).await.json();
    changed["spec"]["size"] = json!(2);
    send(&server, Method::PUT, &path("v1", "/a"), &changed).await;
    let entered = watch.frame().await.unwrap().unwrap();
    assert_eq!(
        (&entered["type"], &entered["object"]["spec"]),
        (&json!("ADDED"), &json!({ "replicas": 2 }))
    );
    let deleted = send(&server, Method::DELETE, &path("v2", ""), &Value::Null).await;
    assert_eq!(
        deleted.json()["items"][0]["spec"],
        json!({ "replicas": 2 }),
        "{}",
        deleted.text
    );
    assert_eq!(server.count("widgets.example.com"), 0);
    let gone = watch.frame().await.unwrap().unwrap();
    assert_eq!(
        (&gone["type"], &gone["object"]["spec"]),
        (&json!("DELETED"), &json!({ "replicas": 2 }))
    );
}

#[tokio::test(start_paused = true)]
async fn failed_conversion_is_an_error_for_readers_of_the_other_version_only() {
    let webhook = ConversionWebhook::new(
        "widgets.example.com",
        |object, to| match object["metadata"]["name"].as_str() {
            Some("bad") => Err("no such thing".to_owned()),
            _ => rename(object, to),
        },
    );
    let server = TestServer::builder().conversion_webhook(webhook).build();
    server.create(definition("Webhook", "v1"));
    create(&server, "v1", "good", json!({ "size": 1 })).await;
    let from = get(&server, &path("v1", "")).await.version();
    let mut watch = Watch::open(
        &server,
        &format!("{}?watch=true&resourceVersion={from}", path("v2", "")),
    )
    .await;
    create(&server, "v1", "bad", json!({ "size": 1 })).await;

    let message = "conversion webhook for example.com/v1, Kind=Widget failed: no such thing";
    let (code, reason, text) = get(&server, &path("v2", "/bad")).await.error();
    assert_eq!((code, reason.as_str()), (500, "InternalError"));
    assert!(
        text.starts_with("Internal error occurred: StorageError: corrupt object, Code: 7, Key: /example.com/widgets/shop/bad,"),
        "{text}"
    );
    assert!(text.ends_with(message), "{text}");
    for read in [
        "",
        "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    ] {
        let (code, reason, text) = get(&server, &path("v2", read)).await.error();
        assert_eq!((code, reason.as_str()), (500, "StorageReadError"), "{read}");
        let start = "failed to read one or more widgets.example.com from the storage: StorageError: corrupt object, Code: 7, \
                     Key: /registry/example.com/widgets/shop/bad,";
        assert!(text.starts_with(start) && text.ends_with(message), "{text}");
    }
    assert_eq!(get(&server, &path("v2", "/good")).await.status, 200);
    assert_eq!(
        get(&server, &path("v1", "")).await.names(),
        ["shop/bad", "shop/good"]
    );
    let event = watch.frame().await.unwrap().unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["message"]),
        (&json!("ERROR"), &json!(message))
    );
    let (code, _, text) = send(
        &server,
        Method::POST,
        &path("v2", ""),
        &widget("v2", "bad", json!({})),
    )
    .await
    .error();
    assert_eq!(code, 500);
    assert_eq!(text, message.replace("/v1,", "/v2,"));
}

#[tokio::test(start_paused = true)]
async fn objects_of_the_test_and_of_an_earlier_storage_version_are_converted_when_read() {
    let (server, _) = server();
    server.create(widget("v2", "cart", json!({ "replicas": 3 })));
    assert_eq!(
        server.object("widgets.example.com", "shop/cart").unwrap()["apiVersion"],
        "example.com/v2"
    );
    assert_eq!(
        get(&server, &path("v1", "/cart")).await.json()["spec"],
        json!({ "size": 3 })
    );

    // A write of a client stores it in the storage version.
    let mut same = get(&server, &path("v1", "/cart")).await.json();
    let version = same["metadata"]["resourceVersion"].clone();
    let written = send(&server, Method::PUT, &path("v1", "/cart"), &same).await;
    assert_eq!(written.status, 200, "{}", written.text);
    assert_ne!(written.json()["metadata"]["resourceVersion"], version);
    let stored = server.object("widgets.example.com", "shop/cart").unwrap();
    assert_eq!(
        (&stored["apiVersion"], &stored["spec"]),
        (&json!("example.com/v1"), &json!({ "size": 3 }))
    );

    let mut other = get(&server, &format!("{DEFINITIONS}/widgets.example.com"))
        .await
        .json();
    other["spec"]["versions"][0]["storage"] = json!(false);
    other["spec"]["versions"][1]["storage"] = json!(true);
    let changed = send(
        &server,
        Method::PUT,
        &format!("{DEFINITIONS}/widgets.example.com"),
        &other,
    )
    .await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(changed.json()["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(
        get(&server, &path("v2", "/cart")).await.json()["spec"],
        json!({ "replicas": 3 })
    );
    same = get(&server, &path("v1", "/cart")).await.json();
    let written = send(&server, Method::PUT, &path("v1", "/cart"), &same).await;
    assert_eq!(written.json()["spec"], json!({ "size": 3 }), "{}", written.text);
    let stored = server.object("widgets.example.com", "shop/cart").unwrap();
    assert_eq!(
        (&stored["apiVersion"], &stored["spec"]),
        (&json!("example.com/v2"), &json!({ "replicas": 3 }))
    );
}

#[tokio::test(start_paused = true)]
async fn versions_without_a_webhook_differ_in_their_schema_only() {
    let server = TestServer::new();
    server.create(definition("None", "v1"));
    create(&server, "v2", "cart", json!({ "replicas": 3, "color": "red" })).await;

    // What the storage version does not have is lost.
    for version in ["v1", "v2"] {
        let found = get(&server, &path(version, "/cart")).await.json();
        assert_eq!(found["spec"], json!({ "color": "red" }), "{version}");
    }
    let listed = get(&server, &path("v2", "")).await.json();
    assert_eq!(listed["items"][0]["apiVersion"], "example.com/v2");
    let mut watch = Watch::open(&server, &path("v2", "?watch=true")).await;
    create(&server, "v1", "other", json!({ "color": "blue" })).await;
    let event = watch.frame().await.unwrap().unwrap();
    assert_eq!(event["object"]["apiVersion"], "example.com/v2");
    let mut again = Watch::open(
        &server,
        &path(
            "v1",
            &format!("?watch=true&resourceVersion={}", crate::common::version(&listed)),
        ),
    )
    .await;
    assert_eq!(
        again.frame().await.unwrap().unwrap()["object"]["apiVersion"],
        "example.com/v1"
    );
}

#[tokio::test(start_paused = true)]
async fn admission_webhooks_see_the_version_of_their_rule() {
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = seen.clone();
    let rule = WebhookRule::new(&[Operation::Create], &["widgets.example.com"]).versions(&["v1"]);
    let admission = Webhook::new("see.example.com", move |request| {
        log.lock().push(request.object.clone().unwrap_or_default());
        Admission::patch(&json!([{ "op": "add", "path": "/spec/color", "value": "green" }]))
    })
    .rule(rule);
    let server = TestServer::builder()
        .conversion_webhook(ConversionWebhook::new("widgets.example.com", rename))
        .mutating_webhook(admission)
        .build();
    server.create(definition("Webhook", "v1"));

    let created = create(&server, "v2", "cart", json!({ "replicas": 3 })).await;

    assert_eq!(seen.lock()[0]["spec"], json!({ "size": 3 }));
    assert_eq!(created["spec"], json!({ "replicas": 3, "color": "green" }));
    let stored = server.object("widgets.example.com", "shop/cart").unwrap();
    assert_eq!(stored["spec"], json!({ "size": 3, "color": "green" }));
}

#[tokio::test(start_paused = true)]
async fn handler_of_an_operator_can_be_the_webhook() {
    async fn handle(mut review: Value) -> Value {
        let objects = review["request"]["objects"].take();
        let mut objects = objects.as_array().cloned().unwrap_or_default();
        for object in &mut objects {
            object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
        }
        json!({
            "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "response": {
                "uid": review["request"]["uid"], "convertedObjects": objects, "result": { "status": "Success" },
            },
        })
    }
    let webhook = ConversionWebhook::reviews("widgets.example.com", handle);
    let server = TestServer::builder().conversion_webhook(webhook).build();
    server.create(definition("Webhook", "v1"));

    create(&server, "v2", "cart", json!({ "color": "red" })).await;

    assert_eq!(
        get(&server, &path("v1", "/cart")).await.json()["spec"]["color"],
        "red"
    );
}

#[tokio::test(start_paused = true)]
async fn conversion_that_never_ends_is_given_up() {
    let webhook = ConversionWebhook::reviews("widgets.example.com", |_| std::future::pending());
    let server = TestServer::builder().conversion_webhook(webhook).build();
    server.create(definition("Webhook", "v1"));
    create(&server, "v1", "cart", json!({ "size": 1 })).await;

    let (code, _, message) = get(&server, &path("v2", "/cart")).await.error();

    assert_eq!(code, 500);
    let why = "conversion webhook for example.com/v1, Kind=Widget failed: context deadline exceeded";
    assert!(message.ends_with(why), "{message}");
}
