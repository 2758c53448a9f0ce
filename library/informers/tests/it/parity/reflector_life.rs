//! reflector_test.go: stopping a reflector in every state, and its resyncs.

use kube_informers::reflector::{Reflector, ReflectorState, Resume};
use kube_informers::source::{ListAnswer, WatchAnswer};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Recorded, Sink, Tasks, api, list_first, ms, not_within, pod_at, reflect, refused, seconds,
};

/// Runs a reflector, stops it after `delay`, and asserts that it returns at that moment with nothing open.
async fn stop_after(delay: std::time::Duration, source: &Recorded, sink: &Sink) {
    let tasks = Tasks::now();
    let started = Instant::now();
    let stop = CancellationToken::new();
    let reflector = Reflector::new(source.clone(), sink.clone()).config(list_first());
    let handle = reflector.handle();
    let stopping = async {
        not_within(delay, std::future::pending::<()>()).await;
        stop.cancel();
    };

    tokio::join!(reflector.run(stop.clone()), stopping);

    assert_eq!(started.elapsed(), delay);
    assert_eq!(source.script().open_watches(), 0);
    assert!(matches!(handle.state(), ReflectorState::Stopped));
    tasks.assert_gone();
}

/// Differs from client-go: the end is reported to the stream-end hook, because an unreported error cannot be handled.
///
/// Upstream: TestCloseWatchChannelOnError
#[tokio::test(start_paused = true)]
async fn a_watch_that_reports_an_error_is_closed() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1"));
    source.on_watch(WatchAnswer::new().failure(api(500, "InternalError")).hang());

    reflect(list_first(), &source, &Sink::new(), async |run| {
        run.source.seen(2).await;
        run.source.script().watched_by(0).await;
        assert_eq!(
            run.source.requests().len(),
            2,
            "it is closed before the next request"
        );
        assert_eq!(run.ends().len(), 1);
        assert!(
            run.ends()[0]
                .text
                .starts_with("watch of pods ended: the server returned 500")
        );
    })
    .await;
}

/// Upstream: TestRunUntil
#[tokio::test(start_paused = true)]
async fn stopping_ends_the_run_and_closes_the_watch() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1"));
    source.on_watch(WatchAnswer::new().added(pod_at("bar", "2")).hang());
    let sink = Sink::new();

    stop_after(ms(10), &source, &sink).await;

    assert_eq!(sink.log(), ["replaced @1 []", "added bar@2"]);
}

/// Upstream: TestReflectorWatchStoppedBefore
#[tokio::test(start_paused = true)]
async fn a_reflector_stopped_before_it_runs_sends_no_request() {
    let source = Recorded::new();
    let stop = CancellationToken::new();
    stop.cancel();

    Reflector::new(source.clone(), Sink::new()).run(stop).await;

    assert!(source.requests().is_empty());
}

/// Upstream: TestReflectorWatchStoppedAfter
#[tokio::test(start_paused = true)]
async fn a_reflector_stopped_while_it_watches_has_opened_one_watch() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1"));
    source.on_watch(WatchAnswer::new().hang());

    stop_after(ms(10), &source, &Sink::new()).await;

    assert_eq!(source.requests(), ["list rv=- limit=500", "watch rv=1"]);
}

/// Upstream: TestReflectorHandleWatchStoppedBefore
#[tokio::test(start_paused = true)]
async fn a_watch_without_a_response_is_closed_by_a_stop() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1"));
    source.on_watch(WatchAnswer::silence());

    stop_after(ms(0), &source, &Sink::new()).await;
    source.on_list(ListAnswer::page([], "1"));
    source.on_watch(WatchAnswer::silence());
    stop_after(seconds(60), &source, &Sink::new()).await;
}

/// Upstream: TestReflectorHandleWatchStoppedAfter, TestReflectorStopWatch
#[tokio::test(start_paused = true)]
async fn a_stop_is_prompt_in_every_state() {
    let page = || ListAnswer::page_before([pod_at("a", "1")], "1", "C1");
    let states: [(&str, Vec<ListAnswer<_>>, Vec<WatchAnswer<_>>); 6] = [
        (
            "before the response to a list",
            vec![ListAnswer::silence()],
            vec![],
        ),
        (
            "within a list",
            vec![ListAnswer::new().objects([pod_at("a", "1")]).hang()],
            vec![],
        ),
        ("between two pages", vec![page(), ListAnswer::silence()], vec![]),
        (
            "in the delay after a failed list",
            vec![ListAnswer::error(refused())],
            vec![],
        ),
        (
            "in the delay after a failed watch",
            vec![ListAnswer::page([], "1")],
            vec![WatchAnswer::error(refused())],
        ),
        (
            "while events arrive",
            vec![ListAnswer::page([], "1")],
            vec![
                WatchAnswer::new()
                    .added(pod_at("a", "2"))
                    .after(ms(5))
                    .bookmark("3")
                    .hang(),
            ],
        ),
    ];
    for (state, lists, watches) in states {
        let source = Recorded::new();
        for answer in lists {
            source.on_list(answer);
        }
        for answer in watches {
            source.on_watch(answer);
        }
        println!("{state}");
        stop_after(ms(10), &source, &Sink::new()).await;
    }
}

/// Upstream: TestReflectorResyncChan
#[tokio::test(start_paused = true)]
async fn the_target_receives_a_resync_every_period() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1").after(seconds(3)));
    let mut config = list_first();
    config.resync = Some(seconds(10));

    reflect(config, &source, &Sink::new(), async |run| {
        let started = Instant::now();
        assert_eq!(run.sink.seen(1).await, ["replaced @1 []"]);
        assert_eq!(run.sink.seen(3).await[1..], ["sync", "sync"]);
        assert_eq!(started.elapsed(), seconds(20));
    })
    .await;
}

/// Differs from client-go: the watch that a rejected resync ends is resumed at its version; the collection is not
/// listed again, because nothing was lost.
///
/// Upstream: TestReflectorResync
#[tokio::test(start_paused = true)]
async fn a_rejected_resync_ends_the_watch_which_is_resumed() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1"));
    source.on_watch(WatchAnswer::new().bookmark("4").hang());
    let mut config = list_first();
    config.resync = Some(seconds(1));
    let sink = Sink::new().refusing("SyncAll", 2);

    reflect(config, &source, &sink, async |run| {
        assert_eq!(
            run.source.seen(3).await,
            ["list rv=- limit=500", "watch rv=1", "watch rv=4"]
        );
        assert_eq!(run.sink.log(), ["replaced @1 []", "bookmark @4", "sync", "sync"]);
        assert_eq!(run.resumes(), [Resume::Rewatch]);
        assert!(
            run.ends()[0]
                .text
                .contains("the target rejected a resync: the test says no")
        );
        assert_eq!(run.handle.stats().target_errors, 1);

        // The reflector continues.
        assert_eq!(run.sink.seen(5).await[4], "sync");
    })
    .await;
}

/// Upstream: TestReflectorHandleWatchResultChanClosedBefore, TestReflectorHandleWatchResultChanClosedAfter
///
/// Differs from client-go: the watch is retried after a delay and nothing is listed, because an early end says nothing
/// about the version.
#[tokio::test(start_paused = true)]
async fn a_short_watch_without_events_is_an_error_that_names_the_resource() {
    for delay in [ms(0), ms(10)] {
        let source = Recorded::new();
        source.on_list(ListAnswer::page([], "1"));
        source.on_watch(WatchAnswer::new().after(delay));

        reflect(list_first(), &source, &Sink::new(), async |run| {
            assert_eq!(
                run.source.seen(3).await,
                ["list rv=- limit=500", "watch rv=1", "watch rv=1"]
            );
            assert_eq!(
                run.ends()[0].text,
                "watch of pods ended: the watch ended within a second, without an event; \
                 watching from the last version in 0.8 s"
            );
            assert_eq!(run.source.times()[2], delay + ms(800));
        })
        .await;
    }
}
