//! reflector_watchlist_test.go: the initial list through a watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Pod;
use kube_informers::delta::Delta;
use kube_informers::queue::InOrderQueue;
use kube_informers::reflector::{InitialList, Reflector, ReflectorConfig, Resume, Transform};
use kube_informers::source::{ListAnswer, WatchAnswer};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Recorded, Sink, Tasks, api, broken, list_first, ms, not_within, pod_at, reflect, refused, seconds,
    text_of, watch_list_first, within,
};

/// client-go's initial list after a failed watch-list: of any version.
fn then_any_cached() -> ReflectorConfig {
    let mut config = watch_list_first();
    config.initial_list = InitialList::AnyCached;
    config
}

/// Upstream: TestNewReflectorWithDisablementWatchList
#[tokio::test(start_paused = true)]
async fn a_watch_list_is_used_if_configuration_and_source_support_it() {
    for (config, source, expected) in [
        (list_first(), Recorded::with_watch_list(), "list rv=- limit=500"),
        (watch_list_first(), Recorded::with_watch_list(), "watch-list rv=-"),
        (watch_list_first(), Recorded::new(), "list rv=- limit=500"),
    ] {
        source.on_list(ListAnswer::silence());
        source.on_watch(WatchAnswer::silence());
        reflect(config, &source, &Sink::new(), async |run| {
            assert_eq!(run.source.seen(1).await, [expected]);
        })
        .await;
    }
}

/// Differs from client-go: a watch-list that does not end is not only reported, but replaced by a list. Events extend
/// the deadline.
///
/// Upstream: TestInitialEventsEndBookmarkTicker
#[tokio::test(start_paused = true)]
async fn f16_a_watch_list_without_an_end_is_abandoned_after_its_last_event() {
    let silent = WatchAnswer::new().hang();
    let talkative = (0..6)
        .fold(WatchAnswer::new(), |answer, n| {
            answer.added(pod_at(&format!("p{n}"), "1")).after(seconds(4))
        })
        .hang();
    for (answer, given_up) in [(silent, seconds(20)), (talkative, seconds(25))] {
        let source = Recorded::with_watch_list();
        source.on_watch(answer);
        source.on_list(ListAnswer::page([pod_at("a", "1")], "1"));

        reflect(watch_list_first(), &source, &Sink::new(), async |run| {
            run.source.seen(2).await;
            assert_eq!(run.source.times()[1], given_up);
            assert_eq!(run.ends()[0].resume, Resume::ListInstead);
            run.sink.holds(&["a@1"]).await;
        })
        .await;
    }
}

/// Upstream: TestWatchListResourceVersion
#[tokio::test(start_paused = true)]
async fn there_is_no_version_before_the_end_of_the_initial_events() {
    let source = Recorded::with_watch_list();
    source.on_watch(
        WatchAnswer::new()
            .after(seconds(1))
            .added(pod_at("p1", "1"))
            .after(seconds(1))
            .initial_events_end("2")
            .hang(),
    );

    reflect(watch_list_first(), &source, &Sink::new(), async |run| {
        not_within(ms(500), run.sink.seen(1)).await;
        assert_eq!(run.version(), None, "no events");
        not_within(seconds(1), run.sink.seen(1)).await;
        assert_eq!(run.version(), None, "added only");
        run.sink.seen(1).await;
        assert_eq!(run.version().as_deref(), Some("2"));
    })
    .await;
}

/// Case 1: nothing is delivered before the collection is complete.
///
/// Upstream: TestWatchList
#[tokio::test(start_paused = true)]
async fn a_partial_watch_list_is_not_delivered() {
    let source = Recorded::with_watch_list();
    source.on_watch(WatchAnswer::new().added(pod_at("p1", "1")).hang());

    reflect(watch_list_first(), &source, &Sink::new(), async |run| {
        not_within(seconds(10), run.sink.seen(1)).await;
        assert_eq!(run.source.requests(), ["watch-list rv=-"]);
    })
    .await;
}

/// Case 2.
///
/// Upstream: TestWatchList
#[tokio::test(start_paused = true)]
async fn without_watch_lists_a_list_is_followed_by_a_watch() {
    let source = Recorded::with_watch_list();
    source.on_list(ListAnswer::page([pod_at("p1", "1")], "1"));
    let mut config = then_any_cached();
    config.watch_list = false;

    reflect(config, &source, &Sink::new(), async |run| {
        assert_eq!(run.source.seen(2).await, ["list rv=0 limit=500", "watch rv=1"]);
        assert_eq!(run.sink.pods(), ["p1@1"]);
    })
    .await;
}

/// Cases 3 and 4.
///
/// Upstream: TestWatchList
#[tokio::test(start_paused = true)]
async fn a_rejected_watch_list_is_replaced_by_a_list_immediately() {
    for error in [
        api(404, "NotFound"),
        api(422, "Invalid"),
        api(500, "InternalError"),
    ] {
        let source = Recorded::with_watch_list();
        source.on_watch(WatchAnswer::error(error));
        source.on_list(ListAnswer::page([pod_at("p1", "1")], "1"));
        source.on_watch(WatchAnswer::new().added(pod_at("p2", "2")).hang());

        reflect(then_any_cached(), &source, &Sink::new(), async |run| {
            run.sink.holds(&["p1@1", "p2@2"]).await;
            assert_eq!(
                run.source.requests(),
                ["watch-list rv=-", "list rv=0 limit=500", "watch rv=1"]
            );
            assert_eq!(run.source.times(), [ms(0); 3]);
        })
        .await;
    }
}

/// Case 5.
///
/// Upstream: TestWatchList
#[tokio::test(start_paused = true)]
async fn a_watch_list_is_one_list_and_continues_as_the_watch() {
    let source = Recorded::with_watch_list();
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("p1", "1"))
            .added(pod_at("p2", "2"))
            .initial_events_end("2")
            .hang(),
    );

    reflect(watch_list_first(), &source, &Sink::new(), async |run| {
        assert_eq!(run.sink.seen(1).await, ["replaced @2 [p1@1 p2@2]"]);
        assert_eq!(run.source.requests(), ["watch-list rv=-"]);
        assert_eq!(run.source.script().open_watches(), 1);
    })
    .await;
}

/// Case 6.
///
/// Upstream: TestWatchList
#[tokio::test(start_paused = true)]
async fn changes_during_a_watch_list_are_part_of_it() {
    let source = Recorded::with_watch_list();
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("p1", "1"))
            .added(pod_at("p2", "2"))
            .modified(pod_at("p1", "3"))
            .added(pod_at("p3", "4"))
            .deleted(pod_at("p3", "5"))
            .initial_events_end("5")
            .hang(),
    );

    reflect(watch_list_first(), &source, &Sink::new(), async |run| {
        assert_eq!(run.sink.seen(1).await, ["replaced @5 [p1@3 p2@2]"]);
        assert_eq!(run.version().as_deref(), Some("5"));
    })
    .await;
}

/// Case 7.
///
/// Upstream: TestWatchList
#[tokio::test(start_paused = true)]
async fn a_watch_list_is_retried_after_too_many_requests_and_refused_connections() {
    let source = Recorded::with_watch_list();
    source.on_watch(WatchAnswer::error(api(429, "TooManyRequests")));
    source.on_watch(WatchAnswer::error(refused()));
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("p1", "1"))
            .initial_events_end("1")
            .hang(),
    );

    reflect(watch_list_first(), &source, &Sink::new(), async |run| {
        run.sink.holds(&["p1@1"]).await;
        assert_eq!(run.source.requests(), ["watch-list rv=-"; 3]);
        // A refused connection does not extend the delays of a server that is overloaded, nor the other way round.
        assert_eq!(run.pauses(), [ms(800), ms(800)]);
    })
    .await;
}

/// Case 8. Differs from client-go, which repeats the watch-list without a delay and without end: a server that ends a
/// watch-list early and cleanly does not support it.
///
/// Upstream: TestWatchList
#[tokio::test(start_paused = true)]
async fn a_watch_list_that_ends_early_is_replaced_by_a_list() {
    let source = Recorded::with_watch_list();
    source.on_watch(WatchAnswer::new().added(pod_at("gone", "1")));
    source.on_list(ListAnswer::page([pod_at("p1", "1")], "1"));

    reflect(watch_list_first(), &source, &Sink::new(), async |run| {
        run.sink.holds(&["p1@1"]).await;
        assert_eq!(
            run.source.requests()[..2],
            ["watch-list rv=-", "list rv=- limit=500"]
        );
        assert_eq!(
            run.sink.log(),
            ["replaced @1 [p1@1]"],
            "the earlier objects are discarded"
        );
    })
    .await;
}

/// Case 8, if the connection breaks: that says nothing about watch-list support.
///
/// Upstream: TestWatchList
#[tokio::test(start_paused = true)]
async fn a_broken_watch_list_is_retried_once_before_a_list() {
    let source = Recorded::with_watch_list();
    source.on_watch(WatchAnswer::new().added(pod_at("gone", "1")).broken(broken()));
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("p1", "1"))
            .initial_events_end("1")
            .hang(),
    );

    reflect(watch_list_first(), &source, &Sink::new(), async |run| {
        assert_eq!(run.sink.seen(1).await, ["replaced @1 [p1@1]"]);
        assert_eq!(run.source.requests(), ["watch-list rv=-"; 2]);
        assert_eq!(run.source.times()[1], ms(800));
    })
    .await;
}

/// Case 9.
///
/// Upstream: TestWatchList
#[tokio::test(start_paused = true)]
async fn the_stream_of_a_watch_list_is_resumed_by_a_plain_watch() {
    let source = Recorded::with_watch_list();
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("p1", "1"))
            .added(pod_at("p2", "2"))
            .initial_events_end("2")
            .added(pod_at("p3", "3")),
    );
    source.on_watch(WatchAnswer::new().added(pod_at("p4", "4")).hang());

    reflect(watch_list_first(), &source, &Sink::new(), async |run| {
        run.sink.holds(&["p1@1", "p2@2", "p3@3", "p4@4"]).await;
        assert_eq!(run.source.requests(), ["watch-list rv=-", "watch rv=3"]);
    })
    .await;
}

/// Case 10. The collection keeps its objects until the new list is complete.
///
/// Upstream: TestWatchList
#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_a_watch_list_at_that_version_and_loses_nothing() {
    let source = Recorded::with_watch_list();
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("p1", "1"))
            .initial_events_end("1")
            .added(pod_at("p3", "3")),
    );
    source.on_watch(WatchAnswer::error(api(410, "Expired")));
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("p1", "1"))
            .after(seconds(1))
            .initial_events_end("9")
            .hang(),
    );

    reflect(watch_list_first(), &source, &Sink::new(), async |run| {
        assert_eq!(
            run.source.seen(3).await,
            ["watch-list rv=-", "watch rv=3", "watch-list rv=3"]
        );
        assert_eq!(run.sink.pods(), ["p1@1", "p3@3"]);
        run.sink.holds(&["p1@1"]).await;
        assert_eq!(run.version().as_deref(), Some("9"));
    })
    .await;
}

/// Case 11.
///
/// Upstream: TestWatchList
#[tokio::test(start_paused = true)]
async fn a_plain_bookmark_does_not_end_the_initial_events() {
    let source = Recorded::with_watch_list();
    source.on_watch(WatchAnswer::new().added(pod_at("p1", "1")).bookmark("2").hang());

    reflect(watch_list_first(), &source, &Sink::new(), async |run| {
        not_within(seconds(10), run.sink.seen(1)).await;
        assert_eq!(run.version(), None);
    })
    .await;
}

/// Adds a label, and counts its calls.
fn labelling(calls: &Arc<AtomicUsize>) -> Transform<Pod> {
    let calls = calls.clone();
    Arc::new(move |mut pod: Pod| {
        calls.fetch_add(1, Ordering::SeqCst);
        let labels = pod.metadata.labels.get_or_insert_default();
        assert!(
            labels.insert("seen".to_owned(), "once".to_owned()).is_none(),
            "an object is transformed once"
        );
        Ok(Some(pod))
    })
}

/// Differs from client-go: each object is transformed once. Upstream transforms those of the initial list twice, so
/// that a transform has to accept its own output.
///
/// Upstream: TestReflectorRespectStoreTransformer
#[tokio::test(start_paused = true)]
async fn every_object_is_transformed_once() {
    let tasks = Tasks::now();
    let source = Recorded::with_watch_list();
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("p1", "1"))
            .added(pod_at("p2", "2"))
            .initial_events_end("3")
            .added(pod_at("p3", "4"))
            .hang(),
    );
    let calls = Arc::new(AtomicUsize::new(0));
    let stop = CancellationToken::new();
    let queue = Arc::new(InOrderQueue::new());
    let reflector = Reflector::new(source.clone(), queue.clone())
        .config(watch_list_first())
        .transform(labelling(&calls));
    let consume = async {
        let mut popped = Vec::new();
        while popped.len() < 3 {
            for delta in queue.pop_batch(100).await.unwrap().done() {
                let pods = match delta {
                    Delta::ReplacedAll(list) => list.objects,
                    other => other.object().cloned().into_iter().collect(),
                };
                for pod in pods {
                    let label = &pod.metadata.labels.as_ref().unwrap()["seen"];
                    popped.push(format!("{} {label}", text_of(&pod)));
                }
            }
        }
        stop.cancel();
        popped
    };

    let ((), popped) = within(seconds(60), async {
        tokio::join!(reflector.run(stop.clone()), consume)
    })
    .await;

    assert_eq!(popped, ["p1@1 once", "p2@2 once", "p3@4 once"]);
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    assert_eq!(source.requests(), ["watch-list rv=-"]);
    tasks.assert_gone();
}
