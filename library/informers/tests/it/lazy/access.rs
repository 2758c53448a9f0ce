//! Reading: identity, labels, owners, fields, projections, indexes, listers, factories, shards, overlays.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, DynamicObject};
use kube_informers::error::{IndexError, LazyError};
use kube_informers::lazy::Lazy;
use kube_informers::shard::Shard;
use kube_informers::shard::{ShardField, ShardRange};
use kube_informers::source::Encoding;
use kube_informers::{Event, Informer, ListWatch, Object, Scope, Selector, SharedInformerFactory};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod, replica_set};
use serde_json::{Value, json};

use super::{ENCODINGS, encoded_as, lazy_pods};
use crate::support::*;

fn on_node(namespace: &str, name: &str, node: &str) -> Pod {
    let mut pod = pod(namespace, name).label("app", name);
    pod.spec.as_mut().unwrap().node_name = Some(node.to_owned());
    pod
}

#[tokio::test(start_paused = true)]
async fn a_lazy_informer_caches_what_a_typed_one_does() {
    for encoding in ENCODINGS {
        let server = TestServer::new();
        let set: ReplicaSet = server.create(replica_set("ns", "set"));
        server.create(on_node("ns", "a", "n1").owner(&set));
        server.create(on_node("ns", "b", "n2"));
        let typed = synced(pods(&server).source(encoded_as(encoding)).unwrap()).await;
        let informer = synced(lazy_pods(&server, encoding)).await;
        let log = Log::new();
        informer.add_event_handler(log.handler()).unwrap();
        let by_node = informer.index_by_path("spec.nodeName").unwrap();

        server.modify::<Pod>("ns", "b", |pod| *pod = pod.clone().label("x", "1"));
        server.create(on_node("ns", "c", "n1"));
        server.delete::<Pod>("ns", "b");
        wait_for("both have caught up", || {
            [cached(&informer), cached(&typed)] == [stored(&server, "pods"), stored(&server, "pods")]
        })
        .await;

        for object in typed.lister().all() {
            let lazy = informer
                .lister()
                .namespace("ns")
                .get(object.object_name())
                .unwrap();
            assert_eq!(lazy.is_protobuf(), encoding == Encoding::Protobuf);
            let mut expected = (*object).clone();
            expected.metadata.managed_fields = None;
            assert_eq!(*lazy.get().unwrap(), expected);
            let (labels, owners): (Vec<_>, Vec<_>) =
                (lazy.object_labels().collect(), lazy.object_owners().collect());
            assert_eq!(labels, object.object_labels().collect::<Vec<_>>());
            assert_eq!(owners, object.object_owners().collect::<Vec<_>>());
            assert_eq!(at(&*lazy), at(&*object));
            assert_eq!(lazy.object_uid(), object.object_uid());
        }
        let selector: Selector = "app=a".parse().unwrap();
        assert_eq!(informer.lister().list(&selector).len(), 1);
        assert_eq!(informer.lister().owned_by(set.object_uid().unwrap()).len(), 1);
        assert_eq!(by_node.count("n1"), 2);
        assert_eq!(by_node.count("n2"), 0);
        wait_for("the events are delivered", || log.len() >= 5).await;
        let events = log.take();
        assert!(events.contains(&"added ns/c".to_owned()), "{events:?}");
        assert!(events.contains(&"deleted ns/b".to_owned()), "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_path_reads_the_same_from_both_encodings() {
    let server = TestServer::new();
    let mut object = on_node("ns", "a", "n1").label("app.kubernetes.io/name", "shop");
    object.metadata.finalizers = Some(vec!["example.com/x".to_owned()]);
    object.spec.as_mut().unwrap().containers[0].ports = Some(vec![
        serde_json::from_value(json!({"containerPort": 80, "name": "http"})).unwrap(),
    ]);
    object.status = serde_json::from_value(json!({
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
    }))
    .unwrap();
    server.create(object);
    for encoding in ENCODINGS {
        let informer = synced(lazy_pods(&server, encoding)).await;
        let object = informer.store().get(("ns", "a")).unwrap();
        for (path, expected) in [
            ("kind", Some("Pod")),
            ("apiVersion", Some("v1")),
            ("metadata.name", Some("a")),
            ("spec.nodeName", Some("n1")),
            ("spec.containers[main].image", Some("registry.example/main:1")),
            ("spec.containers[#0].image", Some("registry.example/main:1")),
            ("spec.containers[other].image", None),
            // By the merge key of the list, which is not a usual identity.
            ("spec.containers[main].ports[80].name", Some("http")),
            ("spec.containers[main].ports[http].name", None),
            ("status.conditions[Ready].status", Some("True")),
            ("metadata.labels[\"app.kubernetes.io/name\"]", Some("shop")),
            ("metadata.finalizers[example.com/x]", Some("example.com/x")),
            ("metadata.managedFields[#0].manager", None),
            ("spec.hostNetwork", None),
            ("spec", None),
        ] {
            assert_eq!(
                object.text(path).unwrap().as_deref(),
                expected,
                "{encoding:?} {path}"
            );
        }
        let error = object.path("spec.containers[").unwrap_err();
        assert!(matches!(error, LazyError::Path { .. }), "{error}");
        assert!(error.to_string().contains("ns/a"), "{error}");
        // A string has no parts.
        assert!(object.path("spec.nodeName[x]").is_err());

        #[derive(serde::Deserialize)]
        struct Placement {
            spec: Spec,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            node_name: Option<String>,
        }
        let placement: Placement = object.project().unwrap();
        assert_eq!(placement.spec.node_name.as_deref(), Some("n1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_found_by_path() {
    for encoding in ENCODINGS {
        let server = TestServer::new();
        server.create(on_node("ns", "a", "n1"));
        let informer = synced(lazy_pods(&server, encoding)).await;
        let mut events = informer.subscribe();
        events.next().await.unwrap();
        server.modify::<Pod>("ns", "a", |pod| {
            pod.status = serde_json::from_value(json!({"phase": "Running"})).unwrap();
        });

        let Event::Updated { old, new, .. } = events.next().await.unwrap() else {
            panic!("an update");
        };
        assert!(!new.changed(&old, "spec").unwrap());
        assert!(!new.changed(&old, "metadata.labels").unwrap());
        assert!(!new.changed(&old, "spec.containers[main]").unwrap());
        assert!(!new.changed(&old, "kind").unwrap());
        assert!(new.changed(&old, "status").unwrap());
        assert!(new.changed(&old, "status.phase").unwrap());
        assert!(new.changed(&old, "metadata").unwrap());
        assert!(new.changed(&old, "spec[").is_err());
        assert!(!new.changed(&new, "status").unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_by_a_wrong_path_is_refused_with_the_reason() {
    let server = TestServer::new();
    let builder = lazy_pods(&server, Encoding::Auto);
    let error = builder.index_by_path("spec.nodName").err().unwrap();
    let IndexError::Path { source, .. } = &error else {
        panic!("{error}");
    };
    assert!(source.to_string().contains("nodName"), "{source}");
    let informer = lazy_pods(&server, Encoding::Auto)
        .index_by_path("spec.nodeName")
        .unwrap()
        .start();
    assert!(matches!(
        informer.index_by_path("spec.nodeName"),
        Err(IndexError::Duplicate { .. })
    ));
    let by_finalizer = informer.index_by_path("metadata.finalizers").unwrap();
    let mut both = pod("ns", "a");
    both.metadata.finalizers = Some(vec!["example.com/x".into(), "example.com/y".into()]);
    server.create(both);
    wait_for("it is indexed by each element", || {
        (
            by_finalizer.count("example.com/x"),
            by_finalizer.count("example.com/y"),
        ) == (1, 1)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_factory_shares_lazy_informers_apart_from_typed_ones() {
    let server = TestServer::new();
    server.create(on_node("ns", "a", "n1"));
    let factory = SharedInformerFactory::new(server.client());
    let (lazy, again) = (factory.informer::<Lazy<Pod>>(), factory.informer::<Lazy<Pod>>());
    let typed = factory.informer::<Pod>();
    assert_eq!(factory.informers(), 2);
    factory.start();
    factory.wait_for_sync().await.unwrap();

    let (object, same) = (
        lazy.store().get("ns/a").unwrap(),
        again.store().get("ns/a").unwrap(),
    );
    assert!(std::sync::Arc::ptr_eq(&object, &same));
    assert_eq!(
        object.get().unwrap().spec,
        typed.store().get("ns/a").unwrap().spec
    );
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_lazy_informer_keeps_its_shard() {
    let server = TestServer::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        server.create(pod("ns", name));
    }
    let half = Shard::new(ShardField::Uid, ShardRange::ALL.split(2)[..1].to_vec());
    for encoding in ENCODINGS {
        let scope = Scope::all().shard(half.clone());
        let source =
            ListWatch::<Lazy<Pod>>::new(server.client(), scope.clone()).options(encoded_as(encoding));
        let lazy = synced(Informer::from_list_watch(source)).await;
        let typed = synced(Informer::<Pod>::scoped(server.client(), scope)).await;
        assert_eq!(cached(&lazy), cached(&typed));
        assert!(lazy.store().len() < 6);
        lazy.set_shard(Shard::everything(ShardField::Uid)).unwrap();
        wait_for("the rest arrives", || lazy.store().len() == 6).await;
    }
}

#[tokio::test(start_paused = true)]
async fn dynamic_objects_keep_the_encoding_of_their_kind_and_unknown_fields() {
    let server = TestServer::new();
    server.create(on_node("ns", "a", "n1"));
    let resource = ApiResource::erase::<Pod>(&());
    let informer = Informer::<Lazy<DynamicObject>>::projected(server.client(), &resource, Scope::all());
    let informer = synced(informer).await;
    let object = informer.store().get("ns/a").unwrap();
    assert!(object.is_protobuf());
    let decoded = object.get().unwrap();
    assert_eq!(decoded.types.as_ref().unwrap().kind, "Pod");
    assert_eq!(decoded.data["spec"]["nodeName"], json!("n1"));

    // A field of a newer server, in the JSON of a kind that has a schema.
    server.poison(
        "pods",
        "ns/a",
        kube_testserver::Poison::edit(|pod| pod["spec"]["fromTheFuture"] = json!({"x": 1})),
    );
    let informer = synced(lazy_pods(&server, Encoding::Json)).await;
    let object = informer.store().get("ns/a").unwrap();
    assert_eq!(object.value("spec.fromTheFuture.x").unwrap(), Some(json!(1)));
    let tree: Value = object.project().unwrap();
    assert_eq!(tree["spec"]["fromTheFuture"]["x"], json!(1));
}
