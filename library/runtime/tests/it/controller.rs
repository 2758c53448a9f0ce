//! A controller of kube-runtime that does not know the difference.

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube_informers::{Event, Informer};
use kube_runtime::Controller;
use kube_runtime::reflector::ObjectRef;
use kube_runtime_informers::ControllerExt;
use kube_testserver::builders::{Build, config_map, pod, replica_set};
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};

use crate::support::*;

fn sets(server: &TestServer) -> Informer<ReplicaSet> {
    Informer::<ReplicaSet>::all(server.client()).start()
}

fn pods(server: &TestServer) -> Informer<Pod> {
    Informer::<Pod>::all(server.client()).start()
}

#[tokio::test(start_paused = true)]
async fn main_and_owned_kind_come_from_informers() {
    let server = TestServer::new();
    let cart = server.create(replica_set("shop", "cart"));
    server.create(replica_set("shop", "till"));
    let (sets, pods) = (sets(&server), pods(&server));
    let controller = Controller::for_informer(&sets).owns_informer(&pods);
    let store = controller.store();

    let errors = driven(controller, async |runs| {
        settle().await;
        assert_eq!(runs.take(), ["cart", "till"], "what was there");

        server.create(replica_set("shop", "shelf"));
        settle().await;
        assert_eq!(runs.take(), ["shelf"], "what came later");
        assert!(store.get(&ObjectRef::new("shelf").within("shop")).is_some());

        server.create(owned(pod("shop", "cart-1"), &cart));
        settle().await;
        assert_eq!(runs.take(), ["cart"], "an owned object came");

        server.delete::<Pod>("shop", "cart-1");
        settle().await;
        assert_eq!(runs.take(), ["cart"], "it went");

        server.delete::<ReplicaSet>("shop", "shelf");
        settle().await;
        assert!(runs.take().is_empty(), "kube-runtime has no object to hand out");
        assert!(store.get(&ObjectRef::new("shelf").within("shop")).is_none());
        assert_eq!(store.len(), 2);
    })
    .await;

    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(
        server.count_requests(Verb::Watch, "replicasets"),
        1,
        "one watch for each kind"
    );
    assert_eq!(server.count_requests(Verb::Watch, "pods"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_nobody_saw_reaches_the_owner() {
    let server = TestServer::new();
    let cart = server.create(replica_set("shop", "cart"));
    server.create(owned(pod("shop", "cart-1"), &cart));
    let (sets, pods) = (sets(&server), pods(&server));

    driven(
        Controller::for_informer(&sets).owns_informer(&pods),
        async |runs| {
            settle().await;
            runs.take();

            server.delete::<Pod>("shop", "cart-1");
            server.skip_versions(5);
            server.compact();
            server.break_watches();
            pass(Duration::from_secs(60)).await;

            assert_eq!(runs.take(), ["cart"]);
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_moves_wakes_both_owners() {
    let server = TestServer::new();
    let (old, new) = (
        server.create(replica_set("shop", "old")),
        server.create(replica_set("shop", "new")),
    );
    server.create(owned(pod("shop", "cart-1"), &old));
    let (sets, pods) = (sets(&server), pods(&server));

    driven(
        Controller::for_informer(&sets).owns_informer(&pods),
        async |runs| {
            settle().await;
            runs.take();

            server.modify::<Pod>("shop", "cart-1", |pod| *pod = owned(pod.clone(), &new));
            settle().await;

            assert_eq!(runs.take(), ["new", "old"]);
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_watched_kind_is_mapped_in_both_states() {
    let server = TestServer::new();
    for name in ["cart", "till"] {
        server.create(replica_set("shop", name));
    }
    server.create(config_map("shop", "prices").label("user", "cart"));
    let (sets, maps) = (sets(&server), Informer::<ConfigMap>::all(server.client()).start());
    let controller = Controller::for_informer(&sets).watches_informer(&maps, |map| {
        let user = map.labels().get("user").cloned();
        user.map(|user| ObjectRef::new(&user).within("shop"))
    });

    driven(controller, async |runs| {
        settle().await;
        runs.take();

        server.modify::<ConfigMap>("shop", "prices", |map| *map = map.clone().label("user", "till"));
        settle().await;

        assert_eq!(runs.take(), ["cart", "till"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_ends_when_one_of_its_informers_stops() {
    let server = TestServer::new();
    server.create(replica_set("shop", "cart"));
    let (sets, pods) = (sets(&server), pods(&server));
    let controller = Controller::for_informer(&sets).owns_informer(&pods);

    let running = driven(controller, async |_| std::future::pending().await);
    let stopping = async {
        settle().await;
        pods.shutdown().await;
    };
    let (errors, ()) = soon("it ends", async { tokio::join!(running, stopping) }).await;

    assert!(errors.is_empty(), "{errors:?}");
    assert!(!sets.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn no_run_begins_before_the_cache_is_complete() {
    let server = TestServer::new();
    for number in 0..20 {
        server.create(replica_set("shop", &format!("set-{number}")));
    }
    server.fault(
        RequestMatcher::resource("replicasets"),
        Fault::delay(Duration::from_secs(10)),
    );
    let sets = sets(&server);
    let controller = Controller::for_informer(&sets);
    let store = controller.store();

    driven(controller, async |runs| {
        pass(Duration::from_secs(9)).await;
        assert!(runs.take().is_empty() && store.is_empty());
        store.wait_until_ready().await.unwrap();
        assert_eq!(store.len(), 20);
        settle().await;
        assert_eq!(runs.take().len(), 20);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn predicates_and_mapped_events_decide_what_is_reconciled() {
    let server = TestServer::new();
    let cart = server.create(replica_set("shop", "cart"));
    server.create(replica_set("shop", "till"));
    let (sets, pods) = (sets(&server), pods(&server));
    let maps = Informer::<ConfigMap>::all(server.client()).start();
    let controller = Controller::for_informer(&sets)
        .owns_informer_when(&pods, |event| !matches!(event, Event::Updated { .. }))
        .reconcile_on_informer(&maps, |event| match event {
            Event::Deleted { object, .. } => vec![ObjectRef::new(&object.name_any()).within("shop")],
            _ => Vec::new(),
        });

    driven(controller, async |runs| {
        settle().await;
        runs.take();
        server.create(owned(pod("shop", "cart-1"), &cart));
        settle().await;
        assert_eq!(runs.take(), ["cart"]);

        server.modify::<Pod>("shop", "cart-1", |pod| *pod = pod.clone().label("a", "b"));
        server.create(config_map("shop", "till"));
        settle().await;
        assert!(
            runs.take().is_empty(),
            "neither an update of a pod nor a new map counts"
        );

        server.delete::<ConfigMap>("shop", "till");
        settle().await;
        assert_eq!(runs.take(), ["till"]);
    })
    .await;
}
