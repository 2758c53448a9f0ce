//! Custom kinds: declared in code, or by a definition posted while the server runs.

use http::Method;
use kube_testserver::TestServer;
use kube_testserver::kinds::Kind;
use serde_json::{Value, json};

use crate::common::{Watch, get, send, send_as};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/shop/widgets";

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}}}},
                "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.color"}],
            }],
        },
    })
}

fn widget(name: &str, color: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"color": color}})
}

#[tokio::test(start_paused = true)]
async fn kind_declared_in_code_is_served() {
    let server = TestServer::builder()
        .kind(Kind::new("example.com", "v1", "Widget"))
        .build();

    let created = send(&server, Method::POST, WIDGETS, &widget("a", "red")).await;

    assert_eq!(created.status, 201, "{}", created.text);
    let list = get(&server, "/apis/example.com/v1/widgets").await;
    assert_eq!(list.names(), ["shop/a"]);
    assert_eq!(
        list.json()["items"][0]["kind"],
        "Widget",
        "custom items contain their type"
    );
    server.create({
        let mut direct = widget("b", "blue");
        direct["metadata"]["namespace"] = json!("shop");
        direct
    });
    assert_eq!(server.count("widgets.example.com"), 2);
}

#[tokio::test(start_paused = true)]
async fn posted_definition_adds_its_kind() {
    let server = TestServer::new();
    assert_eq!(get(&server, WIDGETS).await.text, "404 page not found\n");

    let posted = send(&server, Method::POST, DEFINITIONS, &definition()).await;
    assert_eq!(posted.status, 201, "{}", posted.text);
    assert_eq!(posted.json()["status"]["conditions"], Value::Null);
    assert_eq!(
        conditions(&server, "widgets").await,
        ["NoConflicts", "InitialNamesAccepted"]
    );

    let created = send(&server, Method::POST, WIDGETS, &widget("a", "red"))
        .await
        .json();
    assert_eq!(created["metadata"]["generation"], 1);
    send(&server, Method::POST, WIDGETS, &widget("b", "blue")).await;
    assert_eq!(
        get(&server, &format!("{WIDGETS}?fieldSelector=spec.color%3Dblue"))
            .await
            .names(),
        ["shop/b"]
    );
    let resources = get(&server, "/apis/example.com/v1").await.json();
    assert_eq!(resources["resources"][0]["shortNames"], json!(["wd"]));
}

/// The reasons of a definition's conditions.
async fn conditions(server: &TestServer, plural: &str) -> Vec<String> {
    let definition = get(server, &format!("{DEFINITIONS}/{plural}.example.com"))
        .await
        .json();
    let conditions = definition["status"]["conditions"].as_array().expect("conditions");
    let reason = |condition: &Value| condition["reason"].as_str().expect("a reason").to_owned();
    conditions.iter().map(reason).collect()
}

#[tokio::test(start_paused = true)]
async fn watches_see_how_a_posted_definition_is_established() {
    let server = TestServer::new();
    let mut watch = Watch::open(&server, &format!("{DEFINITIONS}?watch=true")).await;

    let posted = send(&server, Method::POST, DEFINITIONS, &definition()).await;

    assert_eq!(posted.json()["metadata"]["resourceVersion"], "2");
    assert_eq!(
        watch.ready().await,
        [
            "ADDED widgets.example.com@2",
            "MODIFIED widgets.example.com@3",
            "MODIFIED widgets.example.com@4",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_definition_waits_until_its_names_are_free() {
    let server = TestServer::new();
    send(&server, Method::POST, DEFINITIONS, &definition()).await;
    let mut other = definition();
    other["metadata"]["name"] = json!("wands.example.com");
    other["spec"]["names"] = json!({"plural": "wands", "kind": "Widget", "listKind": "WandList"});
    let wands = "/apis/example.com/v1/namespaces/shop/wands";

    let posted = send(&server, Method::POST, DEFINITIONS, &other).await;
    assert_eq!(posted.status, 201, "{}", posted.text);
    assert_eq!(
        conditions(&server, "wands").await,
        ["KindConflict", "NotAccepted"]
    );
    assert_eq!(get(&server, wands).await.status, 404);

    send(
        &server,
        Method::DELETE,
        &format!("{DEFINITIONS}/widgets.example.com"),
        &Value::Null,
    )
    .await;
    assert_eq!(
        conditions(&server, "wands").await,
        ["NoConflicts", "InitialNamesAccepted"]
    );
    assert_eq!(get(&server, wands).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_gives_up_a_name_frees_it_for_the_ones_that_wait() {
    let server = TestServer::new();
    send(&server, Method::POST, DEFINITIONS, &definition()).await;
    let mut other = definition();
    other["metadata"]["name"] = json!("wands.example.com");
    other["spec"]["names"] = json!({"plural": "wands", "kind": "Wand", "shortNames": ["wd"]});
    send(&server, Method::POST, DEFINITIONS, &other).await;
    assert_eq!(
        conditions(&server, "wands").await,
        ["ShortNamesConflict", "NotAccepted"]
    );

    let renamed = send_as(
        &server,
        Method::PATCH,
        &format!("{DEFINITIONS}/widgets.example.com"),
        "application/merge-patch+json",
        json!({"spec": {"names": {"shortNames": ["wi"]}}}).to_string(),
    )
    .await;

    assert_eq!(renamed.status, 200, "{}", renamed.text);
    assert_eq!(
        conditions(&server, "wands").await,
        ["NoConflicts", "InitialNamesAccepted"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_is_taken_by_a_definition_that_is_not_served_itself() {
    let server = TestServer::new();
    send(&server, Method::POST, DEFINITIONS, &definition()).await;
    // Waits for its kind, but has its list kind.
    let mut other = definition();
    other["metadata"]["name"] = json!("wands.example.com");
    other["spec"]["names"] = json!({"plural": "wands", "kind": "Widget", "listKind": "WandList"});
    send(&server, Method::POST, DEFINITIONS, &other).await;
    let mut third = definition();
    third["metadata"]["name"] = json!("rods.example.com");
    third["spec"]["names"] = json!({"plural": "rods", "kind": "Rod", "listKind": "WandList"});

    send(&server, Method::POST, DEFINITIONS, &third).await;

    assert_eq!(
        conditions(&server, "rods").await,
        ["ListKindConflict", "NotAccepted"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_of_the_wrong_type_is_replaced() {
    let server = TestServer::new();
    send(&server, Method::POST, DEFINITIONS, &definition()).await;
    let status = format!("{DEFINITIONS}/widgets.example.com/status");

    let body = json!({"status": "none"}).to_string();
    let patched = send_as(
        &server,
        Method::PATCH,
        &status,
        "application/merge-patch+json",
        body,
    )
    .await;

    assert_eq!(patched.status, 200, "{}", patched.text);
    assert_eq!(
        conditions(&server, "widgets").await,
        ["NoConflicts", "InitialNamesAccepted"]
    );
    let replaced = get(&server, &format!("{DEFINITIONS}/widgets.example.com")).await;
    assert_eq!(replaced.json()["status"]["storedVersions"], json!(["v1"]));
}

#[tokio::test(start_paused = true)]
async fn invalid_definition_is_rejected() {
    let server = TestServer::new();
    let mut bad = definition();
    bad["metadata"]["name"] = json!("wrong");

    let refused = send(&server, Method::POST, DEFINITIONS, &bad).await;

    assert_eq!(refused.error().0, 422);
    assert_eq!(get(&server, WIDGETS).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn update_of_a_custom_object_requires_its_version() {
    let server = TestServer::new();
    send(&server, Method::POST, DEFINITIONS, &definition()).await;
    let created = send(&server, Method::POST, WIDGETS, &widget("a", "red"))
        .await
        .json();

    let blind = send(
        &server,
        Method::PUT,
        &format!("{WIDGETS}/a"),
        &widget("a", "blue"),
    )
    .await;
    assert_eq!(
        blind.error().2,
        "widgets.example.com \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );

    let mut seeing = widget("a", "blue");
    seeing["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    let updated = send(&server, Method::PUT, &format!("{WIDGETS}/a"), &seeing)
        .await
        .json();
    assert_eq!(
        (
            updated["spec"]["color"].as_str(),
            updated["metadata"]["generation"].as_i64()
        ),
        (Some("blue"), Some(2))
    );
}

#[tokio::test(start_paused = true)]
async fn deleting_a_definition_removes_the_kind_and_ends_its_watches() {
    let server = TestServer::new();
    send(&server, Method::POST, DEFINITIONS, &definition()).await;
    send(&server, Method::POST, WIDGETS, &widget("a", "red")).await;
    let mut watch = Watch::open(&server, "/apis/example.com/v1/widgets?watch=true").await;
    assert_eq!(watch.ready().await, ["ADDED shop/a@5"]);

    let deleted = send(
        &server,
        Method::DELETE,
        &format!("{DEFINITIONS}/widgets.example.com"),
        &Value::Null,
    )
    .await;

    assert_eq!(deleted.status, 200);
    assert_eq!(watch.ready().await, ["DELETED shop/a@7", "end"]);
    assert_eq!(get(&server, WIDGETS).await.text, "404 page not found\n");
    assert_eq!(server.count("customresourcedefinitions.apiextensions.k8s.io"), 0);

    send(&server, Method::POST, DEFINITIONS, &definition()).await;
    let again = get(&server, WIDGETS).await;
    assert_eq!(again.names(), Vec::<String>::new());
    assert!(again.version() > 5, "the revision never decreases");
}
