//! Metadata for all, whole objects on demand.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube_informers::Informer;
use kube_informers::bodies::{Bodies, BodyLimits};
use kube_informers::error::FetchError;
use kube_testserver::builders::{Build, secret};
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};

use crate::support::*;

type Metadata = PartialObjectMeta<Secret>;

fn token(name: &str, size: usize) -> Secret {
    let mut secret = secret("ns", name);
    secret.data = Some([("token".to_owned(), ByteString(vec![7; size]))].into());
    secret
}

async fn setup(server: &TestServer, limits: BodyLimits) -> (Informer<Metadata>, Bodies<Secret>) {
    let metadata = synced(Informer::<Metadata>::all(server.client())).await;
    let bodies = Bodies::with_limits(server.client(), &metadata, limits).unwrap();
    (metadata, bodies)
}

fn gets(server: &TestServer) -> usize {
    let requests = server.requests();
    requests
        .iter()
        .filter(|request| request.verb == Verb::Get)
        .count()
}

#[tokio::test(start_paused = true)]
async fn an_object_is_requested_once_per_version() {
    let server = TestServer::new();
    server.create(token("a", 10));
    let (metadata, secrets) = setup(&server, BodyLimits::default()).await;

    let first = secrets.fetch("ns/a").await.unwrap();
    assert_eq!(first.data.as_ref().unwrap()["token"].0.len(), 10);
    assert!(Arc::ptr_eq(&first, &secrets.fetch(("ns", "a")).await.unwrap()));
    assert_eq!(gets(&server), 1);

    let changed: Secret =
        server.modify::<Secret>("ns", "a", |secret| *secret = secret.clone().label("x", "1"));
    let version = changed.metadata.resource_version.unwrap();
    metadata.wait_for(&version, secs(10)).await.unwrap();
    wait_for("the outdated object is dropped", || secrets.held().0 == 0).await;
    let second = secrets.fetch("ns/a").await.unwrap();
    assert_eq!(
        second.metadata.resource_version.as_deref(),
        Some(version.as_str())
    );
    assert_eq!(gets(&server), 2);

    server.delete::<Secret>("ns", "a");
    wait_for("the cache has seen the deletion", || metadata.store().is_empty()).await;
    wait_for("nothing is held", || secrets.held() == (0, 0)).await;
    assert!(matches!(
        secrets.fetch("ns/a").await,
        Err(FetchError::NotFound { .. })
    ));
    assert_eq!(gets(&server), 2, "the cache knows that it is gone");
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_for_one_object_share_one() {
    let server = TestServer::new();
    server.create(token("a", 10));
    server.create(token("b", 10));
    let (_metadata, secrets) = setup(&server, BodyLimits::default()).await;
    let fetched = join_all((0..10).map(|_| secrets.fetch("ns/a"))).await;
    let first = fetched[0].as_ref().unwrap();
    assert!(
        fetched
            .iter()
            .all(|other| Arc::ptr_eq(first, other.as_ref().unwrap()))
    );
    assert_eq!(gets(&server), 1);

    // A caller that gives up neither blocks later ones nor is its failure remembered.
    drop(tokio::time::timeout(Duration::ZERO, secrets.fetch("ns/b")).await);
    secrets.fetch("ns/b").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn fetched_objects_are_bounded_in_size_and_age() {
    let server = TestServer::new();
    for name in ["a", "b", "c"] {
        server.create(token(name, 3000));
    }
    let mut limits = BodyLimits::default();
    limits.max_bytes = 10_000;
    limits.max_age = minutes(5);
    let (_metadata, secrets) = setup(&server, limits).await;
    for name in ["a", "b", "c"] {
        secrets.fetch(("ns", name)).await.unwrap();
    }
    let (objects, bytes) = secrets.held();
    assert!(
        objects == 2 && bytes <= 10_000,
        "{objects} objects, {bytes} bytes"
    );
    secrets.fetch("ns/c").await.unwrap();
    assert_eq!(gets(&server), 3);
    pass(minutes(6)).await;
    secrets.fetch("ns/c").await.unwrap();
    assert_eq!(gets(&server), 4);
    assert_eq!(secrets.held().0, 1, "old ones are dropped");
}

#[tokio::test(start_paused = true)]
async fn a_failed_request_names_the_object_and_is_retried_by_the_next_caller() {
    let server = TestServer::new();
    server.create(token("a", 10));
    let (_metadata, secrets) = setup(&server, BodyLimits::default()).await;
    let fault = server.fault(RequestMatcher::get("secrets").forever(), Fault::refuse());
    let error = secrets.fetch("ns/a").await.unwrap_err();
    assert!(matches!(error, FetchError::Request { .. }), "{error}");
    assert!(error.to_string().contains("ns/a"), "{error}");
    fault.clear();
    secrets.fetch("ns/a").await.unwrap();
}
