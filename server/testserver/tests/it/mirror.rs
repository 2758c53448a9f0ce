//! Copies of objects of another server, as clients see them.

use kube_testserver::TestServer;
use kube_testserver::builders::pod;
use serde_json::{Value, json};

use crate::common::{Watch, get, version};

fn without_version(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    object
}

#[tokio::test(start_paused = true)]
async fn clients_see_copies_as_the_other_server_has_them() {
    let original = TestServer::builder().seed(7).build();
    original.create(pod("shop", "cart"));
    let copy = TestServer::new();
    let mut watch = Watch::open(&copy, "/api/v1/pods?watch=true&resourceVersion=1").await;

    copy.mirror(original.object("pods", "shop/cart").unwrap())
        .unwrap();

    let path = "/api/v1/namespaces/shop/pods/cart";
    let shown = get(&copy, path).await.json();
    assert_eq!(
        without_version(shown.clone()),
        without_version(get(&original, path).await.json())
    );
    assert_eq!(watch.next().await, format!("ADDED shop/cart@{}", version(&shown)));
    assert!(copy.mirror_deletion("pods", "shop/cart").unwrap());
    assert_eq!(
        watch.next().await,
        format!("DELETED shop/cart@{}", copy.resource_version())
    );
    assert_eq!(get(&copy, path).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn copied_definition_serves_its_kind() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    let original = TestServer::new();
    original.create(definition);
    let copy = TestServer::new();
    copy.mirror(
        original
            .objects("customresourcedefinitions.apiextensions.k8s.io")
            .remove(0),
    )
    .unwrap();

    copy.mirror(json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w", "namespace": "shop" }, "size": 3,
    }))
    .unwrap();

    let list = get(&copy, "/apis/example.com/v1/widgets").await;
    assert_eq!(list.names(), ["shop/w"]);
    assert_eq!(list.json()["items"][0]["size"], 3);
    let removed = copy.mirror_deletion(
        "customresourcedefinitions.apiextensions.k8s.io",
        "widgets.example.com",
    );
    assert!(removed.unwrap());
    assert_eq!(get(&copy, "/apis/example.com/v1/widgets").await.status, 404);
}
