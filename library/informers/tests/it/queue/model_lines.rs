//! Random operations on `InOrderQueue` and `Fifo`, compared with a plain list.

use std::collections::VecDeque;

use futures_util::FutureExt;
use kube_informers::delta::Delta;
use kube_informers::queue::{DeltaQueue, Failure, Fifo, InOrderQueue};
use kube_informers::target::Target;
use proptest::prelude::*;

use super::support::{Thing, accept, added, bookmark, deleted, replaced_at, text, texts, try_pop, updated};

#[derive(Clone, Debug)]
enum Op {
    Accept(Delta0),
    Pop { max: usize, end: End },
}

/// A delta that can be printed.
#[derive(Clone, Copy, Debug)]
enum Delta0 {
    Added(u8),
    Updated(u8),
    Deleted(u8),
    List(u8),
    Resync,
    Bookmark,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Done,
    Dropped,
    /// Requeues all but the first deltas.
    Requeue(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let delta = prop_oneof![
        4 => (0..3u8).prop_map(Delta0::Added),
        4 => (0..3u8).prop_map(Delta0::Updated),
        2 => (0..3u8).prop_map(Delta0::Deleted),
        2 => (0..4u8).prop_map(Delta0::List),
        1 => Just(Delta0::Resync),
        3 => Just(Delta0::Bookmark),
    ];
    let end = prop_oneof![
        2 => Just(End::Done),
        1 => Just(End::Dropped),
        2 => (0..4usize).prop_map(End::Requeue),
    ];
    prop_oneof![
        3 => delta.prop_map(Op::Accept),
        2 => (1..5usize, end).prop_map(|(max, end)| Op::Pop { max, end }),
    ]
}

fn delta(kind: Delta0, number: u64) -> Delta<Thing> {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    match kind {
        Delta0::Added(name) => added(NAMES[usize::from(name)], number),
        Delta0::Updated(name) => updated(NAMES[usize::from(name)], number),
        Delta0::Deleted(name) => deleted(NAMES[usize::from(name)], number),
        Delta0::List(count) => {
            let objects: Vec<(&str, u64)> = NAMES.iter().map(|name| (*name, number)).collect();
            replaced_at(number, &objects[..usize::from(count)])
        }
        Delta0::Resync => Delta::SyncAll,
        Delta0::Bookmark => bookmark(number),
    }
}

/// One queued delta of the model.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    text: String,
    kind: &'static str,
    weight: usize,
    initial: bool,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn in_order_queue_matches_a_list(ops in prop::collection::vec(op(), 1..80)) {
        const CAPACITY: usize = 5;
        let queue = InOrderQueue::new().capacity(CAPACITY);
        let mut model: VecDeque<Line> = VecDeque::new();
        let mut populated = false;
        let mut initial_done = true;

        for (number, op) in (1..).zip(ops) {
            match op {
                Op::Accept(kind) => {
                    let delta = delta(kind, number);
                    let first_list = delta.name() == "ReplacedAll" && !populated;
                    if first_list {
                        initial_done = false;
                    }
                    populated |= !matches!(delta.name(), "SyncAll" | "Bookmark");
                    let line = Line {
                        text: text(&delta),
                        kind: delta.name(),
                        weight: match kind { Delta0::List(count) => usize::from(count).max(1), _ => 1 },
                        initial: first_list,
                    };
                    let merges = matches!(line.kind, "SyncAll" | "Bookmark");
                    if merges && model.back().is_some_and(|last| last.kind == line.kind) {
                        model.pop_back();
                    }
                    model.push_back(line);
                    accept(&queue, [delta]);
                }
                Op::Pop { max, end } => {
                    let Some(mut batch) = try_pop(&queue, max) else {
                        prop_assert!(model.is_empty());
                        continue;
                    };
                    // Exactly the front of the queue, as far as it fits into one batch.
                    let count = batch.deltas.len();
                    let front: Vec<Line> = model.drain(..count).collect();
                    prop_assert_eq!(texts(&batch.deltas), front.iter().map(|line| line.text.clone()).collect::<Vec<_>>());
                    let alone = |line: &Line| matches!(line.kind, "ReplacedAll" | "SyncAll");
                    prop_assert!(count <= max);
                    prop_assert!(count == 1 || !front.iter().any(alone));
                    prop_assert!(front.iter().all(|line| line.initial == batch.initial));
                    let full = count == max || alone(&front[0]) || model.front().is_none_or(alone);
                    prop_assert!(full, "a batch of {} could hold more", count);
                    match end {
                        End::Done => drop(batch.done()),
                        End::Dropped => drop(batch),
                        End::Requeue(processed) => {
                            let processed = processed.min(count);
                            batch.deltas.drain(..processed);
                            for line in front[processed..].iter().rev() {
                                model.push_front(line.clone());
                            }
                            batch.requeue();
                        }
                    }
                    let requeued = matches!(end, End::Requeue(processed) if processed < count);
                    initial_done |= front[0].initial && !requeued;
                }
            }
            prop_assert_eq!(texts(&queue.list()), model.iter().map(|line| line.text.clone()).collect::<Vec<_>>());
            let weight: usize = model.iter().map(|line| line.weight).sum();
            prop_assert_eq!(queue.has_room(), weight < CAPACITY);
            prop_assert_eq!(queue.has_synced(), populated && initial_done);
        }
    }
}

#[derive(Clone, Debug)]
enum FifoOp {
    Add(u8),
    AddIfAbsent(u8),
    Delete(u8),
    Replace(Vec<u8>),
    /// Pops, possibly adds a value meanwhile, and then succeeds, fails, or requests a requeue.
    Pop {
        meanwhile: Option<u8>,
        end: FifoEnd,
    },
}

#[derive(Clone, Copy, Debug)]
enum FifoEnd {
    Done,
    Lost,
    Requeue,
}

fn fifo_op() -> impl Strategy<Value = FifoOp> {
    let end = prop_oneof![
        3 => Just(FifoEnd::Done),
        1 => Just(FifoEnd::Lost),
        2 => Just(FifoEnd::Requeue),
    ];
    prop_oneof![
        4 => (0..4u8).prop_map(FifoOp::Add),
        2 => (0..4u8).prop_map(FifoOp::AddIfAbsent),
        2 => (0..4u8).prop_map(FifoOp::Delete),
        2 => prop::collection::vec(0..4u8, 0..5).prop_map(FifoOp::Replace),
        5 => (prop::option::of(0..4u8), end).prop_map(|(meanwhile, end)| FifoOp::Pop { meanwhile, end }),
    ]
}

/// The model of a `Fifo`: entries in order, with key, value and the initial flag.
#[derive(Default)]
struct FifoModel {
    line: Vec<(u8, u64, bool)>,
    populated: bool,
}

impl FifoModel {
    fn queued(&mut self, key: u8) -> Option<&mut (u8, u64, bool)> {
        self.line.iter_mut().find(|entry| entry.0 == key)
    }

    fn add(&mut self, key: u8, value: u64) {
        self.populated = true;
        match self.queued(key) {
            Some(entry) => entry.1 = value,
            None => self.line.push((key, value, false)),
        }
    }

    fn has_synced(&self) -> bool {
        self.populated && !self.line.iter().any(|entry| entry.2)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn fifo_matches_a_list_of_distinct_keys(ops in prop::collection::vec(fifo_op(), 1..60)) {
        let fifo = Fifo::new(|item: &(u8, u64)| item.0);
        let mut model = FifoModel::default();

        for (number, op) in (1..).zip(ops) {
            match op {
                FifoOp::Add(key) => {
                    fifo.add((key, number));
                    model.add(key, number);
                }
                FifoOp::AddIfAbsent(key) => {
                    let absent = model.queued(key).is_none();
                    model.populated = true;
                    if absent {
                        model.add(key, number);
                    }
                    prop_assert_eq!(fifo.add_if_absent((key, number)), absent);
                }
                FifoOp::Delete(key) => {
                    let value = model.queued(key).map(|entry| entry.1);
                    model.populated = true;
                    model.line.retain(|entry| entry.0 != key);
                    prop_assert_eq!(fifo.delete(&key).map(|item| item.1), value);
                }
                FifoOp::Replace(keys) => {
                    let initial = !model.populated;
                    model.line.clear();
                    for key in &keys {
                        model.add(*key, number);
                    }
                    model.populated = true;
                    model.line.iter_mut().for_each(|entry| entry.2 = initial);
                    fifo.replace(keys.iter().map(|key| (*key, number)));
                }
                FifoOp::Pop { meanwhile, end } => {
                    if model.line.is_empty() {
                        prop_assert!(fifo.pop(|_, _| Ok(())).now_or_never().is_none());
                        continue;
                    }
                    let (key, value, initial) = model.line.remove(0);
                    if let Some(other) = meanwhile {
                        model.add(other, number);
                    }
                    if matches!(end, FifoEnd::Requeue) {
                        match model.queued(key) {
                            Some(newer) => newer.2 |= initial,
                            None => model.line.push((key, value, initial)),
                        }
                    }
                    let mut seen = None;
                    let popped = fifo.pop(|item, info| {
                        seen = Some((*item, info.initial, fifo.has_synced()));
                        meanwhile.into_iter().for_each(|other| fifo.add((other, number)));
                        match end {
                            FifoEnd::Done => Ok(()),
                            FifoEnd::Lost => Err(Failure::lose("lost")),
                            FifoEnd::Requeue => Err(Failure::requeue("not now")),
                        }
                    });
                    let popped = popped.now_or_never().expect("something to pop");
                    let (item, flag, synced) = seen.expect("processed");
                    prop_assert_eq!((item, flag), ((key, value), initial));
                    prop_assert!(!(initial && synced), "synced while an initial value is processed");
                    prop_assert_eq!(popped.is_ok(), matches!(end, FifoEnd::Done));
                }
            }
            let line: Vec<(u8, u64)> = model.line.iter().map(|entry| (entry.0, entry.1)).collect();
            prop_assert_eq!(fifo.list().iter().map(|item| **item).collect::<Vec<_>>(), line);
            prop_assert_eq!(fifo.has_synced(), model.has_synced());
        }
    }
}
