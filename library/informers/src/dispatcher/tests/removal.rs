//! Removal: nothing is delivered after it returns.

use std::sync::mpsc;

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::*;
use crate::handler::blocking;
use crate::registration::HandlerEndedError;

/// Upstream: TestSharedInformerRemoveHandler
#[tokio::test(start_paused = true)]
async fn removed_handlers_are_no_longer_counted() {
    let mut stage = Stage::started();
    let one = stage.add(|_: Event<Thing>| ());
    let other = stage.add(|_: Event<Thing>| ());
    assert_eq!(stage.dispatcher.registrations().len(), 2);

    one.remove().await;
    assert_eq!(stage.dispatcher.registrations().len(), 1);
    other.remove().await;
    quiet().await;

    assert_eq!(stage.dispatcher.registrations().len(), 0);
    assert_eq!(stage.spawner.running(), 0);
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn what_has_ended_is_dropped_with_the_next_event() {
    let mut stage = Stage::started();
    let handler = stage.add(|_: Event<Thing>| ());
    let subscription = stage.subscribe(HandlerOptions::default(), things(&[&thing("pod", 1)]));
    let entries = stage.dispatcher.entries.iter();
    let listeners: Vec<_> = entries.map(|entry| Arc::downgrade(&entry.listener)).collect();
    assert_eq!(listeners.len(), 2);

    handler.remove().await;
    drop((handler, subscription));
    quiet().await;
    stage.dispatch([added(&thing("pod", 2))]);

    assert!(listeners.iter().all(|listener| listener.upgrade().is_none()));
    stage.stop(false).await;
}

/// Upstream: TestRemoveWhileActive
#[tokio::test(start_paused = true)]
async fn removed_handler_receives_nothing_more() {
    let mut stage = Stage::started();
    let record = Record::default();
    let registration = stage.add(record.handler());
    stage.dispatch([added(&thing("pod", 1))]);
    quiet().await;

    registration.remove().await;
    stage.dispatch([added(&thing("pod", 2))]);
    quiet().await;

    assert_eq!(record.take(), ["add pod1"]);
    assert!(registration.is_removed());
    stage.stop(false).await;
}

/// Upstream: TestRemovingRemovedSharedInformer
#[tokio::test(start_paused = true)]
async fn removing_twice_is_fine() {
    let mut stage = Stage::started();
    let registration = stage.add(|_: Event<Thing>| ());

    registration.remove().await;
    registration.clone().remove().await;

    assert!(registration.is_removed());
    stage.stop(false).await;
}

/// Upstream: TestRemoveOnStoppedSharedInformer
#[tokio::test(start_paused = true)]
async fn removing_after_the_stop_is_fine() {
    let mut stage = Stage::started();
    let registration = stage.add(|_: Event<Thing>| ());
    stage.stop(false).await;

    registration.remove().await;

    assert_eq!(
        registration.ended(),
        Some(HandlerEndedError::Stopped {
            handler: registration.name().into()
        })
    );
}

/// Upstream: TestRemoveEventHandler_SynchronousShutdown
#[tokio::test(start_paused = true)]
async fn removal_waits_for_the_running_call() {
    for blocks in [false, true] {
        let mut stage = Stage::started();
        let (entered, has_entered) = oneshot::channel();
        let (finish, finished) = mpsc::channel::<()>();
        let (resume, resumed) = oneshot::channel::<()>();
        let mut once = Some((entered, resumed));
        let registration = if blocks {
            stage.add(blocking(move |_: Event<Thing>| {
                let (entered, _) = once.take().unwrap();
                entered.send(()).unwrap();
                finished.recv().unwrap();
            }))
        } else {
            stage.add(move |_: Event<Thing>| {
                let (entered, resumed) = once.take().unwrap();
                async move {
                    entered.send(()).unwrap();
                    resumed.await.unwrap();
                }
            })
        };
        stage.dispatch([added(&thing("a", 1)), added(&thing("b", 1))]);
        has_entered.await.unwrap();

        let removal = registration.remove();
        // What waits is dropped at once; the running call is not interrupted.
        assert_eq!(registration.pending(), 1);
        let mut removal = std::pin::pin!(removal);
        for _ in 0..100 {
            tokio::task::yield_now().await;
            assert!(futures_util::poll!(&mut removal).is_pending());
        }
        if blocks {
            finish.send(()).unwrap();
        } else {
            resume.send(()).unwrap();
        }
        removal.await;

        assert_eq!((registration.delivered(), registration.pending()), (1, 0));
        assert_eq!(registration.panics(), 0);
        stage.stop(false).await;
    }
}

/// Upstream: TestRemoveEventHandler_AsynchronousPanic
#[tokio::test(start_paused = true)]
async fn removal_need_not_be_awaited() {
    let mut stage = Stage::started();
    let entered = Arc::new(Notify::new());
    let (close, closed) = oneshot::channel::<()>();
    let (report, reported) = oneshot::channel();
    let mut once = Some((entered.clone(), closed, report));
    let registration = stage.add(move |_: Event<Thing>| {
        let (entered, closed, report) = once.take().unwrap();
        async move {
            entered.notify_one();
            // Sees what its owner did after the removal returned.
            report.send(closed.await).unwrap();
        }
    });
    stage.dispatch([added(&thing("a", 1))]);
    entered.notified().await;

    drop(registration.remove());
    assert!(registration.is_removed() && registration.ended().is_none());
    drop(close);

    assert!(reported.await.unwrap().is_err());
    stage.stop(false).await;
}

/// Upstream: TestShutDownEventHandler_Lifecycles
#[tokio::test(start_paused = true)]
async fn removal_returns_promptly_in_every_state() {
    // Never started.
    let mut stage = Stage::new();
    let registration = stage.add(|_: Event<Thing>| ());
    registration.remove().await;
    assert_eq!(stage.dispatcher.registrations().len(), 0);

    // Added, then started.
    let mut stage = Stage::new();
    let registration = stage.add(|_: Event<Thing>| ());
    stage.start();
    registration.remove().await;
    stage.stop(false).await;

    // Started, then added.
    let mut stage = Stage::started();
    let registration = stage.add(|_: Event<Thing>| ());
    registration.remove().await;
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn handler_removed_before_the_start_is_dropped_at_once_and_never_called() {
    let mut stage = Stage::new();
    let held = Arc::new(());
    let inside = held.clone();
    let record = Record::default();
    let noted = record.clone();
    let registration = stage.add_with(
        HandlerOptions::default(),
        move |event: Event<Thing>| {
            let _held = &inside;
            noted.note(&event);
        },
        things(&[&thing("a", 1)]),
    );
    assert_eq!(registration.pending(), 1);

    registration.remove().await;
    assert_eq!(Arc::strong_count(&held), 1);
    stage.start();
    stage.dispatch([added(&thing("b", 1))]);
    quiet().await;

    assert_eq!(record.take(), Vec::<String>::new());
    assert_eq!(
        registration.synced().await,
        Err(HandlerEndedError::Removed {
            handler: registration.name().into()
        })
    );
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_handler_has_been_dropped_when_removal_returns() {
    for blocks in [false, true] {
        let mut stage = Stage::started();
        let held = Arc::new(());
        let inside = held.clone();
        let handler = move |_: Event<Thing>| {
            let _held = &inside;
        };
        let registration = if blocks {
            stage.add(blocking(handler))
        } else {
            stage.add(handler)
        };
        quiet().await;

        registration.remove().await;

        assert_eq!(Arc::strong_count(&held), 1);
        stage.stop(false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_asynchronous_handler_may_await_its_own_removal() {
    let mut stage = Stage::started();
    let own = Arc::new(Mutex::new(None::<Registration>));
    let (slot, record) = (own.clone(), Record::default());
    let noted = record.clone();
    let registration = stage.add(move |event: Event<Thing>| {
        let (slot, record) = (slot.clone(), noted.clone());
        async move {
            let own = slot.lock().clone();
            own.unwrap().remove().await;
            record.note(&event);
        }
    });
    *own.lock() = Some(registration.clone());

    stage.dispatch([added(&thing("a", 1)), added(&thing("b", 1))]);
    quiet().await;
    timeout(Duration::from_secs(1), registration.remove())
        .await
        .unwrap();

    assert_eq!(record.take(), ["add a1"]);
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_blocking_handler_may_wait_for_its_own_removal() {
    let mut stage = Stage::started();
    let own = Arc::new(Mutex::new(None::<Registration>));
    let (slot, record) = (own.clone(), Record::default());
    let noted = record.clone();
    let registration = stage.add(blocking(move |event: Event<Thing>| {
        let own = slot.lock().clone();
        Handle::current().block_on(own.unwrap().remove());
        noted.note(&event);
    }));
    *own.lock() = Some(registration.clone());

    stage.dispatch([added(&thing("a", 1)), added(&thing("b", 1))]);
    quiet().await;
    registration.remove().await;

    assert_eq!(record.take(), ["add a1"]);
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_a_registration_does_not_remove_the_handler() {
    let mut stage = Stage::started();
    let record = Record::default();
    drop(stage.add(record.handler()));

    stage.dispatch([added(&thing("a", 1))]);
    quiet().await;

    assert_eq!(record.take(), ["add a1"]);
    stage.stop(false).await;
}
