//! Informers that recover together: announcements, turns, and attempts on request.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret, Service};
use kube_informers::reflector::{Jitter, RecoveryGroup, ReflectorConfig, ReflectorState};
use kube_informers::source::{FromWire, KnownResource};
use kube_informers::{Informer, Object, Scope, SharedInformerFactory};
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};
use tokio::time::Instant;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn when_one_informer_reaches_the_server_the_others_retry() {
    for together in [true, false] {
        let server = TestServer::new();
        let group = RecoveryGroup::new();
        let quick = synced(pods(&server).configure(|config| config.recovery = Some(group.clone()))).await;
        let slow = pods(&server).configure(|config| {
            config.backoff.max = minutes(60);
            config.max_unreachable_delay = minutes(60);
            config.recovery = together.then_some(group);
        });
        let slow = synced(slow).await;

        server.refuse_connections(true);
        server.break_watches();
        pass(minutes(40)).await;
        server.create(pod("ns", "a"));
        server.refuse_connections(false);
        let ready = Instant::now();
        wait_for("one recovers", || quick.store().len() == 1).await;
        assert!(ready.elapsed() <= secs(5), "{:?}", ready.elapsed());

        pass(secs(5)).await;
        assert_eq!(slow.store().len() == 1, together, "in one group: {together}");
    }
}

/// The times of the requests that load a collection.
fn loads(server: &TestServer) -> Vec<Duration> {
    let requests = server.requests();
    let loads = requests
        .iter()
        .filter(|request| request.verb == Verb::List || request.param("sendInitialEvents") == Some("true"));
    loads.map(|request| request.at).collect()
}

fn config() -> ReflectorConfig {
    ReflectorConfig {
        jitter: Jitter::Seeded(7),
        ..Default::default()
    }
}

fn factory(server: &TestServer) -> SharedInformerFactory {
    SharedInformerFactory::builder(server.client())
        .config(config())
        .build()
}

/// The informer of a type: with the configuration of the factory, or with its own, which names no group.
fn informer<K: FromWire + KnownResource>(factory: &SharedInformerFactory, own: bool) -> Informer<K> {
    match own {
        false => factory.informer(),
        true => factory.informer_named("own", |factory| factory.default_builder().config(config())),
    }
}

#[tokio::test(start_paused = true)]
async fn a_factory_loads_two_collections_at_a_time() {
    for own in [false, true] {
        let server = TestServer::new();
        server.fault(RequestMatcher::any().forever(), Fault::delay(secs(1)));
        let factory = factory(&server);
        let informers = (
            informer::<Pod>(&factory, own),
            informer::<Node>(&factory, own),
            informer::<Service>(&factory, own),
            informer::<ConfigMap>(&factory, own),
            informer::<Namespace>(&factory, own),
        );
        factory.start();
        factory.wait_for_sync().await.unwrap();

        let seconds: Vec<u64> = loads(&server).iter().map(Duration::as_secs).collect();
        assert_eq!(seconds, [0, 0, 1, 1, 2], "own configuration: {own}");
        drop(informers);
        factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn f16_loads_that_are_stuck_do_not_block_the_others() {
    let server = TestServer::new();
    for resource in ["configmaps", "secrets"] {
        server.fault(RequestMatcher::resource(resource).forever(), Fault::hang());
    }
    let factory = factory(&server);
    let stuck = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    factory.start();
    settle().await;
    let pods = factory.informer::<Pod>();
    factory.start();

    pods.synced_within(secs(3)).await.unwrap();
    assert!(!stuck.0.has_synced() && !stuck.1.has_synced());
    factory.shutdown().await;
}

fn is_backing_off<K: Object>(informer: &Informer<K>) -> bool {
    matches!(informer.state(), ReflectorState::BackingOff { .. })
}

#[tokio::test(start_paused = true)]
async fn retry_now_ends_a_pause() {
    let server = TestServer::new();
    let busy = server.fault(
        RequestMatcher::any().forever(),
        Fault::status(429).retry_after(300),
    );
    let informer = pods(&server).start();
    wait_for("it backs off", || is_backing_off(&informer)).await;
    busy.clear();

    pass(secs(10)).await;
    assert!(is_backing_off(&informer));
    informer.retry_now();
    informer.synced_within(secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn retry_now_does_not_exceed_the_ceiling() {
    let server = TestServer::new();
    server.refuse_connections(true);
    let informer = pods(&server).start();
    let end = Instant::now() + minutes(5);
    while Instant::now() < end {
        informer.retry_now();
        pass(Duration::from_millis(100)).await;
    }
    let times: Vec<_> = server.requests().iter().map(|request| request.at).collect();
    super::assert_ceiling(&times);
    assert!(times.len() > 100, "{} attempts", times.len());
}

/// Measures the return of a server with many clients:
/// `cargo test -p kube-informers --test it a_thousand_informers -- --nocapture`
#[tokio::test(start_paused = true)]
async fn a_thousand_informers_resume_within_seconds_without_a_list() {
    const INFORMERS: usize = 1000;
    let server = TestServer::new();
    let factory = SharedInformerFactory::new(server.client());
    let namespace = |number: usize| format!("ns-{number}");
    let informers: Vec<Informer<Pod>> = (0..INFORMERS)
        .map(|number| {
            let scope = Scope::namespace(namespace(number));
            factory.scoped(scope).informer()
        })
        .collect();
    let create = |name: &str| {
        for number in 0..INFORMERS {
            server.create(pod(&namespace(number), name));
        }
    };
    create("a");
    factory.start();
    factory.wait_for_sync().await.unwrap();
    create("b");
    wait_for("the watches are productive", || {
        informers.iter().all(|informer| informer.store().len() == 2)
    })
    .await;

    server.refuse_connections(true);
    server.break_watches();
    pass(minutes(1)).await;
    create("c");
    let attempts = server.requests().len();
    let ready = Instant::now();
    server.refuse_connections(false);
    let mut recovered = vec![None; INFORMERS];
    while recovered.iter().any(Option::is_none) {
        assert!(ready.elapsed() < secs(20), "not all have recovered");
        pass(Duration::from_millis(50)).await;
        for (time, informer) in recovered.iter_mut().zip(&informers) {
            if time.is_none() && informer.store().len() == 3 {
                *time = Some(ready.elapsed());
            }
        }
    }

    let requests = server.requests();
    let (after, probes): (Vec<_>, Vec<_>) = requests[attempts..]
        .iter()
        .partition(|request| request.verb == Verb::Watch);
    // After an interruption each informer compares a sample of its cache with the server.
    assert!(
        probes.iter().all(|request| {
            let accept = request.accept.as_deref().unwrap_or_default();
            accept.contains("PartialObjectMetadata") && request.param("limit").is_some()
        }),
        "nothing but samples is listed"
    );
    let first = after[0].at;
    let mut per_second = [0; 20];
    for request in &after {
        per_second[(request.at - first).as_secs() as usize] += 1;
    }
    let mut times: Vec<Duration> = recovered.into_iter().flatten().collect();
    times.sort();
    let (median, p99, last) = (
        times[INFORMERS / 2],
        times[INFORMERS * 99 / 100],
        times[INFORMERS - 1],
    );
    println!(
        "{INFORMERS} informers current again: median {median:?}, 99th percentile {p99:?}, last {last:?}"
    );
    println!("requests per second after the first: {:?}", &per_second[..8]);
    assert!(
        median <= secs(5) && p99 <= secs(8),
        "median {median:?}, 99th percentile {p99:?}"
    );
    assert_eq!(after.len(), INFORMERS, "one watch each");
    factory.shutdown().await;
}
