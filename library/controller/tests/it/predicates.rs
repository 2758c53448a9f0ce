//! Filtering of events.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube_controller::{Action, Controller, Watch, predicates};
use kube_informers::ObjectKey;
use kube_informers::lazy::Lazy;
use kube_testserver::TestServer;
use kube_testserver::builders::deployment;
use parking_lot::Mutex;
use serde_json::json;

use crate::support::*;

async fn set_status(server: &TestServer, replicas: i32) {
    let api = Api::<Deployment>::namespaced(server.client(), "shop");
    let status = Patch::Merge(json!({"status": {"replicas": replicas}}));
    api.patch_status("cart", &PatchParams::default(), &status)
        .await
        .unwrap();
}

fn scale(server: &TestServer, replicas: i32) {
    server.modify::<Deployment>("shop", "cart", |deployment| {
        deployment.spec.replicas = Some(replicas);
    });
}

/// A controller of packed objects: it decodes only what it reconciles.
#[tokio::test(start_paused = true)]
async fn a_controller_of_lazy_objects_compares_specs_without_decoding() {
    let server = TestServer::new();
    server.create(deployment("shop", "cart"));
    let deployments = informer::<Lazy<Deployment>>(&server);
    let replicas = Arc::new(Mutex::new(Vec::new()));
    let (lister, seen) = (deployments.lister(), replicas.clone());
    let controller = Controller::new("lazy")
        .watches(Watch::object(&deployments).when(predicates::path_changed("spec")))
        .start(move |key: ObjectKey| {
            let found = lister.get(&key).map(|deployment| deployment.get());
            let replicas = found
                .transpose()
                .map(|found| found.and_then(|found| found.spec.replicas));
            seen.lock().push(replicas.unwrap());
            async { Ok::<_, std::convert::Infallible>(Action::Done) }
        })
        .unwrap();
    settle().await;
    set_status(&server, 3).await;
    settle().await;
    assert_eq!(replicas.lock().len(), 1, "a status is not reconciled");
    scale(&server, 5);
    settle().await;
    assert_eq!(replicas.lock().last(), Some(&Some(5)));
    server.delete::<Deployment>("shop", "cart");
    settle().await;
    assert_eq!(replicas.lock().last(), Some(&None));
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn predicate_filters_status_only_updates() {
    let server = TestServer::new();
    server.create(deployment("shop", "cart"));
    let (deployments, runs, all) = (informer::<Deployment>(&server), Runs::new(), Runs::new());
    let picky = Controller::new("picky")
        .watches(Watch::object(&deployments).when(predicates::generation_changed))
        .start(runs.reconciler())
        .unwrap();
    let curious = Controller::new("curious")
        .watches(Watch::object(&deployments))
        .start(all.reconciler())
        .unwrap();
    runs.wait_for_count(1).await;
    runs.take();
    all.take();

    set_status(&server, 3).await;
    settle().await;
    assert!(runs.take().is_empty());
    assert_eq!(all.take(), ["shop/cart"]);

    scale(&server, 5);
    settle().await;
    assert_eq!(runs.take(), ["shop/cart"]);

    server.delete::<Deployment>("shop", "cart");
    settle().await;
    assert_eq!(runs.take(), ["shop/cart"], "deletions are not filtered");
    picky.shutdown().await.unwrap();
    curious.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn predicates_receive_old_and_new_and_all_must_hold() {
    let server = TestServer::new();
    server.create(deployment("shop", "cart"));
    let (deployments, runs) = (informer::<Deployment>(&server), Runs::new());
    let replicas = |deployment: &Deployment| deployment.spec.replicas;
    let controller = Controller::new("test")
        .watches(
            Watch::object(&deployments)
                .when(predicates::generation_changed)
                .when(move |event| match event {
                    kube_informers::Event::Updated { old, new, .. } => replicas(new) > replicas(old),
                    _ => false,
                }),
        )
        .start(runs.reconciler())
        .unwrap();
    settle().await;
    assert!(runs.take().is_empty(), "the second one filters additions");

    scale(&server, 5);
    settle().await;
    assert_eq!(runs.take(), ["shop/cart"]);
    scale(&server, 2);
    settle().await;
    assert!(runs.take().is_empty());
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn resync_passes_predicates_unless_one_requires_a_change() {
    let server = TestServer::new();
    server.create(deployment("shop", "cart"));
    let (deployments, runs, changes) = (informer::<Deployment>(&server), Runs::new(), Runs::new());
    let controller = Controller::new("test")
        .watches(
            Watch::object(&deployments)
                .when(predicates::generation_changed)
                .resync(secs(600)),
        )
        .start(runs.reconciler())
        .unwrap();
    let changed = Controller::new("changed")
        .watches(
            Watch::object(&deployments)
                .when(predicates::resource_version_changed)
                .resync(secs(600)),
        )
        .start(changes.reconciler())
        .unwrap();
    runs.wait_for_count(1).await;
    runs.take();
    changes.take();

    pass(secs(601)).await;

    assert_eq!(runs.take(), ["shop/cart"]);
    assert!(changes.take().is_empty());
    controller.shutdown().await.unwrap();
    changed.shutdown().await.unwrap();
}
