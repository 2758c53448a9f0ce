//! Invalid input from outside: always a clear error or a quarantined object, never a panic, a hot loop or an
//! emptied cache.

use kube_informers::source::SourceOptions;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::quarantine::Problem;
use kube_informers::{Informer, InformerBuilder};
use kube_testserver::builders::{Build, pod};
use kube_testserver::{ApiError, Fault, Poison, RequestMatcher, TestServer, Verb};

use crate::support::*;

/// The error of an informer that cannot sync.
async fn complaint(informer: &Informer<Pod>) -> String {
    let error = informer
        .synced_within(minutes(2))
        .await
        .expect_err("it cannot sync");
    error.to_string()
}

/// Starts an informer against a server with this fault. Checks that it sends few requests in ten minutes, returns its error,
/// and checks that it recovers.
async fn refused(fault: Fault, build: fn(&TestServer) -> InformerBuilder<Pod>) -> String {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    let trouble = server.fault(RequestMatcher::resource("pods").forever(), fault);
    let informer = build(&server).start();

    let sentence = complaint(&informer).await;
    pass(minutes(8)).await;
    assert_gentle(&server);
    assert!(informer.store().is_empty() && !informer.has_synced());
    trouble.clear();
    informer.synced_within(minutes(3)).await.expect("it recovers");
    assert_eq!(names(&informer), ["a"]);
    sentence
}

/// Applies this fault to a synced informer for ten minutes: it keeps its cache, sends few requests and recovers.
async fn struck(fault: Fault, build: fn(&TestServer) -> InformerBuilder<Pod>) -> Informer<Pod> {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    let informer = synced(build(&server)).await;
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    handler.synced().await.unwrap();

    let trouble = server.fault(RequestMatcher::resource("pods").forever(), fault);
    force_relist(&server);
    server.create(pod("ns", "b"));
    for _ in 0..10 {
        pass(minutes(1)).await;
        assert!(informer.store().contains("ns/a"), "the cache was emptied");
    }
    assert_gentle(&server);
    trouble.clear();
    wait_for("it recovers", || names(&informer) == ["a", "b"]).await;
    assert_eq!(log.take(), ["added ns/a (initial)", "added ns/b"]);
    informer
}

fn assert_says(sentence: &str, parts: &[&str]) {
    for part in parts {
        assert!(sentence.contains(part), "{part:?} is not in: {sentence}");
    }
}

#[test]
fn a_malformed_kubeconfig_is_rejected_with_a_clear_error() {
    let not_yaml = kube::config::Kubeconfig::from_yaml("clusters: [").unwrap_err();
    assert_says(&not_yaml.to_string(), &["parse"]);

    let no_context =
        kube::config::Kubeconfig::from_yaml("apiVersion: v1\nkind: Config\ncurrent-context: gone\n").unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let error =
        futures_util::FutureExt::now_or_never(kube::Config::from_custom_kubeconfig(no_context, &options));
    let error = error.expect("nothing to wait for").unwrap_err();
    assert_says(&error.to_string(), &["gone"]);
}

/// Uses a real socket and the real clock. Nothing listens on port 1, and no test can be given it.
#[tokio::test]
async fn an_unreachable_server_is_reported() {
    let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    let informer = Informer::<Pod>::all(client).start();

    let failed_attempt = async {
        loop {
            let waited = informer.synced_within(Duration::from_millis(500)).await;
            let error = waited.unwrap_err();
            if error.attempts() > 0 {
                return error.to_string();
            }
        }
    };
    let sentence = tokio::time::timeout(Duration::from_secs(60), failed_attempt)
        .await
        .expect("an attempt fails");

    assert_says(
        &sentence,
        &[
            "pods in all namespaces",
            "is the server running, and is its address right?",
        ],
    );
    informer.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_connection_does_not_cause_a_hot_loop() {
    for build in [pods, paged_pods] {
        let sentence = refused(Fault::refuse(), build).await;
        assert_says(&sentence, &["pods in all namespaces", "failed attempts"]);
        struck(Fault::refuse(), build).await;
    }
}

#[tokio::test(start_paused = true)]
async fn rejections_explain_what_to_do() {
    for build in [pods, paged_pods] {
        let sentence = refused(Fault::status(401), build).await;
        assert_says(
            &sentence,
            &["401", "the credentials are missing, wrong or expired"],
        );
        let sentence = refused(Fault::status(403), build).await;
        assert_says(
            &sentence,
            &[
                "403 Forbidden",
                "grant the verbs list and watch on pods in all namespaces to this user",
            ],
        );
        let sentence = refused(Fault::status(404), build).await;
        assert_says(&sentence, &["404", "the server does not serve this resource"]);
        for code in [401, 403, 404, 405, 500, 503] {
            struck(Fault::status(code), build).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_an_api_server_is_detected() {
    for build in [pods, paged_pods] {
        // HTML at every path, with a success status and with an error status.
        let page = || "<html><body>Welcome to nginx, password hunter2</body></html>".to_owned();
        for fault in [Fault::default().html(page()), Fault::status(502).html(page())] {
            let sentence = refused(fault.clone(), build).await;
            assert_says(&sentence, &["HTML"]);
            assert!(!sentence.contains("hunter2"), "{sentence}");
            struck(fault, build).await;
        }
        // Unrelated JSON, and an empty body.
        for body in [
            "{\"hello\":\"world hunter2\"}",
            "[]",
            "null",
            "42",
            "\"hunter2\"",
            "",
        ] {
            let fault = Fault::default().body("application/json", body);
            let sentence = refused(fault.clone(), build).await;
            assert_says(&sentence, &["pods in all namespaces", "failed attempts"]);
            assert!(!sentence.contains("hunter2"), "{sentence}");
            struck(fault, build).await;
        }
        let sentence = refused(Fault::status(503).text("upstream connect error"), build).await;
        assert_says(&sentence, &["503", "upstream connect error"]);
    }
}

/// Only the watch returns HTML. The list works and must not be repeated.
#[tokio::test(start_paused = true)]
async fn html_instead_of_a_watch_does_not_lead_to_lists() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    let trouble = server.fault(
        RequestMatcher::plain_watch("pods").forever(),
        Fault::default().html("<html>a proxy</html>"),
    );
    let informer = synced(paged_pods(&server)).await;
    server.create(pod("ns", "b"));

    pass(minutes(10)).await;

    assert_gentle(&server);
    assert_eq!(server.count_requests(Verb::List, "pods"), 1);
    assert_says(&informer.state().to_string(), &["HTML"]);
    trouble.clear();
    wait_for("it recovers", || names(&informer) == ["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_truncated_list_is_discarded() {
    for build in [pods, paged_pods] {
        for fault in [Fault::truncate(200), Fault::cut(200), Fault::stall(200)] {
            let sentence = refused(fault.clone(), build).await;
            assert_says(&sentence, &["failed attempts"]);
            struck(fault, build).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_truncated_watch_frame_is_discarded() {
    for fault in [Fault::truncate(150), Fault::cut(150)] {
        let server = TestServer::new();
        server.create(pod("ns", "a"));
        let informer = synced(paged_pods(&server)).await;
        server.fault(RequestMatcher::plain_watch("pods").times(2), fault);
        server.break_watches();
        server.create(pod("ns", "b"));
        server.create(pod("ns", "c"));

        wait_for("the third watch delivers it", || {
            names(&informer) == ["a", "b", "c"]
        })
        .await;
        assert_eq!(informer.stats().members[0].reflector.lists, 1);
        assert!(informer.quarantine().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_name_does_not_affect_the_others() {
    for build in [pods, paged_pods] {
        for poison in [
            Poison::MissingName,
            Poison::MissingMetadata,
            Poison::Null,
            Poison::edit(|object| object["metadata"]["name"] = "".into()),
        ] {
            let server = TestServer::new();
            for name in ["a", "b", "c"] {
                server.create(pod("ns", name));
            }
            server.poison("pods", "ns/b", poison);
            let informer = synced(build(&server)).await;

            assert_eq!(names(&informer), ["a", "c"]);
            let stats = informer.stats();
            assert_eq!(stats.members[0].reflector.unreadable, 1, "the object is counted");

            // The same on a live watch.
            server.create(pod("ns", "d"));
            server.modify::<Pod>("ns", "b", |pod| pod.metadata.labels = None);
            server.create(pod("ns", "e"));
            wait_for("the watch goes on", || names(&informer) == ["a", "c", "d", "e"]).await;
            assert_eq!(informer.stats().members[0].reflector.lists, 1);
            pass(minutes(10)).await;
            assert_gentle(&server);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_20_mb_is_cached_and_one_over_the_limit_is_quarantined() {
    for paged in [false, true] {
        let server = TestServer::new();
        for name in ["a", "big"] {
            server.create(pod("ns", name));
        }
        server.poison("pods", "ns/big", Poison::Huge(20 << 20));
        let builder = if paged { paged_pods } else { pods };
        let informer = synced(builder(&server)).await;
        assert_eq!(names(&informer), ["a", "big"]);

        let source = kube_informers::ListWatch::<Pod>::new(server.client(), kube_informers::Scope::all());
        let options = SourceOptions {
            max_object_size: 1 << 20,
            ..Default::default()
        };
        let small =
            Informer::from_list_watch(source.options(options)).configure(|config| config.watch_list = !paged);
        let small = synced(small).await;
        assert_eq!(names(&small), ["a"]);
        let quarantine = small.quarantine();
        assert_eq!(quarantine.len(), 1);
        assert_eq!(quarantine[0].key.as_str(), "ns/big");
        assert_eq!(quarantine[0].object.problem, Problem::TooLarge { limit: 1 << 20 });
        assert!(quarantine[0].object.size > 20 << 20);

        // A version within the limit ends the quarantine.
        server.cure("pods", "ns/big");
        server.modify::<Pod>("ns", "big", |pod| *pod = pod.clone().label("small", "now"));
        wait_for("it is cached", || names(&small) == ["a", "big"]).await;
        assert!(small.quarantine().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_page_token_leads_to_a_list_without_pages() {
    // Expired: requested once more, without pages.
    let server = TestServer::new();
    for number in 0..7 {
        server.create(pod("ns", &format!("p{number}")));
    }
    let paged = || paged_pods(&server).configure(|config| config.page_size = Some(2));
    server.fault(
        RequestMatcher::list("pods").continued().forever(),
        Fault::expire_continue(),
    );
    let informer = synced(paged()).await;
    assert_eq!(informer.store().len(), 7);
    assert_eq!(server.count_requests(Verb::List, "pods"), 3);
    informer.shutdown().await;

    // Rejected as invalid: three attempts with growing delays, then without pages.
    server.clear_faults();
    server.clear_requests();
    let invalid_token = Fault::error(ApiError::bad_request("continue key is not valid"));
    server.fault(RequestMatcher::list("pods").continued().forever(), invalid_token);
    let informer = paged().start();
    wait_for("it backs off", || {
        informer.state().to_string().contains("continue key is not valid")
    })
    .await;
    informer.synced_within(secs(30)).await.expect("it recovers");
    assert_eq!(informer.store().len(), 7);
    assert_eq!(server.count_requests(Verb::List, "pods"), 3 * 2 + 1);
    assert_gentle(&server);
}

#[tokio::test(start_paused = true)]
async fn undecodable_objects_do_not_affect_the_others() {
    for build in [pods, paged_pods] {
        for poison in [
            Poison::WrongType,
            Poison::BadEnum,
            Poison::InvalidUtf8,
            Poison::OtherKind("v1".to_owned(), "Node".to_owned()),
        ] {
            let server = TestServer::new();
            for name in ["a", "b", "c"] {
                server.create(pod("ns", name));
            }
            server.poison("pods", "ns/b", poison.clone());
            let informer = synced(build(&server)).await;
            assert_eq!(names(&informer), ["a", "c"], "{poison:?}");
            let quarantine = informer.quarantine();
            assert_eq!(quarantine.len(), 1, "{poison:?}");
            assert_eq!(quarantine[0].key.as_str(), "ns/b");
            // A second bad version changes nothing. A deletion ends the quarantine.
            server.modify::<Pod>("ns", "b", |pod| *pod = pod.clone().label("x", "y"));
            server.create(pod("ns", "d"));
            wait_for("the watch goes on", || names(&informer) == ["a", "c", "d"]).await;
            server.delete::<Pod>("ns", "b");
            wait_for("the quarantine ends", || informer.quarantine().is_empty()).await;
            assert_eq!(informer.stats().members[0].reflector.lists, 1, "{poison:?}");
        }
    }
}

/// Bytes that break the frame or the list cannot be attributed to one object. The cache keeps its contents.
#[tokio::test(start_paused = true)]
async fn bytes_that_break_a_list_never_empty_the_cache() {
    for build in [pods, paged_pods] {
        for poison in [
            Poison::GarbageAfter("}}{".into()),
            Poison::Raw("{\"metadata\":".into()),
            Poison::Raw("invalid_token".into()),
            Poison::StatusObject,
        ] {
            let server = TestServer::new();
            server.create(pod("ns", "a"));
            let informer = synced(build(&server)).await;
            server.create(pod("ns", "b"));
            wait_for("both are cached", || informer.store().len() == 2).await;

            server.poison("pods", "ns/b", poison.clone());
            server.modify::<Pod>("ns", "b", |pod| *pod = pod.clone().label("x", "y"));
            force_relist(&server);
            for _ in 0..10 {
                pass(minutes(1)).await;
                assert_eq!(names(&informer), ["a", "b"], "{poison:?}");
            }
            assert_gentle(&server);

            server.clear_faults();
            server.modify::<Pod>("ns", "b", |pod| *pod = pod.clone().label("x", "z"));
            wait_for("it recovers", || cached(&informer) == stored(&server, "pods")).await;
            assert!(informer.quarantine().is_empty(), "{poison:?}");
        }
    }
}

/// An item without a name may be any object that is missing from the list.
#[tokio::test(start_paused = true)]
async fn a_list_of_unidentifiable_items_does_not_empty_the_cache() {
    for build in [pods, paged_pods] {
        let server = TestServer::new();
        for name in ["a", "b", "c"] {
            server.create(pod("ns", name));
        }
        let informer = synced(build(&server)).await;
        let log = Log::new();
        let handler = informer.add_event_handler(log.handler()).unwrap();
        handler.synced().await.unwrap();
        log.take();

        for name in ["ns/a", "ns/b"] {
            server.poison("pods", name, Poison::Null);
        }
        force_relist(&server);
        wait_for("it has relisted", || {
            informer.stats().members[0].reflector.lists == 2
        })
        .await;
        pass(minutes(5)).await;
        assert_eq!(names(&informer), ["a", "b", "c"]);
        assert_eq!(informer.quarantine().len(), 2);
        assert_eq!(log.all(), [""; 0]);

        // One object is deleted and one of the items has a UID, so only that object may be the missing one.
        server.delete::<Pod>("ns", "b");
        server.clear_faults();
        server.poison("pods", "ns/a", Poison::MissingName);
        force_relist(&server);
        wait_for("it has relisted", || {
            informer.stats().members[0].reflector.lists == 3
        })
        .await;
        settle().await;
        assert_eq!(log.take(), ["deleted ns/b (missed)"]);
        assert_eq!(names(&informer), ["a", "c"]);

        server.clear_faults();
        force_relist(&server);
        wait_for("the quarantine ends", || informer.quarantine().is_empty()).await;
        assert_eq!(cached(&informer), stored(&server, "pods"));
        assert_eq!(log.all(), [""; 0]);
    }
}
