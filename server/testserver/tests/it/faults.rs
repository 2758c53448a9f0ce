//! Faults: each has its effect on the matching requests and on no others.

use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Full};
use kube_testserver::builders::pod;
use kube_testserver::{ApiError, Fault, RequestMatcher, TestServer, Which};

use crate::common::{Watch, call, get};

fn with_pods(names: &[&str]) -> TestServer {
    let server = TestServer::new();
    for name in names {
        server.create(pod("shop", name));
    }
    server
}

#[tokio::test(start_paused = true)]
async fn only_the_nth_list_fails() {
    let server = with_pods(&[]);
    let fault = server.fault(RequestMatcher::list("pods").nth(2), Fault::status(500));

    let mut codes = Vec::new();
    for _ in 0..3 {
        codes.push(get(&server, "/api/v1/pods").await.status);
    }

    assert_eq!(codes, [200, 500, 200]);
    assert_eq!(get(&server, "/api/v1/nodes").await.status, 200);
    assert_eq!(fault.struck(), 1);
}

#[tokio::test(start_paused = true)]
async fn faults_apply_n_times_every_nth_time_forever_or_randomly() {
    let codes = async |on: RequestMatcher, requests: usize| {
        let server = TestServer::builder().seed(7).build();
        server.fault(on, Fault::status(503));
        let mut failed = Vec::new();
        for number in 1..=requests {
            if get(&server, "/api/v1/pods").await.status == 503 {
                failed.push(number);
            }
        }
        failed
    };

    assert_eq!(codes(RequestMatcher::list("pods").times(2), 5).await, [1, 2]);
    assert_eq!(
        codes(RequestMatcher::list("pods").after(1).times(2), 5).await,
        [2, 3]
    );
    assert_eq!(codes(RequestMatcher::list("pods").every(2), 5).await, [2, 4]);
    assert_eq!(codes(RequestMatcher::any().forever(), 3).await, [1, 2, 3]);
    let some = codes(RequestMatcher::any().chance(0.5), 100).await;
    assert!((25..75).contains(&some.len()), "{some:?}");
    assert_eq!(
        some,
        codes(RequestMatcher::any().chance(0.5), 100).await,
        "the seed determines random faults"
    );
}

#[tokio::test(start_paused = true)]
async fn cleared_fault_no_longer_applies() {
    let server = with_pods(&[]);
    let fault = server.fault(RequestMatcher::any().forever(), Fault::status(500));
    assert_eq!(get(&server, "/api/v1/pods").await.status, 500);

    fault.clear();
    assert_eq!(get(&server, "/api/v1/pods").await.status, 200);

    server.fault(RequestMatcher::any().forever(), Fault::status(500));
    server.clear_faults();
    assert_eq!(get(&server, "/api/v1/pods").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn responses_can_be_replaced() {
    let server = with_pods(&[]);

    server.fault(
        RequestMatcher::any(),
        Fault::status(429)
            .text("Too many requests, please try again later.")
            .retry_after(3),
    );
    let busy = get(&server, "/api/v1/pods").await;
    assert_eq!(
        (busy.status, busy.text.as_str()),
        (429, "Too many requests, please try again later.")
    );
    assert_eq!(busy.headers["retry-after"], "3");
    assert_eq!(busy.headers["content-type"], "text/plain; charset=utf-8");

    server.fault(RequestMatcher::any(), Fault::default().html("<h1>Log in</h1>"));
    let page = get(&server, "/api/v1/pods").await;
    assert_eq!((page.status, page.text.as_str()), (200, "<h1>Log in</h1>"));

    server.fault(
        RequestMatcher::any(),
        Fault::error(ApiError::too_many_requests(9)),
    );
    let status = get(&server, "/api/v1/pods").await;
    assert_eq!(status.error().1, "TooManyRequests");
    assert_eq!(status.headers["retry-after"], "9");
}

#[tokio::test(start_paused = true)]
async fn connections_are_refused_delayed_and_hung() {
    let server = with_pods(&[]);
    let request = || {
        Request::get("/api/v1/pods")
            .body(Full::default())
            .expect("a request")
    };
    let service = server.service();

    server.fault(RequestMatcher::any(), Fault::refuse());
    let refused = call(&service, request())
        .await
        .map(|_| ())
        .map_err(|error| error.kind());
    assert_eq!(refused, Err(std::io::ErrorKind::ConnectionRefused));

    server.fault(RequestMatcher::any(), Fault::delay(Duration::from_secs(5)));
    let started = tokio::time::Instant::now();
    assert!(call(&service, request()).await.is_ok());
    assert_eq!(started.elapsed(), Duration::from_secs(5));

    server.fault(RequestMatcher::any(), Fault::hang());
    let hung = tokio::time::timeout(Duration::from_secs(3600), call(&service, request())).await;
    assert!(hung.is_err());
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn bodies_are_broken_truncated_and_split() {
    let server = with_pods(&["a", "b"]);
    let whole = get(&server, "/api/v1/pods").await.text;
    let request = || {
        Request::get("/api/v1/pods")
            .body(Full::default())
            .expect("a request")
    };

    for at in [0, 1, whole.len() / 2] {
        server.fault(RequestMatcher::any(), Fault::truncate(at as u64));
        assert_eq!(get(&server, "/api/v1/pods").await.text, whole[..at]);

        server.fault(RequestMatcher::any(), Fault::cut(at as u64));
        let cut = call(&server.service(), request())
            .await
            .expect("headers")
            .into_body()
            .collect()
            .await;
        assert_eq!(
            cut.map(|_| ()).map_err(|error| error.kind()),
            Err(std::io::ErrorKind::ConnectionReset)
        );
    }

    server.fault(RequestMatcher::any(), Fault::split(vec![1, 7]));
    let mut body = call(&server.service(), request())
        .await
        .expect("headers")
        .into_body();
    let mut sizes = Vec::new();
    while let Some(frame) = body.frame().await {
        sizes.push(frame.expect("whole").into_data().expect("data").len());
    }
    assert_eq!(sizes[..4], [1, 7, 1, 7]);
    assert_eq!(sizes.iter().sum::<usize>(), whole.len());
}

#[tokio::test(start_paused = true)]
async fn half_open_watch_sends_nothing_and_does_not_end() {
    let server = with_pods(&["a"]);
    server.fault(RequestMatcher::watch("pods"), Fault::silent_after_events(1));
    let path = "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=60";
    let mut watch = Watch::open(&server, path).await;
    assert_eq!(watch.next().await, "ADDED shop/a@2");

    server.create(pod("shop", "b"));
    let silent = tokio::time::timeout(Duration::from_secs(3600), watch.next()).await;

    assert!(silent.is_err());
    assert_eq!(server.open_watches(), 1);
    server.close_watches();
    assert_eq!(watch.next().await, "end");
}

#[tokio::test(start_paused = true)]
async fn watches_end_after_a_number_of_events_or_a_time() {
    let server = with_pods(&["a", "b", "c"]);
    let path = "/api/v1/pods?watch=true&allowWatchBookmarks=true";

    server.fault(RequestMatcher::watch("pods"), Fault::close_after_events(2));
    assert_eq!(
        Watch::open(&server, path).await.ready().await,
        ["ADDED shop/a@2", "ADDED shop/b@3", "end"]
    );

    server.fault(RequestMatcher::watch("pods"), Fault::close_after_events(0));
    assert_eq!(Watch::open(&server, path).await.ready().await, ["end"]);

    server.fault(RequestMatcher::watch("pods"), Fault::break_after_events(1));
    assert_eq!(
        Watch::open(&server, path).await.ready().await,
        ["ADDED shop/a@2", "broken: ConnectionReset"]
    );

    server.fault(
        RequestMatcher::watch("pods"),
        Fault::error_event_after(1, ApiError::too_old(2, 3)),
    );
    assert_eq!(
        Watch::open(&server, path).await.ready().await,
        [
            "ADDED shop/a@2",
            "ERROR 410 too old resource version: 2 (3)",
            "end"
        ]
    );

    server.fault(
        RequestMatcher::watch("pods"),
        Fault::close_after(Duration::from_millis(1100)),
    );
    let started = tokio::time::Instant::now();
    let mut watch = Watch::open(&server, path).await;
    assert_eq!(watch.ready().await.len(), 4);
    assert_eq!(
        (watch.next().await.as_str(), started.elapsed().as_millis()),
        ("end", 1100)
    );
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_withheld_or_wrong() {
    let server = with_pods(&["a"]);
    let path = "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=100";

    server.fault(RequestMatcher::watch("pods"), Fault::no_end_marker());
    let mut watch = Watch::open(&server, path).await;
    assert_eq!(
        [watch.next().await, watch.next().await],
        ["ADDED shop/a@2", "BOOKMARK @2"]
    );

    server.fault(RequestMatcher::watch("pods"), Fault::no_bookmarks());
    let mut watch = Watch::open(&server, path).await;
    assert_eq!(
        [watch.next().await, watch.next().await, watch.next().await],
        ["ADDED shop/a@2", "BOOKMARK end @2", "end"]
    );

    server.fault(RequestMatcher::watch("pods"), Fault::bookmark_version(-1));
    let mut watch = Watch::open(&server, path).await;
    assert_eq!(
        [watch.next().await, watch.next().await],
        ["ADDED shop/a@2", "BOOKMARK end @1"]
    );
}

#[tokio::test(start_paused = true)]
async fn events_are_dropped_duplicated_and_reordered() {
    let server = with_pods(&["a", "b", "c"]);
    let path = "/api/v1/pods?watch=true&resourceVersion=1";
    let events = async |fault: Fault| {
        server.fault(RequestMatcher::watch("pods"), fault);
        let events = Watch::open(&server, path).await.ready().await;
        events
            .iter()
            .map(|event| event.replace("ADDED shop/", ""))
            .collect::<Vec<_>>()
    };

    assert_eq!(events(Fault::drop_events(Which::Nth(2))).await, ["a@2", "c@4"]);
    assert_eq!(
        events(Fault::duplicate_events(Which::Object("shop/a".into()))).await,
        ["a@2", "a@2", "b@3", "c@4"]
    );
    assert_eq!(
        events(Fault::reorder_events(Which::Nth(1))).await,
        ["b@3", "a@2", "c@4"]
    );
    assert_eq!(
        events(Fault::replay_events(Which::Nth(3), 2)).await,
        ["a@2", "b@3", "c@4", "b@3", "c@4"]
    );
}

#[tokio::test(start_paused = true)]
async fn server_without_initial_events_sends_no_end_marker() {
    let server = with_pods(&["a"]);
    let path = "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

    server.fault(RequestMatcher::watch_list("pods"), Fault::ignore_initial_events());
    assert_eq!(Watch::open(&server, path).await.ready().await, ["ADDED shop/a@2"]);

    server.fault(RequestMatcher::watch_list("pods"), Fault::refuse_watch_list());
    assert_eq!(get(&server, path).await.error().1, "Invalid");
}

#[tokio::test(start_paused = true)]
async fn list_pages_are_faulty() {
    let server = with_pods(&["a", "b", "c"]);

    server.fault(RequestMatcher::list("pods"), Fault::ignore_limit());
    assert_eq!(get(&server, "/api/v1/pods?limit=1").await.names().len(), 3);

    server.fault(RequestMatcher::list("pods"), Fault::empty_page());
    let empty = get(&server, "/api/v1/pods?limit=2").await;
    assert!(empty.names().is_empty());
    let token = empty.continue_token().expect("a token");
    let next = get(&server, &format!("/api/v1/pods?limit=2&continue={token}")).await;
    assert_eq!(next.names(), ["shop/a", "shop/b"]);

    server.fault(RequestMatcher::list("pods").continued(), Fault::expire_continue());
    let token = next.continue_token().expect("a token");
    assert_eq!(
        get(&server, &format!("/api/v1/pods?limit=2&continue={token}"))
            .await
            .status,
        410
    );

    server.fault(RequestMatcher::list("pods"), Fault::empty_continue());
    assert_eq!(
        get(&server, "/api/v1/pods").await.continue_token().as_deref(),
        Some("")
    );

    server.fault(RequestMatcher::list("pods"), Fault::list_version(-2));
    assert_eq!(
        get(&server, "/api/v1/pods").await.version(),
        server.resource_version() - 2
    );
}

#[tokio::test(start_paused = true)]
async fn bodies_stall_pause_trickle_and_are_merged() {
    let server = with_pods(&["a", "b"]);
    let whole = get(&server, "/api/v1/pods").await.text;
    let chunks = async |fault: Fault| {
        server.fault(RequestMatcher::any(), fault);
        let request = Request::get("/api/v1/pods")
            .body(Full::default())
            .expect("a request");
        let mut body = call(&server.service(), request)
            .await
            .expect("headers")
            .into_body();
        let started = tokio::time::Instant::now();
        let mut seen = Vec::new();
        loop {
            match tokio::time::timeout(Duration::from_secs(3600), body.frame()).await {
                Ok(Some(frame)) => {
                    let data = frame.expect("whole").into_data().expect("data");
                    seen.push((
                        started.elapsed().as_secs(),
                        String::from_utf8_lossy(&data).into_owned(),
                    ));
                }
                Ok(None) => break,
                Err(_) => {
                    seen.push((u64::MAX, "silence".to_owned()));
                    break;
                }
            }
        }
        seen
    };

    let stalled = chunks(Fault::stall(10)).await;
    assert_eq!(
        stalled,
        [(0, whole[..10].to_owned()), (u64::MAX, "silence".to_owned())]
    );
    let paused = chunks(Fault::pause(10, Duration::from_secs(7))).await;
    assert_eq!(paused, [(0, whole[..10].to_owned()), (7, whole[10..].to_owned())]);
    let trickled = chunks(Fault::trickle(whole.len().div_ceil(3), Duration::from_secs(1))).await;
    assert_eq!(trickled.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(
        trickled.into_iter().map(|(_, text)| text).collect::<String>(),
        whole
    );
    let appended = chunks(Fault::append("<html>")).await;
    assert_eq!(
        appended.into_iter().map(|(_, text)| text).collect::<String>(),
        format!("{whole}<html>")
    );
}

#[tokio::test(start_paused = true)]
async fn frames_are_split_and_merged_at_any_byte() {
    let server = with_pods(&["a", "b", "c"]);
    let path = "/api/v1/pods?watch=true&timeoutSeconds=1";
    let expected = ["ADDED shop/a@2", "ADDED shop/b@3", "ADDED shop/c@4", "end"];

    for size in [1, 2, 3, 7, 100] {
        server.fault(RequestMatcher::watch("pods"), Fault::split(vec![size]));
        let mut watch = Watch::open(&server, path).await;
        for event in expected {
            assert_eq!(watch.next().await, event, "in pieces of {size}");
        }
    }
    server.fault(RequestMatcher::watch("pods"), Fault::glue(1 << 20));
    let mut watch = Watch::open(&server, path).await;
    let started = tokio::time::Instant::now();
    assert_eq!(watch.next().await, expected[0]);
    assert_eq!(started.elapsed().as_secs(), 1, "nothing is sent before the end");
}

#[tokio::test(start_paused = true)]
async fn f10_bookmarks_lack_metadata_or_have_another_kind() {
    let server = with_pods(&[]);
    let path = "/api/v1/pods?watch=true&allowWatchBookmarks=true";

    server.fault(RequestMatcher::watch("pods"), Fault::bookmark_without_metadata());
    let frame = Watch::open(&server, path)
        .await
        .frame()
        .await
        .expect("whole")
        .expect("a frame");
    assert_eq!(
        (frame["type"].as_str(), frame["object"].get("metadata")),
        (Some("BOOKMARK"), None)
    );

    server.fault(RequestMatcher::watch("pods"), Fault::bookmark_of_another_kind());
    let frame = Watch::open(&server, path)
        .await
        .frame()
        .await
        .expect("whole")
        .expect("a frame");
    assert_eq!(frame["object"]["kind"], "SomethingElse");
}

#[tokio::test(start_paused = true)]
async fn events_are_delayed_followed_by_garbage_or_lack_newlines() {
    let server = with_pods(&["a", "b"]);
    let path = "/api/v1/pods?watch=true&resourceVersion=1&timeoutSeconds=60";

    server.fault(
        RequestMatcher::watch("pods"),
        Fault::delay_events(Which::Nth(2), Duration::from_secs(9)),
    );
    let mut watch = Watch::open(&server, path).await;
    let started = tokio::time::Instant::now();
    assert_eq!(
        (watch.next().await.as_str(), started.elapsed().as_secs()),
        ("ADDED shop/a@2", 0)
    );
    assert_eq!(
        (watch.next().await.as_str(), started.elapsed().as_secs()),
        ("ADDED shop/b@3", 9)
    );

    let text = async |fault: Fault| {
        server.fault(RequestMatcher::watch("pods"), fault);
        let request = Request::get(path).body(Full::default()).expect("a request");
        let body = call(&server.service(), request)
            .await
            .expect("headers")
            .into_body();
        String::from_utf8_lossy(&body.collect().await.expect("whole").to_bytes()).into_owned()
    };
    let dirty = text(Fault::garbage_after_events(Which::Nth(1), "#!")).await;
    assert_eq!(dirty.matches("}\n#!{\"type\"").count(), 1, "{dirty}");
    let joined = text(Fault::no_newlines()).await;
    assert_eq!(
        (joined.lines().count(), joined.matches("}{\"type\"").count()),
        (1, 1),
        "{joined}"
    );
}

#[tokio::test(start_paused = true)]
async fn faults_combine_and_match_by_every_criterion() {
    let server = TestServer::builder().replicas(2).build();
    server.create(pod("shop", "a"));

    server.fault(
        RequestMatcher::any(),
        Fault::delay(Duration::from_secs(2))
            .and(Fault::status(503))
            .and(Fault::delay(Duration::from_secs(1))),
    );
    let started = tokio::time::Instant::now();
    assert_eq!(
        (get(&server, "/version").await.status, started.elapsed().as_secs()),
        (503, 3)
    );

    let never = [
        server.fault(
            RequestMatcher::list("pods").namespace("other"),
            Fault::status(500),
        ),
        server.fault(RequestMatcher::get("pods").name("b"), Fault::status(500)),
        server.fault(RequestMatcher::list("pods.example.com"), Fault::status(500)),
        server.fault(RequestMatcher::path("/apis"), Fault::status(500)),
        server.fault(RequestMatcher::any().user_agent("kubectl"), Fault::status(500)),
        server.fault(RequestMatcher::any().replica(1), Fault::status(500)),
        server.fault(RequestMatcher::list("pods").continued(), Fault::status(500)),
    ];
    assert_eq!(get(&server, "/api/v1/pods").await.status, 200);
    assert_eq!(get(&server, "/api/v1/namespaces/shop/pods/a").await.status, 200);
    assert!(never.iter().all(|fault| fault.matched() == 0));
    server.clear_faults();

    server.fault(
        RequestMatcher::list("deployments.apps"),
        Fault::status(302).header("location", "http://elsewhere.example/"),
    );
    let moved = get(&server, "/apis/apps/v1/deployments").await;
    assert_eq!(
        (moved.status, moved.headers["location"].to_str().ok()),
        (302, Some("http://elsewhere.example/"))
    );
    server.fault(RequestMatcher::list("pods"), Fault::null_items());
    assert_eq!(
        get(&server, "/api/v1/namespaces/none/pods").await.json()["items"],
        serde_json::Value::Null
    );
}

#[tokio::test(start_paused = true)]
async fn all_connections_are_refused_on_request() {
    let server = with_pods(&[]);
    server.refuse_connections(true);

    let request = || {
        Request::get("/api/v1/pods")
            .body(Full::default())
            .expect("a request")
    };
    assert!(call(&server.service(), request()).await.is_err());
    server.refuse_connections(false);
    assert!(call(&server.service(), request()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn headers_are_held_back_until_the_first_frame() {
    let server = with_pods(&[]);
    server.fault(RequestMatcher::watch("pods"), Fault::late_headers());
    let opening = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=1");
    let mut opening = std::pin::pin!(opening);
    assert!(
        tokio::time::timeout(Duration::from_secs(60), &mut opening)
            .await
            .is_err()
    );
    assert_eq!(server.open_watches(), 1);

    server.create(pod("shop", "a"));

    let mut watch = opening.await;
    assert_eq!(watch.next().await, "ADDED shop/a@2");
    server.close_watches();
    assert_eq!(watch.next().await, "end");
    server.assert_nothing_open();
}
