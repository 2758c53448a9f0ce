//! How current a cache is, and the readiness of all informers of a process.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_informers::SharedInformerFactory;
use kube_informers::readiness::{Readiness, ReadinessProblem};
use kube_testserver::builders::{config_map, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer};

use crate::support::*;

#[tokio::test(start_paused = true)]
// The task ends with the runtime of the test.
#[expect(clippy::disallowed_methods)]
async fn f31_freshness_is_the_age_of_the_last_proof() {
    let server = TestServer::new();
    let (informer, task) = paged_pods(&server).build();
    assert_eq!(informer.freshness(), None, "nothing is cached");
    tokio::spawn(task.run());
    informer.synced().await.unwrap();
    assert_eq!(informer.freshness(), Some(Duration::ZERO));

    // An event is a proof.
    pass(secs(20)).await;
    assert_eq!(informer.freshness(), Some(secs(20)));
    server.create(pod("ns", "a"));
    wait_for("it is cached", || informer.store().len() == 1).await;
    assert!(informer.freshness().unwrap() < secs(1));

    // So is a bookmark: a quiet informer stays fresh.
    for _ in 0..600 {
        pass(secs(1)).await;
        assert!(
            informer.freshness().unwrap() <= secs(65),
            "{:?}",
            informer.freshness()
        );
    }
    assert_eq!(informer.stats().members[0].freshness, informer.freshness());

    // Without a connection there is no proof.
    server.refuse_connections(true);
    server.break_watches();
    pass(minutes(5)).await;
    assert!(informer.freshness().unwrap() >= minutes(5));
    server.refuse_connections(false);
    wait_for("it is fresh again", || informer.freshness().unwrap() < secs(1)).await;
}

/// A server without bookmarks and without changes gives no proof; the watch reconnects and a new one is opened.
#[tokio::test(start_paused = true)]
async fn events_older_than_the_cache_are_no_proof() {
    let server = TestServer::new();
    for number in 0..10 {
        server.create(pod("ns", &format!("p{number}")));
    }
    server.fault(
        RequestMatcher::plain_watch("pods").forever(),
        Fault::bookmark_version(-5),
    );
    let informer = synced(paged_pods(&server)).await;
    pass(secs(150)).await;

    assert!(informer.stats().members[0].reflector.ignored_bookmarks > 0);
    assert!(
        informer.freshness().unwrap() >= secs(149),
        "{:?}",
        informer.freshness()
    );
}

#[tokio::test(start_paused = true)]
async fn readiness_covers_informers_and_factories() {
    let server = TestServer::new();
    server.create(config_map("ns", "settings"));
    let readiness = Readiness::new();
    assert_eq!(
        readiness.check().unwrap(),
        Duration::ZERO,
        "there is nothing to wait for"
    );

    let pods = pods(&server).start();
    let factory = SharedInformerFactory::new(server.client());
    let maps = factory.informer::<ConfigMap>();
    readiness.add(&pods);
    readiness.add(&factory);
    let error = readiness.check().unwrap_err();
    assert_eq!(error.problems.len(), 2);
    assert!(
        matches!(error.problems[0], ReadinessProblem::NotSynced(_)),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("configmaps in all namespaces is not synced: not started"),
        "{error}"
    );

    factory.start();
    pods.synced().await.unwrap();
    maps.synced().await.unwrap();
    assert!(readiness.check().unwrap() <= secs(1));
    // An informer that is requested later is covered as well.
    let nodes = factory.informer::<k8s_openapi::api::core::v1::Node>();
    assert_eq!(readiness.check().unwrap_err().problems.len(), 1);
    factory.start();
    drop(nodes);

    server.refuse_connections(true);
    server.break_watches();
    pass(minutes(4)).await;
    let error = readiness.check().unwrap_err();
    assert!(
        error
            .problems
            .iter()
            .all(|problem| matches!(problem, ReadinessProblem::Stale(_))),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("pods in all namespaces may be stale for 2"),
        "{text}"
    );

    server.refuse_connections(false);
    wait_for("it is ready again", || readiness.check().is_ok()).await;
    pods.shutdown().await;
    let error = readiness.check().unwrap_err();
    assert!(
        matches!(&error.problems[..], [ReadinessProblem::Stopped(_)]),
        "{error}"
    );
    // Dropped on purpose: nothing to report.
    drop(pods);
    readiness.check().unwrap();
}
