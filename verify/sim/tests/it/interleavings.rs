//! Random interleavings of threads, on the locks of the store, the mailboxes of handlers, the delta queue and the work queue.
//!
//! `shuttle` runs the threads of a test one at a time and chooses the next one whenever a lock is about to be taken. A wake-up
//! that is lost ends a schedule as a deadlock, which fails the test with the seed that replays it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube_informers::Store;
use kube_informers::delta::{Delta, Replacement};
use kube_informers::handler::Backlog;
use kube_informers::handler::HandlerOptions;
use kube_informers::queue::InOrderQueue;
use kube_informers::sim::{DeltaWriter, Dispatcher, Origin, subscription};
use kube_informers::target::Target;
use kube_informers::{Event, Subscription};
use kube_informers_core::tasks::lock::before_lock;
use kube_sim::object::Thing;
use kube_workqueue::WorkQueue;
use shuttle::future::block_on;
use shuttle::sync::atomic::AtomicBool;
use shuttle::sync::mpsc;
use shuttle::thread;
use tokio::time::Instant;

/// Schedules of each test. `SCHEDULES` changes it: `.ci/nightly` runs 10,000.
fn schedules() -> usize {
    let chosen = std::env::var("SCHEDULES").ok();
    chosen.and_then(|text| text.parse().ok()).unwrap_or(1000)
}

/// Lets another thread run. Not `yield_now`, which also wakes the task that calls it, and so hides a wake-up that was lost.
fn switch() {
    let _ = AtomicBool::new(false).load(Ordering::SeqCst);
}

fn check(test: impl Fn() + Send + Sync + 'static) {
    // The hook is that of the operating system's thread, on which all threads of a schedule run.
    before_lock(Some(switch));
    shuttle::check_random(test, schedules());
    before_lock(None);
}

fn thing(key: u32, revision: u64, label: u32) -> Arc<Thing> {
    Arc::new(Thing::new(key, u64::from(key) + 1, revision, label))
}

fn list(revision: u64, label: u32, keys: u32) -> Delta<Thing> {
    Delta::ReplacedAll(Replacement {
        objects: (0..keys).map(|key| thing(key, revision, label)).collect(),
        unreadable: Vec::new(),
        resource_version: Some(revision.to_string()),
        shard: None,
    })
}

fn apply(writer: &mut DeltaWriter<Thing>, delta: Delta<Thing>) -> Vec<Event<Thing>> {
    let mut events = Vec::new();
    let prepared = writer.prepare(Origin::default(), vec![delta]);
    writer.apply(prepared, &mut events);
    events
}

fn labels(store: &Store<Thing>) -> Vec<u32> {
    let mut labels: Vec<u32> = store.list().iter().map(|thing| thing.label).collect();
    labels.dedup();
    labels
}

/// `C4`
#[test]
fn readers_see_a_list_as_one_step_and_a_late_index_is_complete() {
    check(|| {
        let mut writer = DeltaWriter::<Thing>::new();
        let store = writer.store();
        let early = store.index_or_add("early", |thing: &Thing| [thing.label.to_string()]);
        apply(&mut writer, list(10, 1, 3));
        let reader = thread::spawn({
            let (store, early) = (store.clone(), early.clone());
            move || {
                let mut last = 0;
                for _ in 0..3 {
                    let seen = labels(&store);
                    assert_eq!(seen.len(), 1, "a part of a list: {seen:?}");
                    assert!(seen[0] >= last, "an older list after a newer one");
                    last = seen[0];
                    let found = early.get(&last.to_string()).len();
                    assert!(found == 0 || found == 3, "{found} of three objects in the index");
                }
            }
        });
        let indexer = thread::spawn({
            let store = store.clone();
            move || store.index_or_add("late", |thing: &Thing| [thing.label.to_string()])
        });
        apply(&mut writer, list(20, 2, 3));
        apply(&mut writer, list(30, 3, 3));
        reader.join().expect("the reader");
        let late = indexer.join().expect("the index");
        for label in ["1", "2", "3"] {
            let names = |index: &kube_informers::store::Index<Thing>| {
                let mut keys: Vec<u32> = index.get(label).iter().map(|thing| thing.key).collect();
                keys.sort_unstable();
                keys
            };
            assert_eq!(names(&early), names(&late), "label {label}");
        }
        assert_eq!(late.get("3").len(), 3);
    });
}

fn subscribe(
    dispatcher: &mut Dispatcher<Thing>,
    backlog: Backlog,
    store: &Store<Thing>,
    synced: bool,
) -> Subscription<Thing> {
    let options = HandlerOptions::default().backlog(backlog);
    subscription(dispatcher.subscribe(&options, Instant::now(), store.list(), synced))
}

/// The revisions of key 0 that a subscription returns until it ends.
fn revisions(mut events: Subscription<Thing>) -> Vec<u64> {
    let mut revisions = Vec::new();
    while let Some(event) = block_on(events.next()) {
        revisions.push(event.object().revision);
    }
    revisions
}

fn update(revision: u64) -> Delta<Thing> {
    Delta::Updated(thing(0, revision, 1))
}

#[test]
fn a_mailbox_delivers_everything_in_order_and_then_ends() {
    check(|| {
        let mut writer = DeltaWriter::<Thing>::new();
        let store = writer.store();
        apply(&mut writer, list(10, 1, 1));
        let mut dispatcher = Dispatcher::default();
        let all = subscribe(&mut dispatcher, Backlog::KeepAll, &store, false);
        let coalesced = subscribe(&mut dispatcher, Backlog::CoalesceByKey, &store, false);
        let (read, received) = mpsc::channel();
        let all = thread::spawn(move || {
            let mut all = all;
            while let Some(event) = block_on(all.next()) {
                read.send(event.object().revision).expect("the test listens");
            }
        });
        let coalesced = thread::spawn(move || revisions(coalesced));
        dispatcher.synced();
        for revision in 11..14 {
            dispatcher.dispatch(apply(&mut writer, update(revision)));
        }
        // Before the close, which would wake a reader that was not woken by an event.
        let seen: Vec<u64> = (0..4).filter_map(|_| received.recv().ok()).collect();
        assert_eq!(seen, [10, 11, 12, 13]);
        drop(dispatcher.close(true));
        all.join().expect("the reader");
        assert!(received.recv().is_err(), "more events than changes");
        let coalesced = coalesced.join().expect("the reader");
        assert_eq!(coalesced.last(), Some(&13), "the last state is always delivered");
        assert!(coalesced.is_sorted(), "{coalesced:?}");
    });
}

#[test]
fn handlers_that_join_and_leave_neither_miss_nor_repeat_events() {
    check(|| {
        let mut writer = DeltaWriter::<Thing>::new();
        let store = writer.store();
        apply(&mut writer, list(10, 1, 1));
        let mut dispatcher = Dispatcher::default();
        dispatcher.synced();
        let mut leaving = subscribe(&mut dispatcher, Backlog::KeepAll, &store, true);
        let leaver = thread::spawn(move || {
            let first = block_on(leaving.next()).map(|event| event.object().revision);
            // Dropped while the dispatcher sends.
            drop(leaving);
            first
        });
        dispatcher.dispatch(apply(&mut writer, update(11)));
        let late = subscribe(&mut dispatcher, Backlog::KeepAll, &store, true);
        let late = thread::spawn(move || revisions(late));
        dispatcher.dispatch(apply(&mut writer, update(12)));
        dispatcher.dispatch(apply(&mut writer, update(13)));
        assert_eq!(leaver.join().expect("the leaver"), Some(10));
        drop(dispatcher.close(true));
        assert_eq!(late.join().expect("the late handler"), [11, 12, 13]);
    });
}

#[test]
fn a_stop_ends_a_reader_wherever_it_is() {
    check(|| {
        let mut writer = DeltaWriter::<Thing>::new();
        let store = writer.store();
        apply(&mut writer, list(10, 1, 1));
        let mut dispatcher = Dispatcher::default();
        let reader = subscribe(&mut dispatcher, Backlog::KeepAll, &store, false);
        let reader = thread::spawn(move || revisions(reader));
        dispatcher.dispatch(apply(&mut writer, update(11)));
        drop(dispatcher.close(false));
        let read = reader.join().expect("the reader");
        assert!([10, 11].starts_with(&read), "{read:?}");
    });
}

#[test]
fn a_delta_queue_loses_nothing_and_syncs() {
    check(|| {
        let queue = Arc::new(InOrderQueue::<Thing>::new().capacity(2));
        let producer = thread::spawn({
            let queue = queue.clone();
            move || {
                queue.accept(list(10, 1, 1)).expect("accepted");
                for revision in 11..14 {
                    block_on(queue.room());
                    queue.accept(update(revision)).expect("accepted");
                }
            }
        });
        let waiter = thread::spawn({
            let queue = queue.clone();
            move || block_on(queue.synced())
        });
        let mut seen = Vec::new();
        // Closed only when everything has arrived: a close would wake a pop that was not woken by a delta.
        while seen.len() < 4 {
            let batch = block_on(queue.pop_batch(2)).expect("an open queue");
            for delta in batch.done() {
                match delta {
                    Delta::ReplacedAll(list) => seen.extend(list.objects.iter().map(|thing| thing.revision)),
                    Delta::Updated(thing) => seen.push(thing.revision),
                    _ => {}
                }
            }
        }
        producer.join().expect("the producer");
        assert_eq!(seen, [10, 11, 12, 13]);
        queue.close();
        assert_eq!(waiter.join().expect("the waiter"), Ok(()));
    });
}

#[test]
fn a_key_is_never_with_two_workers_and_every_add_is_followed_by_a_run() {
    check(|| {
        let queue = WorkQueue::<u32>::default();
        let value = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(AtomicUsize::new(0));
        let running = Arc::new(AtomicUsize::new(0));
        let worker = || {
            let (queue, value, seen, running) = (queue.clone(), value.clone(), seen.clone(), running.clone());
            thread::spawn(move || {
                while let Some(item) = block_on(queue.get()) {
                    assert_eq!(
                        running.fetch_add(1, Ordering::SeqCst),
                        0,
                        "two workers have one key"
                    );
                    let read = value.load(Ordering::SeqCst);
                    thread::yield_now();
                    seen.fetch_max(read, Ordering::SeqCst);
                    running.fetch_sub(1, Ordering::SeqCst);
                    item.done();
                }
            })
        };
        let workers = [worker(), worker()];
        for number in 1..4 {
            value.store(number, Ordering::SeqCst);
            queue.add(7);
        }
        block_on(queue.drain());
        for worker in workers {
            worker.join().expect("a worker");
        }
        assert_eq!(
            seen.load(Ordering::SeqCst),
            3,
            "the last add was not followed by a run"
        );
    });
}

#[test]
fn each_of_two_waiting_workers_receives_a_key() {
    check(|| {
        let queue = WorkQueue::<u32>::default();
        let worker = || {
            let queue = queue.clone();
            thread::spawn(move || {
                let item = block_on(queue.get())?;
                let key = *item;
                item.done();
                Some(key)
            })
        };
        let workers = [worker(), worker()];
        queue.add(1);
        queue.add(2);
        let mut keys: Vec<Option<u32>> = workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker"))
            .collect();
        keys.sort_unstable();
        assert_eq!(keys, [Some(1), Some(2)]);
    });
}

/// `Q6`
#[test]
fn a_shutdown_wakes_every_waiting_worker() {
    check(|| {
        let queue = WorkQueue::<u32>::default();
        let worker = || {
            let queue = queue.clone();
            thread::spawn(move || block_on(queue.get()).is_none())
        };
        let workers = [worker(), worker()];
        queue.shutdown();
        for worker in workers {
            assert!(worker.join().expect("a worker"));
        }
    });
}
