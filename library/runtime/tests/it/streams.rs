//! The streams themselves: what they tell, in which order, and what they copy.

use std::pin::pin;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::core::{ApiResource, DynamicObject};
use kube_informers::lazy::Lazy;
use kube_informers::{Informer, Object, Scope};
use kube_runtime::reflector::ObjectRef;
use kube_runtime_informers::{reflected, reflected_with, touched, touched_lazy};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod};

use crate::support::*;

async fn synced_pods(server: &TestServer) -> Informer<Pod> {
    let pods = Informer::<Pod>::all(server.client()).start();
    soon("synced", pods.synced()).await.unwrap();
    pods
}

#[tokio::test(start_paused = true)]
async fn the_main_kind_is_held_twice_and_an_owned_one_once() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let pods = synced_pods(&server).await;
    let cached = pods.store().get(("shop", "cart")).unwrap();

    let (objects, store) = reflected(&pods);
    let main = soon("an object", pin!(objects).next()).await.unwrap();
    let copy = store.get(&ObjectRef::new("cart").within("shop")).unwrap();
    assert!(Arc::ptr_eq(&main, &cached));
    assert!(!Arc::ptr_eq(&copy, &cached), "kube-runtime's store holds a copy");
    assert_eq!(copy, cached);

    let child = soon("an object", pin!(touched(&pods)).next()).await.unwrap();
    assert!(Arc::ptr_eq(&child, &cached), "no copy");
}

#[tokio::test(start_paused = true)]
async fn packed_objects_are_emitted_decoded_with_both_states_of_an_update() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let pods = Informer::<Lazy<Pod>>::all(server.client()).start();
    soon("synced", pods.synced()).await.unwrap();
    let mut objects = pin!(touched_lazy(&pods));
    let first = soon("an object", objects.next()).await.unwrap();
    assert_eq!(first.name_any(), "cart");

    server.modify::<Pod>("shop", "cart", |pod| *pod = pod.clone().label("tier", "front"));
    let old = soon("the old state", objects.next()).await.unwrap();
    let new = soon("the new state", objects.next()).await.unwrap();
    assert_eq!(old.resource_version(), first.resource_version());
    assert_eq!(new.labels()["tier"], "front");
}

#[tokio::test(start_paused = true)]
async fn object_is_in_the_store_before_it_is_delivered() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let pods = synced_pods(&server).await;
    let (objects, store) = reflected(&pods);
    let mut objects = pin!(objects);
    let stored = |name: &str| store.get(&ObjectRef::new(name).within("shop"));

    let first = soon("an object", objects.next()).await.unwrap();
    assert_eq!(stored(&first.name_any()).as_ref(), Some(&first));
    assert!(store.wait_until_ready().now_or_never().is_some());

    server.create(pod("shop", "till"));
    let second = soon("an object", objects.next()).await.unwrap();
    assert_eq!(stored("till"), Some(second));

    server.modify::<Pod>("shop", "till", |pod| *pod = pod.clone().label("tier", "front"));
    let third = soon("an object", objects.next()).await.unwrap();
    assert_eq!(Object::object_label(&*third, "tier"), Some("front"));
    assert_eq!(stored("till"), Some(third));

    server.delete::<Pod>("shop", "cart");
    server.create(pod("shop", "last"));
    let fourth = soon("an object", objects.next()).await.unwrap();
    assert_eq!(fourth.name_any(), "last", "the deletion is not emitted");
    assert_eq!(stored("cart"), None);
}

#[tokio::test(start_paused = true)]
async fn an_empty_collection_makes_the_store_ready() {
    let server = TestServer::new();
    let pods = Informer::<Pod>::all(server.client()).start();
    let (objects, store) = reflected(&pods);
    let mut objects = pin!(objects);

    assert!(objects.next().now_or_never().is_none());
    assert!(store.wait_until_ready().now_or_never().is_none());
    soon("ready", async {
        tokio::select! {
            _ = objects.next() => panic!("there is nothing to tell"),
            ready = store.wait_until_ready() => ready.unwrap(),
        }
    })
    .await;

    server.create(pod("shop", "cart"));
    assert_eq!(
        soon("an object", objects.next()).await.unwrap().name_any(),
        "cart"
    );
}

#[tokio::test(start_paused = true)]
async fn what_went_before_the_first_look_is_not_in_the_store() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    server.create(pod("shop", "till"));
    let pods = synced_pods(&server).await;
    let (objects, store) = reflected(&pods);
    let mut objects = pin!(objects);
    server.delete::<Pod>("shop", "cart");
    settle().await;

    let mut names = Vec::new();
    while let Ok(Some(object)) = tokio::time::timeout(std::time::Duration::from_secs(1), objects.next()).await
    {
        names.push(object.name_any());
    }

    assert!(names.contains(&"till".to_owned()), "{names:?}");
    assert_eq!(store.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn streams_end_with_their_informer() {
    let server = TestServer::new();
    let pods = synced_pods(&server).await;
    let (main, _store) = reflected(&pods);
    let (mut main, mut other) = (pin!(main), pin!(touched(&pods)));
    assert!(main.next().now_or_never().is_none());

    pods.shutdown().await;

    assert!(soon("it ends", main.next()).await.is_none());
    assert!(soon("it ends", other.next()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_informer_stops_before_it_is_synced_ends() {
    let server = TestServer::new();
    server.fault(
        kube_testserver::RequestMatcher::any().forever(),
        kube_testserver::Fault::status(503),
    );
    let pods = Informer::<Pod>::all(server.client()).start();
    let (main, store) = reflected(&pods);
    let mut main = Box::pin(main);
    assert!(main.next().now_or_never().is_none());

    pods.shutdown().await;

    assert!(soon("it ends", main.next()).await.is_none());
    drop(main);
    assert!(soon("it says so", store.wait_until_ready()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn kinds_known_at_run_time_can_be_reflected() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let resource = ApiResource::erase::<Pod>(&());
    let pods = Informer::<DynamicObject>::dynamic(server.client(), &resource, Scope::all()).start();

    let (objects, store) = reflected_with(&pods, resource.clone());
    let object = soon("an object", pin!(objects).next()).await.unwrap();

    assert_eq!(object.name_any(), "cart");
    assert!(store.get(&ObjectRef::from_obj_with(&*object, resource)).is_some());
}
