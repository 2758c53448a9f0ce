//! F16 to F18: watch-lists that do not end, are not supported, or break.

use k8s_openapi::api::core::v1::Pod;
use kube_testserver::builders::pod;
use kube_testserver::{ApiError, Fault, RequestMatcher, SeenRequest, TestServer, Verb};
use tokio::time::Instant;

use crate::support::*;

fn watch_lists(server: &TestServer) -> usize {
    let is_one = |request: &SeenRequest| {
        request.verb == Verb::Watch && request.param("sendInitialEvents") == Some("true")
    };
    server.requests().into_iter().filter(is_one).count()
}

#[tokio::test(start_paused = true)]
async fn f16_a_watch_list_without_an_end_is_abandoned_and_remembered() {
    for fault in [
        Fault::no_end_marker(),
        Fault::no_end_marker().and(Fault::no_bookmarks()),
        Fault::no_end_marker().and(Fault::close_after_events(2)),
        Fault::silent(),
        Fault::silent_after_events(1),
    ] {
        let server = TestServer::new();
        for name in ["a", "b", "c"] {
            server.create(pod("ns", name));
        }
        server.fault(RequestMatcher::watch_list("pods").forever(), fault);
        let begin = Instant::now();
        let informer = pods(&server).start();
        informer.synced_within(secs(26)).await.expect("it syncs");
        assert!(begin.elapsed() <= secs(26), "{:?}", begin.elapsed());
        assert_eq!(names(&informer), ["a", "b", "c"]);

        pass(minutes(2)).await;
        force_relist(&server);
        wait_for("it has relisted", || {
            informer.stats().members[0].reflector.lists == 2
        })
        .await;
        assert_eq!(watch_lists(&server), 1, "the failure is remembered");
        assert_gentle(&server);

        // After ten minutes it is tried again.
        pass(minutes(10)).await;
        server.clear_faults();
        force_relist(&server);
        wait_for("it has relisted", || {
            informer.stats().members[0].reflector.lists == 3
        })
        .await;
        assert_eq!(watch_lists(&server), 2);
        assert_eq!(informer.stats().members[0].reflector.watch_lists, 1);
    }
}

/// A steady stream of changes and bookmarks does not extend the deadline.
#[tokio::test(start_paused = true)]
async fn f16_a_busy_watch_list_without_an_end_marker_is_abandoned() {
    let server = TestServer::builder().bookmark_interval(secs(2)).build();
    server.create(pod("ns", "a"));
    server.fault(
        RequestMatcher::watch_list("pods").forever(),
        Fault::no_end_marker(),
    );
    let informer = pods(&server).start();
    let begin = Instant::now();
    while !informer.has_synced() {
        assert!(begin.elapsed() <= secs(26), "it is abandoned");
        server.modify::<Pod>("ns", "a", |pod| {
            let time = begin.elapsed().as_secs().to_string();
            pod.metadata
                .labels
                .get_or_insert_default()
                .insert("time".to_owned(), time);
        });
        pass(secs(1)).await;
    }
    wait_for("the cache catches up", || {
        cached(&informer) == stored(&server, "pods")
    })
    .await;
}

/// A large collection that arrives slowly is not abandoned.
#[tokio::test(start_paused = true)]
async fn f16_a_slow_watch_list_that_makes_progress_is_not_abandoned() {
    let server = TestServer::new();
    for number in 0..40 {
        server.create(pod("ns", &format!("p{number}")));
    }
    server.fault(RequestMatcher::watch_list("pods"), Fault::trickle(100, secs(1)));
    let informer = pods(&server).start();

    informer.synced_within(minutes(10)).await.expect("it syncs");
    assert_eq!(server.requests().len(), 1, "a single watch-list");
    assert!(informer.stats().members[0].reflector.last_list_duration > secs(60));
}

#[tokio::test(start_paused = true)]
async fn f17_a_rejected_watch_list_leads_to_a_list() {
    for fault in [
        Fault::status(400),
        Fault::status(404),
        Fault::status(405),
        Fault::status(422),
        Fault::status(500),
        Fault::status(501),
        Fault::status(504),
        Fault::refuse_watch_list(),
        Fault::error_event(ApiError::bad_request("unknown parameter")),
        Fault::error_event(ApiError::internal("failed on purpose")),
        Fault::default().html("<html>a proxy</html>"),
    ] {
        let server = TestServer::new();
        server.create(pod("ns", "a"));
        server.fault(RequestMatcher::watch_list("pods").forever(), fault.clone());
        let informer = pods(&server).start();

        informer
            .synced_within(secs(5))
            .await
            .unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert_eq!(names(&informer), ["a"]);
        server.create(pod("ns", "b"));
        wait_for("it watches", || informer.store().len() == 2).await;
        assert_eq!(watch_lists(&server), 1);
        assert_eq!(server.count_requests(Verb::List, "pods"), 1);
    }
}

/// A throttled watch-list is not replaced by a list, which would be throttled too.
#[tokio::test(start_paused = true)]
async fn f17_a_throttled_watch_list_is_retried() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    server.fault(
        RequestMatcher::watch_list("pods").times(2),
        Fault::status(429).retry_after(3),
    );
    let begin = Instant::now();
    let informer = synced_pods(&server).await;

    assert!(begin.elapsed() >= secs(6), "{:?}", begin.elapsed());
    assert_eq!((watch_lists(&server), informer.store().len()), (3, 1));
    assert_eq!(server.count_requests(Verb::List, "pods"), 0);
}

#[tokio::test(start_paused = true)]
async fn f18_the_objects_of_a_broken_watch_list_are_discarded() {
    for fault in [
        Fault::break_after_events(2),
        Fault::close_after_events(2),
        Fault::error_event_after(2, ApiError::internal("failed on purpose")),
        Fault::error_event_after(2, ApiError::expired("too old")),
        Fault::error_event_after(2, ApiError::too_many_requests(1)),
    ] {
        let server = TestServer::new();
        for name in ["a", "b", "c"] {
            server.create(pod("ns", name));
        }
        // The next attempt is delayed, so that changes can happen in between.
        server.fault(RequestMatcher::watch_list("pods"), fault.clone());
        server.fault(RequestMatcher::resource("pods").nth(2), Fault::delay(secs(2)));
        let informer = pods(&server).start();
        let log = Log::new();
        let handler = informer.add_event_handler(log.handler()).unwrap();
        settle().await;
        assert!(informer.store().is_empty(), "a partial list is not visible");
        server.delete::<Pod>("ns", "a");

        informer.synced_within(secs(30)).await.unwrap();
        handler.synced().await.unwrap();
        assert_eq!(names(&informer), ["b", "c"], "{fault:?}");
        assert_eq!(log.all(), ["added ns/b (initial)", "added ns/c (initial)"]);
    }
}
