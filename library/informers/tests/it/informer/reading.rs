//! Reading: late handlers and indexes, own writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::Event;

use kube_informers::error::WaitError;
use kube_informers::handler::HandlerOptions;
use kube_testserver::builders::{Build, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer};
use tokio::time::Instant;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn late_handler_receives_snapshot_then_changes() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    let informer = synced_pods(&server).await;
    server.create(pod("ns", "b"));
    wait_for("it is cached", || informer.store().len() == 2).await;
    let log = Log::new();
    let late = informer.add_event_handler(log.handler()).unwrap();
    assert!(!late.has_synced());
    late.synced().await.unwrap();
    let mut events = log.take();
    events.sort();
    assert_eq!(events, ["added ns/a (initial)", "added ns/b (initial)"]);

    server.create(pod("ns", "c"));
    wait_for("it is delivered", || log.len() == 1).await;
    assert_eq!(log.take(), ["added ns/c"]);
}

/// A change is visible in the store a moment before its event is in the backlogs. With this many handlers, the moment is long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_in_the_backlog_when_their_version_is_reached() {
    let server = TestServer::new();
    let informer = synced_pods(&server).await;
    for _ in 0..1_000 {
        informer.add_event_handler(|_: Event<Pod>| {}).unwrap();
    }
    let received = Arc::new(AtomicUsize::new(0));
    let count = received.clone();
    let last = informer
        .add_event_handler(move |_: Event<Pod>| {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    last.synced().await.unwrap();

    for number in 1..=20 {
        let created = server.create(pod("ns", &format!("p{number}")));
        let deadline = Instant::now() + secs(60);
        // Not by `wait_until`: its wake-up comes after the dispatch.
        while informer.store().len() < number {
            assert!(Instant::now() < deadline, "pod {number} does not arrive");
            std::thread::yield_now();
        }
        let version = created.metadata.resource_version.unwrap();
        informer.wait_for_within(&version, secs(60)).await.unwrap();
        let pending = last.pending();
        assert!(
            pending + received.load(Ordering::SeqCst) >= number,
            "pod {number}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn late_index_holds_all_objects_and_follows_changes() {
    let server = TestServer::new();
    for number in 0..10 {
        let team = if number % 2 == 0 { "even" } else { "odd" };
        server.create(pod("ns", &format!("p{number}")).label("team", team));
    }
    let informer = synced_pods(&server).await;
    let teams = |pod: &Pod| pod.metadata.labels.clone().unwrap_or_default().remove("team");
    let index = informer.add_index("team", teams).unwrap();
    assert_eq!((index.count("even"), index.count("odd")), (5, 5));
    assert!(informer.add_index("team", teams).is_err(), "the name is taken");

    server.modify::<Pod>("ns", "p0", |pod| *pod = pod.clone().label("team", "odd"));
    server.delete::<Pod>("ns", "p1");
    wait_for("the index follows", || {
        (index.count("even"), index.count("odd")) == (4, 5)
    })
    .await;
    // The index is as new as the event when a handler is called.
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let from_handler = index.clone();
    let handler = informer
        .add_event_handler(move |event: Event<Pod>| {
            let _ = sender.send((event.is_initial(), from_handler.count("new")));
        })
        .unwrap();
    handler.synced().await.unwrap();
    server.create(pod("ns", "n").label("team", "new"));
    loop {
        if let (false, count) = seen.recv().await.unwrap() {
            assert_eq!(count, 1);
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn own_write_can_be_awaited_and_read_back() {
    let server = TestServer::new();
    let informer = synced_pods(&server).await;
    // The event is delayed.
    server.fault(
        RequestMatcher::plain_watch("pods"),
        Fault::delay_events(kube_testserver::Which::All, secs(2)),
    );
    server.break_watches();
    pass(secs(5)).await;
    let written = server.create(pod("ns", "a")).metadata.resource_version.unwrap();
    assert!(informer.store().is_empty());

    let since = tokio::time::Instant::now();
    informer
        .wait_for_within(&written, secs(10))
        .await
        .expect("it comes");
    assert!(
        (secs(1)..secs(4)).contains(&since.elapsed()),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(cached(&informer), [format!("ns/a@{written}")]);
    informer
        .wait_for_within(&written, Duration::ZERO)
        .await
        .expect("the version is already reached");
    informer
        .wait_for_within("1", Duration::ZERO)
        .await
        .expect("an older version is already reached");

    let error = informer.wait_for_within("99999", secs(3)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the cache has not reached version 99999 after 3s; it is at {written}")
    );
    for nonsense in ["", "abc", "12x", "-3"] {
        let error = informer.wait_for_within(nonsense, secs(3)).await.unwrap_err();
        assert!(
            matches!(error, WaitError::NotComparable(_)),
            "{nonsense}: {error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_version_before_the_first_list_works_too() {
    let server = TestServer::new();
    let written = server.create(pod("ns", "a")).metadata.resource_version.unwrap();
    let informer = pods(&server).start();
    informer
        .wait_for_within(&written, secs(5))
        .await
        .expect("the list includes it");
    assert_eq!(names(&informer), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn resyncs_are_per_handler_and_exact() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    let informer = synced(pods(&server).configure(|config| config.resync = Some(secs(100)))).await;
    let (default, own, never) = (Log::new(), Log::new(), Log::new());
    informer.add_event_handler(default.handler()).unwrap();
    let often = HandlerOptions::default().resync(secs(10));
    informer.add_event_handler_with(often, own.handler()).unwrap();
    let off = HandlerOptions::default().resync(Duration::ZERO);
    informer.add_event_handler_with(off, never.handler()).unwrap();

    pass(secs(305)).await;
    assert_eq!([&default, &own, &never].map(Log::len), [1 + 3, 1 + 30, 1]);
    assert_eq!(default.all()[1], "updated ns/a (resync)");
    assert!(server.requests().len() <= 2, "a resync sends no request");
}
