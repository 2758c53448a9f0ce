//! The reader behaves as kube-runtime's store does.

use std::sync::Arc;

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::core::{Expression, Selector};
use kube_informers::Informer;
use kube_runtime::reflector::ObjectRef;
use kube_runtime_informers::Reader;
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, node, pod};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn it_reads_the_cache_of_the_informer_and_nothing_else() {
    let server = TestServer::new();
    server.create(pod("shop", "cart").label("app", "cart"));
    server.create(pod("shop", "till").label("app", "till"));
    let pods = Informer::<Pod>::all(server.client()).start();
    let reader = Reader::new(&pods);
    assert!(reader.is_empty());
    assert!(reader.wait_until_ready().now_or_never().is_none());

    soon("ready", reader.wait_until_ready()).await.unwrap();

    let cart = reader.get(&ObjectRef::new("cart").within("shop")).unwrap();
    assert!(Arc::ptr_eq(&cart, &pods.store().get(("shop", "cart")).unwrap()));
    assert!(
        reader.get(&ObjectRef::new("cart")).is_none(),
        "it lives in a namespace"
    );
    assert!(reader.get(&ObjectRef::new("cart").within("blog")).is_none());
    assert_eq!((reader.len(), reader.state().len()), (2, 2));
    let till = reader.find(|pod| pod.name_any() == "till").unwrap();
    assert_eq!(till.name_any(), "till");
    assert_eq!(reader.state_filter(|pod| pod.name_any().contains('a')).len(), 1);
    let selector = Selector::from(Expression::Equal("app".into(), "till".into()));
    assert_eq!(reader.clone().state_filter_selector(&selector), [till]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_ignored_for_what_lives_in_none() {
    let server = TestServer::new();
    server.create(node("worker-1"));
    let nodes = Informer::<Node>::all(server.client()).start();
    let reader = Reader::new(&nodes);
    soon("ready", reader.wait_until_ready()).await.unwrap();

    assert!(reader.get(&ObjectRef::new("worker-1")).is_some());
    assert!(reader.get(&ObjectRef::new("worker-1").within("shop")).is_some());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_informer_that_stops_is_an_error() {
    let server = TestServer::new();
    let pods = Informer::<Pod>::all(server.client()).start();
    let reader = Reader::new(&pods);
    pods.shutdown().await;

    assert!(reader.wait_until_ready().await.is_err());
}
