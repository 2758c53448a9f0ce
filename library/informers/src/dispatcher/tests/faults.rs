//! Faults of the catalogue that are the dispatcher's to withstand.

use tokio::sync::Semaphore;

use super::*;
use crate::handler::blocking;

/// Join is snapshot plus position in one step, whenever it happens between two batches; leaving likewise.
#[tokio::test(start_paused = true)]
async fn f30_handler_added_at_any_moment_has_no_gap_and_no_duplicate() {
    let versions: Vec<_> = (0..20).map(|version| thing("a", version)).collect();
    for join_at in 1..20 {
        let mut stage = Stage::started();
        let record = Record::default();
        let mut registration = None;
        stage.dispatch([added(&versions[0])]);
        for n in 1..20 {
            if n == join_at {
                let snapshot = things(&[&versions[n - 1]]);
                registration = Some(stage.add_with(HandlerOptions::default(), record.handler(), snapshot));
            }
            stage.dispatch([updated(&versions[n - 1], &versions[n])]);
        }
        quiet().await;

        let mut expected = vec![format!("initial a{}", join_at - 1)];
        expected.extend((join_at..20).map(|n| format!("update a{} a{n}", n - 1)));
        assert_eq!(record.take(), expected, "joined at {join_at}");
        registration.unwrap().remove().await;
        stage.stop(false).await;
    }
}

/// A handler that finds its mailbox empty is woken by the next event, however the two interleave.
#[test]
fn f30_no_wake_up_is_lost_between_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut stage = Stage::started();
        let permits = Arc::new(Semaphore::new(0));
        let (one, other, third) = (permits.clone(), permits.clone(), permits.clone());
        stage.add(move |_: Event<Thing>| one.add_permits(1));
        stage.add_with(
            coalescing(),
            move |_: Event<Thing>| other.add_permits(1),
            no_objects(),
        );
        stage.add(blocking(move |_: Event<Thing>| third.add_permits(1)));

        for n in 0..2_000 {
            stage.dispatch([added(&thing("a", n))]);
            // Waits for all three before the next event: a lost wake-up would wait for ever.
            permits.acquire_many(3).await.unwrap().forget();
        }
        drop(stage.dispatcher.close(true));
        stage.spawner.wait().await;
    });
}

/// Everything at once, from several threads: handlers and subscriptions come and go while events are dispatched
/// and the dispatcher is closed. The only thing that may fail is to come too late.
///
/// Upstream: TestSharedInformerHandlerAbuse
#[test]
fn handlers_that_come_and_go_during_events_and_shutdown_do_no_harm() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let Stage {
            mut dispatcher,
            spawner,
        } = Stage::new();
        dispatcher.start(&spawner, Instant::now());
        let witness = Arc::new(Mutex::new(0_u64));
        let seen = witness.clone();
        let now = Instant::now();
        let options = HandlerOptions::default();
        let count = move |_: Event<Thing>| *seen.lock() += 1;
        let first = dispatcher
            .add(&options, erase(count), now, no_objects(), true)
            .unwrap();
        let dispatcher = Arc::new(Mutex::new(dispatcher));

        for worker in 0..100 {
            let dispatcher = dispatcher.clone();
            spawner.spawn(format!("abuser {worker}"), async move {
                for n in 0_usize.. {
                    let options = if n.is_multiple_of(2) {
                        coalescing()
                    } else {
                        HandlerOptions::default()
                    };
                    let snapshot = things(&[&thing("old", 1)]);
                    if n % 3 == worker % 3 {
                        let listener = dispatcher
                            .lock()
                            .subscribe(&options, Instant::now(), snapshot, true);
                        let mut subscription = Subscription::new(listener);
                        if subscription.next().await.is_none() {
                            break;
                        }
                        continue;
                    }
                    let runner = erase(|_: Event<Thing>| ());
                    let added = dispatcher
                        .lock()
                        .add(&options, runner, Instant::now(), snapshot, true);
                    let Ok(registration) = added else { break };
                    if n % 5 == 0 {
                        // The informer may stop first.
                        registration.synced().await.ok();
                    }
                    registration.remove().await;
                    assert!(registration.ended().is_some());
                }
            });
        }
        for n in 0..10_000 {
            dispatcher.lock().dispatch(vec![added(&thing("a", n))]);
            tokio::task::yield_now().await;
        }
        let leftovers = dispatcher.lock().close(true);
        drop(leftovers);
        spawner.wait().await;

        assert_eq!((*witness.lock(), first.delivered()), (10_000, 10_000));
        let dead = tokio::time::timeout(Duration::ZERO, spawner.died()).await;
        assert!(dead.is_err(), "{dead:?}");
        assert_eq!(dispatcher.lock().registrations().len(), 0);
    });
}

/// Counts what is alive, so that a test can see what a mailbox holds.
struct Counted {
    name: String,
    _alive: Arc<()>,
}

impl Object for Counted {
    fn object_name(&self) -> &str {
        &self.name
    }

    fn object_namespace(&self) -> Option<&str> {
        None
    }

    fn object_uid(&self) -> Option<&str> {
        None
    }

    fn object_version(&self) -> Option<&str> {
        None
    }
}

/// Five objects per key are the most a coalescing mailbox can hold: what the snapshot delivered, what waits in front of a
/// resync (old and new), and what waits behind it.
#[tokio::test(start_paused = true)]
async fn f32_a_handler_that_never_returns_costs_bounded_memory() {
    const KEYS: usize = 100;
    let alive = Arc::new(());
    let make = |name: String| {
        Arc::new(Counted {
            name,
            _alive: alive.clone(),
        })
    };
    let mut dispatcher = Dispatcher::<Counted>::default();
    let spawner = Spawner::new(Handle::current(), Span::none());
    dispatcher.start(&spawner, Instant::now());
    let mut live: Vec<_> = (0..KEYS).map(|n| make(format!("k{n}"))).collect();
    let options = coalescing().resync(Duration::from_secs(1));
    let handler = |_: Event<Counted>| std::future::pending();
    let registration = dispatcher
        .add(
            &options,
            erase(handler),
            Instant::now(),
            live.iter().cloned().collect(),
            true,
        )
        .unwrap();
    quiet().await;

    let mut events = Vec::new();
    for round in 0..500 {
        for (n, slot) in live.iter_mut().enumerate() {
            match round % 5 {
                // Every fifth round the objects are replaced by others of new names, which come and go.
                0 => {
                    let passing = make(format!("passing-{round}-{n}"));
                    events.push(Event::Added {
                        object: passing.clone(),
                        initial: false,
                    });
                    events.push(Event::Deleted {
                        object: passing,
                        cause: Cause::Observed,
                    });
                }
                1 => {
                    events.push(Event::Deleted {
                        object: slot.clone(),
                        cause: Cause::Observed,
                    });
                    *slot = make(format!("k{n}"));
                    events.push(Event::Added {
                        object: slot.clone(),
                        initial: false,
                    });
                }
                _ => {
                    let new = make(format!("k{n}"));
                    let old = std::mem::replace(slot, new.clone());
                    events.push(Event::Updated {
                        old,
                        new,
                        resync: false,
                    });
                }
            }
        }
        dispatcher.dispatch(std::mem::take(&mut events));
        tokio::time::advance(Duration::from_millis(250)).await;
        dispatcher.resync_due(Instant::now(), &live.iter().cloned().collect());

        assert!(
            registration.pending() <= 3 * KEYS,
            "{} events wait",
            registration.pending()
        );
        let objects = Arc::strong_count(&alive) - 1 - KEYS;
        assert!(objects <= 5 * KEYS, "{objects} objects are held in round {round}");
    }
    assert_eq!(registration.delivered(), 0);
    drop(dispatcher.close(false));
    spawner.wait().await;
    drop(live);
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// The dispatcher never waits for a handler, so neither does the task that reads the socket.
#[tokio::test(start_paused = true)]
async fn f33_dispatching_waits_for_no_handler() {
    let mut stage = Stage::started();
    let start = Instant::now();
    stage.add(|_: Event<Thing>| std::future::pending());
    stage.add_with(
        coalescing(),
        |_: Event<Thing>| std::future::pending(),
        no_objects(),
    );

    // No await between them, so the dispatcher cannot wait.
    for n in 0..10_000 {
        stage.dispatch([added(&thing("a", n))]);
    }

    assert_eq!(start.elapsed(), Duration::ZERO);
    stage.stop(false).await;
}
