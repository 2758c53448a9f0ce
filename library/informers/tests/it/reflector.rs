//! Behaviour of the reflector without an upstream test.

use std::sync::{Arc, Mutex};

use futures_core::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube_informers::delta::Delta;
use kube_informers::quarantine::{BadObject, Problem};
use kube_informers::reflector::{Reflector, ReflectorState, Resume};
use kube_informers::source::{ApiError, ListAnswer, WatchAnswer, WatchItem};
use kube_informers::target::{Target, TargetError};
use kube_informers::{Informer, ObjectKey};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Recorded, Reflected, Sink, api, list_first, ms, not_within, pod_at, reflect, refused, seconds, settle,
    watch_list_first, within,
};

#[tokio::test(start_paused = true)]
async fn a_target_that_rejects_every_list_is_retried_with_growing_delays() {
    let source = Recorded::new();
    for _ in 0..5 {
        source.on_list(ListAnswer::page([], "1"));
    }
    let sink = (1..=4).fold(Sink::new(), |sink, nth| sink.refusing("ReplacedAll", nth));

    reflect(list_first(), &source, &sink, async |run| {
        let requests = run.source.seen(6).await;
        assert_eq!(requests[5], "watch rv=1");
        assert_eq!(run.pauses(), [800, 1600, 3200, 6400].map(ms));
        assert_eq!(run.resumes(), [Resume::RetrySync; 4]);
        assert_eq!(run.handle.stats().lists, 1);
        assert_eq!(run.handle.stats().target_errors, 4);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn no_watch_is_opened_after_a_rejected_list_even_if_one_was_paced() {
    let source = Recorded::new();
    // Five short watches with one event each use up the pacing tokens.
    source.on_list(ListAnswer::page([], "1"));
    for version in 2..=6 {
        let pod = pod_at("a", &version.to_string());
        let answer = WatchAnswer::new().modified(pod);
        source.on_watch(match version {
            6 => answer.failure(api(410, "Expired")),
            _ => answer,
        });
    }
    source.on_list(ListAnswer::page([], "7"));
    source.on_list(ListAnswer::page([pod_at("a", "6")], "8"));
    let sink = Sink::new().refusing("ReplacedAll", 2);

    reflect(list_first(), &source, &sink, async |run| {
        let requests = run.source.seen(9).await;
        assert_eq!(requests[6..], ["list rv=6+", "list rv=7+", "watch rv=8"]);
        assert_eq!(run.sink.pods(), ["a@6"]);
    })
    .await;
}

/// A target whose capacity is controlled by the test.
#[derive(Clone)]
struct Narrow {
    sink: Sink,
    open: Arc<watch::Sender<bool>>,
}

impl Target<Pod> for Narrow {
    fn accept(&self, delta: Delta<Pod>) -> Result<(), TargetError> {
        self.sink.accept(delta)
    }

    fn has_room(&self) -> bool {
        *self.open.borrow()
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        let mut open = self.open.subscribe();
        Box::pin(async move {
            let _ = open.wait_for(|open| *open).await;
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_target_does_not_count_towards_the_idle_deadline() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1"));
    source.on_watch(
        WatchAnswer::new()
            .bookmark("2")
            .after(seconds(60))
            .bookmark("3")
            .after(seconds(10))
            .bookmark("4")
            .after(seconds(100))
            .bookmark("5")
            .hang(),
    );
    let narrow = Narrow {
        sink: Sink::new(),
        open: Arc::new(watch::Sender::new(true)),
    };
    let stop = CancellationToken::new();
    let reflector = Reflector::new(source.clone(), narrow.clone()).config(list_first());

    let testing = async {
        narrow.sink.seen(3).await;
        // The bookmarks are a minute apart, so that 150 s of silence would end the watch.
        // An item that is read when the room ends is still delivered.
        narrow.open.send_replace(false);
        narrow.sink.seen(4).await;
        not_within(seconds(3600), narrow.sink.seen(5)).await;
        narrow.open.send_replace(true);
        assert_eq!(within(seconds(120), narrow.sink.seen(5)).await[4], "bookmark @5");
        stop.cancel();
    };
    tokio::join!(reflector.run(stop.clone()), testing);

    assert_eq!(source.requests(), ["list rv=- limit=500", "watch rv=1"]);
}

/// A target that records how many deltas arrive in one call.
#[derive(Clone)]
struct Counting {
    sink: Sink,
    calls: Arc<Mutex<Vec<usize>>>,
}

impl Target<Pod> for Counting {
    fn accept(&self, delta: Delta<Pod>) -> Result<(), TargetError> {
        self.sink.accept(delta)
    }

    fn accept_all(&self, deltas: &mut dyn Iterator<Item = Delta<Pod>>) -> Vec<TargetError> {
        let deltas: Vec<_> = deltas.collect();
        self.calls.lock().unwrap().push(deltas.len());
        self.sink.accept_all(&mut deltas.into_iter())
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_arrive_together_reach_the_target_in_one_call_and_no_event_waits_for_the_next() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([], "1"));
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("a", "2"))
            .added(pod_at("b", "3"))
            .modified(pod_at("a", "4"))
            .after(seconds(1))
            .deleted(pod_at("b", "5"))
            .hang(),
    );
    let target = Counting {
        sink: Sink::new(),
        calls: Arc::default(),
    };
    let stop = CancellationToken::new();
    let reflector = Reflector::new(source.clone(), target.clone()).config(list_first());
    let handle = reflector.handle();

    let testing = async {
        target.sink.seen(4).await;
        assert_eq!(*target.calls.lock().unwrap(), [3]);
        assert_eq!(handle.last_sync_resource_version().as_deref(), Some("4"));
        target.sink.seen(5).await;
        assert_eq!(*target.calls.lock().unwrap(), [3, 1]);
        assert_eq!(handle.stats().events, 4);
        stop.cancel();
    };
    tokio::join!(reflector.run(stop.clone()), testing);
}

fn unreadable(name: &str, version: &str) -> WatchItem<Pod> {
    WatchItem::Unreadable {
        deleted: false,
        object: BadObject {
            key: Some(ObjectKey::cluster(name)),
            uid: None,
            resource_version: Some(version.to_owned()),
            problem: Problem::Decode("spec: wrong type".to_owned()),
            size: 10,
        },
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_delivers_each_object_once_in_its_last_state() {
    let source = Recorded::with_watch_list();
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("a", "1"))
            .item(unreadable("b", "2"))
            .added(pod_at("c", "3"))
            .item(unreadable("d", "4"))
            .modified(pod_at("a", "5"))
            .modified(pod_at("b", "6"))
            .modified(pod_at("a", "7"))
            .deleted(pod_at("c", "8"))
            .added(pod_at("c", "9"))
            .initial_events_end("9")
            .hang(),
    );
    let unread = Arc::new(Mutex::new(Vec::new()));
    let log = unread.clone();
    let sink = Sink::new();
    let target = Both(sink.clone(), move |delta: &Delta<Pod>| {
        if let Delta::ReplacedAll(list) = delta {
            let keys = list.unreadable.iter().filter_map(|bad| bad.key.as_ref());
            log.lock().unwrap().extend(keys.map(ToString::to_string));
        }
    });
    let stop = CancellationToken::new();
    let reflector = Reflector::new(source, target).config(watch_list_first());

    let testing = async {
        assert_eq!(
            within(seconds(60), sink.seen(1)).await,
            ["replaced @9 [a@7 b@6 c@9]"]
        );
        stop.cancel();
    };
    tokio::join!(reflector.run(stop.clone()), testing);

    assert_eq!(*unread.lock().unwrap(), ["d"]);
}

/// A sink shared with the test.
struct Both<F>(Sink, F);

impl<F: Fn(&Delta<Pod>) + Send + Sync + 'static> Target<Pod> for Both<F> {
    fn accept(&self, delta: Delta<Pod>) -> Result<(), TargetError> {
        (self.1)(&delta);
        self.0.accept(delta)
    }
}

#[tokio::test(start_paused = true)]
async fn f24_the_delay_requested_for_a_watch_list_also_applies_to_the_list() {
    let source = Recorded::with_watch_list();
    for _ in 0..2 {
        source.on_watch(WatchAnswer::error(ApiError {
            retry_after: Some(seconds(20)),
            ..api(503, "ServiceUnavailable")
        }));
    }
    source.on_list(ListAnswer::page([], "1"));

    reflect(watch_list_first(), &source, &Sink::new(), async |run| {
        assert_eq!(
            run.source.seen(4).await,
            [
                "watch-list rv=-",
                "watch-list rv=-",
                "list rv=- limit=500",
                "watch rv=1"
            ]
        );
        assert_eq!(run.source.times(), [0, 20, 40, 40].map(seconds));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_sync_error_of_a_listing_informer_names_the_list_first() {
    let source = Recorded::with_watch_list();
    source.on_watch(WatchAnswer::error(api(422, "Invalid")));
    source.on_list(ListAnswer::new().objects([pod_at("a", "1")]).hang());
    let informer = Informer::from_source(source).config(watch_list_first()).start();

    let error = informer.synced_within(seconds(5)).await.unwrap_err();

    assert_eq!(
        error.to_string(),
        "the informer of pods is not synced after 5s: listing (1 objects so far), after the server returned 422 \
         Invalid (1 failed attempts)"
    );
    informer.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_after_progress_is_the_first_of_a_new_outage() {
    let source = Recorded::new();
    source
        .on_list(ListAnswer::error(refused()))
        .on_list(ListAnswer::page([], "1"))
        .on_watch(WatchAnswer::new().added(pod_at("a", "2")).after(seconds(60)))
        .on_watch(WatchAnswer::error(refused()));
    let attempts = |run: &Reflected| run.handle.last_error().map(|(_, attempts)| attempts);

    reflect(list_first(), &source, &Sink::new(), async |run| {
        run.source.seen(1).await;
        settle().await;
        assert_eq!(attempts(run), Some(1));

        run.sink.seen(2).await;
        settle().await;
        assert_eq!(attempts(run), Some(0));

        let ended = Instant::now();
        run.source.seen(4).await;
        settle().await;
        let ReflectorState::BackingOff { since, attempts, .. } = run.handle.state() else {
            panic!("{}", run.handle.state());
        };
        assert!(since > ended, "the first outage is over");
        assert_eq!(attempts, 1);
    })
    .await;
}
