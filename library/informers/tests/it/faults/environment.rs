//! F25, F37, F38, F40 and F41: refusals, connections, clocks and credentials.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Request;
use http::header::{AUTHORIZATION, HeaderValue};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::client::Body;
use kube_informers::Informer;
use kube_informers::reflector::ReflectorState;
use kube_testserver::builders::{config_map, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tower::Service;
use tracing::instrument::WithSubscriber;

use crate::support::*;

/// A refusal is returned to the caller that waits, does not fill the log, and ends when the permission is granted.
#[tokio::test(start_paused = true)]
async fn f25_a_refusal_is_reported_to_the_waiting_caller_and_does_not_fill_the_log() {
    let (lines, guard) = CapturedLogs::of_this_thread(tracing::Level::INFO);
    async {
        let server = TestServer::new();
        server.create(pod("ns", "a"));
        server.fault(RequestMatcher::resource("pods").forever(), Fault::status(403));
        let informer = pods(&server).start();
        let other = Informer::<ConfigMap>::all(server.client()).start();
        other
            .synced_within(secs(1))
            .await
            .expect("others are not affected");

        let error = informer.synced_within(minutes(2)).await.unwrap_err();
        let cause = error.last_error().and_then(|error| error.api()).unwrap();
        assert_eq!(cause.code, 403);
        assert!(
            error.attempts() > 3 && error.to_string().contains("403"),
            "{error}"
        );
        pass(minutes(24 * 60)).await;
        assert_gentle(&server);

        server.clear_faults();
        wait_for("it syncs", || informer.has_synced()).await;
        assert_eq!(names(&informer), ["a"]);
    }
    .with_current_subscriber()
    .await;
    drop(guard);

    let text = lines.text();
    let refusals = text.lines().filter(|line| line.contains("403")).count();
    assert!((1..=20).contains(&refusals), "{refusals} lines in a day");
    measured("F25", format!("{refusals} log lines in a day of refusals"));
}

/// kube's client speaks HTTP/1.1: each watch has a connection of its own, so there is no limit of streams per connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f37_more_watches_than_an_http2_connection_has_streams_are_all_served() {
    const WATCHES: usize = 120;
    let server = TestServer::start().await.expect("it listens");
    let client = kube::Client::try_from(server.config().unwrap()).unwrap();
    let informers: Vec<_> = (0..WATCHES)
        .map(|number| Informer::<ConfigMap>::namespaced(client.clone(), &format!("ns-{number}")).start())
        .collect();
    for informer in &informers {
        informer.synced_within(secs(120)).await.expect("it syncs");
    }
    server
        .wait_for_within(secs(120), "all watches are open", |server| {
            server.open_watches() == WATCHES
        })
        .await;

    for number in 0..WATCHES {
        server.create(config_map(&format!("ns-{number}"), "settings"));
    }
    for informer in &informers {
        let mut events = informer.subscribe();
        tokio::time::timeout(secs(120), events.next())
            .await
            .expect("it is delivered");
    }
    for informer in &informers {
        informer.shutdown().await;
    }
}

/// A load balancer in front of a healthy backend and of one that accepts connections and never answers.
#[expect(
    clippy::disallowed_methods,
    reason = "the balancer ends with the runtime of the test"
)]
async fn balancer(backend: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = accepted.clone();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut client, _)) = listener.accept().await {
            // The sick backend is first, and every other one.
            if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
                held.push(client);
                continue;
            }
            let backend = backend.clone();
            tokio::spawn(async move {
                if let Ok(mut server) = TcpStream::connect(backend).await {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    (url, accepted)
}

/// After a deadline the connection is not used again: the next request opens another one, and the balancer chooses
/// another backend.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f38_a_backend_that_does_not_answer_is_left_for_another_one() {
    let server = TestServer::start().await.expect("it listens");
    server.create(pod("ns", "a"));
    let address = server.url().unwrap().replace("http://", "");
    let (url, accepted) = balancer(address).await;
    let mut config = server.config().unwrap();
    config.cluster_url = url.parse().unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let informer = Informer::<Pod>::all(client)
        .configure(|config| {
            config.deadlines.end_marker = Duration::from_millis(500);
            config.deadlines.end_marker_quiet = Duration::from_millis(500);
            config.deadlines.list_headers = Duration::from_millis(500);
            config.deadlines.first_bookmark = secs(1);
        })
        .start();

    informer.synced_within(secs(120)).await.expect("it syncs");
    server.create(pod("ns", "b"));
    informer
        .wait_for_within(&server.resource_version().to_string(), secs(120))
        .await
        .expect("the watch is on the healthy backend");
    assert!(accepted.load(Ordering::SeqCst) >= 2);
    informer.shutdown().await;
}

/// Time jumps while the machine is suspended. No timer fires a burst of requests, and nothing is listed again.
#[tokio::test(start_paused = true)]
async fn f40_a_suspend_of_eight_hours_causes_no_burst_of_requests() {
    for state in ["watching", "backing off", "listing"] {
        let server = TestServer::new();
        server.create(pod("ns", "a"));
        let hang = RequestMatcher::resource("pods").forever();
        if state == "listing" {
            server.fault(hang.clone(), Fault::hang());
        }
        let informer = pods(&server).start();
        if state != "listing" {
            informer.synced_within(secs(10)).await.unwrap();
        }
        if state == "backing off" {
            server.refuse_connections(true);
            server.break_watches();
        }
        pass(secs(20)).await;
        server.clear_requests();

        tokio::time::advance(minutes(8 * 60)).await;
        pass(minutes(2)).await;
        assert!(
            server.requests().len() <= 40,
            "{state}: {} requests",
            server.requests().len()
        );
        assert_gentle(&server);

        server.clear_faults();
        server.refuse_connections(false);
        server.create(pod("ns", "b"));
        wait_for("it continues", || names(&informer) == ["a", "b"]).await;
        let stats = informer.stats().members[0].reflector.clone();
        assert_eq!(stats.lists, 1, "{state}: {:?}", stats.relists);
        informer.shutdown().await;
    }
}

/// The monotonic clock of Linux stands still during a suspend, so that a watch whose connection is gone looks young.
#[tokio::test(start_paused = true)]
async fn f40_a_connection_that_did_not_survive_a_suspend_is_noticed() {
    let server = TestServer::new();
    let informer = synced_pods(&server).await;
    pass(minutes(3)).await;
    // The connection is dead, and neither side notices.
    server.fault(RequestMatcher::plain_watch("pods"), Fault::silent());
    server.close_watches();
    pass(secs(5)).await;
    server.create(pod("ns", "a"));
    let begin = tokio::time::Instant::now();
    wait_for("it is cached", || informer.store().len() == 1).await;
    assert!(begin.elapsed() <= secs(155), "{:?}", begin.elapsed());
}

/// Credentials are added to each request by kube's client, so a rotated token is used by the next one.
#[tokio::test(start_paused = true)]
async fn f41_a_rotated_token_is_used_by_the_next_request_and_the_cache_stays() {
    let token = Arc::new(Mutex::new("first"));
    let server = TestServer::builder().token("first").build();
    server.create(pod("ns", "a"));
    let (backend, credentials) = (server.service(), token.clone());
    let expired = Arc::new(Mutex::new(false));
    let rejects = expired.clone();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let mut backend = backend.clone();
        // The server accepts "first" until it expires, the provider has "second" from then on.
        let sent = if *rejects.lock() && *credentials.lock() == "first" {
            "expired"
        } else {
            "first"
        };
        let header = HeaderValue::from_str(&format!("Bearer {sent}")).unwrap();
        request.headers_mut().insert(AUTHORIZATION, header);
        async move { backend.call(request).await }
    });
    let informer = synced(Informer::<Pod>::all(kube::Client::new(service, "default"))).await;

    // The open watch outlives its token; the next request is rejected.
    *expired.lock() = true;
    server.break_watches();
    pass(minutes(5)).await;
    let ReflectorState::BackingOff { error, .. } = informer.state() else {
        panic!("{}", informer.state());
    };
    assert_eq!(error.api().unwrap().code, 401);
    assert_eq!(names(&informer), ["a"], "the cache stays");

    *token.lock() = "second";
    server.create(pod("ns", "b"));
    wait_for("it continues", || names(&informer) == ["a", "b"]).await;
    assert_eq!(informer.stats().members[0].reflector.lists, 1);
    assert_gentle(&server);
}
