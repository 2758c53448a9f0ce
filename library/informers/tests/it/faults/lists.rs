//! F22, F23 and F34: pages, their tokens, and the cost of a relist.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::InformerBuilder;
use kube_testserver::builders::{Build, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};

use crate::support::*;

fn full(pods: usize) -> TestServer {
    let server = TestServer::new();
    for number in 0..pods {
        server.create(pod("ns", &format!("p{number}")));
    }
    server
}

fn in_pages(server: &TestServer, size: u32) -> InformerBuilder<Pod> {
    paged_pods(server).configure(|config| config.page_size = Some(size))
}

#[tokio::test(start_paused = true)]
async fn f22_an_expired_continue_token_leads_to_one_list_without_pages() {
    for page in 1..4 {
        let server = full(10);
        server.fault(
            RequestMatcher::list("pods").continued().after(page - 1).forever(),
            Fault::expire_continue(),
        );
        let informer = synced(in_pages(&server, 2)).await;

        assert_eq!(cached(&informer), stored(&server, "pods"));
        let requests = server.requests();
        let mut lists = requests.iter().filter(|request| request.verb == Verb::List);
        let whole = lists.next_back().unwrap();
        assert_eq!(
            (whole.param("limit"), whole.param("continue")),
            (None, None),
            "{whole}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn f23_unusual_pages_are_read_correctly() {
    for fault in [
        Fault::empty_continue(),
        Fault::ignore_limit(),
        Fault::null_items(),
    ] {
        let server = full(5);
        server.fault(RequestMatcher::list("pods").forever(), fault);
        let informer = synced(in_pages(&server, 2)).await;
        assert_eq!(cached(&informer), stored(&server, "pods"));
    }
    // An empty page in the middle, with a token.
    let server = full(5);
    server.fault(RequestMatcher::list("pods").nth(2), Fault::empty_page());
    let informer = synced(in_pages(&server, 2)).await;
    assert_eq!(cached(&informer), stored(&server, "pods"));
    // No items at all.
    let server = full(0);
    server.fault(RequestMatcher::list("pods").forever(), Fault::null_items());
    let informer = synced(in_pages(&server, 2)).await;
    assert!(informer.store().is_empty());
}

#[tokio::test(start_paused = true)]
async fn f23_pages_of_different_versions_are_discarded() {
    let server = full(5);
    server.fault(RequestMatcher::list("pods").nth(2), Fault::list_version(1));
    let informer = in_pages(&server, 2).start();
    settle().await;
    assert!(informer.store().is_empty() && !informer.has_synced());
    let error = informer
        .synced_within(std::time::Duration::ZERO)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("different versions"), "{error}");

    informer
        .synced_within(secs(10))
        .await
        .expect("the next attempt succeeds");
    assert_eq!(cached(&informer), stored(&server, "pods"));
}

/// The list has the version of its first page, and the watch delivers the writes between the pages.
#[tokio::test(start_paused = true)]
async fn f23_writes_between_pages_are_neither_lost_nor_duplicated() {
    let server = full(6);
    server.fault(
        RequestMatcher::list("pods").continued().forever(),
        Fault::delay(secs(1)),
    );
    let informer = in_pages(&server, 2).start();
    let log = Log::new();
    informer.add_event_handler(log.handler()).unwrap();
    settle().await;
    server.delete::<Pod>("ns", "p5");
    server.create(pod("ns", "p0a"));
    server.modify::<Pod>("ns", "p4", |pod| *pod = pod.clone().label("x", "y"));

    wait_for("it has caught up", || {
        cached(&informer) == stored(&server, "pods")
    })
    .await;
    assert_eq!(log.len(), 6 + 3);
    assert_eq!(log.all()[6..], ["deleted ns/p5", "added ns/p0a", "updated ns/p4"]);
}

#[tokio::test(start_paused = true)]
async fn f34_a_relist_of_cached_objects_decodes_nothing_and_delivers_nothing() {
    for build in [pods, paged_pods] {
        let server = full(500);
        let informer = synced(build(&server)).await;
        let log = Log::new();
        let handler = informer.add_event_handler(log.handler()).unwrap();
        handler.synced().await.unwrap();
        log.take();
        let before = informer.store().list();

        server.break_watches();
        for number in 0..5 {
            server.modify::<Pod>("ns", &format!("p{number}"), |pod| {
                *pod = pod.clone().label("x", "y")
            });
        }
        server.delete::<Pod>("ns", "p499");
        server.compact();
        wait_for("it has relisted", || {
            informer.stats().members[0].reflector.lists == 2
        })
        .await;
        settle().await;

        let after = informer.store().list();
        let kept = after
            .iter()
            .filter(|new| before.iter().any(|old| Arc::ptr_eq(old, new)));
        assert_eq!(kept.count(), 494);
        assert_eq!(informer.stats().members[0].reflector.reused, 494);
        assert_eq!(informer.stats().totals.unchanged, 494);
        assert_eq!(log.len(), 6, "{:?}", log.all());
    }
}
