//! Mapping of events to keys: the object, its owner, or a custom function.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_controller::{Controller, OwnerKeys, Watch};
use kube_informers::{Event, Informer, Object, ObjectKey, Scope};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, config_map, deployment, pod, replica_set};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn added_updated_and_deleted_objects_are_reconciled() {
    let server = TestServer::new();
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .start(runs.reconciler())
        .unwrap();

    server.create(pod("shop", "cart"));
    settle().await;
    assert_eq!(runs.take(), ["shop/cart"]);

    server.modify::<Pod>("shop", "cart", |pod| *pod = pod.clone().label("tier", "front"));
    settle().await;
    assert_eq!(runs.take(), ["shop/cart"]);

    server.delete::<Pod>("shop", "cart");
    settle().await;
    assert_eq!(runs.take(), ["shop/cart"]);
    assert!(pods.store().is_empty());
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn missed_delete_reaches_the_reconciler() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .start(runs.reconciler())
        .unwrap();
    runs.wait_for_count(1).await;
    runs.take();

    server.delete::<Pod>("shop", "cart");
    server.skip_versions(5);
    server.compact();
    server.break_watches();

    runs.wait_for_count(1).await;
    assert_eq!(runs.take(), ["shop/cart"]);
    assert!(pods.store().is_empty());
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn object_created_and_deleted_at_once_is_reconciled() {
    let server = TestServer::new();
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .start(runs.reconciler())
        .unwrap();
    settle().await;

    server.create(pod("shop", "cart"));
    server.delete::<Pod>("shop", "cart");
    settle().await;

    assert_eq!(runs.take_set(), ["shop/cart"]);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_informers_feed_one_controller() {
    let server = TestServer::new();
    let cart = server.create(replica_set("shop", "cart"));
    let (sets, pods, runs) = (informer::<ReplicaSet>(&server), pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&sets))
        .watches(Watch::owner::<ReplicaSet>(&pods))
        .start(runs.reconciler())
        .unwrap();
    runs.wait_for_count(1).await;
    runs.take();

    server.create(owned(pod("shop", "cart-1"), &cart));
    settle().await;
    assert_eq!(runs.take(), ["shop/cart"]);

    // One without an owner, and one with another owner.
    server.create(pod("shop", "lonely"));
    let other = server.create(deployment("shop", "other"));
    server.create(owned(pod("shop", "other-1"), &other));
    settle().await;
    assert!(runs.take().is_empty());

    server.delete::<Pod>("shop", "cart-1");
    settle().await;
    assert_eq!(runs.take(), ["shop/cart"]);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn update_of_the_owner_reconciles_both_owners() {
    let server = TestServer::new();
    let (old, new) = (
        server.create(replica_set("shop", "old")),
        server.create(replica_set("shop", "new")),
    );
    server.create(owned(pod("shop", "cart-1"), &old));
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::owner::<ReplicaSet>(&pods))
        .start(runs.reconciler())
        .unwrap();
    runs.wait_for_count(1).await;
    assert_eq!(runs.take(), ["shop/old"]);

    give::<Pod>(&server, "cart-1", &new);
    settle().await;

    assert_eq!(runs.take(), ["shop/old", "shop/new"]);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn non_controller_owner_is_reconciled_if_enabled() {
    let server = TestServer::new();
    let cart = server.create(replica_set("shop", "cart"));
    let (pods, runs, any) = (pods(&server), Runs::new(), Runs::new());
    let controlling = Controller::new("controlling")
        .watches(Watch::owner::<ReplicaSet>(&pods))
        .start(runs.reconciler())
        .unwrap();
    let every = Controller::new("every")
        .watches(Watch::any_owner::<ReplicaSet>(&pods))
        .start(any.reconciler())
        .unwrap();

    let mut shared = owned(pod("shop", "cart-1"), &cart);
    for owner in shared.metadata.owner_references.iter_mut().flatten() {
        owner.controller = None;
    }
    server.create(shared);
    any.wait_for_count(1).await;

    assert_eq!(any.take(), ["shop/cart"]);
    assert!(runs.take().is_empty());
    controlling.shutdown().await.unwrap();
    every.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn function_maps_both_states_of_an_object_to_keys() {
    let server = TestServer::new();
    let (maps, runs) = (maps(&server), Runs::new());
    let users = |map: &ConfigMap| -> Vec<ObjectKey> {
        let names = Object::object_label(map, "users").unwrap_or_default().split('.');
        let names = names.filter(|name| !name.is_empty());
        names
            .map(|name| ObjectKey::new(map.object_namespace(), name))
            .collect()
    };
    let controller = Controller::new("test")
        .watches(Watch::mapped(&maps, users))
        .start(runs.reconciler())
        .unwrap();

    server.create(config_map("shop", "prices").label("users", "cart.till"));
    settle().await;
    assert_eq!(runs.take(), ["shop/cart", "shop/till"]);

    server.modify::<ConfigMap>("shop", "prices", |map| {
        *map = map.clone().label("users", "till.shelf");
    });
    settle().await;
    assert_eq!(runs.take(), ["shop/cart", "shop/till", "shop/shelf"]);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn function_of_the_event_determines_the_keys() {
    let server = TestServer::new();
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::events(&pods, |event: &Event<Pod>| match event {
            Event::Deleted { .. } => Some(ObjectKey::cluster("graveyard")),
            _ => None,
        }))
        .start(runs.reconciler())
        .unwrap();

    server.create(pod("shop", "cart"));
    settle().await;
    assert!(runs.take().is_empty());
    server.delete::<Pod>("shop", "cart");
    settle().await;
    assert_eq!(runs.take(), ["graveyard"]);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn keys_may_be_of_any_type() {
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    enum Target {
        Pod(ObjectKey),
        Map(String),
    }
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    server.create(config_map("shop", "cart"));
    let (pods, maps, runs) = (pods(&server), maps(&server), Runs::new());
    let log = runs.clone();

    let controller = Controller::new("test")
        .watches(Watch::object(&pods).with_key(Target::Pod))
        .watches(Watch::mapped(&maps, |map: &ConfigMap| {
            [Target::Map(map.object_name().to_owned())]
        }))
        .start(move |target: Target| {
            let text = match target {
                Target::Pod(key) => format!("pod {key}"),
                Target::Map(name) => format!("map {name}"),
            };
            log.enter(&ObjectKey::cluster(&text));
            async { Ok::<(), String>(()) }
        })
        .unwrap();

    runs.wait_for_count(2).await;
    assert_eq!(runs.take_set(), ["map cart", "pod shop/cart"]);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn keys_can_be_added_from_outside() {
    let runs = Runs::new();
    let controller = Controller::new("test");
    let queue = controller.queue().clone();
    let controller = controller.start(runs.reconciler()).unwrap();

    queue.add(ObjectKey::cluster("from a timer"));
    controller.queue().add(ObjectKey::cluster("from a webhook"));
    settle().await;

    assert_eq!(runs.take(), ["from a timer", "from a webhook"]);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn owner_of_a_dynamic_kind_is_found() {
    let server = TestServer::new();
    let cart = server.create(deployment("shop", "cart"));
    let (pods, runs) = (pods(&server), Runs::new());
    let resource = kube::core::ApiResource::erase::<Deployment>(&());
    let owners = OwnerKeys::new(&resource);
    let controller = Controller::new("test")
        .watches(Watch::mapped(&pods, move |pod| owners.keys(pod)))
        .start(runs.reconciler())
        .unwrap();

    server.create(owned(pod("shop", "cart-1"), &cart));
    runs.wait_for_count(1).await;

    assert_eq!(runs.take(), ["shop/cart"]);
    controller.shutdown().await.unwrap();
}

/// An informer whose transform drops retired objects: they leave the scope but still exist.
fn active_pods(server: &TestServer) -> Informer<Pod> {
    Informer::<Pod>::scoped(server.client(), Scope::all())
        .try_transform(|pod| Ok(Some(pod).filter(|pod| Object::object_label(pod, "retired").is_none())))
        .start()
}

#[tokio::test(start_paused = true)]
async fn object_that_left_the_scope_is_not_mistaken_for_a_deleted_one() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let (pods, runs, all) = (active_pods(&server), Runs::new(), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .start(runs.reconciler())
        .unwrap();
    let curious = Controller::new("curious")
        .watches(Watch::object(&pods).with_left_scope())
        .start(all.reconciler())
        .unwrap();
    runs.wait_for_count(1).await;
    runs.take();
    all.take();

    server.modify::<Pod>("shop", "cart", |pod| *pod = pod.clone().label("retired", "yes"));
    settle().await;

    assert!(pods.store().is_empty());
    assert!(runs.take().is_empty());
    assert_eq!(all.take(), ["shop/cart"]);
    controller.shutdown().await.unwrap();
    curious.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_mapping_loses_only_its_event() {
    let server = TestServer::new();
    server.create(pod("shop", "bad"));
    server.create(pod("shop", "good"));
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::mapped(&pods, |pod: &Pod| {
            assert_ne!(pod.object_name(), "bad", "on purpose");
            [ObjectKey::of(pod)]
        }))
        .start(runs.reconciler())
        .unwrap();

    runs.wait_for_count(1).await;
    server.create(pod("shop", "better"));
    runs.wait_for_count(2).await;

    assert_eq!(runs.take_set(), ["shop/better", "shop/good"]);
    assert_eq!(pods.stats().handlers[0].panics, 1);
    controller.shutdown().await.unwrap();
}
