//! F27 to F30 and F32: user code that panics or is slow, late handlers, removed handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::Event;
use kube_informers::handler::Backlog;
use kube_informers::handler::HandlerOptions;
use kube_informers::quarantine::Problem;
use kube_testserver::builders::{Build, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer};
use tokio::time::Instant;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn f27_a_panicking_handler_skips_its_event_and_affects_no_other() {
    let server = TestServer::new();
    let informer = synced_pods(&server).await;
    let logs = [Log::new(), Log::new(), Log::new()];
    let mut calls = 0;
    let first = informer.add_event_handler(logs[0].handler()).unwrap();
    let log = logs[1].clone();
    let panicking = informer
        .add_event_handler(move |event: Event<Pod>| {
            calls += 1;
            assert!(calls != 2, "on purpose");
            log.push(&event);
        })
        .unwrap();
    let last = informer.add_event_handler(logs[2].handler()).unwrap();
    for name in ["a", "b", "c"] {
        server.create(pod("ns", name));
    }

    wait_for("all events are delivered", || {
        [&first, &panicking, &last]
            .iter()
            .all(|handler| handler.delivered() == 3)
    })
    .await;
    assert_eq!(logs[0].all(), ["added ns/a", "added ns/b", "added ns/c"]);
    assert_eq!(logs[1].all(), ["added ns/a", "added ns/c"]);
    assert_eq!(logs[2].all(), logs[0].all());
    assert_eq!(
        [&first, &panicking, &last].map(|handler| handler.panics()),
        [0, 1, 0]
    );
    // A skipped event counts as delivered: the next event is an update.
    server.modify::<Pod>("ns", "b", |pod| *pod = pod.clone().label("x", "y"));
    wait_for("it is delivered", || logs[1].len() == 3).await;
    assert_eq!(logs[1].all()[2], "updated ns/b");
}

#[tokio::test(start_paused = true)]
async fn f27_a_panic_in_the_transform_quarantines_one_object() {
    for build in [pods, paged_pods] {
        let server = TestServer::new();
        for name in ["a", "bad", "c"] {
            server.create(pod("ns", name));
        }
        let informer = build(&server).transform(|pod| {
            let labels = pod.metadata.labels.get_or_insert_default();
            let name = pod.metadata.name.as_deref();
            assert!(name != Some("bad") || labels.contains_key("good"), "on purpose");
        });
        let informer = synced(informer).await;
        assert_eq!(names(&informer), ["a", "c"]);
        let quarantine = informer.quarantine();
        assert_eq!(
            quarantine[0].object.problem,
            Problem::Transform("it panicked".to_owned())
        );

        // The same on a watch, then the deletion.
        server.modify::<Pod>("ns", "bad", |pod| *pod = pod.clone().label("x", "y"));
        server.create(pod("ns", "d"));
        wait_for("the watch goes on", || names(&informer) == ["a", "c", "d"]).await;
        server.modify::<Pod>("ns", "bad", |pod| *pod = pod.clone().label("good", "now"));
        wait_for("it recovers", || informer.store().len() == 4).await;
        assert!(informer.quarantine().is_empty());
        assert_eq!(informer.stats().members[0].reflector.lists, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn f28_a_panic_in_an_index_function_quarantines_one_object() {
    for build in [pods, paged_pods] {
        let server = TestServer::new();
        for name in ["a", "bad", "c"] {
            server.create(pod("ns", name).label("team", "x"));
        }
        let builder = build(&server)
            .index("team", |pod: &Pod| {
                let labels = pod.metadata.labels.clone().unwrap_or_default();
                let name = pod.metadata.name.as_deref();
                assert!(name != Some("bad") || labels["team"] == "good", "on purpose");
                labels.get("team").cloned()
            })
            .unwrap();
        let informer = synced(builder).await;
        assert_eq!(names(&informer), ["a", "c"]);
        assert!(matches!(
            informer.quarantine()[0].object.problem,
            Problem::Index(_)
        ));
        assert_eq!(informer.store().by_index("team", "x").unwrap().len(), 2);

        server.modify::<Pod>("ns", "bad", |pod| *pod = pod.clone().label("other", "y"));
        server.create(pod("ns", "d").label("team", "x"));
        wait_for("the watch goes on", || names(&informer) == ["a", "c", "d"]).await;
        server.modify::<Pod>("ns", "bad", |pod| *pod = pod.clone().label("team", "good"));
        wait_for("it recovers", || informer.store().len() == 4).await;
        assert_eq!(informer.store().by_index("team", "good").unwrap().len(), 1);
        assert!(informer.quarantine().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn f29_shutdown_is_immediate_while_the_server_refuses_connections() {
    let server = TestServer::new();
    server.fault(RequestMatcher::any().forever(), Fault::refuse());
    let informer = pods(&server).start();
    pass(minutes(5)).await;

    let begin = Instant::now();
    informer.shutdown().await;
    assert!(begin.elapsed() <= Duration::from_millis(100));
    server.assert_nothing_open();
}

/// A handler added at any time receives the snapshot, then exactly the changes after it.
#[tokio::test(start_paused = true)]
async fn f30_handlers_added_at_any_time_receive_no_gap_and_no_duplicate() {
    let server = TestServer::new();
    for number in 0..5 {
        server.create(pod("ns", &format!("old{number}")));
    }
    let informer = pods(&server).start();
    let mut joined = Vec::new();
    for number in 0..120 {
        if number % 4 == 0 {
            server.create(pod("ns", &format!("new{number}")));
        }
        let log = Log::new();
        joined.push((informer.add_event_handler(log.handler()).unwrap(), log));
        tokio::task::yield_now().await;
    }
    wait_for("everything is cached", || informer.store().len() == 35).await;
    for (handler, log) in &joined {
        handler.synced().await.unwrap();
        wait_for("the backlog is empty", || handler.pending() == 0).await;
        let mut keys: Vec<_> = log
            .all()
            .iter()
            .map(|line| {
                line.trim_start_matches("added ns/")
                    .trim_end_matches(" (initial)")
                    .to_owned()
            })
            .collect();
        keys.sort();
        assert_eq!(keys, names(&informer));
    }
}

#[tokio::test(start_paused = true)]
async fn f30_a_removed_handler_is_not_called_again_and_the_others_are() {
    let server = TestServer::new();
    let informer = synced_pods(&server).await;
    let (stays, goes) = (Log::new(), Log::new());
    informer.add_event_handler(stays.handler()).unwrap();
    let leaving = informer.add_event_handler(goes.handler()).unwrap();
    server.create(pod("ns", "a"));
    wait_for("both handlers are called", || goes.len() == 1 && stays.len() == 1).await;

    server.create(pod("ns", "b"));
    leaving.remove().await;
    let calls = goes.len();
    server.create(pod("ns", "c"));
    wait_for("the other handler is called", || stays.len() == 3).await;
    assert_eq!(goes.len(), calls);
    assert!(leaving.is_removed());
    assert_eq!(informer.stats().handlers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn f32_the_backlog_of_a_coalescing_handler_is_bounded_by_the_live_objects() {
    let server = TestServer::new();
    let informer = synced_pods(&server).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let options = HandlerOptions::default().backlog(Backlog::CoalesceByKey);
    let slow = informer
        .add_event_handler_with(options, move |_: Event<Pod>| {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(secs(100))
        })
        .unwrap();
    for number in 0..10 {
        server.create(pod("ns", &format!("p{number}")));
    }
    for round in 0..200 {
        for number in 0..10 {
            server.modify::<Pod>("ns", &format!("p{number}"), |pod| {
                *pod = pod.clone().label("round", &round.to_string());
            });
        }
        settle().await;
        assert!(slow.pending() <= 11, "{} pending", slow.pending());
    }
    // It received one object. The others were added and deleted within its backlog.
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    for number in 0..10 {
        server.delete::<Pod>("ns", &format!("p{number}"));
    }
    wait_for("all are deleted", || informer.store().is_empty()).await;
    assert!(slow.pending() <= 2, "{} pending", slow.pending());
    // The cache was not delayed.
    assert_eq!(informer.stats().members[0].queue.len, 0);
}
