//! reflector_test.go: the version that a list requests, with or without pages.
//!
//! client-go requests version "0" first; here that is `InitialList::AnyCached`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::reflector::{InitialList, ReflectorConfig, RelistReason, Resume};
use kube_informers::source::{ApiError, ListAnswer, StatusCause, WatchAnswer};

use crate::support::{Recorded, Sink, api, list_first, pod_at, reflect};

fn any_cached() -> ReflectorConfig {
    let mut config = list_first();
    config.initial_list = InitialList::AnyCached;
    config
}

fn pods(from: usize, to: usize) -> Vec<Pod> {
    (from..to)
        .map(|n| pod_at(&format!("pod-{n}"), &(n + 1).to_string()))
        .collect()
}

/// A watch that expires at once, which causes a list.
fn expired() -> WatchAnswer<Pod> {
    WatchAnswer::error(api(410, "Expired"))
}

fn lists(requests: &[String]) -> Vec<&str> {
    let lists = requests.iter().filter(|request| request.starts_with("list"));
    lists.map(String::as_str).collect()
}

/// Upstream: TestReflectorWatchListPageSize
#[tokio::test(start_paused = true)]
async fn a_configured_page_size_applies_to_every_list() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "10"));
    source.on_watch(expired());
    source.on_list(ListAnswer::page_before(pods(0, 4), "12", "C1"));
    source.on_list(ListAnswer::page_before(pods(4, 8), "12", "C2"));
    source.on_list(ListAnswer::page(pods(8, 10), "12"));
    let mut config = any_cached();
    config.page_size = Some(4);

    reflect(config, &source, &Sink::new(), async |run| {
        let requests = run.source.seen(6).await;
        assert_eq!(
            lists(&requests),
            [
                "list rv=0 limit=4",
                "list rv=10+ limit=4",
                "list rv=- token=C1 limit=4",
                "list rv=- token=C2 limit=4",
            ]
        );
        assert_eq!(requests[5], "watch rv=12");
        assert_eq!(run.sink.pods().len(), 10);
        assert_eq!(run.sink.log().len(), 2);
    })
    .await;
}

/// Upstream: TestReflectorNotPaginatingNotConsistentReads
#[tokio::test(start_paused = true)]
async fn a_list_at_a_version_is_requested_without_pages() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "10"));
    source.on_watch(expired());
    source.on_list(ListAnswer::page(pods(0, 10), "12"));

    reflect(any_cached(), &source, &Sink::new(), async |run| {
        let requests = run.source.seen(4).await;
        assert_eq!(lists(&requests), ["list rv=0 limit=500", "list rv=10+"]);
        assert_eq!(run.sink.pods().len(), 10);
    })
    .await;
}

/// Upstream: TestReflectorPaginatingNonConsistentReadsIfWatchCacheDisabled
#[tokio::test(start_paused = true)]
async fn a_server_that_pages_a_cached_list_receives_paged_requests_from_then_on() {
    let source = Recorded::new();
    for version in ["10", "11"] {
        source.on_list(ListAnswer::page_before(pods(0, 4), version, "C1"));
        source.on_list(ListAnswer::page_before(pods(4, 8), version, "C2"));
        source.on_list(ListAnswer::page(pods(8, 10), version));
        source.on_watch(expired());
    }

    reflect(any_cached(), &source, &Sink::new(), async |run| {
        let requests = run.source.seen(8).await;
        assert_eq!(
            lists(&requests),
            [
                "list rv=0 limit=500",
                "list rv=- token=C1 limit=500",
                "list rv=- token=C2 limit=500",
                "list rv=10+ limit=500",
                "list rv=- token=C1 limit=500",
                "list rv=- token=C2 limit=500",
            ]
        );
        assert_eq!(run.sink.log().len(), 2, "three pages are one list");
        assert_eq!(run.sink.pods().len(), 10);
    })
    .await;
}

/// Upstream: TestReflectorResyncWithResourceVersion
#[tokio::test(start_paused = true)]
async fn a_relist_requests_at_least_the_last_version() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page(pods(0, 4), "10"));
    source.on_watch(expired());
    source.on_list(ListAnswer::page(pods(0, 8), "10"));

    reflect(any_cached(), &source, &Sink::new(), async |run| {
        let requests = run.source.seen(4).await;
        assert_eq!(lists(&requests), ["list rv=0 limit=500", "list rv=10+"]);
        assert_eq!(run.sink.log().len(), 2);
        assert_eq!(run.sink.pods().len(), 8);
        assert_eq!(run.resumes(), [Resume::Relist(RelistReason::Expired)]);
    })
    .await;
}

/// Differs from client-go: without `AnyCached` the initial list is consistent, so that a restart never observes an
/// older state.
///
/// Upstream: TestReflectorResyncWithResourceVersion
#[tokio::test(start_paused = true)]
async fn the_first_list_requests_the_newest_version() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page(pods(0, 4), "10"));
    source.on_watch(expired());
    source.on_list(ListAnswer::page(pods(0, 8), "10"));

    reflect(list_first(), &source, &Sink::new(), async |run| {
        let requests = run.source.seen(4).await;
        assert_eq!(lists(&requests), ["list rv=- limit=500", "list rv=10+"]);
    })
    .await;
}

/// Upstream: TestReflectorExpiredExactResourceVersion
#[tokio::test(start_paused = true)]
async fn a_list_with_an_expired_version_requests_the_newest_immediately() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page(pods(0, 4), "10"));
    source.on_watch(expired());
    source.on_list(ListAnswer::error(api(410, "Expired")));
    source.on_list(ListAnswer::page(pods(0, 8), "10"));

    reflect(any_cached(), &source, &Sink::new(), async |run| {
        let requests = run.source.seen(5).await;
        assert_eq!(
            lists(&requests),
            ["list rv=0 limit=500", "list rv=10+", "list rv=- limit=500"]
        );
        let times = run.source.times();
        assert_eq!(times[2], times[3], "the second attempt follows at once");
        assert_eq!(run.sink.pods().len(), 8);
    })
    .await;
}

/// Upstream: TestReflectorFullListIfExpired
#[tokio::test(start_paused = true)]
async fn an_expired_page_leads_to_one_list_without_pages_at_the_same_version() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page(pods(0, 4), "10"));
    source.on_watch(expired());
    source.on_list(ListAnswer::page_before(pods(0, 4), "11", "C1"));
    source.on_list(ListAnswer::error(api(410, "Expired")));
    source.on_list(ListAnswer::page(pods(0, 8), "11"));
    let mut config = any_cached();
    config.page_size = Some(4);

    reflect(config, &source, &Sink::new(), async |run| {
        let requests = run.source.seen(6).await;
        assert_eq!(
            lists(&requests),
            [
                "list rv=0 limit=4",
                "list rv=10+ limit=4",
                "list rv=- token=C1 limit=4",
                "list rv=10+",
            ]
        );
        assert_eq!(
            run.sink.pods().len(),
            8,
            "no objects of the aborted list are left"
        );
        assert_eq!(run.sink.log().len(), 2);
    })
    .await;
}

/// Upstream: TestReflectorFullListIfTooLarge
#[tokio::test(start_paused = true)]
async fn all_historical_forms_of_a_too_large_version_are_handled() {
    let cause = |reason: &str, message: &str| StatusCause {
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let too_large = [
        ApiError {
            causes: vec![cause("ResourceVersionTooLarge", "Too large resource version")],
            ..api(504, "Timeout")
        },
        ApiError {
            causes: vec![cause("", "Too large resource version")],
            ..api(504, "Timeout")
        },
        ApiError::new(504, "Timeout", "Too large resource version: 40, current: 20"),
    ];
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "20"));
    for (error, version) in too_large.into_iter().zip(["30", "40", "50"]) {
        source.on_watch(expired());
        source.on_list(ListAnswer::error(error));
        source.on_list(ListAnswer::page([], version));
    }

    reflect(any_cached(), &source, &Sink::new(), async |run| {
        let requests = run.source.seen(11).await;
        assert_eq!(
            lists(&requests),
            [
                "list rv=0 limit=500",
                "list rv=20+",
                "list rv=- limit=500",
                "list rv=30+",
                "list rv=- limit=500",
                "list rv=40+",
                "list rv=- limit=500",
            ]
        );
    })
    .await;
}

/// Upstream: TestReflectorListExtract
#[tokio::test(start_paused = true)]
async fn an_object_does_not_keep_its_page_in_memory() {
    let source = Recorded::new();
    for page in 0..5 {
        let objects = pods(page * 100, page * 100 + 100);
        match page {
            4 => source.on_list(ListAnswer::page(objects, "500")),
            _ => source.on_list(ListAnswer::page_before(objects, "500", &format!("C{page}"))),
        };
    }

    reflect(list_first(), &source, &Sink::new(), async |run| {
        run.sink.seen(1).await;
        let mut pods = run.sink.take_pods();
        assert_eq!(pods.len(), 500);
        let all: Vec<_> = pods.iter().map(Arc::downgrade).collect();
        pods.retain(|pod| {
            pod.metadata
                .name
                .as_deref()
                .is_some_and(|name| name.ends_with("50"))
        });
        assert_eq!(pods.len(), 5, "one of each page");
        assert_eq!(all.iter().filter(|pod| pod.upgrade().is_some()).count(), 5);
    })
    .await;
}
