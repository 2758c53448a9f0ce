//! reflector_test.go: the effect of each watch event, and of each way a watch ends.

use std::time::Duration;

use kube_informers::ObjectKey;
use kube_informers::quarantine::{BadObject, Problem};
use kube_informers::reflector::{BackoffConfig, InitialList, ReflectorState, RelistReason, Resume};
use kube_informers::source::{ApiError, ListAnswer, WatchAnswer, WatchItem};

use crate::support::{
    Recorded, Sink, api, broken, list_first, ms, pod_at, reflect, refused, seconds, watch_list_first,
};

const RELIST: Resume = Resume::Relist(RelistReason::ErrorEvent);

/// Differs from client-go: an object of another kind is passed on as unreadable, so that it is counted and reported,
/// and the position is the newest version seen, because versions never go back.
///
/// Upstream: TestReflectorWatchHandler
#[tokio::test(start_paused = true)]
async fn events_change_the_collection_and_advance_the_version() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([pod_at("bar", "2"), pod_at("foo", "1")], "10"));
    let rejected = BadObject {
        key: Some(ObjectKey::new(None, "rejected")),
        uid: None,
        resource_version: Some("11".to_owned()),
        problem: Problem::WrongKind {
            expected: "v1 Pod".to_owned(),
            found: "v1 Service".to_owned(),
        },
        size: 80,
    };
    source.on_watch(
        WatchAnswer::new()
            .item(WatchItem::Unreadable {
                deleted: false,
                object: rejected,
            })
            .deleted(pod_at("foo", "12"))
            .modified(pod_at("bar", "55"))
            .added(pod_at("baz", "32"))
            .hang(),
    );

    reflect(list_first(), &source, &Sink::new(), async |run| {
        run.sink.holds(&["bar@55", "baz@32"]).await;
        assert_eq!(
            run.sink.log()[1..],
            [
                "unreadable rejected",
                "deleted foo@12",
                "updated bar@55",
                "added baz@32"
            ]
        );
        assert_eq!(run.version().as_deref(), Some("55"));
        assert_eq!(run.handle.stats().unreadable, 1);
    })
    .await;
}

/// Upstream: TestReflectorListAndWatch
#[tokio::test(start_paused = true)]
async fn a_list_and_a_watch_deliver_everything_once_and_in_order() {
    let source = Recorded::new();
    let mut config = list_first();
    config.initial_list = InitialList::AnyCached;
    source.on_list(ListAnswer::page([pod_at("foo", "1")], "1"));
    source.on_watch(
        WatchAnswer::new()
            .modified(pod_at("foo", "2"))
            .added(pod_at("bar", "3"))
            .added(pod_at("baz", "4"))
            .added(pod_at("qux", "5"))
            .added(pod_at("zoo", "6"))
            .hang(),
    );

    reflect(config, &source, &Sink::new(), async |run| {
        assert_eq!(
            run.sink.seen(6).await,
            [
                "replaced @1 [foo@1]",
                "updated foo@2",
                "added bar@3",
                "added baz@4",
                "added qux@5",
                "added zoo@6",
            ]
        );
        assert_eq!(run.source.requests(), ["list rv=0 limit=500", "watch rv=1"]);
    })
    .await;
}

/// Upstream: TestReflectorListAndWatch
#[tokio::test(start_paused = true)]
async fn a_watch_list_delivers_everything_once_and_in_order() {
    let source = Recorded::with_watch_list();
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("foo", "1"))
            .initial_events_end("1")
            .modified(pod_at("foo", "2"))
            .added(pod_at("bar", "3"))
            .added(pod_at("baz", "4"))
            .added(pod_at("qux", "5"))
            .added(pod_at("zoo", "6"))
            .hang(),
    );

    reflect(watch_list_first(), &source, &Sink::new(), async |run| {
        assert_eq!(
            run.sink.seen(6).await,
            [
                "replaced @1 [foo@1]",
                "updated foo@2",
                "added bar@3",
                "added baz@4",
                "added qux@5",
                "added zoo@6",
            ]
        );
        assert_eq!(run.source.requests(), ["watch-list rv=-"]);
    })
    .await;
}

/// Differs from client-go: one reflector runs through all of it, and each error is reported to the hook. The broken
/// watch is resumed at its version; upstream lists after it.
///
/// Upstream: TestReflectorListAndWatchWithErrors
#[tokio::test(start_paused = true)]
async fn errors_between_lists_and_watches_lose_nothing() {
    let source = Recorded::new();
    source.on_list(ListAnswer::error(broken()));
    source.on_list(ListAnswer::page([], "1"));
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("foo", "2"))
            .added(pod_at("bar", "3")),
    );
    source.on_watch(WatchAnswer::error(broken()));
    source.on_watch(
        WatchAnswer::new()
            .deleted(pod_at("foo", "4"))
            .failure(api(410, "Expired")),
    );
    source.on_list(ListAnswer::page([pod_at("bar", "3"), pod_at("qux", "5")], "5"));
    source.on_watch(WatchAnswer::new().added(pod_at("baz", "6")).hang());

    reflect(list_first(), &source, &Sink::new(), async |run| {
        run.sink.holds(&["bar@3", "foo@2"]).await;
        run.sink.holds(&["bar@3"]).await;
        run.sink.holds(&["bar@3", "baz@6", "qux@5"]).await;
        assert_eq!(
            run.source.requests(),
            [
                "list rv=- limit=500",
                "list rv=- limit=500",
                "watch rv=1",
                "watch rv=3",
                "watch rv=3",
                "list rv=4+",
                "watch rv=5",
            ]
        );
        assert_eq!(
            run.resumes(),
            [
                Resume::RetrySync,
                Resume::Rewatch,
                Resume::Rewatch,
                Resume::Relist(RelistReason::Expired),
            ]
        );
        let ends = run.ends();
        assert!(
            ends[0]
                .text
                .starts_with("list of pods ended: the connection broke")
        );
        assert!(
            ends[2]
                .text
                .starts_with("watch of pods ended: the connection broke")
        );
        assert_eq!(run.handle.stats().errors["transport"], 2);
    })
    .await;
}

/// Delays of 1, 2, 4 … and then `last`, for this number of refusals.
fn doubling(initial: Duration, last: Duration, count: u32) -> Vec<Duration> {
    (0..count)
        .map(|n| (initial * 2_u32.pow(n.min(20))).min(last))
        .collect()
}

/// Differs from client-go: the sequence does not restart every two minutes while failures continue, and ends at 2.5 s
/// before jitter, because these attempts cost the server nothing.
///
/// Upstream: TestReflectorListAndWatchInitConnBackoff
#[tokio::test(start_paused = true)]
async fn refused_connections_are_retried_with_growing_delays_and_never_lead_to_a_list() {
    for refusals in [5, 40] {
        let source = Recorded::new();
        source.on_list(ListAnswer::page([], "1"));
        for _ in 0..refusals {
            source.on_watch(WatchAnswer::error(refused()));
        }

        reflect(list_first(), &source, &Sink::new(), async |run| {
            let requests = run.source.seen(refusals as usize + 2).await;
            assert!(requests[1..].iter().all(|request| request == "watch rv=1"));
            assert_eq!(run.pauses(), doubling(ms(800), ms(2500), refusals));
            let times = run.source.times();
            for ((from, to), pause) in times[1..].iter().zip(&times[2..]).zip(run.pauses()) {
                assert!(*to - *from >= pause);
            }
        })
        .await;
    }
}

/// Differs from client-go: regardless of the configured delays, at most 24 requests a minute are sent after the first
/// five.
///
/// Upstream: TestNewReflectorWithCustomBackoff
#[tokio::test(start_paused = true)]
async fn delays_can_be_configured() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1"));
    for _ in 0..5 {
        source.on_watch(WatchAnswer::error(refused()));
    }
    let mut config = list_first();
    config.backoff = BackoffConfig {
        initial: ms(10),
        factor: 2.0,
        max: ms(100),
        jitter: 0.0,
    };

    reflect(config, &source, &Sink::new(), async |run| {
        run.source.seen(7).await;
        assert_eq!(run.pauses()[..3], [10, 20, 40].map(ms));
        // The list and four watches are the burst; each further watch waits for a token.
        let times = run.source.times();
        assert_eq!(times[4], ms(70));
        assert_eq!(times[5..7], [ms(2500), ms(5000)]);
    })
    .await;
}

/// Upstream: TestBackoffOnTooManyRequests
#[tokio::test(start_paused = true)]
async fn too_many_requests_lead_to_a_delay_as_status_and_as_event() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1"));
    source.on_watch(WatchAnswer::error(api(429, "TooManyRequests")));
    source.on_watch(WatchAnswer::new().failure(api(429, "TooManyRequests")));

    reflect(list_first(), &source, &Sink::new(), async |run| {
        assert_eq!(
            run.source.seen(4).await,
            ["list rv=- limit=500", "watch rv=1", "watch rv=1", "watch rv=1"]
        );
        assert_eq!(run.pauses(), [ms(800), ms(1600)]);
        assert_eq!(run.resumes(), [Resume::Rewatch, Resume::Rewatch]);
    })
    .await;
}

/// Upstream: TestNoRelistOnTooManyRequests
#[tokio::test(start_paused = true)]
async fn too_many_requests_never_lead_to_a_list() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1"));
    for _ in 0..4 {
        source.on_watch(WatchAnswer::error(ApiError {
            retry_after: Some(seconds(20)),
            ..api(429, "TooManyRequests")
        }));
    }

    reflect(list_first(), &source, &Sink::new(), async |run| {
        let requests = run.source.seen(6).await;
        assert_eq!(requests[1..], ["watch rv=1"; 5]);
        assert!(run.pauses().iter().all(|pause| *pause >= seconds(20)));
        let stats = run.handle.stats();
        assert_eq!((stats.lists, stats.watches), (1, 5));
        assert!(stats.relists.is_empty());
    })
    .await;
}

/// A watch that reports an internal error after a second.
fn internal_error() -> WatchAnswer<k8s_openapi::api::core::v1::Pod> {
    WatchAnswer::new()
        .after(seconds(1))
        .failure(api(500, "InternalError"))
}

/// Upstream: TestRetryInternalError
#[tokio::test(start_paused = true)]
async fn an_internal_error_inside_a_watch_leads_to_a_list() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1"));
    source.on_watch(internal_error());
    source.on_list(ListAnswer::page([], "1"));

    reflect(list_first(), &source, &Sink::new(), async |run| {
        assert_eq!(run.source.seen(3).await[2], "list rv=1+");
        assert_eq!(run.resumes(), [RELIST]);
    })
    .await;
}

/// Differs from client-go: there is a delay before each watch, so that fewer of them fit into the window.
///
/// Upstream: TestRetryInternalError
#[tokio::test(start_paused = true)]
async fn internal_errors_lead_to_a_new_watch_within_the_window() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1"));
    for _ in 0..10 {
        source.on_watch(internal_error());
    }
    source.on_list(ListAnswer::page([], "1"));
    let mut config = list_first();
    config.internal_error_window = seconds(30);
    config.backoff.max = seconds(4);

    reflect(config, &source, &Sink::new(), async |run| {
        // Errors occur at 1 s, and then 1 s after delays of 0.8, 1.6, 3.2, 4, 4 … s: at 2.8, 5.4, 9.6, 14.6, 19.6,
        // 24.6, 29.6 and 34.6 s. The window that starts with the first ends at 31 s.
        let requests = run.source.seen(10).await;
        assert_eq!(requests[1..9], ["watch rv=1"; 8]);
        assert_eq!(run.source.seen(11).await[10], "list rv=1+");
        let resumes = run.resumes();
        assert_eq!(resumes[..8], [Resume::Rewatch; 8]);
        assert_eq!(resumes[8], RELIST);
        assert_eq!(run.handle.stats().relists["error_event"], 1);
    })
    .await;
}

/// Upstream: TestRetryInternalError
#[tokio::test(start_paused = true)]
async fn a_minute_without_internal_errors_starts_a_new_window() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1"));
    source.on_watch(internal_error());
    source.on_watch(
        WatchAnswer::new()
            .after(seconds(61))
            .failure(api(500, "InternalError")),
    );
    source.on_watch(internal_error());
    let mut config = list_first();
    config.internal_error_window = seconds(30);

    reflect(config, &source, &Sink::new(), async |run| {
        assert_eq!(run.source.seen(5).await[1..], ["watch rv=1"; 4]);
        assert_eq!(run.resumes(), [Resume::Rewatch; 3]);
    })
    .await;
}

/// Upstream: TestReflectorResourceVersionUpdate
#[tokio::test(start_paused = true)]
async fn every_event_and_bookmark_advances_the_version() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "10"));
    let pause = seconds(1);
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("pod", "10"))
            .after(pause)
            .modified(pod_at("pod", "20"))
            .after(pause)
            .bookmark("30")
            .after(pause)
            .deleted(pod_at("pod", "40"))
            .hang(),
    );

    reflect(list_first(), &source, &Sink::new(), async |run| {
        let mut versions = Vec::new();
        for deltas in 2..=5 {
            run.sink.seen(deltas).await;
            versions.push(run.version().unwrap());
        }
        assert_eq!(versions, ["10", "20", "30", "40"]);
        assert_eq!(
            run.sink.log()[1..],
            ["added pod@10", "updated pod@20", "bookmark @30", "deleted pod@40"]
        );
    })
    .await;
}

/// Upstream: TestReflectorReplacesStoreOnUnsafeDelete
#[tokio::test(start_paused = true)]
async fn an_error_that_hides_a_lost_delete_is_followed_by_a_list() {
    let source = Recorded::new();
    let others = || [pod_at("a", "1"), pod_at("b", "2"), pod_at("c", "3")];
    source.on_list(ListAnswer::page(others(), "3"));
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("foo", "4"))
            .failure(ApiError::new(
                500,
                "StoreReadError",
                "data from the storage is not transformable",
            )),
    );
    source.on_list(ListAnswer::page(others(), "5"));

    reflect(list_first(), &source, &Sink::new(), async |run| {
        run.sink.holds(&["a@1", "b@2", "c@3", "foo@4"]).await;
        assert!(matches!(run.handle.state(), ReflectorState::BackingOff { .. }));
        assert_eq!(
            run.sink.seen(3).await,
            [
                "replaced @3 [a@1 b@2 c@3]",
                "added foo@4",
                "replaced @5 [a@1 b@2 c@3]",
            ]
        );
        assert_eq!(run.sink.pods(), ["a@1", "b@2", "c@3"]);
        assert_eq!(run.version().as_deref(), Some("5"));
    })
    .await;
}
