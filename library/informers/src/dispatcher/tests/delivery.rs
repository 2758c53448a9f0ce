//! Which handler receives which events, in which order, and when it is synced.

use tokio::sync::Semaphore;

use super::*;
use crate::handler::{blocking, filtered};

#[tokio::test(start_paused = true)]
async fn every_handler_receives_every_event_in_order() {
    let mut stage = Stage::started();
    let records: [Record; 3] = Default::default();
    for record in &records {
        stage.add(record.handler());
    }

    let (a1, a2, b1) = (thing("a", 1), thing("a", 2), thing("b", 1));
    stage.dispatch([added(&a1), added(&b1)]);
    stage.dispatch([updated(&a1, &a2), deleted(&b1)]);
    quiet().await;

    for record in &records {
        assert_eq!(record.take(), ["add a1", "add b1", "update a1 a2", "delete b1"]);
    }
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn late_handler_receives_snapshot_then_changes() {
    let mut stage = Stage::started();
    let (a1, a2, b1) = (thing("a", 1), thing("a", 2), thing("b", 1));
    stage.dispatch([added(&a1), added(&b1)]);

    for options in [HandlerOptions::default(), coalescing()] {
        let record = Record::default();
        let registration = stage.add_with(options, record.handler(), things(&[&a1, &b1]));
        registration.synced().await.unwrap();
        stage.dispatch([updated(&a1, &a2)]);
        quiet().await;

        assert_eq!(record.take(), ["initial a1", "initial b1", "update a1 a2"]);
        assert_eq!((registration.pending(), registration.delivered()), (0, 3));
        registration.remove().await;
    }
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn all_kinds_of_handlers_receive_the_same_events() {
    let mut stage = Stage::started();
    let a1 = thing("a", 1);
    let (b1, b2) = (thing("b", 1), thing("b", 2));
    let (inline, awaited, blocked) = (Record::default(), Record::default(), Record::default());
    let snapshot = || things(&[&a1]);
    let options = HandlerOptions::default;

    stage.add_with(options(), inline.handler(), snapshot());
    let record = awaited.clone();
    stage.add_with(
        options(),
        move |event: Event<Thing>| {
            let record = record.clone();
            async move {
                tokio::task::yield_now().await;
                record.note(&event);
            }
        },
        snapshot(),
    );
    stage.add_with(options(), blocking(blocked.handler()), snapshot());
    stage.dispatch([added(&b1)]);
    stage.dispatch([updated(&b1, &b2), deleted(&b2)]);
    quiet().await;

    for record in [inline, awaited, blocked] {
        assert_eq!(
            record.take(),
            ["initial a1", "add b1", "update b1 b2", "delete b2"]
        );
    }
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_filter_composes_with_asynchronous_and_blocking_handlers() {
    let mut stage = Stage::started();
    let (a1, a2) = (thing("a", 1), thing("a", 2));
    let b1 = thing("b", 1);
    let keep = |thing: &Thing| thing.name == "a" && thing.version != "1";

    let records: [Record; 3] = Default::default();
    let [inline, awaited, blocked] = records.clone();
    stage.add(filtered(keep, inline.handler()));
    stage.add(filtered(keep, move |event: Event<Thing>| {
        let record = awaited.clone();
        async move { record.note(&event) }
    }));
    stage.add(filtered(keep, blocking(blocked.handler())));
    stage.dispatch([
        added(&a1),
        added(&b1),
        updated(&a1, &a2),
        deleted(&b1),
        deleted(&a2),
    ]);
    quiet().await;

    for record in records {
        assert_eq!(record.take(), ["add a2", "delete a2"]);
    }
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_asynchronous_handler_never_overlap() {
    let mut stage = Stage::started();
    let running = Arc::new(Mutex::new((0, 0)));
    let counted = running.clone();
    let registration = stage.add(move |_: Event<Thing>| {
        let running = counted.clone();
        async move {
            running.lock().0 += 1;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut running = running.lock();
            assert_eq!(running.0, 1, "two calls at once");
            running.0 -= 1;
            running.1 += 1;
        }
    });

    let start = Instant::now();
    stage.dispatch((0..10).map(|n| added(&thing(&format!("t{n}"), 1))));
    while registration.delivered() < 10 {
        quiet().await;
    }

    assert_eq!(running.lock().1, 10);
    assert!(start.elapsed() >= Duration::from_secs(10));
    assert_eq!(registration.panics(), 0);
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn slow_handler_delays_no_other_handler() {
    let mut stage = Stage::started();
    let never = |_: Event<Thing>| std::future::pending();
    let stuck = stage.add(never);
    let record = Record::default();
    stage.add(record.handler());

    stage.dispatch([added(&thing("a", 1)), added(&thing("b", 1))]);
    quiet().await;

    assert_eq!(record.take(), ["add a1", "add b1"]);
    assert_eq!((stuck.pending(), stuck.delivered()), (2, 0));
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_busy_handler_lets_other_tasks_run() {
    let mut stage = Stage::started();
    let ticks = Arc::new(Mutex::new(0));
    let (count, last_seen) = (ticks.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = last_seen.clone();
    let registration = stage.add(move |_: Event<Thing>| seen.lock().push(*count.lock()));
    stage.spawner.spawn("ticker", async move {
        for _ in 0..1000 {
            *ticks.lock() += 1;
            tokio::task::yield_now().await;
        }
    });

    stage.dispatch((0..10_000).map(|n| added(&thing(&format!("t{n}"), 1))));
    registration.synced().await.unwrap();
    quiet().await;

    let mut turns = std::mem::take(&mut *last_seen.lock());
    assert_eq!(turns.len(), 10_000);
    // The ticker got a turn in between, and often.
    turns.dedup();
    assert!(turns.len() > 10, "only {} turns for others", turns.len());
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_the_start() {
    let mut stage = Stage::new();
    let record = Record::default();
    let registration = stage
        .dispatcher
        .add(
            &HandlerOptions::default(),
            erase(record.handler()),
            Instant::now(),
            no_objects(),
            false,
        )
        .unwrap();
    quiet().await;
    assert_eq!(stage.spawner.running(), 0);

    stage.start();
    stage.dispatch([initial(&thing("a", 1))]);
    assert!(!registration.has_synced());
    stage.dispatcher.synced();
    registration.synced().await.unwrap();

    assert_eq!(record.take(), ["initial a1"]);
    stage.stop(false).await;
}

/// H8: synced means that the handler has returned from everything initial, and from nothing less.
#[tokio::test(start_paused = true)]
async fn a_handler_is_synced_when_it_has_returned_from_the_last_initial_event() {
    for options in [HandlerOptions::default(), coalescing()] {
        let mut stage = Stage::started();
        let permits = Arc::new(Semaphore::new(0));
        let gate = permits.clone();
        let handler = move |_: Event<Thing>| {
            let gate = gate.clone();
            async move { gate.acquire().await.unwrap().forget() }
        };
        let (a1, b1, c1) = (thing("a", 1), thing("b", 1), thing("c", 1));

        let registration = stage.add_with(options, handler, things(&[&a1, &b1]));
        stage.dispatch([added(&c1)]);
        quiet().await;
        assert!(!registration.has_synced());
        permits.add_permits(1);
        quiet().await;
        assert!(!registration.has_synced());
        assert_eq!(registration.pending(), 2);

        permits.add_permits(1);
        registration.synced().await.unwrap();
        // The event behind the notice has nothing to do with it.
        assert_eq!(registration.delivered(), 2);
        assert_eq!(registration.pending(), 1);
        stage.stop(false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_not_synced_before_the_informer_is() {
    let mut stage = Stage::started();
    let record = Record::default();
    let registration = stage
        .dispatcher
        .add(
            &HandlerOptions::default(),
            erase(record.handler()),
            Instant::now(),
            no_objects(),
            false,
        )
        .unwrap();
    stage.dispatch([initial(&thing("a", 1))]);
    quiet().await;
    assert_eq!((registration.pending(), registration.has_synced()), (0, false));

    stage.dispatcher.synced();
    assert!(registration.has_synced());
    stage.dispatcher.synced();
    quiet().await;

    assert_eq!(record.take(), ["initial a1"]);
    stage.stop(false).await;
}

/// The queue is empty then, but the handler has not returned.
#[tokio::test(start_paused = true)]
async fn sync_during_the_last_initial_call_waits_for_it() {
    for options in [HandlerOptions::default(), coalescing()] {
        let mut stage = Stage::started();
        let permits = Arc::new(Semaphore::new(0));
        let gate = permits.clone();
        let handler = move |_: Event<Thing>| {
            let gate = gate.clone();
            async move { gate.acquire().await.unwrap().forget() }
        };
        let registration = stage
            .dispatcher
            .add(&options, erase(handler), Instant::now(), no_objects(), false)
            .unwrap();
        stage.dispatch([initial(&thing("a", 1))]);
        quiet().await;

        stage.dispatcher.synced();
        quiet().await;
        assert!(!registration.has_synced());
        permits.add_permits(1);
        quiet().await;

        assert!(registration.has_synced());
        stage.stop(false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn synced_notice_is_queued_once() {
    let mut stage = Stage::started();
    let subscription = stage.subscribe(HandlerOptions::default(), things(&[&thing("a", 1)]));
    for _ in 0..10 {
        stage.dispatcher.synced();
    }

    // The replay, and one notice.
    assert_eq!(stage.dispatcher.entries[0].listener.slots(), 2);
    drop(subscription);
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn handler_added_to_an_empty_synced_informer_is_synced() {
    let mut stage = Stage::started();

    let registration = stage.add(|_: Event<Thing>| ());

    assert!(registration.has_synced());
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn lagging_handlers_share_one_copy_of_the_events() {
    let mut stage = Stage::started();
    for _ in 0..10 {
        stage.add(|event: Event<Thing>| async move {
            let _held = event;
            std::future::pending().await
        });
    }
    let objects: Vec<_> = (0..100).map(|n| thing(&format!("t{n}"), 1)).collect();

    stage.dispatch(objects.iter().map(added));
    quiet().await;

    // Ours, the one of the shared batch, and for the first event the ten calls that hold it.
    assert_eq!(Arc::strong_count(&objects[99]), 2);
    assert_eq!(Arc::strong_count(&objects[0]), 2 + 10);
    stage.stop(false).await;
    assert_eq!(Arc::strong_count(&objects[99]), 1);
}

/// Upstream: TestSharedInformerMultipleRegistration
#[tokio::test(start_paused = true)]
async fn the_same_handler_twice_is_two_registrations() {
    let mut stage = Stage::started();
    let record = Record::default();
    let one = stage.add(record.handler());
    let other = stage.add(record.handler());
    assert_ne!(one.id(), other.id());
    assert_eq!(stage.dispatcher.registrations().len(), 2);

    stage.dispatch([added(&thing("a", 1))]);
    quiet().await;
    assert_eq!(record.take(), ["add a1", "add a1"]);
    one.remove().await;

    stage.dispatch([added(&thing("b", 1))]);
    quiet().await;
    assert_eq!(record.take(), ["add b1"]);
    assert_eq!(stage.dispatcher.registrations().len(), 1);
    stage.stop(false).await;
}

/// Upstream: TestAddWhileActive
#[tokio::test(start_paused = true)]
async fn a_handler_added_while_active_is_synced_after_its_replay() {
    let mut stage = Stage::new();
    let first = Record::default();
    let options = HandlerOptions::default();
    let now = Instant::now();
    let one = stage
        .dispatcher
        .add(&options, erase(first.handler()), now, no_objects(), false)
        .unwrap();
    assert!(!one.has_synced());

    stage.start();
    let pod1 = thing("pod", 1);
    stage.dispatch([initial(&pod1)]);
    stage.dispatcher.synced();
    one.synced().await.unwrap();

    let permits = Arc::new(Semaphore::new(0));
    let (second, gate) = (Record::default(), permits.clone());
    let record = second.clone();
    let blocked = move |event: Event<Thing>| {
        let (record, gate) = (record.clone(), gate.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            record.note(&event);
        }
    };
    let two = stage.add_with(HandlerOptions::default(), blocked, things(&[&pod1]));
    stage.dispatch([added(&thing("other", 2))]);
    quiet().await;
    assert!(!two.has_synced());

    permits.add_permits(2);
    two.synced().await.unwrap();
    quiet().await;
    assert_eq!(first.take(), ["initial pod1", "add other2"]);
    assert_eq!(second.take(), ["initial pod1", "add other2"]);
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn handlers_have_the_name_they_chose_or_that_of_their_code() {
    let mut stage = Stage::started();

    let named = stage.add_with(
        HandlerOptions::default().name("billing"),
        |_: Event<Thing>| (),
        no_objects(),
    );
    let unnamed = stage.add(|_: Event<Thing>| ());

    assert_eq!(named.name(), "billing");
    assert!(
        unnamed
            .name()
            .ends_with("handlers_have_the_name_they_chose_or_that_of_their_code"),
        "{}",
        unnamed.name()
    );
    stage.stop(false).await;
}
