//! The representations of objects: typed, dynamic, metadata only, or a user-defined struct.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube_informers::{Informer, Object, Scope};
use kube_testserver::builders::{Build, node, pod};
use kube_testserver::{Poison, TestServer, Verb};

use crate::support::*;

/// Takes an informer of any representation through a creation, a change, a relist and a deletion.
async fn check_lifecycle<K: Object>(server: &TestServer, informer: Informer<K>) {
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    handler.synced().await.unwrap();
    assert_eq!(log.take(), ["added ns/a (initial)"]);

    server.create(pod("ns", "b"));
    server.modify::<Pod>("ns", "a", |pod| *pod = pod.clone().label("app", "y"));
    wait_for("it is delivered", || log.len() == 2).await;
    assert_eq!(log.take(), ["added ns/b", "updated ns/a"]);
    assert_eq!(cached(&informer), stored(server, "pods"));

    server.break_watches();
    server.delete::<Pod>("ns", "b");
    server.compact();
    wait_for("it is delivered", || log.len() == 1).await;
    assert_eq!(log.take(), ["deleted ns/b (missed)"]);
    assert_eq!(cached(&informer), stored(server, "pods"));
}

fn with_one_pod() -> TestServer {
    let server = TestServer::new();
    server.create(pod("ns", "a").label("app", "x"));
    server
}

#[tokio::test(start_paused = true)]
async fn typed_objects_reach_cache_and_handlers() {
    let server = with_one_pod();
    let informer = synced(Informer::<Pod>::all(server.client())).await;
    let a = informer.store().get(("ns", "a")).unwrap();
    assert_eq!(a.spec.as_ref().unwrap().containers[0].name, "main");
    check_lifecycle(&server, informer).await;
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_objects_have_no_namespace() {
    let server = TestServer::new();
    server.create(node("n1"));
    let informer = synced(Informer::<Node>::all(server.client())).await;
    assert_eq!(informer.name(), "nodes");
    assert!(informer.store().get((None, "n1")).is_some());
    server.delete::<Node>(None, "n1");
    wait_for("it is deleted", || informer.store().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn dynamic_objects_reach_cache_and_handlers() {
    let server = with_one_pod();
    let resource = ApiResource::erase::<Pod>(&());
    let informer = synced(Informer::<DynamicObject>::dynamic(
        server.client(),
        &resource,
        Scope::all(),
    ))
    .await;
    let a = informer.store().get(("ns", "a")).unwrap();
    assert_eq!(a.data["spec"]["containers"][0]["name"], "main");
    assert_eq!(a.types.as_ref().unwrap().kind, "Pod");
    check_lifecycle(&server, informer).await;
}

/// A dynamic object keeps all fields, so objects nested too deeply for the stack are rejected.
#[tokio::test(start_paused = true)]
async fn a_dynamic_object_that_is_nested_too_deep_is_quarantined() {
    let server = with_one_pod();
    server.create(pod("ns", "deep"));
    server.poison("pods", "ns/deep", Poison::TooDeep(100_000));
    let resource = ApiResource::erase::<Pod>(&());
    let informer = synced(Informer::<DynamicObject>::dynamic(
        server.client(),
        &resource,
        Scope::all(),
    ))
    .await;
    assert_eq!(names(&informer), ["a"]);
    assert_eq!(informer.quarantine()[0].key.as_str(), "ns/deep");

    // A typed object skips the field and is decoded.
    let typed = synced(Informer::<Pod>::all(server.client())).await;
    assert_eq!(names(&typed), ["a", "deep"]);
}

#[tokio::test(start_paused = true)]
async fn metadata_only_objects_are_requested_and_reach_cache_and_handlers() {
    let server = with_one_pod();
    for watch_list in [true, false] {
        server.clear_requests();
        let builder = Informer::<PartialObjectMeta<Pod>>::all(server.client())
            .configure(|config| config.watch_list = watch_list);
        let informer = synced(builder).await;
        assert_eq!(informer.name(), "metadata of pods in all namespaces");
        assert_eq!(names(&informer), ["a"]);
        for request in server.requests() {
            let accept = request.accept.unwrap_or_default();
            assert!(accept.contains("as=PartialObjectMetadata"), "{accept}");
        }
    }
    let informer = synced(Informer::<PartialObjectMeta<Pod>>::all(server.client())).await;
    check_lifecycle(&server, informer).await;
}

/// A projection of a pod.
#[derive(serde::Deserialize)]
struct Image {
    metadata: Meta,
    spec: Spec,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

#[derive(serde::Deserialize)]
struct Spec {
    containers: Vec<Container>,
}

#[derive(serde::Deserialize)]
struct Container {
    image: Option<String>,
}

impl Object for Image {
    fn object_name(&self) -> &str {
        &self.metadata.name
    }
    fn object_namespace(&self) -> Option<&str> {
        self.metadata.namespace.as_deref()
    }
    fn object_uid(&self) -> Option<&str> {
        self.metadata.uid.as_deref()
    }
    fn object_version(&self) -> Option<&str> {
        self.metadata.resource_version.as_deref()
    }
}

#[tokio::test(start_paused = true)]
async fn user_defined_structs_reach_cache_and_handlers() {
    let server = with_one_pod();
    let resource = ApiResource::erase::<Pod>(&());
    let informer = synced(Informer::<Image>::projected(
        server.client(),
        &resource,
        Scope::all(),
    ))
    .await;
    let by_image = informer
        .add_index("image", |pod: &Image| {
            pod.spec
                .containers
                .iter()
                .filter_map(|container| container.image.clone())
                .collect::<Vec<_>>()
        })
        .unwrap();
    assert_eq!(by_image.get("registry.example/main:1").len(), 1);
    check_lifecycle(&server, informer).await;
    assert_eq!(by_image.count("registry.example/main:1"), 1);
}

#[tokio::test(start_paused = true)]
async fn one_client_serves_informers_of_all_kinds() {
    let server = with_one_pod();
    let client = server.client();
    let resource = ApiResource::erase::<Pod>(&());
    let typed = synced(Informer::<Pod>::all(client.clone())).await;
    let dynamic = synced(Informer::dynamic(client.clone(), &resource, Scope::all())).await;
    let metadata = synced(Informer::<PartialObjectMeta<Pod>>::all(client)).await;
    server.create(pod("ns", "b"));
    wait_for("all caches have it", || {
        typed.store().len() == 2 && dynamic.store().len() == 2 && metadata.store().len() == 2
    })
    .await;
    assert_eq!(server.count_requests(Verb::Watch, "pods"), 3);
}
