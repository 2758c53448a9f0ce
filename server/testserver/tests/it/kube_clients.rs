//! kube's own clients against the server: `Api`, discovery, and kube-runtime's watcher, on the paused clock.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, EvictParams, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::core::PartialObjectMeta;
use kube::discovery::{Discovery, Scope};
use kube::{Resource, ResourceExt};
use kube_runtime::watcher::{Config, Event, watcher};
use kube_testserver::builders::{Build, config_map, deployment, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn api_supports_all_verbs() {
    let server = TestServer::new();
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");

    let created = pods
        .create(&PostParams::default(), &pod("shop", "cart"))
        .await
        .expect("created");
    let mut changed = pods.get("cart").await.expect("got");
    changed.labels_mut().insert("app".to_owned(), "cart".to_owned());
    let replaced = pods
        .replace("cart", &PostParams::default(), &changed)
        .await
        .expect("replaced");
    assert_eq!(replaced.uid(), created.uid());
    let conflict = pods
        .replace("cart", &PostParams::default(), &created)
        .await
        .expect_err("stale");
    assert!(
        matches!(&conflict, kube::Error::Api(status) if status.is_conflict()),
        "{conflict:?}"
    );

    let patch = Patch::Merge(json!({"status": {"phase": "Running"}}));
    let running = pods
        .patch_status("cart", &PatchParams::default(), &patch)
        .await
        .expect("patched");
    assert_eq!(
        running.status.and_then(|status| status.phase).as_deref(),
        Some("Running")
    );
    let metadata = pods.get_metadata("cart").await.expect("metadata");
    assert_eq!(metadata.metadata.name.as_deref(), Some("cart"));

    pods.evict("cart", &EvictParams::default())
        .await
        .expect("evicted");
    let missing = pods.get_opt("cart").await.expect("an response");
    assert_eq!(missing, None);
    let gone = pods.get("cart").await.expect_err("gone");
    assert!(
        matches!(&gone, kube::Error::Api(status) if status.is_not_found()),
        "{gone:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn api_applies_and_scales() {
    let server = TestServer::new();
    let deployments: Api<Deployment> = Api::namespaced(server.client(), "shop");

    let applied = deployments
        .patch(
            "web",
            &PatchParams::apply("test").force(),
            &Patch::Apply(deployment("shop", "web")),
        )
        .await
        .expect("applied");
    assert_eq!(applied.managed_fields().len(), 1);
    let scale = Patch::Merge(json!({"spec": {"replicas": 7}}));
    let scaled = deployments
        .patch_scale("web", &PatchParams::default(), &scale)
        .await
        .expect("scaled");
    assert_eq!(scaled.spec.and_then(|spec| spec.replicas), Some(7));
    assert_eq!(
        deployments
            .get_scale("web")
            .await
            .expect("read")
            .spec
            .and_then(|spec| spec.replicas),
        Some(7)
    );
}

#[tokio::test(start_paused = true)]
async fn api_deletes_one_and_many() {
    let server = TestServer::new();
    for name in ["a", "b", "c"] {
        server.create(config_map("shop", name).label("app", "x"));
    }
    let config_maps: Api<ConfigMap> = Api::namespaced(server.client(), "shop");
    let uid = server
        .get::<ConfigMap>("shop", "a")
        .and_then(|object| object.uid());

    let wrong = DeleteParams::default().preconditions(Preconditions {
        uid: Some("x".to_owned()),
        resource_version: None,
    });
    assert!(config_maps.delete("a", &wrong).await.is_err());
    let right = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default().preconditions(Preconditions {
            uid,
            resource_version: None,
        })
    };
    let deleted = config_maps.delete("a", &right).await.expect("deleted");
    assert!(deleted.right().is_some_and(|status| status.is_success()));

    let rest = config_maps
        .delete_collection(&DeleteParams::default(), &ListParams::default().labels("app=x"))
        .await
        .expect("deleted");
    assert_eq!(rest.left().map(|list| list.items.len()), Some(2));
    assert_eq!(server.count("configmaps"), 0);
}

#[tokio::test(start_paused = true)]
async fn discovery_lists_built_in_and_posted_kinds() {
    let server = TestServer::new();
    let definitions: Api<DynamicObject> = Api::all_with(
        server.client(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
        )),
    );
    let definition: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    }))
    .expect("a definition");
    definitions
        .create(&PostParams::default(), &definition)
        .await
        .expect("created");

    for discovery in [
        Discovery::new(server.client()).run().await.expect("discovered"),
        Discovery::new(server.client())
            .run_aggregated()
            .await
            .expect("discovered at once"),
    ] {
        let gvk = GroupVersionKind::gvk("apps", "v1", "Deployment");
        let (resource, capabilities) = discovery.resolve_gvk(&gvk).expect("deployments");
        assert_eq!(
            (resource.plural.as_str(), capabilities.scope == Scope::Namespaced),
            ("deployments", true)
        );
        let gvk = GroupVersionKind::gvk("example.com", "v1", "Widget");
        let (resource, capabilities) = discovery.resolve_gvk(&gvk).expect("widgets");
        assert_eq!(capabilities.scope, Scope::Cluster);

        let widgets: Api<DynamicObject> = Api::all_with(server.client(), &resource);
        let name = format!("w{}", server.count("widgets.example.com"));
        let widget = DynamicObject::new(&name, &resource).data(json!({"spec": {"color": "red"}}));
        widgets
            .create(&PostParams::default(), &widget)
            .await
            .expect("created");
    }
    assert_eq!(server.count("widgets.example.com"), 2);
    assert!(
        server
            .client()
            .apiserver_version()
            .await
            .expect("a version")
            .git_version
            .starts_with("v1.")
    );
}

fn describe<K: Resource>(event: &Event<K>) -> String {
    match event {
        Event::Init => "init".to_owned(),
        Event::InitApply(object) => format!("init {}", object.name_any()),
        Event::InitDone => "done".to_owned(),
        Event::Apply(object) => format!("apply {}", object.name_any()),
        Event::Delete(object) => format!("delete {}", object.name_any()),
    }
}

#[tokio::test(start_paused = true)]
async fn watcher_lists_pages_and_watches() {
    let server = TestServer::new();
    for number in 0..7 {
        server.create(pod("shop", &format!("p{number}")));
    }
    let pods: Api<Pod> = Api::all(server.client());
    let mut events = watcher(pods, Config::default().page_size(3)).boxed();

    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "done") {
        seen.push(describe(
            &events.try_next().await.expect("an event").expect("no end"),
        ));
    }
    assert_eq!(
        seen,
        [
            "init", "init p0", "init p1", "init p2", "init p3", "init p4", "init p5", "init p6", "done"
        ]
    );
    assert_eq!(server.count_requests(Verb::List, "pods"), 3);

    server.create(pod("shop", "new"));
    server.delete::<Pod>("shop", "p0");
    assert_eq!(
        describe(&events.try_next().await.expect("an event").expect("no end")),
        "apply new"
    );
    assert_eq!(
        describe(&events.try_next().await.expect("an event").expect("no end")),
        "delete p0"
    );
}

#[tokio::test(start_paused = true)]
async fn watcher_streams_its_initial_list() {
    let server = TestServer::new();
    server.create(pod("shop", "a"));
    let pods: Api<Pod> = Api::all(server.client());
    let mut events = watcher(pods, Config::default().streaming_lists()).boxed();

    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "done") {
        seen.push(describe(
            &events.try_next().await.expect("an event").expect("no end"),
        ));
    }

    assert!(seen.contains(&"init a".to_owned()), "{seen:?}");
    assert_eq!(server.count_requests(Verb::List, "pods"), 0);
    assert_eq!(server.requests()[0].param("sendInitialEvents"), Some("true"));
}

#[tokio::test(start_paused = true)]
async fn watcher_recovers_from_a_410_and_resumes_after_a_timeout() {
    let server = TestServer::new();
    server.create(pod("shop", "a"));
    let pods: Api<Pod> = Api::all(server.client());
    let mut events = watcher(pods, Config::default().timeout(20)).boxed();
    for expected in ["init", "init a", "done"] {
        assert_eq!(
            describe(&events.try_next().await.expect("an event").expect("no end")),
            expected
        );
    }

    // After twenty seconds the watch times out; the next one resumes.
    let next = tokio::time::timeout(Duration::from_secs(30), events.try_next()).await;
    assert!(next.is_err(), "no event without a change");
    assert_eq!(server.count_requests(Verb::Watch, "pods"), 2);
    assert_eq!(server.count_requests(Verb::List, "pods"), 1);

    server.fault(
        RequestMatcher::watch("pods"),
        Fault::error_event(kube_testserver::ApiError::too_old(1, 2)),
    );
    server.close_watches();
    let error = events.try_next().await.expect_err("the watch receives the 410");
    assert!(error.to_string().contains("too old resource version"), "{error}");
    assert_eq!(
        describe(&events.try_next().await.expect("an event").expect("no end")),
        "init"
    );
}

#[tokio::test(start_paused = true)]
async fn metadata_only_is_watched() {
    let server = TestServer::new();
    server.create(pod("shop", "a"));
    let pods: Api<PartialObjectMeta<Pod>> = Api::all(server.client());
    let mut events = watcher(pods, Config::default()).boxed();
    for _ in 0..3 {
        events.try_next().await.expect("an event");
    }

    server.create(pod("shop", "b").label("app", "x"));

    let event: Event<PartialObjectMeta<Pod>> = events.try_next().await.expect("an event").expect("no end");
    assert!(
        matches!(&event, Event::Apply(b) if b.labels().contains_key("app")),
        "{event:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_created_and_finalized() {
    let server = TestServer::new();
    let namespaces: Api<Namespace> = Api::all(server.client());
    namespaces
        .create(
            &PostParams::default(),
            &kube_testserver::builders::namespace("shop"),
        )
        .await
        .expect("created");
    server.create(pod("shop", "a"));

    namespaces
        .delete("shop", &DeleteParams::default())
        .await
        .expect("deleted");

    assert_eq!((server.count("namespaces"), server.count("pods")), (0, 0));
}
