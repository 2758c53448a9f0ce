//! Random operations on `InOrderQueue`, compared with a plain list.

use std::collections::VecDeque;

use kube_informers::delta::Delta;
use kube_informers::queue::InOrderQueue;
use kube_informers::target::Target;
use proptest::prelude::*;

use super::support::{
    Thing, accept, added, bookmark, deleted, drain, replaced_at, text, texts, try_pop, updated,
};

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
            prop_assert_eq!(queue.len(), model.len());
            let weight: usize = model.iter().map(|line| line.weight).sum();
            prop_assert_eq!(queue.has_room(), weight < CAPACITY);
            prop_assert_eq!(queue.has_synced(), populated && initial_done);
        }
        let rest: Vec<String> = model.into_iter().map(|line| line.text).collect();
        prop_assert_eq!(drain(&queue, 3).concat(), rest);
    }
}
