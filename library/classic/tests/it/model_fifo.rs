//! Random operations on a `Fifo`, compared with a list of distinct keys.

use futures_util::FutureExt;
use kube_informers_classic::{Failure, Fifo};
use proptest::prelude::*;

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
