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
    metadata.wait_for_within(&version, secs(10)).await.unwrap();
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

/// A client whose answers to GET requests are those that the test sends, in order. Each waits for its answer.
fn scripted() -> (kube::Client, tokio::sync::mpsc::UnboundedSender<Secret>) {
    let (answers, next) = tokio::sync::mpsc::unbounded_channel::<Secret>();
    let next = Arc::new(tokio::sync::Mutex::new(next));
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let next = next.clone();
        async move {
            let secret = next.lock().await.recv().await.unwrap();
            let body = serde_json::to_vec(&secret).unwrap();
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(body)))
        }
    });
    (kube::Client::new(service, "default"), answers)
}

fn version(secret: &Secret) -> &str {
    secret.metadata.resource_version.as_deref().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_object_older_than_the_cached_metadata_is_never_returned() {
    let server = TestServer::new();
    let old = server.create(token("a", 10));
    let new = server.modify::<Secret>("ns", "a", |secret| *secret = token("a", 20).label("x", "1"));
    let metadata = synced(Informer::<Metadata>::all(server.client())).await;
    let (client, answers) = scripted();
    let secrets = Bodies::<Secret>::new(client, &metadata).unwrap();

    // A server that lags behind, at every attempt.
    for _ in 0..3 {
        answers.send(old.clone()).unwrap();
    }
    let error = secrets.fetch("ns/a").await.unwrap_err();
    let FetchError::Stale { found, seen, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((found.as_str(), seen.as_str()), (version(&old), version(&new)));

    // The outdated answer is not served from memory either.
    answers.send(old.clone()).unwrap();
    answers.send(new.clone()).unwrap();
    let fetched = secrets.fetch("ns/a").await.unwrap();
    assert_eq!(version(&fetched), version(&new));
}

#[tokio::test(start_paused = true)]
async fn a_request_from_before_a_change_does_not_answer_a_caller_after_it() {
    let server = TestServer::new();
    let old = server.create(token("a", 10));
    let metadata = synced(Informer::<Metadata>::all(server.client())).await;
    let (client, answers) = scripted();
    let secrets = Bodies::<Secret>::new(client, &metadata).unwrap();
    let early = secrets.fetch("ns/a");
    tokio::pin!(early);
    assert!(futures_util::poll!(&mut early).is_pending());

    let new = server.modify::<Secret>("ns", "a", |secret| *secret = secret.clone().label("x", "1"));
    metadata.wait_for_within(version(&new), secs(10)).await.unwrap();
    let late = secrets.fetch("ns/a");
    tokio::pin!(late);
    assert!(
        futures_util::poll!(&mut late).is_pending(),
        "it joins the request"
    );
    answers.send(old.clone()).unwrap();
    answers.send(new.clone()).unwrap();

    let (early, late) = futures_util::join!(early, late);

    assert_eq!(
        version(&early.unwrap()),
        version(&old),
        "current when it was called"
    );
    assert_eq!(version(&late.unwrap()), version(&new));
    let again = secrets.fetch("ns/a").await.unwrap();
    assert_eq!(version(&again), version(&new), "from memory");
}

#[tokio::test(start_paused = true)]
async fn an_object_created_again_is_newer_than_the_cached_metadata_of_the_deleted_one() {
    let server = TestServer::new();
    server.create(token("a", 10));
    let metadata = synced(Informer::<Metadata>::all(server.client())).await;
    let (client, answers) = scripted();
    let secrets = Bodies::<Secret>::new(client, &metadata).unwrap();
    // Of another server: the cache has not seen it yet.
    let ahead = TestServer::new();
    ahead.create(token("b", 1));
    ahead.create(token("c", 1));
    let again = ahead.create(token("a", 20));
    answers.send(again.clone()).unwrap();

    let fetched = secrets.fetch("ns/a").await.unwrap();

    assert_eq!(fetched.metadata.uid, again.metadata.uid);
}
