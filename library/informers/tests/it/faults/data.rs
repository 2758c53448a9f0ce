//! F07, F08, F12, F33, F35 and F36: what handlers and readers receive.

use kube_informers::source::SourceOptions;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::handler::HandlerOptions;
use kube_informers::quarantine::Problem;
use kube_informers::{Cause, Event, Informer, ListWatch, Scope};
use kube_testserver::builders::{Build, pod};
use kube_testserver::{Poison, TestServer, Verb};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::support::*;

/// A missed delete carries the last known object in the same type as every other event; there is nothing to cast.
#[tokio::test(start_paused = true)]
async fn f07_a_missed_delete_carries_the_last_known_object_like_an_observed_one() {
    let server = TestServer::new();
    for name in ["observed", "missed"] {
        server.create(pod("ns", name).label("app", "web"));
    }
    let informer = synced_pods(&server).await;
    let deleted = Arc::new(Mutex::new(BTreeMap::new()));
    let log = deleted.clone();
    informer
        .add_event_handler(move |event: Event<Pod>| {
            if let Event::Deleted { object, cause } = event {
                let name = object.metadata.name.clone().unwrap();
                log.lock().insert(name, (cause, object.metadata.labels.clone()));
            }
        })
        .unwrap();

    server.delete::<Pod>("ns", "observed");
    wait_for("it is delivered", || deleted.lock().len() == 1).await;
    server.break_watches();
    server.delete::<Pod>("ns", "missed");
    server.compact();
    wait_for("it is delivered", || deleted.lock().len() == 2).await;

    let labels = Some([("app".to_owned(), "web".to_owned())].into());
    let expected = BTreeMap::from([
        ("missed".to_owned(), (Cause::Missed, labels.clone())),
        ("observed".to_owned(), (Cause::Observed, labels)),
    ]);
    assert_eq!(*deleted.lock(), expected);
}

/// A transform that fails affects one object: it is reported, not silently left out, and tried again with its next
/// version. It runs once per version.
#[tokio::test(start_paused = true)]
async fn f08_a_failing_transform_costs_one_object_until_its_next_version() {
    for build in [pods, paged_pods] {
        let server = TestServer::new();
        for name in ["a", "b", "c"] {
            server.create(pod("ns", name));
        }
        server.modify::<Pod>("ns", "b", |pod| *pod = pod.clone().label("bad", "yes"));
        let calls = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
        let counted = calls.clone();
        let informer = synced(build(&server).try_transform(move |pod: Pod| {
            let version = pod.metadata.resource_version.clone().unwrap();
            *counted.lock().entry(version).or_default() += 1;
            if pod
                .metadata
                .labels
                .as_ref()
                .is_some_and(|labels| labels.contains_key("bad"))
            {
                return Err("it is labelled as bad".into());
            }
            Ok(Some(pod))
        }))
        .await;

        // In the initial list: it syncs, and the object is reported.
        assert_eq!(names(&informer), ["a", "c"]);
        let quarantine = informer.quarantine();
        assert_eq!(quarantine.len(), 1);
        assert_eq!(quarantine[0].key.as_str(), "ns/b");
        assert!(matches!(&quarantine[0].object.problem, Problem::Transform(text) if text.contains("bad")));

        // On the watch: the last good version stays and is marked.
        server.modify::<Pod>("ns", "a", |pod| *pod = pod.clone().label("bad", "yes"));
        wait_for("it is reported", || informer.quarantine().len() == 2).await;
        assert!(informer.store().is_stale(("ns", "a")));

        // The next version is tried again.
        for name in ["a", "b"] {
            server.modify::<Pod>("ns", name, |pod| pod.metadata.labels = None);
        }
        wait_for("both recover", || informer.quarantine().is_empty()).await;
        assert_eq!(cached(&informer), stored(&server, "pods"));
        let calls = calls.lock();
        assert!(
            calls.len() >= 6 && calls.values().all(|count| *count == 1),
            "{calls:?}"
        );
    }
}

/// A controller that writes and then reads its own cache must be able to wait for its write.
#[tokio::test(start_paused = true)]
async fn f12_a_write_can_be_awaited_before_the_cache_is_read() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    let informer = synced_pods(&server).await;

    let written = server.modify::<Pod>("ns", "a", |pod| *pod = pod.clone().label("owner", "me"));
    let version = written.metadata.resource_version.unwrap();
    let label = |informer: &Informer<Pod>| {
        let pod = informer.store().get(("ns", "a")).unwrap();
        pod.metadata
            .labels
            .clone()
            .unwrap_or_default()
            .contains_key("owner")
    };
    assert!(!label(&informer), "the cache is stale right after the write");
    informer.wait_for_within(&version, secs(10)).await.unwrap();
    assert!(label(&informer));

    // A version that does not arrive is an error, not a hang.
    let begin = Instant::now();
    let error = informer.wait_for_within("999999", secs(10)).await.unwrap_err();
    assert_eq!(begin.elapsed(), secs(10), "{error}");
}

/// The socket is read whatever the handlers do, so that the server never closes the watch of a slow consumer.
#[tokio::test(start_paused = true)]
async fn f33_a_stuck_handler_does_not_slow_the_watch_down() {
    let server = TestServer::builder().slow_watch_limit(50).build();
    let informer = synced_pods(&server).await;
    informer
        .add_event_handler(|_: Event<Pod>| async { std::future::pending::<()>().await })
        .unwrap();
    for number in 0..2_000 {
        server.create(pod("ns", &format!("p{number}")));
        tokio::task::yield_now().await;
    }
    wait_for("everything is cached", || informer.store().len() == 2_000).await;

    let stats = informer.stats();
    assert_eq!(
        (
            stats.members[0].reflector.watches,
            stats.members[0].reflector.lists
        ),
        (1, 1)
    );
    assert_eq!(stats.backlog(), 2_000);
}

/// A resync that is due while the previous one is undelivered does not pile up.
#[tokio::test(start_paused = true)]
async fn f35_resyncs_of_a_slow_handler_do_not_pile_up() {
    let server = TestServer::new();
    for number in 0..100 {
        server.create(pod("ns", &format!("p{number}")));
    }
    let informer = synced_pods(&server).await;
    let options = HandlerOptions::default().resync(secs(10));
    let handler = informer
        .add_event_handler_with(options, |_: Event<Pod>| async { pass(secs(60)).await })
        .unwrap();
    for _ in 0..60 {
        pass(minutes(1)).await;
        assert!(handler.pending() <= 200, "{}", handler.pending());
    }
    assert!(handler.delivered() >= 59);
}

/// An object over the limit is identified and skipped; it costs neither memory nor the watch.
#[tokio::test(start_paused = true)]
async fn f36_an_oversized_object_is_quarantined_and_the_rest_is_served() {
    let server = TestServer::new();
    for name in ["a", "big", "c"] {
        server.create(pod("ns", name));
    }
    server.poison("pods", "ns/big", Poison::Huge(3 << 20));
    let source = ListWatch::<Pod>::new(server.client(), Scope::all()).options(SourceOptions {
        max_object_size: 1 << 20,
        ..Default::default()
    });
    let informer = synced(Informer::from_list_watch(source)).await;
    assert_eq!(names(&informer), ["a", "c"]);
    assert_eq!(informer.quarantine()[0].key.as_str(), "ns/big");
    assert!(informer.quarantine()[0].object.size > 1 << 20);

    // On the watch as well.
    server.modify::<Pod>("ns", "big", |pod| *pod = pod.clone().label("x", "y"));
    server.create(pod("ns", "d"));
    wait_for("the watch goes on", || names(&informer) == ["a", "c", "d"]).await;
    assert_eq!(informer.stats().members[0].reflector.watches, 1);
    assert_eq!(server.count_requests(Verb::List, "pods"), 0);
}
