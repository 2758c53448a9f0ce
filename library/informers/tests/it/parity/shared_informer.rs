//! shared_informer_test.go: one informer and its handlers.

use kube_informers::reflector::ReflectorConfig;
use kube_informers::reflector::StreamEnd;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::error::{StoppedError, SyncError};
use kube_informers::handler::{HandlerOptions, blocking};
use kube_informers::reflector::{ReflectorState, Resume};
use kube_informers::source::{ApiError, ListAnswer};
use kube_informers::source::{ListerWatcher, Script, SourceError};
use kube_informers::{Event, Informer};
use tokio::time::Instant;

use crate::support::{Delivered, Recorded, Tasks, api, list_first, ms, not_within, pod, seconds, within};

/// A source with these pods.
fn source(names: &[&str]) -> Script<Pod> {
    let script = Script::new();
    for name in names {
        script.add(pod(name));
    }
    script
}

fn labelled(name: &str, labels: &[&str]) -> Pod {
    let mut pod = pod(name);
    let labels = labels.iter().map(|label| ((*label).to_owned(), String::new()));
    pod.metadata.labels = Some(labels.collect());
    pod
}

fn label_keys(pod: &Pod) -> Vec<String> {
    pod.metadata
        .labels
        .iter()
        .flatten()
        .map(|(key, _)| key.clone())
        .collect()
}

fn names(pods: Vec<Arc<Pod>>) -> Vec<String> {
    let mut names: Vec<String> = pods.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
    names.sort();
    names
}

/// Upstream: TestIndexer
#[tokio::test(start_paused = true)]
async fn indexes_are_complete_whenever_they_are_added() {
    let script = Script::new();
    script.add(labelled("pod1", &["a", "b"]));
    script.add(labelled("pod2", &["b"]));
    let builder = Informer::from_source(script.clone())
        .index("labels", label_keys)
        .unwrap();
    let informer = builder.start();
    informer.synced().await.unwrap();

    let before = informer.store().index("labels").unwrap();
    assert_eq!(names(before.get("a")), ["pod1"]);
    assert_eq!(names(before.get("b")), ["pod1", "pod2"]);

    let version = script.add(labelled("pod3", &["a"]));
    informer
        .wait_for_within(&version.to_string(), seconds(60))
        .await
        .unwrap();
    assert_eq!(names(before.get("a")), ["pod1", "pod3"]);

    let late = informer.add_index("labels again", label_keys).unwrap();
    assert_eq!(names(late.get("a")), ["pod1", "pod3"]);
    for index in [before, late] {
        let mut values: Vec<String> = index.values().iter().map(|value| value.to_string()).collect();
        values.sort();
        assert_eq!(values, ["a", "b"]);
    }
    assert!(informer.add_index("labels", label_keys).is_err());
    informer.shutdown().await;
}

/// Differs from client-go: there is no untyped informer below, and index functions cannot return errors.
///
/// Upstream: TestTypedIndexer, TestTypedSharedIndexInformerAddTypedIndexers,
/// Upstream: TestTypedSharedIndexInformerGetTypedIndexer, TestTypedIndexersToIndexers
#[tokio::test(start_paused = true)]
async fn index_accepts_and_returns_typed_objects() {
    let script = Script::new();
    script.add(labelled("pod1", &["a", "b"]));
    script.add(labelled("pod2", &["b"]));
    let informer = Informer::from_source(script).start();
    informer.synced().await.unwrap();
    let index = informer.add_index("labels", label_keys).unwrap();

    let probe = labelled("probe", &["a"]);
    assert_eq!(names(index.matching(&probe)), ["pod1"]);
    assert_eq!(index.values_of(&probe), ["a"]);
    let found = informer.store().by_index("labels", "b").unwrap();
    assert_eq!(names(found), ["pod1", "pod2"]);
    let unknown = informer.store().by_index("colour", "b").unwrap_err();
    assert!(unknown.to_string().contains("colour"), "{unknown}");
    informer.shutdown().await;
}

/// Upstream: TestListenerResyncPeriods
#[tokio::test(start_paused = true)]
async fn each_handler_resyncs_at_its_own_period() {
    let script = source(&["pod1", "pod2"]);
    let (informer, task) = Informer::from_source(script)
        .configure(|config| config.resync = Some(seconds(1)))
        .build();
    let periods = [Duration::ZERO, seconds(2), seconds(3)];
    let logs = periods.map(|period| {
        let log = Delivered::new();
        let options = HandlerOptions::default().resync(period);
        informer.add_event_handler_with(options, log.handler()).unwrap();
        log
    });

    let testing = async {
        for log in &logs {
            assert_eq!(
                log.take(2).await,
                ["added pod1 (initial)", "added pod2 (initial)"]
            );
        }
        let started = Instant::now();
        let again = ["updated pod1 (resync)", "updated pod2 (resync)"];
        assert_eq!(logs[1].take(2).await, again);
        assert_eq!(started.elapsed(), seconds(2));
        assert_eq!(logs[2].take(2).await, again);
        assert_eq!(started.elapsed(), seconds(3));
        not_within(seconds(60), logs[0].take(1)).await;
        informer.shutdown().await;
    };
    let (ended, ()) = tokio::join!(task.run(), testing);
    ended.unwrap();
}

/// The handler may be added before, while or after the informer is started, from any thread.
///
/// Upstream: TestSharedInformerInitializationRace
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_may_be_added_while_the_informer_starts() {
    for _ in 0..50 {
        let script = source(&["pod1"]);
        let (informer, task) = Informer::from_source(script).build();
        let log = Delivered::new();
        let joining = informer.clone();
        let handler = log.handler();
        let mut racing = tokio::task::JoinSet::new();
        racing.spawn(async move { task.run().await.unwrap() });
        racing.spawn(async move {
            joining
                .add_event_handler(handler)
                .unwrap()
                .synced()
                .await
                .unwrap();
            joining.shutdown().await;
        });

        within(seconds(60), racing.join_all()).await;

        assert_eq!(log.lines(), ["added pod1 (initial)"]);
    }
}

/// Upstream: TestSharedInformerWatchDisruption
#[tokio::test(start_paused = true)]
async fn changes_missed_by_a_broken_watch_are_delivered_after_it() {
    let script = source(&["pod1", "pod2"]);
    let informer = Informer::from_source(script.clone()).config(list_first()).start();
    let (plain, resyncing) = (Delivered::new(), Delivered::new());
    informer.add_event_handler(plain.handler()).unwrap();
    let options = HandlerOptions::default().resync(seconds(1));
    informer
        .add_event_handler_with(options, resyncing.handler())
        .unwrap();
    plain.take(2).await;
    resyncing.take(2).await;

    script.add_drop_watch(pod("pod3"));
    script.modify_drop_watch(pod("pod2"));
    script.reset_watch();

    assert_eq!(plain.take(2).await, ["updated pod2 2 -> 4", "added pod3"]);
    not_within(seconds(60), plain.take(1)).await;
    let mut events = resyncing.take(5).await;
    events.sort();
    events.dedup();
    for expected in [
        "added pod3",
        "updated pod1 (resync)",
        "updated pod2 (resync)",
        "updated pod2 2 -> 4",
        "updated pod3 (resync)",
    ] {
        assert!(
            events.iter().any(|line| line == expected),
            "{expected} is not in {events:?}"
        );
    }
    informer.shutdown().await;
}

/// Upstream: TestSharedInformerErrorHandling
#[tokio::test(start_paused = true)]
async fn denied_list_reaches_the_stream_end_hook_at_once() {
    let script = source(&["pod1"]);
    script.fail_lists(ApiError::new(403, "Forbidden", "Access Denied"));
    let log = Delivered::new();
    let hook = log.clone();
    let informer = Informer::from_source(script.clone())
        .config(ReflectorConfig {
            on_stream_end: Some(Arc::new(move |end: &StreamEnd<'_>| {
                assert_eq!(end.resume, Resume::RetrySync);
                hook.note(end.error.map(ToString::to_string).unwrap_or_default());
            })),
            ..list_first()
        })
        .start();
    let started = Instant::now();

    assert_eq!(
        log.take(1).await,
        ["the server returned 403 Forbidden: Access Denied"]
    );
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert!(matches!(informer.state(), ReflectorState::BackingOff { .. }));

    script.fail_lists(None);
    informer.synced().await.unwrap();
    informer.shutdown().await;
}

/// Upstream: TestSharedInformerTransformer
#[tokio::test(start_paused = true)]
async fn handlers_and_store_see_transformed_objects_only() {
    let script = source(&["pod1", "pod2"]);
    let informer = Informer::from_source(script)
        .transform(|pod: &mut Pod| {
            pod.metadata.name = pod.metadata.name.take().map(|name| name.to_uppercase());
        })
        .start();
    let log = Delivered::new();
    informer.add_event_handler(log.handler()).unwrap();

    assert_eq!(
        log.take(2).await,
        ["added POD1 (initial)", "added POD2 (initial)"]
    );
    assert_eq!(
        names(informer.store().list().iter().cloned().collect()),
        ["POD1", "POD2"]
    );
    informer.shutdown().await;
}

/// Upstream: TestSharedInformerRemoveHandler
#[tokio::test(start_paused = true)]
async fn a_removed_handler_is_no_longer_counted() {
    let informer = Informer::from_source(source(&["pod1"])).start();
    let handlers = || informer.stats().handlers.len();
    let first = informer.add_event_handler(Delivered::new().handler()).unwrap();
    let second = informer.add_event_handler(Delivered::new().handler()).unwrap();

    assert_eq!(handlers(), 2);
    second.remove().await;
    assert_eq!(handlers(), 1);
    first.remove().await;
    assert_eq!(handlers(), 0);
    informer.shutdown().await;
}

/// Upstream: TestSharedInformerHandlerAbuse
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_come_and_go_during_events_and_shutdown() {
    let tasks = Tasks::now();
    let script = source(&["pod0"]);
    let informer = Informer::from_source(script.clone()).start();
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..50 {
        let informer = informer.clone();
        workers.spawn(async move {
            let mut kept = Vec::new();
            for round in 0.. {
                // Some wait for the removal, some do not, and some are never removed.
                match informer.add_event_handler(|_: Event<Pod>| {}) {
                    Ok(registration) if (worker + round) % 3 == 0 => registration.remove().await,
                    Ok(registration) if (worker + round) % 3 == 1 => drop(registration.remove()),
                    Ok(registration) if kept.len() < 20 => kept.push(registration),
                    Ok(registration) => drop(registration.remove()),
                    Err(error) => {
                        assert!(error.to_string().contains("has stopped"), "{error}");
                        return round;
                    }
                }
                tokio::task::yield_now().await;
            }
            unreachable!("the informer is stopped by the test")
        });
    }
    for n in 0..3_000_u32 {
        // A fixed pseudo-random walk over ten pods.
        let name = format!("pod{}", n.wrapping_mul(2_654_435_761) >> 16 & 7);
        match n % 5 {
            0 => script.add(pod(&name)),
            4 => script.delete(pod(&name)),
            _ => script.modify(pod(&name)),
        };
        if n % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }

    informer.shutdown().await;
    let rounds: Vec<i32> = within(seconds(60), workers.join_all()).await;

    assert_eq!(rounds.len(), 50);
    assert!(informer.stats().handlers.is_empty());
    tasks.gone().await;
}

/// Upstream: TestStateSharedInformer
#[tokio::test(start_paused = true)]
async fn an_informer_knows_whether_it_was_started_and_stopped() {
    let (informer, task) = Informer::from_source(source(&["pod1"])).build();
    let state = || (informer.has_started(), informer.is_stopped());
    assert_eq!(state(), (false, false));

    let testing = async {
        informer.synced().await.unwrap();
        assert_eq!(state(), (true, false));
        informer.shutdown().await;
        assert_eq!(state(), (true, true));
    };
    let (ended, ()) = tokio::join!(task.run(), testing);

    ended.unwrap();
    assert_eq!(state(), (true, true));
}

/// Upstream: TestAddOnStoppedSharedInformer, TestRemoveOnStoppedSharedInformer
#[tokio::test(start_paused = true)]
async fn stopped_informer_rejects_and_drops_handlers() {
    let informer = Informer::from_source(source(&["pod1"])).start();
    let registration = informer.add_event_handler(Delivered::new().handler()).unwrap();
    informer.synced().await.unwrap();

    informer.shutdown().await;

    let options = HandlerOptions::default().name("late");
    let refused = informer
        .add_event_handler_with(options, Delivered::new().handler())
        .unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.starts_with("handler late was not added: the informer of "),
        "{refused}"
    );
    assert!(refused.contains("has stopped"), "{refused}");
    registration.remove().await;
}

/// Upstream: TestAddWhileActive, TestRemoveWhileActive
#[tokio::test(start_paused = true)]
async fn handlers_join_and_leave_while_the_informer_runs() {
    let script = source(&["pod1"]);
    let (informer, task) = Informer::from_source(script.clone()).build();
    let (first, second) = (Delivered::new(), Delivered::new());
    let early = informer.add_event_handler(first.handler()).unwrap();
    assert!(!early.has_synced());

    let testing = async {
        early.synced().await.unwrap();
        assert!(early.has_synced());
        assert_eq!(first.take(1).await, ["added pod1 (initial)"]);

        // The second one blocks in its first call.
        let (release, released) = std::sync::mpsc::channel::<()>();
        let log = second.clone();
        let handler = blocking(move |event: Event<Pod>| {
            if event.is_initial() {
                released.recv().unwrap();
            }
            log.note(event.to_string());
        });
        let late = informer.add_event_handler(handler).unwrap();
        script.add(pod("pod2"));
        assert_eq!(first.take(1).await, ["added pod2"]);
        assert!(!late.has_synced());
        release.send(()).unwrap();
        late.synced().await.unwrap();
        assert_eq!(second.take(2).await, ["added pod1 (initial)", "added pod2"]);

        early.remove().await;
        script.add(pod("pod3"));
        assert_eq!(second.take(1).await, ["added pod3"]);
        assert!(first.lines().is_empty());
        informer.shutdown().await;
    };
    let (ended, ()) = tokio::join!(task.run(), testing);
    ended.unwrap();
}

/// Every informer test here ends without a task left; this one covers each way of ending.
///
/// Upstream: TestMain, TestShutdown
#[tokio::test(start_paused = true)]
async fn no_task_is_left_after_a_shutdown() {
    // A handler before the start.
    let tasks = Tasks::now();
    let script = source(&["pod1"]);
    let (informer, task) = Informer::from_source(script.clone()).build();
    informer.add_event_handler(Delivered::new().handler()).unwrap();
    let (ended, ()) = tokio::join!(task.run(), async {
        informer.synced().await.unwrap();
        informer.shutdown().await;
    });
    ended.unwrap();
    tasks.assert_gone();
    assert_eq!(script.open_watches(), 0);

    // A handler after the sync.
    let informer = Informer::from_source(script.clone()).start();
    informer.synced().await.unwrap();
    let registration = informer.add_event_handler(Delivered::new().handler()).unwrap();
    registration.synced().await.unwrap();
    informer.shutdown().await;
    tasks.assert_gone();
    assert_eq!(script.open_watches(), 0);

    // Never started: shut down, or just dropped.
    let (informer, task) = Informer::from_source(script.clone()).build();
    informer.add_event_handler(Delivered::new().handler()).unwrap();
    informer.shutdown().await;
    task.run().await.unwrap();
    drop(Informer::from_source(script.clone()).build());
    tasks.assert_gone();

    // Every handle is dropped.
    let informer = Informer::from_source(script.clone()).start();
    informer.synced().await.unwrap();
    assert_eq!(script.open_watches(), 1);
    drop(informer);
    within(seconds(1), script.watched_by(0)).await;
}

/// Upstream: TestShutdown
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_returns_when_the_last_task_has_ended() {
    for _ in 0..200 {
        let source: Arc<dyn ListerWatcher<Pod>> = Arc::new(source(&["pod1"]));
        let held = Arc::downgrade(&source);
        let informer = Informer::from_sources([source]).start();
        informer.add_event_handler(Delivered::new().handler()).unwrap();

        within(seconds(60), informer.shutdown()).await;

        assert!(held.upgrade().is_none(), "a task still holds the source");
    }
}

/// A list whose response is delayed.
fn slow(after: Duration) -> Recorded {
    let source = Recorded::new();
    source.on_list(
        ListAnswer::new()
            .after(after)
            .end(kube_informers::source::ListMeta {
                resource_version: Some("1".to_owned()),
                ..Default::default()
            }),
    );
    source
}

/// Upstream: TestWaitFor
#[tokio::test(start_paused = true)]
async fn several_informers_are_waited_for_without_polling() {
    let started = Instant::now();
    let informers =
        [seconds(10), seconds(5), seconds(0)].map(|after| Informer::from_source(slow(after)).start());

    let waiting = informers.iter().map(|informer| async {
        informer.synced_within(seconds(60)).await.unwrap();
        started.elapsed()
    });
    let synced_at = futures_util::future::join_all(waiting).await;

    assert_eq!(synced_at, [seconds(10), seconds(5), seconds(0)]);
    for informer in informers {
        informer.shutdown().await;
        // A synced informer stays synced.
        informer.synced().await.unwrap();
    }
}

/// Upstream: TestWaitFor
#[tokio::test(start_paused = true)]
async fn timed_out_wait_reports_which_informer_is_not_synced_and_why() {
    let never = Informer::from_source(slow(seconds(3600))).name("never").start();
    // The deadline between two parts of a list is half a minute.
    let error = never.synced_within(seconds(10)).await.unwrap_err();
    assert_eq!(error.after(), seconds(10));
    assert_eq!(
        error.to_string(),
        "the informer of never is not synced after 10s: listing (0 objects so far)"
    );

    let waiting = async { never.synced().await.unwrap_err() };
    let (stopped, _) = tokio::join!(waiting, never.shutdown());
    let _: StoppedError = stopped;
    let error = never.synced_within(ms(1)).await.unwrap_err();
    assert!(matches!(error.state(), Some(ReflectorState::Stopped)));
}

/// Upstream: TestSyncResult
#[tokio::test(start_paused = true)]
async fn the_reason_for_not_being_synced_can_be_matched_and_read() {
    let script = source(&["pod1"]);
    script.fail_lists(api(401, "Unauthorized"));
    let informer = Informer::from_source(script.clone())
        .name("pods")
        .config(list_first())
        .start();

    let error: SyncError = informer.synced_within(seconds(2)).await.unwrap_err();

    assert_eq!(error.name(), "pods");
    assert_eq!(error.attempts(), 2);
    let cause = error.last_error().and_then(SourceError::api).unwrap();
    assert!(cause.is_unauthorized());
    assert_eq!(
        error.to_string(),
        "the informer of pods is not synced after 2s: the server returned 401 Unauthorized (2 failed attempts); \
         the credentials are missing, wrong or expired"
    );
    script.fail_lists(None);
    informer.synced_within(seconds(60)).await.unwrap();
    informer.shutdown().await;
}
