//! A custom kind whose definition is created later, deleted, or changes its version.

use kube::core::{ApiResource, GroupVersionKind};
use kube_informers::Informer;
use kube_informers::reflector::ReflectorState;
use kube_testserver::TestServer;
use serde_json::{Value, json};

use super::factory;
use crate::support::{Log, assert_gentle, minutes, names, pass, secs, settle, wait_for};

/// The definition of widgets in these versions, the last of which is stored.
pub fn definition(versions: &[&str]) -> Value {
    let last = versions.last();
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            json!({
                "name": version, "served": true, "storage": Some(version) == last,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": versions,
        },
    })
}

pub fn widget(version: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Widget",
        "metadata": {"name": name, "namespace": "shop"},
    })
}

fn resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"))
}

fn is_waiting<K: kube_informers::Object>(informer: &Informer<K>) -> bool {
    match informer.state() {
        ReflectorState::BackingOff { error, .. } => error.api().is_some_and(|error| error.code == 404),
        _ => false,
    }
}

#[tokio::test(start_paused = true)]
async fn informer_waits_for_a_definition_that_appears_later() {
    let server = TestServer::new();
    let factory = factory(&server);
    let widgets = factory.dynamic(resource());
    factory.start();

    let error = factory
        .wait_for_sync_within(minutes(10))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("widgets.example.com"), "{error}");
    assert!(error.contains("is its definition installed?"), "{error}");
    assert!(is_waiting(&widgets), "{}", widgets.state());
    assert_gentle(&server);

    server.create(definition(&["v1"]));
    server.create(widget("v1", "wheel"));
    factory.wait_for_sync_within(secs(10)).await.unwrap();

    assert_eq!(names(&widgets), ["wheel"]);
    factory.shutdown().await;
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn last_state_stays_and_is_reported_when_the_definition_is_deleted() {
    let server = TestServer::new();
    server.create(definition(&["v1"]));
    server.create(widget("v1", "wheel"));
    let factory = factory(&server);
    let widgets = factory.dynamic(resource());
    let log = Log::new();
    widgets.add_event_handler(log.handler()).unwrap();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    // The objects are deleted while the watch is down.
    server.refuse_connections(true);
    server.break_watches();
    settle().await;
    server.delete_key(
        "customresourcedefinitions.apiextensions.k8s.io",
        "widgets.example.com",
    );
    server.refuse_connections(false);
    wait_for("it waits", || is_waiting(&widgets)).await;
    pass(minutes(30)).await;
    assert!(is_waiting(&widgets), "{}", widgets.state());
    assert!(widgets.state().to_string().contains("404"), "{}", widgets.state());
    assert_eq!(names(&widgets), ["wheel"], "the last state stays");
    assert_eq!(log.take(), ["added shop/wheel (initial)"]);
    assert_gentle(&server);

    server.create(definition(&["v1"]));
    server.create(widget("v1", "door"));
    wait_for("it has recovered", || names(&widgets) == ["door"]).await;

    let mut events = log.all();
    events.sort();
    assert_eq!(events, ["added shop/door", "deleted shop/wheel (missed)"]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn informer_switches_to_the_version_that_is_served() {
    let server = TestServer::new();
    server.create(definition(&["v1"]));
    server.create(widget("v1", "wheel"));
    let factory = factory(&server);
    let following = factory.for_resource("widgets.example.com").await.unwrap();
    let pinned = factory.for_resource("widgets.v1.example.com").await.unwrap();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    server.delete_key(
        "customresourcedefinitions.apiextensions.k8s.io",
        "widgets.example.com",
    );
    server.create(definition(&["v2"]));
    server.create(widget("v2", "door"));
    wait_for("it follows", || names(&following) == ["door"]).await;

    let door = following.lister().namespace("shop").get("door").unwrap();
    assert_eq!(door.types.as_ref().unwrap().api_version, "example.com/v2");
    assert!(
        is_waiting(&pinned),
        "an explicit version is never replaced: {}",
        pinned.state()
    );
    server.create(widget("v2", "bolt"));
    wait_for("the new watch works", || names(&following) == ["bolt", "door"]).await;
    assert_gentle(&server);
    factory.shutdown().await;
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn objects_survive_a_change_of_the_served_version() {
    let server = TestServer::new();
    server.create(definition(&["v1"]));
    server.create(widget("v1", "wheel"));
    let factory = factory(&server);
    let widgets = factory.for_resource("widgets.example.com").await.unwrap();
    let log = Log::new();
    widgets.add_event_handler(log.handler()).unwrap();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    // The objects stay; they are served as v2 from now on.
    let mut both = definition(&["v1", "v2"]);
    both["spec"]["versions"][0]["served"] = json!(false);
    server.put(both);
    server.close_watches();
    server.create(widget("v2", "door"));
    wait_for("it follows", || names(&widgets) == ["door", "wheel"]).await;

    assert_eq!(log.all(), ["added shop/wheel (initial)", "added shop/door"]);
    let door = widgets.lister().namespace("shop").get("door").unwrap();
    assert_eq!(door.types.as_ref().unwrap().api_version, "example.com/v2");
    factory.shutdown().await;
}
