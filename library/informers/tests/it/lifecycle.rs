//! Lifecycle: nothing runs before the start, everything ends at shutdown, and no task is left.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};

use kube_informers::handler::OnPanic;
use kube_informers::handler::{HandlerOptions, blocking};
use kube_informers::reflector::ReflectorState;
use kube_informers::{Event, Informer, InformerBuilder, Registration};
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::support::*;

/// A server with its client, and the number of tasks without an informer.
struct Stage {
    server: TestServer,
    client: kube::Client,
    tasks: usize,
}

impl Stage {
    async fn new(server: TestServer) -> Self {
        let client = server.client();
        settle().await;
        Self {
            tasks: Handle::current().metrics().num_alive_tasks(),
            client,
            server,
        }
    }

    fn pods(&self) -> InformerBuilder<Pod> {
        Informer::<Pod>::all(self.client.clone())
    }

    fn paged(&self) -> InformerBuilder<Pod> {
        self.pods().configure(|config| config.watch_list = false)
    }

    /// Stops it; nothing may be left after 100 ms.
    #[track_caller]
    fn stops(&self, informer: Informer<Pod>) -> impl Future<Output = ()> + '_ {
        let caller = std::panic::Location::caller();
        async move {
            let since = Instant::now();
            informer.shutdown().await;
            let took = since.elapsed();
            assert!(took <= Duration::from_millis(100), "it took {took:?} ({caller})");
            assert!(informer.is_stopped());
            assert!(matches!(
                informer.state(),
                ReflectorState::Stopped | ReflectorState::Idle
            ));
            self.assert_nothing_left();
            let requests = self.server.requests().len();
            pass(minutes(10)).await;
            assert_eq!(self.server.requests().len(), requests, "{caller}");
        }
    }

    #[track_caller]
    fn assert_nothing_left(&self) {
        self.server.assert_nothing_open();
        assert_eq!(Handle::current().metrics().num_alive_tasks(), self.tasks);
    }
}

fn panics(_: Event<Pod>) {
    panic!("on purpose");
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_the_start() {
    let stage = Stage::new(TestServer::new()).await;

    let builder = stage.pods();
    let (informer, task) = builder.build();
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    let _subscription = informer.subscribe();
    informer
        .add_index("by-name", |pod: &Pod| pod.metadata.name.clone())
        .unwrap();
    pass(minutes(5)).await;

    assert_eq!(stage.server.requests().len(), 0);
    stage.assert_nothing_left();
    assert!(!informer.has_started() && !informer.is_stopped());
    assert!(matches!(informer.state(), ReflectorState::Idle));
    assert!(!handler.has_synced());

    // Shut down before the start: the task returns, and no handler can be added.
    let since = Instant::now();
    informer.shutdown().await;
    task.run().await.expect("no task died");
    assert_eq!(since.elapsed(), Duration::ZERO);
    assert_eq!(stage.server.requests().len(), 0);
    assert!(informer.synced().await.is_err());
    let refused = informer.add_event_handler(|_: Event<Pod>| {}).unwrap_err();
    assert!(refused.to_string().contains("has stopped"), "{refused}");
    stage.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn informer_stops_at_once_during_a_list() {
    for fault in [
        Fault::hang(),
        Fault::stall(100),
        Fault::trickle(1, secs(1)),
        Fault::delay(secs(40)),
    ] {
        let stage = Stage::new(TestServer::new()).await;
        stage.server.create(pod("ns", "a"));
        stage.server.fault(RequestMatcher::list("pods").forever(), fault);
        let informer = stage.paged().start();
        pass(secs(5)).await;
        assert!(matches!(informer.state(), ReflectorState::Listing { .. }));

        stage.stops(informer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn informer_stops_at_once_during_a_watch_list() {
    for fault in [
        Fault::hang(),
        Fault::stall(100),
        Fault::no_end_marker(),
        Fault::silent_after_events(1),
    ] {
        let stage = Stage::new(TestServer::new()).await;
        stage.server.create(pod("ns", "a"));
        stage.server.create(pod("ns", "b"));
        stage
            .server
            .fault(RequestMatcher::watch_list("pods").forever(), fault);
        let informer = stage.pods().start();
        pass(secs(5)).await;
        assert!(matches!(informer.state(), ReflectorState::Listing { .. }));
        assert!(informer.store().is_empty());

        stage.stops(informer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn informer_stops_at_once_during_a_watch() {
    for paged in [true, false] {
        let stage = Stage::new(TestServer::new()).await;
        let builder = if paged { stage.paged() } else { stage.pods() };
        let informer = synced(builder).await;
        pass(secs(5)).await;
        assert!(matches!(informer.state(), ReflectorState::Watching { .. }));
        assert_eq!(stage.server.open_watches(), 1);

        stage.stops(informer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn informer_stops_at_once_during_backoff() {
    for (on, synced) in [
        (RequestMatcher::resource("pods"), false),
        (RequestMatcher::plain_watch("pods"), true),
    ] {
        let stage = Stage::new(TestServer::new()).await;
        stage.server.fault(on.forever(), Fault::status(500));
        let informer = stage.paged().start();
        pass(secs(40)).await;
        assert_eq!(informer.has_synced(), synced);
        assert!(matches!(informer.state(), ReflectorState::BackingOff { .. }));

        stage.stops(informer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn informer_stops_at_once_with_a_full_queue_and_backlog() {
    for turns in 0..40 {
        let stage = Stage::new(TestServer::new()).await;
        let informer = synced(stage.pods().configure(|config| config.queue_capacity = 1)).await;
        let log = Log::new();
        informer.add_event_handler(log.handler()).unwrap();
        for number in 0..30 {
            stage.server.create(pod("ns", &format!("p{number}")));
        }
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }

        let since = Instant::now();
        informer.shutdown().await;
        assert!(since.elapsed() <= Duration::from_millis(100));
        let calls = log.len();
        pass(secs(1)).await;
        assert_eq!(log.len(), calls, "no call after the end");
        stage.assert_nothing_left();
    }
}

/// A handler that removes itself during a call, as the last use of the informer, does not receive its backlog, and the
/// informer stops.
#[tokio::test(start_paused = true)]
async fn a_handler_that_stops_the_informer_is_stopped_too() {
    let stage = Stage::new(TestServer::new()).await;
    for number in 0..1000 {
        stage.server.create(pod("ns", &format!("p{number}")));
    }
    let (informer, task) = stage.pods().build();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let own = Arc::new(Mutex::new(None::<Registration>));
    let own_registration = own.clone();
    let registration = informer
        .add_event_handler(move |_: Event<Pod>| {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(own_registration.lock().unwrap().take().map(|own| own.remove()));
        })
        .unwrap();
    *own.lock().unwrap() = Some(registration);
    drop((informer, own));

    task.run().await.expect("no task died");

    let count = calls.load(Ordering::SeqCst);
    assert_eq!(count, 1);
    stage.assert_nothing_left();
    pass(minutes(1)).await;
    assert_eq!(calls.load(Ordering::SeqCst), count);
}

#[tokio::test(start_paused = true)]
async fn an_asynchronous_handler_is_cancelled_at_its_await() {
    let stage = Stage::new(TestServer::new()).await;
    stage.server.create(pod("ns", "a"));
    stage.server.create(pod("ns", "b"));
    let informer = stage.pods().start();
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let handler = informer
        .add_event_handler(move |_: Event<Pod>| {
            let count = count.clone();
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                std::future::pending::<()>().await;
            }
        })
        .unwrap();
    wait_for("the handler is in its call", || begun.load(Ordering::SeqCst) == 1).await;
    assert_eq!((handler.pending(), handler.delivered()), (2, 0));

    stage.stops(informer).await;

    assert_eq!(begun.load(Ordering::SeqCst), 1);
    assert!(handler.synced().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_asynchronous_handler_may_wait_for_the_end_of_its_own_informer() {
    let stage = Stage::new(TestServer::new()).await;
    stage.server.create(pod("ns", "a"));
    let informer = stage.pods().start();
    let own = informer.clone();
    informer
        .add_event_handler(move |_: Event<Pod>| {
            let own = own.clone();
            async move {
                own.shutdown().await;
            }
        })
        .unwrap();

    wait_for("it has stopped", || informer.is_stopped()).await;
    settle().await;
    stage.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn blocking_handler_that_does_not_return_is_abandoned_and_not_called_again() {
    let stage = Stage::new(TestServer::new()).await;
    stage.server.create(pod("ns", "a"));
    stage.server.create(pod("ns", "b"));
    let informer = synced(stage.pods()).await;
    let (entered, mut is_in) = tokio::sync::mpsc::unbounded_channel();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    informer
        .add_event_handler(blocking(move |_: Event<Pod>| {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = entered.send(());
            let _ = gate.recv();
        }))
        .unwrap();
    is_in.recv().await.expect("the handler is called");

    // The paused clock does not advance while a thread works, so it is advanced explicitly.
    let mut stopped = Box::pin(informer.shutdown());
    for _ in 0..20 {
        assert!((&mut stopped).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    tokio::time::advance(Duration::from_millis(101)).await;
    stopped.await;
    stage.assert_nothing_left();

    drop(release);
    // The thread ends by itself: its sender is dropped with the handler.
    assert_eq!(is_in.recv().await, None);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn any_handle_keeps_the_informer_alive_and_dropping_the_last_stops_it() {
    type Keep = fn(&Informer<Pod>) -> Box<dyn std::any::Any>;
    let keeps: [(&str, Keep); 5] = [
        ("informer", |informer| Box::new(informer.clone())),
        ("store", |informer| Box::new(informer.store())),
        ("index", |informer| {
            Box::new(
                informer
                    .add_index("node", |pod: &Pod| pod.metadata.name.clone())
                    .unwrap(),
            )
        }),
        ("found index", |informer| {
            informer
                .add_index("found", |pod: &Pod| pod.metadata.name.clone())
                .unwrap();
            Box::new(informer.store().index("found"))
        }),
        ("subscription", |informer| Box::new(informer.subscribe())),
    ];
    for (what, keep) in keeps {
        let stage = Stage::new(TestServer::new()).await;
        let informer = synced(stage.pods()).await;
        let kept = keep(&informer);
        drop(informer);
        pass(minutes(11)).await;
        assert_eq!(stage.server.open_watches(), 1, "{what} keeps it alive");

        drop(kept);
        pass(Duration::from_millis(100)).await;
        stage.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn informer_stops_when_its_last_handler_is_removed() {
    let stage = Stage::new(TestServer::new()).await;
    let informer = synced(stage.pods()).await;
    let registration = informer.add_event_handler(|_: Event<Pod>| {}).unwrap();
    drop(informer);
    pass(minutes(11)).await;
    assert_eq!(stage.server.open_watches(), 1);

    registration.remove().await;
    drop(registration);
    pass(Duration::from_millis(100)).await;

    stage.assert_nothing_left();
}

/// The handler is all that is left: neither a handle nor a registration.
#[tokio::test(start_paused = true)]
async fn informer_without_handles_delivers_to_its_handlers() {
    let stage = Stage::new(TestServer::new()).await;
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    stage
        .pods()
        .start()
        .add_event_handler(move |event: Event<Pod>| {
            sender.send(event.to_string()).ok();
        })
        .unwrap();

    pass(minutes(1)).await;
    stage.server.create(pod("ns", "a"));

    assert_eq!(events.recv().await.as_deref(), Some("added ns/a"));
}

#[tokio::test(start_paused = true)]
async fn snapshots_objects_and_stats_do_not_keep_the_informer_alive() {
    let stage = Stage::new(TestServer::new()).await;
    stage.server.create(pod("ns", "a"));
    let informer = synced(stage.pods()).await;
    let snapshot = informer.store().list();
    let object = informer.store().get(("ns", "a"));
    let _stats = informer.stats();

    drop(informer);
    pass(Duration::from_millis(100)).await;

    stage.assert_nothing_left();
    assert_eq!(snapshot.len(), 1);
    assert!(object.is_some());
}

#[tokio::test(start_paused = true)]
async fn panicking_handler_that_ends_does_not_affect_the_informer() {
    let stage = Stage::new(TestServer::new()).await;
    let informer = synced(stage.pods()).await;
    let options = HandlerOptions::default().on_panic(OnPanic::End);
    let ended = informer.add_event_handler_with(options, panics).unwrap();
    stage.server.create(pod("ns", "a"));
    wait_for("it has ended", || ended.ended().is_some()).await;

    stage.server.create(pod("ns", "b"));
    wait_for("the cache is still updated", || informer.store().len() == 2).await;
    stage.stops(informer).await;
}

#[tokio::test(start_paused = true)]
async fn drain_delivers_the_backlog_and_sends_no_request() {
    let stage = Stage::new(TestServer::new()).await;
    let informer = synced(stage.pods()).await;
    let log = Log::new();
    let slow = log.clone();
    let handler = informer
        .add_event_handler(move |event: Event<Pod>| {
            let slow = slow.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                slow.push(&event);
            }
        })
        .unwrap();
    for number in 0..20 {
        stage.server.create(pod("ns", &format!("p{number}")));
    }
    wait_for("all are in the cache", || informer.store().len() == 20).await;
    assert!(handler.pending() > 10);

    let since = Instant::now();
    informer.drain_within(secs(10)).await;

    assert_eq!(log.len(), 20);
    assert!(since.elapsed() < secs(1), "{:?}", since.elapsed());
    assert!(informer.is_stopped());
    stage.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn drain_times_out_if_a_handler_does_not_end() {
    let stage = Stage::new(TestServer::new()).await;
    let informer = synced(stage.pods()).await;
    informer
        .add_event_handler(|_: Event<Pod>| std::future::pending())
        .unwrap();
    stage.server.create(pod("ns", "a"));
    wait_for("it is in the cache", || informer.store().len() == 1).await;

    let since = Instant::now();
    informer.drain_within(secs(2)).await;

    assert!((Duration::from_millis(1900)..=secs(2)).contains(&since.elapsed()));
    stage.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn drain_before_the_start_or_after_the_end_returns() {
    let stage = Stage::new(TestServer::new()).await;
    let (informer, task) = stage.pods().build();
    informer.drain_within(secs(5)).await;
    task.run().await.expect("no task died");
    assert!(informer.is_stopped());
    informer.drain_within(secs(5)).await;
    tokio::join!(
        informer.shutdown(),
        informer.shutdown(),
        informer.drain_within(secs(1))
    );
    stage.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn dropping_the_task_before_run_stops_the_informer() {
    let stage = Stage::new(TestServer::new()).await;
    let (informer, task) = stage.pods().build();
    let mut events = informer.subscribe();
    let handler = informer.add_event_handler(|_: Event<Pod>| {}).unwrap();

    drop(task);

    assert!(informer.is_stopped());
    assert_eq!(
        informer.synced().await.unwrap_err().to_string(),
        "the informer of pods in all namespaces has stopped; build a new one"
    );
    assert!(events.next().await.is_none());
    assert!(handler.synced().await.is_err());
    informer.shutdown().await;
    stage.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn dropping_a_running_task_stops_everything() {
    let stage = Stage::new(TestServer::new()).await;
    stage.server.create(pod("ns", "a"));
    let (informer, task) = stage.pods().build();
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    informer
        .add_event_handler(move |_: Event<Pod>| {
            count.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        })
        .unwrap();

    let mut run = Box::pin(task.run());
    tokio::select! {
        _ = &mut run => panic!("it stopped early"),
        () = wait_for("the handler is called", || begun.load(Ordering::SeqCst) == 1) => {}
    }
    assert_eq!(stage.server.open_watches(), 1);
    drop(run);
    informer.shutdown().await;

    assert!(informer.is_stopped());
    stage.assert_nothing_left();
    assert_eq!(informer.store().len(), 1, "the cache can still be read");
}

#[tokio::test(start_paused = true)]
async fn two_informers_on_one_client_stop_independently() {
    let stage = Stage::new(TestServer::new()).await;
    let first = synced(stage.pods()).await;
    let second = synced(Informer::<ConfigMap>::all(stage.client.clone())).await;
    let third = synced(stage.pods()).await;
    assert_eq!(stage.server.open_watches(), 3);

    first.shutdown().await;
    assert_eq!(stage.server.open_watches(), 2);
    stage.server.create(pod("ns", "a"));
    wait_for("the other informer continues", || third.store().len() == 1).await;
    assert!(first.store().is_empty());

    tokio::join!(second.shutdown(), third.shutdown());
    stage.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn waiting_callers_are_woken_by_shutdown() {
    let stage = Stage::new(TestServer::new()).await;
    stage
        .server
        .fault(RequestMatcher::resource("pods").forever(), Fault::hang());
    let informer = stage.pods().start();
    let mut events = informer.subscribe();
    settle().await;

    let waits = async {
        tokio::join!(
            informer.synced(),
            informer.synced_within(minutes(60)),
            informer.wait_for_within("5", minutes(60)),
            events.next(),
        )
    };
    let mut waits = Box::pin(waits);
    assert!((&mut waits).now_or_never().is_none());
    informer.shutdown().await;
    let since = Instant::now();
    let (synced, within, reached, event) = waits.await;

    assert_eq!(since.elapsed(), Duration::ZERO);
    assert!(synced.is_err() && within.is_err() && reached.is_err() && event.is_none());
    assert_eq!(stage.server.count_requests(Verb::Watch, "pods"), 1);
    stage.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn end_of_an_informer_can_be_awaited() {
    let stage = Stage::new(TestServer::new()).await;
    let informer = stage.pods().start();
    let mut stopped = Box::pin(informer.wait_for_stop());
    pass(secs(60)).await;
    assert!((&mut stopped).now_or_never().is_none());

    informer.shutdown().await;

    stopped.await;
    informer.wait_for_stop().await;
}
