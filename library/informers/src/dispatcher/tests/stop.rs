//! Stopping: prompt and complete from every state.

use std::sync::mpsc;

use tokio::sync::oneshot;

use super::*;
use crate::handler::blocking;
use crate::registration::HandlerEndedError;

#[tokio::test(start_paused = true)]
async fn stop_drops_undelivered_events() {
    let mut stage = Stage::started();
    let record = Record::default();
    let registration = stage.add(record.handler());
    let object = thing("a", 1);

    stage.dispatch([added(&object)]);
    let spawner = stage.spawner.clone();
    stage.stop(false).await;

    assert_eq!(record.take(), Vec::<String>::new());
    assert_eq!((registration.pending(), registration.delivered()), (0, 0));
    assert_eq!(Arc::strong_count(&object), 1);
    assert_eq!(spawner.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn end_of_a_handler_can_be_awaited() {
    let mut stage = Stage::started();
    let [removed, stopped] = [(); 2].map(|()| stage.add(Record::default().handler()));
    let stop_timeout = std::time::Duration::from_secs(60);
    assert!(
        tokio::time::timeout(stop_timeout, removed.wait_for_end())
            .await
            .is_err()
    );

    drop(removed.remove());
    assert!(matches!(
        removed.wait_for_end().await,
        HandlerEndedError::Removed { .. }
    ));
    assert_eq!(stopped.ended(), None);

    stage.stop(false).await;
    assert!(matches!(
        stopped.wait_for_end().await,
        HandlerEndedError::Stopped { .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn drain_delivers_everything_first() {
    let mut stage = Stage::started();
    let records: [Record; 3] = Default::default();
    let [inline, awaited, blocked] = records.clone();
    let registrations = [
        stage.add_with(coalescing(), inline.handler(), things(&[&thing("a", 1)])),
        stage.add_with(
            HandlerOptions::default(),
            move |event: Event<Thing>| {
                let record = awaited.clone();
                async move {
                    tokio::task::yield_now().await;
                    record.note(&event);
                }
            },
            things(&[&thing("a", 1)]),
        ),
        stage.add_with(
            HandlerOptions::default(),
            blocking(blocked.handler()),
            things(&[&thing("a", 1)]),
        ),
    ];

    stage.dispatch([added(&thing("b", 1)), added(&thing("c", 1))]);
    stage.stop(true).await;

    for record in records {
        assert_eq!(record.take(), ["initial a1", "add b1", "add c1"]);
    }
    for registration in registrations {
        registration.synced().await.unwrap();
        assert!(matches!(
            registration.ended(),
            Some(HandlerEndedError::Stopped { .. })
        ));
    }
}

#[tokio::test(start_paused = true)]
async fn drain_can_be_aborted() {
    let mut stage = Stage::started();
    let stuck = stage.add(|_: Event<Thing>| std::future::pending());
    let record = Record::default();
    stage.add(record.handler());
    stage.dispatch([added(&thing("a", 1)), added(&thing("b", 1))]);

    drop(stage.dispatcher.close(true));
    let within = Duration::from_secs(5);
    assert!(tokio::time::timeout(within, stage.spawner.wait()).await.is_err());
    assert_eq!(record.take(), ["add a1", "add b1"]);
    assert_eq!(stage.spawner.running(), 1);
    drop(stage.dispatcher.close(false));

    stage.ended().await;
    assert_eq!(stuck.delivered(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_asynchronous_handler_is_cancelled_at_its_next_await() {
    struct Dropped(Option<oneshot::Sender<()>>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.take().unwrap().send(()).unwrap();
        }
    }
    let mut stage = Stage::started();
    let (dropped, was_dropped) = oneshot::channel();
    let mut guard = Some(Dropped(Some(dropped)));
    let registration = stage.add(move |_: Event<Thing>| {
        let guard = guard.take();
        async move {
            let _guard = guard;
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
    });
    stage.dispatch([added(&thing("a", 1))]);
    quiet().await;

    let start = Instant::now();
    stage.stop(false).await;

    was_dropped.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(registration.delivered(), 0);
    assert!(matches!(
        registration.ended(),
        Some(HandlerEndedError::Stopped { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn blocking_call_in_flight_is_awaited() {
    let mut stage = Stage::started();
    let (entered, has_entered) = oneshot::channel();
    let (finish, finished) = mpsc::channel::<()>();
    let mut entered = Some(entered);
    let registration = stage.add(blocking(move |_: Event<Thing>| {
        entered.take().unwrap().send(()).unwrap();
        finished.recv().unwrap();
    }));
    stage.dispatch([added(&thing("a", 1)), added(&thing("b", 1))]);
    has_entered.await.unwrap();

    drop(stage.dispatcher.close(false));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.spawner.running(), 1);
    finish.send(()).unwrap();
    stage.ended().await;

    assert_eq!((registration.delivered(), registration.pending()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn blocking_call_that_outlives_the_stop_by_100_ms_is_abandoned() {
    let mut stage = Stage::started();
    let (entered, has_entered) = oneshot::channel();
    let (finish, finished) = mpsc::channel::<()>();
    let (gone, is_gone) = mpsc::channel::<()>();
    let mut entered = Some(entered);
    let registration = stage.add(blocking(move |_: Event<Thing>| {
        let _gone = &gone;
        entered.take().unwrap().send(()).unwrap();
        finished.recv().ok();
    }));
    stage.dispatch([added(&thing("a", 1)), added(&thing("b", 1))]);
    has_entered.await.unwrap();
    drop(stage.dispatcher.close(false));

    tokio::task::yield_now().await;

    // The clock is held while the call runs, so it is advanced explicitly.
    tokio::time::advance(Duration::from_millis(99)).await;
    assert_eq!(stage.spawner.running(), 1);
    tokio::time::advance(Duration::from_millis(1)).await;
    stage.spawner.wait().await;
    assert!(matches!(
        registration.ended(),
        Some(HandlerEndedError::Stopped { .. })
    ));
    assert_eq!(registration.delivered(), 0);

    // When it returns at last, its thread ends without another call.
    finish.send(()).unwrap();
    is_gone.recv().unwrap_err();
    assert_eq!(registration.delivered(), 1);
}

/// The clock is real here: only a runtime that is dropped can show that it does not wait.
#[test]
fn a_blocking_call_that_never_returns_does_not_hold_up_the_runtime() {
    let (finish, finished) = mpsc::channel::<()>();
    let (entered, has_entered) = mpsc::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let mut stage = runtime.block_on(async {
        let mut stage = Stage::started();
        stage.add(blocking(move |_: Event<Thing>| {
            entered.send(()).unwrap();
            finished.recv().ok();
        }));
        stage.dispatch([added(&thing("a", 1))]);
        while has_entered.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        stage
    });

    // Would never return if the runtime waited for the call.
    drop(runtime);

    assert_eq!(stage.spawner.running(), 0);
    stage.dispatch([added(&thing("b", 1))]);
    drop(finish);
}

#[tokio::test(start_paused = true)]
async fn a_stop_reaches_a_handler_that_is_being_removed() {
    let mut stage = Stage::started();
    let registration = stage.add(|_: Event<Thing>| std::future::pending());
    stage.dispatch([added(&thing("a", 1))]);
    quiet().await;
    let removal = registration.remove();
    // Something else happens in between, so that the dispatcher looks at its listeners.
    stage.dispatch([added(&thing("b", 1))]);
    quiet().await;
    assert!(registration.ended().is_none());

    stage.stop(false).await;

    removal.await;
    assert!(matches!(
        registration.ended(),
        Some(HandlerEndedError::Removed { .. })
    ));
}

/// Upstream: TestAddOnStoppedSharedInformer
#[tokio::test(start_paused = true)]
async fn a_handler_cannot_be_added_after_the_stop() {
    let mut stage = Stage::started();
    drop(stage.dispatcher.close(false));

    let error = stage
        .dispatcher
        .add(
            &HandlerOptions::default().name("late"),
            erase(|_: Event<Thing>| ()),
            Instant::now(),
            no_objects(),
            true,
        )
        .unwrap_err();

    assert_eq!(&*error, "late");
    stage.stop(false).await;
}

/// Upstream: TestShutdown
#[tokio::test(start_paused = true)]
async fn no_task_is_left_whenever_the_handler_was_added() {
    // Before the start.
    let mut stage = Stage::new();
    stage.add(|_: Event<Thing>| ());
    stage.start();
    stage.stop(false).await;

    // After the sync.
    let mut stage = Stage::started();
    stage.dispatcher.synced();
    quiet().await;
    stage.add(|_: Event<Thing>| ());
    quiet().await;
    stage.stop(false).await;

    // Never started.
    for drain in [false, true] {
        let mut stage = Stage::new();
        let registration = stage.add_with(
            HandlerOptions::default(),
            |_: Event<Thing>| (),
            things(&[&thing("a", 1)]),
        );
        stage.stop(drain).await;
        assert_eq!(
            registration.synced().await,
            Err(HandlerEndedError::Stopped {
                handler: registration.name().into()
            })
        );
        registration.remove().await;
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_sync_ends_with_the_reason_when_the_informer_stops() {
    let mut stage = Stage::started();
    let options = HandlerOptions::default().name("patient");
    let registration = stage
        .dispatcher
        .add(
            &options,
            erase(|_: Event<Thing>| ()),
            Instant::now(),
            no_objects(),
            false,
        )
        .unwrap();
    let waiting = registration.clone();
    let (answer, answered) = oneshot::channel();
    stage.spawner.spawn("waiter", async move {
        answer.send(waiting.synced().await).ok();
    });
    quiet().await;

    stage.stop(false).await;

    let error = answered.await.unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the informer stopped before handler patient received its initial objects"
    );
}

#[tokio::test(start_paused = true)]
async fn dropping_the_dispatcher_stops_all_handlers() {
    let mut stage = Stage::started();
    let registration = stage.add(|_: Event<Thing>| std::future::pending());
    let mut subscription = stage.subscribe(HandlerOptions::default(), no_objects());
    stage.dispatch([added(&thing("a", 1))]);
    quiet().await;
    let spawner = stage.spawner.clone();

    drop(stage);

    assert!(subscription.next().await.is_none());
    spawner.wait().await;
    assert!(matches!(
        registration.ended(),
        Some(HandlerEndedError::Stopped { .. })
    ));
}

/// A handler may own whatever it likes, a handle of its informer for one: it is not dropped under the informer's
/// lock.
#[tokio::test(start_paused = true)]
async fn handler_that_never_ran_is_returned_to_be_dropped() {
    for drain in [false, true] {
        let mut stage = Stage::new();
        let held = Arc::new(());
        let inside = held.clone();
        stage.add(move |_: Event<Thing>| {
            let _held = &inside;
        });

        let leftovers = stage.dispatcher.close(drain);
        assert_eq!(Arc::strong_count(&held), 2);
        drop(leftovers);

        assert_eq!(Arc::strong_count(&held), 1);
    }
}

#[test]
fn handlers_end_with_their_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let object = thing("a", 1);
    let (mut stage, registration) = runtime.block_on(async {
        let mut stage = Stage::started();
        let registration = stage.add(|_: Event<Thing>| std::future::pending());
        stage.dispatch([added(&object)]);
        tokio::task::yield_now().await;
        stage.dispatch([deleted(&object)]);
        (stage, registration)
    });

    drop(runtime);
    assert!(matches!(
        registration.ended(),
        Some(HandlerEndedError::Stopped { .. })
    ));
    assert_eq!(
        (registration.pending(), stage.dispatcher.registrations().len()),
        (0, 0)
    );
    assert_eq!(Arc::strong_count(&object), 1);

    // A handler added now has no runtime and reports that.
    let late = stage.add(|_: Event<Thing>| ());
    assert!(matches!(late.ended(), Some(HandlerEndedError::Stopped { .. })));
}
