//! Waiters in `get`: served in order, without lost wake-ups.

use crate::{drain, let_others_run, millis, take};
use kube_workqueue::{Item, WorkQueue};
use proptest::prelude::*;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use tokio::time::{advance, timeout};

/// Records that it was woken.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Getting = Pin<Box<dyn Future<Output = Option<Item<u32>>>>>;

/// A call of `get`, polled manually.
struct Waiter {
    future: Getting,
    flag: Arc<Flag>,
}

impl Waiter {
    fn new(queue: &WorkQueue<u32>) -> Self {
        let queue = queue.clone();
        Waiter {
            future: Box::pin(async move { queue.get().await }),
            flag: Arc::default(),
        }
    }

    fn poll(&mut self) -> Poll<Option<Item<u32>>> {
        self.flag.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(self.flag.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// A waiter that is waiting.
    fn waiting(queue: &WorkQueue<u32>) -> Self {
        let mut waiter = Self::new(queue);
        assert!(waiter.poll().is_pending());
        waiter
    }

    fn woken(&self) -> bool {
        self.flag.0.load(Ordering::SeqCst)
    }

    #[track_caller]
    fn key(&mut self) -> u32 {
        match self.poll() {
            Poll::Ready(Some(item)) => {
                let key = *item;
                item.forget();
                key
            }
            Poll::Ready(None) => panic!("the queue is shut down"),
            Poll::Pending => panic!("there should be a key for this waiter"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_key_wakes_the_first_waiter_only() {
    let queue = WorkQueue::default();
    let waiters: Vec<Waiter> = (0..3).map(|_| Waiter::waiting(&queue)).collect();

    queue.add(1);

    assert_eq!(
        waiters.iter().map(Waiter::woken).collect::<Vec<_>>(),
        [true, false, false]
    );
}

#[tokio::test(start_paused = true)]
async fn waiters_are_not_overtaken() {
    let queue = WorkQueue::default();
    let mut first = Waiter::waiting(&queue);
    let mut second = Waiter::waiting(&queue);
    queue.add(1);

    // Neither a later waiter, nor a new one, nor `try_get`.
    assert!(second.poll().is_pending());
    let mut newcomer = Waiter::waiting(&queue);
    assert!(queue.try_get().is_none());

    assert_eq!(first.key(), 1);
    queue.add(2);
    queue.add(3);
    queue.add(4);
    assert_eq!(
        *take(&queue),
        2,
        "only the unassigned key: there are three keys for two waiters"
    );
    assert_eq!(newcomer.key(), 3);
    assert_eq!(second.key(), 4);
}

#[tokio::test(start_paused = true)]
async fn dropped_waiter_passes_its_turn_on() {
    let queue = WorkQueue::default();
    let first = Waiter::waiting(&queue);
    let mut second = Waiter::waiting(&queue);
    queue.add(1);
    assert!(!second.woken());

    drop(first);

    assert!(second.woken());
    assert_eq!(second.key(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropped_waiter_passes_the_timer_on() {
    let queue = WorkQueue::default();
    let first = Waiter::waiting(&queue);
    let mut second = Waiter::waiting(&queue);
    queue.add_after(1, millis(10));
    assert!(first.woken(), "the first idle waiter sets its timer");
    assert!(!second.woken());

    drop(first);
    assert!(second.woken());
    assert!(second.poll().is_pending());

    advance(millis(10)).await;
    assert!(second.woken());
    assert_eq!(second.key(), 1);
}

#[tokio::test(start_paused = true)]
async fn waiter_that_receives_a_key_passes_the_timer_on() {
    let queue = WorkQueue::default();
    let mut first = Waiter::waiting(&queue);
    let mut second = Waiter::waiting(&queue);
    queue.add_after(1, millis(10));
    assert!(first.poll().is_pending());
    queue.add(2);

    assert!(second.woken(), "the second is now the first without a key");
    assert!(second.poll().is_pending());
    assert!(!second.woken(), "it has set its timer and can sleep");
    assert_eq!(first.key(), 2);

    advance(millis(10)).await;
    assert!(second.woken());
    assert_eq!(second.key(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_one_waiter_wakes_for_a_due_key() {
    let queue = WorkQueue::default();
    let mut waiters: Vec<Waiter> = (0..10).map(|_| Waiter::waiting(&queue)).collect();
    queue.add_after(1, millis(10));
    assert!(waiters[0].poll().is_pending());

    advance(millis(10)).await;

    assert_eq!(waiters.iter().filter(|waiter| waiter.woken()).count(), 1);
    assert_eq!(waiters[0].key(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropped_timer_is_set_again() {
    let queue = WorkQueue::default();
    let mut waiter = Waiter::waiting(&queue);
    queue.add_after(1, millis(10));
    assert!(waiter.poll().is_pending());
    assert!(queue.cancel_delayed(&1));
    // A spurious poll finds that there is nothing to wait for.
    assert!(waiter.poll().is_pending());

    queue.add_after(2, millis(20));

    assert!(waiter.woken());
    assert!(waiter.poll().is_pending());
    advance(millis(20)).await;
    assert_eq!(waiter.key(), 2);
}

#[tokio::test(start_paused = true)]
async fn get_under_a_timeout_loses_nothing() {
    let queue = WorkQueue::default();
    assert!(timeout(millis(5), queue.get()).await.is_err());
    queue.add_after(1, millis(5));
    for _ in 0..4 {
        assert!(timeout(millis(1), queue.get()).await.is_err());
    }
    let item = timeout(millis(1), queue.get()).await.expect("it is due").unwrap();
    assert_eq!(*item, 1);
    item.forget();
    assert_eq!(queue.stats().waiting_workers, 0);
}

#[tokio::test(start_paused = true)]
async fn get_in_a_select_loses_nothing() {
    let queue = WorkQueue::default();
    let producer = tokio::spawn({
        let queue = queue.clone();
        async move {
            for key in 0..1000 {
                queue.add(key);
                tokio::time::sleep(millis(3)).await;
            }
            queue.shutdown();
        }
    });

    let mut seen = Vec::new();
    loop {
        // Both branches may be cancelled at any time: `get` takes a key only when it returns it.
        tokio::select! {
            item = queue.get() => match item {
                Some(item) => {
                    seen.push(*item);
                    item.forget();
                }
                None => break,
            },
            () = tokio::time::sleep(millis(2)) => {}
        }
    }

    producer.await.unwrap();
    assert_eq!(seen, (0..1000).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn busy_worker_yields_to_other_tasks() {
    let queue = WorkQueue::default();
    for key in 0..10_000 {
        queue.add(key);
    }
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            while let Some(item) = queue.get().await {
                item.forget();
            }
        }
    });

    let_others_run().await;

    assert!(!queue.is_empty(), "the worker should have paused");
    queue.drain().await;
    worker.await.unwrap();
}

#[test]
fn no_runtime_is_needed_without_delays() {
    let queue = WorkQueue::default();
    let mut waiter = Waiter::waiting(&queue);
    queue.add(1);
    assert!(waiter.woken());
    assert_eq!(waiter.key(), 1);
    queue.add(2);
    assert_eq!(drain(&queue), [2]);
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Add,
    AddAfter(u64),
    Join,
    /// Polls the nth waiter, woken or not.
    Poll(usize),
    /// Polls every waiter that was woken.
    PollWoken,
    Leave(usize),
    TryGet,
    CancelDelayed(usize),
    Advance(u64),
    Finish,
    ShutDown,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => Just(Op::Add),
        4 => (0..20u64).prop_map(Op::AddAfter),
        6 => Just(Op::Join),
        3 => (0..8usize).prop_map(Op::Poll),
        3 => Just(Op::PollWoken),
        3 => (0..8usize).prop_map(Op::Leave),
        2 => Just(Op::TryGet),
        1 => (0..8usize).prop_map(Op::CancelDelayed),
        3 => (0..15u64).prop_map(Op::Advance),
        3 => Just(Op::Finish),
        1 => Just(Op::ShutDown),
    ]
}

proptest! {
    /// After every step each ready key has a woken waiter, as long as there are waiters; each key comes out exactly
    /// once; and after all delays, the remaining waiters have nothing to wait for.
    #[test]
    fn no_wake_up_is_lost_when_waiters_come_and_go(ops in prop::collection::vec(op(), 0..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(tokio::task::unconstrained(check_wake_ups(ops)))?;
    }
}

async fn check_wake_ups(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let queue = WorkQueue::default();
    let mut waiters: Vec<Waiter> = Vec::new();
    let mut next_key = 0;
    let mut delayed: Vec<u32> = Vec::new();
    let mut held: Vec<Item<u32>> = Vec::new();
    let (mut out, mut cancelled, mut down) = (Vec::new(), Vec::new(), false);

    // Each waiter that completes is removed with its key.
    let poll = |waiters: &mut Vec<Waiter>, index: usize, held: &mut Vec<Item<u32>>, out: &mut Vec<u32>| {
        match waiters[index].poll() {
            Poll::Ready(item) => {
                drop(waiters.remove(index));
                if let Some(item) = item {
                    out.push(*item);
                    held.push(item);
                }
                true
            }
            Poll::Pending => {
                assert!(
                    !waiters[index].woken(),
                    "a waiter that found nothing must not be woken by its own poll"
                );
                false
            }
        }
    };

    for op in ops.into_iter().chain([Op::Advance(1000), Op::PollWoken]) {
        match op {
            Op::Add if !down => {
                queue.add(next_key);
                next_key += 1;
            }
            Op::AddAfter(delay) if !down => {
                queue.add_after(next_key, millis(delay));
                delayed.push(next_key);
                next_key += 1;
            }
            Op::Add | Op::AddAfter(_) => {}
            Op::Join => {
                waiters.push(Waiter::new(&queue));
                let last = waiters.len() - 1;
                poll(&mut waiters, last, &mut held, &mut out);
            }
            Op::Poll(index) if index < waiters.len() => {
                poll(&mut waiters, index, &mut held, &mut out);
            }
            Op::PollWoken => {
                let mut index = 0;
                while index < waiters.len() {
                    if !(waiters[index].woken() && poll(&mut waiters, index, &mut held, &mut out)) {
                        index += 1;
                    }
                }
            }
            Op::Leave(index) if index < waiters.len() => drop(waiters.remove(index)),
            Op::Poll(_) | Op::Leave(_) => {}
            Op::TryGet => {
                if let Some(item) = queue.try_get() {
                    out.push(*item);
                    held.push(item);
                }
            }
            Op::CancelDelayed(index) => {
                if let Some(key) = delayed.get(index)
                    && queue.cancel_delayed(key)
                {
                    cancelled.push(*key);
                }
            }
            Op::Advance(by) => advance(millis(by)).await,
            Op::Finish => {
                if let Some(item) = held.pop() {
                    item.forget();
                }
            }
            Op::ShutDown => {
                down = true;
                queue.shutdown();
            }
        }
        // Reading the statistics would promote due keys; a waiter with a timer must do that by itself.
        if matches!(op, Op::Advance(_)) {
            let woken = waiters.iter().filter(|waiter| waiter.woken()).count();
            let stats = queue.stats();
            prop_assert!(
                woken >= stats.ready.min(waiters.len()).min(1),
                "after {op:?}: {stats:?}"
            );
        }
        let stats = queue.stats();
        prop_assert_eq!(stats.waiting_workers, waiters.len());
        for (place, waiter) in waiters.iter().enumerate() {
            let served = place < stats.ready || (down && stats.ready == 0);
            prop_assert!(
                !served || waiter.woken(),
                "waiter {} sleeps after {:?}: {:?}",
                place,
                op,
                stats
            );
        }
    }

    // All delays have passed and all woken waiters were polled, so no waiter is left while there is a key.
    let stats = queue.stats();
    prop_assert!(
        stats.ready == 0 || waiters.is_empty(),
        "{:?} with {} waiting",
        stats,
        waiters.len()
    );
    out.extend(drain(&queue));
    out.extend(cancelled);
    out.sort();
    if !down {
        prop_assert_eq!(out, (0..next_key).collect::<Vec<_>>());
    } else {
        let count = out.len();
        out.dedup();
        prop_assert_eq!(out.len(), count);
    }
    drop(held);
    Ok(())
}
