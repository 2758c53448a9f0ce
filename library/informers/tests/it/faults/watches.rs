//! F15, F19 to F21, F24 to F26, F31: watches that fall silent, are rejected, or end immediately.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use k8s_openapi::api::core::v1::Pod;
use kube::client::Body;
use kube_informers::Informer;
use kube_informers::reflector::ReflectorState;
use kube_testserver::builders::pod;
use kube_testserver::{ApiError, Fault, RequestMatcher, TestServer, Verb};
use tokio::time::Instant;
use tower::Service;

use crate::support::*;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn relists(informer: &Informer<Pod>) -> u64 {
    informer.stats().members[0].reflector.relists.values().sum()
}

#[tokio::test(start_paused = true)]
async fn f15_a_half_open_watch_is_detected_by_its_missing_bookmarks() {
    let server = TestServer::new();
    let informer = synced_pods(&server).await;
    pass(minutes(5)).await;
    // The next watch is opened and stays silent.
    server.fault(RequestMatcher::plain_watch("pods"), Fault::silent());
    server.break_watches();
    pass(secs(2)).await;

    let begin = Instant::now();
    server.create(pod("ns", "a"));
    wait_for("the silent watch is replaced", || informer.store().len() == 1).await;

    // There is a short delay before the next one.
    assert!(begin.elapsed() <= secs(153), "{:?}", begin.elapsed());
    assert_eq!(relists(&informer), 0);
    assert_eq!(
        informer.stats().members[0].reflector.errors.get("deadline"),
        Some(&1)
    );
}

/// Before the first bookmark nothing is known about their interval.
#[tokio::test(start_paused = true)]
async fn f15_before_the_first_bookmark_silence_ends_after_90_s() {
    let server = TestServer::new();
    server.fault(RequestMatcher::plain_watch("pods").times(1), Fault::silent());
    let informer = synced(paged_pods(&server)).await;
    server.create(pod("ns", "a"));

    let begin = Instant::now();
    wait_for("the silent watch is replaced", || informer.store().len() == 1).await;
    assert!(
        (89..=95).contains(&begin.elapsed().as_secs()),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(relists(&informer), 0);
}

/// A watch of a quiet collection stays open until its timeout. Without bookmarks it reconnects every 90 s, which is not an
/// error.
#[tokio::test(start_paused = true)]
async fn f15_a_quiet_watch_stays_open() {
    for no_bookmarks in [true, false] {
        let server = TestServer::new();
        if no_bookmarks {
            server.fault(
                RequestMatcher::plain_watch("pods").forever(),
                Fault::no_bookmarks(),
            );
        }
        let informer = synced(paged_pods(&server)).await;
        pass(minutes(60)).await;

        let stats = informer.stats().members[0].reflector.clone();
        assert!(stats.errors.is_empty(), "{stats:?}");
        let expected = if no_bookmarks { 36..=42 } else { 7..=13 };
        assert!(expected.contains(&stats.watches), "{} watches", stats.watches);
        assert_eq!(stats.lists, 1);
    }
}

/// Whitespace between events keeps a connection busy for ever and means nothing.
#[tokio::test(start_paused = true)]
async fn f15_a_watch_that_trickles_whitespace_ends_at_its_timeout() {
    let server = TestServer::new();
    let backend = server.service().authenticated();
    let trickles = Arc::new(AtomicBool::new(true));
    let service = tower::service_fn(move |request: Request<Body>| {
        let mut backend = backend.clone();
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let trickle = is_watch && trickles.swap(false, Ordering::Relaxed);
        async move {
            if !trickle {
                let response = backend.call(request).await?;
                return Ok::<_, std::io::Error>(
                    response.map(|body| body.map_err(BoxError::from).boxed_unsync()),
                );
            }
            let spaces = futures_util::stream::unfold((), |()| async {
                pass(secs(10)).await;
                Some((Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"\n"))), ()))
            });
            let response = Response::builder().header("content-type", "application/json");
            Ok(response.body(StreamBody::new(spaces).boxed_unsync()).unwrap())
        }
    });
    let client = kube::Client::new(service, "default");
    let informer = synced(Informer::<Pod>::all(client).configure(|config| {
        config.watch_list = false;
        config.jitter = kube_informers::reflector::Jitter::None;
    }))
    .await;
    server.create(pod("ns", "a"));

    let begin = Instant::now();
    while informer.store().is_empty() {
        assert!(begin.elapsed() <= secs(310), "{:?}", begin.elapsed());
        pass(secs(1)).await;
    }
    assert!(begin.elapsed() >= secs(300), "{:?}", begin.elapsed());
    let stats = informer.stats().members[0].reflector.clone();
    assert!(
        stats.errors.is_empty() && stats.watches == 2 && stats.lists == 1,
        "{stats:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn f19_an_expired_version_leads_to_one_list_that_is_not_older() {
    for as_event in [true, false] {
        let server = TestServer::new();
        server.create(pod("ns", "a"));
        let informer = synced(paged_pods(&server)).await;
        let last = informer.store().resource_version().unwrap();
        let fault = if as_event {
            Fault::error_event(ApiError::too_old(1, 5))
        } else {
            Fault::status(410)
        };
        server.clear_requests();
        server.fault(RequestMatcher::plain_watch("pods"), fault);
        server.break_watches();
        server.create(pod("ns", "b"));

        wait_for("it has recovered", || names(&informer) == ["a", "b"]).await;
        let lists: Vec<_> = server
            .requests()
            .into_iter()
            .filter(|request| request.verb == Verb::List)
            .collect();
        assert_eq!(lists.len(), 1);
        assert_eq!(lists[0].param("resourceVersion"), Some(last.as_str()));
        assert_eq!(lists[0].param("resourceVersionMatch"), Some("NotOlderThan"));
        assert_eq!(relists(&informer), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn f20_a_rejected_watch_leads_to_a_list_only_if_the_version_is_the_cause() {
    for (code, lists) in [
        (410, 2),
        (400, 2),
        (422, 2),
        (500, 1),
        (503, 1),
        (504, 1),
        (429, 1),
        (403, 1),
    ] {
        let server = TestServer::new();
        server.create(pod("ns", "a"));
        let informer = synced(paged_pods(&server)).await;
        server.fault(RequestMatcher::plain_watch("pods").times(2), Fault::status(code));
        server.break_watches();
        server.create(pod("ns", "b"));

        wait_for("it has recovered", || names(&informer) == ["a", "b"]).await;
        let expected = if lists == 1 { 1..=1 } else { 2..=3 };
        let listed = server.count_requests(Verb::List, "pods");
        assert!(expected.contains(&listed), "{code}: {listed} lists");
    }
}

/// A server that accepts every list and rejects every watch is not listed in a tight loop.
#[tokio::test(start_paused = true)]
async fn f20_a_watch_that_is_always_rejected_does_not_cause_a_list_loop() {
    for fault in [
        Fault::status(410),
        Fault::status(400),
        Fault::status(404),
        Fault::error_event(ApiError::expired("too old")),
        Fault::error_event(ApiError::internal("failed on purpose")),
        Fault::error(ApiError::too_large_resource_version(9, 5, 1)),
    ] {
        for build in [pods, paged_pods] {
            let server = TestServer::new();
            server.create(pod("ns", "a"));
            server.fault(RequestMatcher::plain_watch("pods").forever(), fault.clone());
            let informer = synced(build(&server)).await;
            server.break_watches();
            pass(minutes(20)).await;

            assert_gentle(&server);
            let requests = server.requests().len();
            assert!(requests <= 20 * 6, "{requests} requests in 20 minutes: {fault:?}");
            assert_eq!(names(&informer), ["a"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f21_short_watches_are_rate_limited_and_do_not_lead_to_a_list() {
    for fault in [
        Fault::close_after_events(0),
        Fault::close_after(Duration::from_millis(1100)),
        Fault::close_after(secs(5)),
        Fault::break_after(Duration::ZERO),
        Fault::break_after(secs(2)),
        Fault::close_after_events(1),
        Fault::break_after_events(1),
    ] {
        let server = TestServer::new();
        server.fault(RequestMatcher::plain_watch("pods").forever(), fault.clone());
        let informer = synced(paged_pods(&server)).await;
        for number in 0..600 {
            if number % 3 == 0 {
                server.create(pod("ns", &format!("p{number}")));
            }
            pass(secs(1)).await;
        }

        assert_gentle(&server);
        assert_eq!(informer.stats().members[0].reflector.lists, 1, "{fault:?}");
        server.clear_faults();
        wait_for("it catches up", || cached(&informer) == stored(&server, "pods")).await;
        assert_eq!(informer.stats().members[0].reflector.lists, 1, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn f24_throttling_is_respected_and_never_leads_to_a_list() {
    for fault in [
        Fault::status(429).retry_after(20),
        Fault::status(429)
            .text("Too many requests, please try again later.")
            .retry_after(20),
        Fault::status(503).text("busy").retry_after(20),
        Fault::error_event(ApiError::too_many_requests(20)),
    ] {
        let server = TestServer::new();
        server.create(pod("ns", "a"));
        let informer = synced(paged_pods(&server)).await;
        server.clear_requests();
        server.fault(RequestMatcher::plain_watch("pods").times(3), fault.clone());
        server.break_watches();
        server.create(pod("ns", "b"));

        wait_for("it has recovered", || names(&informer) == ["a", "b"]).await;
        let requests = server.requests();
        assert_eq!(requests.len(), 4, "{fault:?}");
        for gap in gaps(&requests) {
            assert!((secs(20)..=secs(30)).contains(&gap), "{gap:?}: {fault:?}");
        }
        assert_eq!(server.count_requests(Verb::List, "pods"), 0);
    }
    // The same for an initial list.
    let server = TestServer::new();
    server.fault(
        RequestMatcher::resource("pods").times(3),
        Fault::status(429).text("slow down").retry_after(20),
    );
    let informer = pods(&server).start();
    informer.synced_within(minutes(2)).await.expect("it syncs");
    for gap in gaps(&server.requests()) {
        assert!(gap >= secs(20), "{gap:?}");
    }
}

/// A permanent rejection is a state with a reason, and causes few requests.
#[tokio::test(start_paused = true)]
async fn f25_a_permanent_rejection_is_reported_in_the_state() {
    for code in [401, 403, 404, 405] {
        let server = TestServer::new();
        server.fault(RequestMatcher::resource("pods").forever(), Fault::status(code));
        let informer = paged_pods(&server).start();
        pass(minutes(60)).await;

        let ReflectorState::BackingOff {
            error,
            attempts,
            since,
            ..
        } = informer.state()
        else {
            panic!("{code}: {}", informer.state());
        };
        assert_eq!(error.api().unwrap().code, code);
        assert!(since.elapsed() > minutes(59), "{:?}", since.elapsed());
        let requests = server.requests().len();
        assert_eq!(attempts as usize, requests);
        // A resource that does not exist may be created soon.
        let limit = if code == 404 { 900 } else { 130 };
        assert!(requests <= limit, "{code}: {requests} requests in an hour");
        informer.shutdown().await;
    }
}

/// While a CRD is deleted and created again, the cache keeps its contents, and then delivers the difference.
#[tokio::test(start_paused = true)]
async fn f26_a_resource_that_is_deleted_and_recreated_is_delivered_as_a_difference() {
    for build in [pods, paged_pods] {
        let server = TestServer::new();
        for name in ["a", "b"] {
            server.create(pod("ns", name));
        }
        let informer = synced(build(&server)).await;
        let log = Log::new();
        let handler = informer.add_event_handler(log.handler()).unwrap();
        handler.synced().await.unwrap();
        log.take();

        server.fault(RequestMatcher::resource("pods").forever(), Fault::status(404));
        server.break_watches();
        server.delete::<Pod>("ns", "a");
        server.recreate("pods", "ns/b");
        server.create(pod("ns", "c"));
        pass(minutes(5)).await;
        assert_eq!(names(&informer), ["a", "b"], "an error never empties the cache");
        assert_eq!(log.all(), [""; 0]);

        server.clear_faults();
        wait_for("it is delivered", || log.len() == 4).await;
        let mut events = log.take();
        let position = |events: &[String], what: &str| events.iter().position(|line| line == what).unwrap();
        assert_eq!(
            position(&events, "deleted ns/b (missed)") + 1,
            position(&events, "added ns/b"),
            "{events:?}"
        );
        events.sort();
        assert_eq!(
            events,
            [
                "added ns/b",
                "added ns/c",
                "deleted ns/a (missed)",
                "deleted ns/b (missed)"
            ]
        );
    }
}

/// While conversion fails, lists and watches return 500.
#[tokio::test(start_paused = true)]
async fn f26_a_failing_conversion_keeps_the_last_good_state() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    let informer = synced_pods(&server).await;
    server.fault(
        RequestMatcher::resource("pods").forever(),
        Fault::error(ApiError::internal("conversion webhook failed")),
    );
    server.compact();
    server.skip_versions(3);
    server.break_watches();
    pass(minutes(10)).await;

    assert_eq!(names(&informer), ["a"]);
    assert!(informer.state().to_string().contains("conversion webhook failed"));
    server.clear_faults();
    server.create(pod("ns", "b"));
    wait_for("it recovers", || names(&informer) == ["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn f31_synced_and_healthy_are_reported_separately() {
    let server = TestServer::new();
    let informer = synced_pods(&server).await;
    assert!(matches!(informer.state(), ReflectorState::Watching { .. }));

    server.fault(RequestMatcher::resource("pods").forever(), Fault::refuse());
    server.break_watches();
    pass(minutes(10)).await;
    assert!(informer.has_synced());
    informer
        .synced_within(Duration::ZERO)
        .await
        .expect("it is synced");
    let ReflectorState::BackingOff { since, attempts, .. } = informer.state() else {
        panic!("{}", informer.state());
    };
    assert!(since.elapsed() > minutes(9) && attempts > 10);

    server.clear_faults();
    wait_for("it is healthy again", || {
        matches!(informer.state(), ReflectorState::Watching { .. })
    })
    .await;
}
