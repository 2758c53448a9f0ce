//! Compares the state machine with a simple model: random inputs, invariants Q1–Q10 after each.
//!
//! Q1 a key is queued at most once · Q2 never in flight twice · Q3 an add during a run causes exactly one more run ·
//! Q4 every add is followed by a run that starts after it, or a shutdown · Q5 drained means nothing queued and nothing
//! running · Q7 delayed keys are never early, the earlier time wins · Q8 memory is bounded by live keys · Q9 an unknown
//! `finish` is ignored · Q10 no key waits behind more than the queue held when it was added.
//!
//! Q6, that a shutdown wakes every waiter, is tested in `waiters` and `shutdown`.

use kube_workqueue::Priority;
use kube_workqueue::sim::{Added, Again, Finished, QueueMachine, Run};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

const AGEING: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Op {
    Add(u8, i32),
    AddAfter(u8, i32, u64),
    Take,
    /// Ends the nth run in progress; optionally adds the key again after some milliseconds.
    Finish(usize, Option<u64>),
    /// Ends a run that was finished before.
    FinishAgain,
    Cancel(u8),
    Pass(u64),
    Look,
    ShutDown,
    Discard,
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..12u8;
    let priority = prop_oneof![3 => Just(0), 1 => Just(-100), 1 => Just(100), 1 => -2..3i32];
    prop_oneof![
        8 => (key.clone(), priority.clone()).prop_map(|(key, priority)| Op::Add(key, priority)),
        5 => (key.clone(), priority, 0..40u64).prop_map(|(key, priority, delay)| Op::AddAfter(key, priority, delay)),
        8 => Just(Op::Take),
        8 => (0..6usize, prop::option::weighted(0.4, 0..40u64)).prop_map(|(run, again)| Op::Finish(run, again)),
        1 => Just(Op::FinishAgain),
        2 => key.prop_map(Op::Cancel),
        4 => (0..30u64).prop_map(Op::Pass),
        1 => Just(Op::Look),
    ]
}

/// A shutdown ends the interesting part, so it comes late if at all.
fn ops() -> impl Strategy<Value = Vec<Op>> {
    let ending = prop_oneof![
        Just(vec![]),
        Just(vec![Op::ShutDown]),
        Just(vec![Op::ShutDown, Op::Discard])
    ];
    (
        prop::collection::vec(op(), 0..150),
        ending,
        prop::collection::vec(op(), 0..30),
    )
        .prop_map(|(before, ending, after)| [before, ending, after].concat())
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    key: u8,
    priority: i32,
    /// Increases as keys become outstanding: smaller means older.
    age: u64,
    /// Increases as keys join a priority: the order within it.
    order: u64,
    /// The number of keys queued before it, and how many of its priority have gone before it since.
    ahead: usize,
    overtaken: usize,
}

#[derive(Default)]
struct Model {
    queued: Vec<Queued>,
    /// Running keys: since when, and the priority at which they were added again.
    running: BTreeMap<u8, (Run, Option<i32>)>,
    delayed: BTreeMap<u8, (u64, u64, i32)>,
    counter: u64,
    passed_over: u32,
    down: bool,
}

impl Model {
    fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn ask(&mut self, key: u8, priority: i32) {
        if let Some((_, again)) = self.running.get_mut(&key) {
            *again = Some(again.map_or(priority, |known| known.max(priority)));
        } else if let Some(index) = self.queued.iter().position(|queued| queued.key == key) {
            if priority > self.queued[index].priority {
                let (order, ahead) = (self.count(), self.queued.len() - 1);
                let queued = &mut self.queued[index];
                (queued.priority, queued.order, queued.ahead, queued.overtaken) = (priority, order, ahead, 0);
            }
        } else {
            let (age, ahead) = (self.count(), self.queued.len());
            self.queued.push(Queued {
                key,
                priority,
                age,
                order: age,
                ahead,
                overtaken: 0,
            });
        }
    }

    fn delay(&mut self, key: u8, priority: i32, due: u64) {
        let number = self.count();
        let entry = self.delayed.entry(key).or_insert((due, number, priority));
        entry.0 = entry.0.min(due);
        entry.2 = entry.2.max(priority);
    }

    fn advance(&mut self, now: u64) {
        let mut due: Vec<(u64, u64, u8, i32)> = self
            .delayed
            .iter()
            .filter(|(_, (due, _, _))| *due <= now)
            .map(|(key, (due, number, priority))| (*due, *number, *key, *priority))
            .collect();
        due.sort();
        for (_, _, key, priority) in due {
            self.delayed.remove(&key);
            self.ask(key, priority);
        }
    }

    fn take(&mut self) -> Option<Queued> {
        let oldest = *self.queued.iter().min_by_key(|queued| queued.age)?;
        let urgent = *self
            .queued
            .iter()
            .min_by_key(|queued| (std::cmp::Reverse(queued.priority), queued.order))?;
        let next = if self.passed_over >= AGEING {
            oldest
        } else {
            urgent
        };
        self.passed_over = if next.key == oldest.key {
            0
        } else {
            self.passed_over + 1
        };
        self.queued.retain(|queued| queued.key != next.key);
        for queued in self
            .queued
            .iter_mut()
            .filter(|queued| queued.priority == next.priority)
        {
            queued.overtaken += 1;
        }
        Some(next)
    }

    fn live(&self) -> usize {
        let keys = self.queued.iter().map(|queued| queued.key);
        keys.chain(self.running.keys().copied())
            .chain(self.delayed.keys().copied())
            .collect::<BTreeSet<_>>()
            .len()
    }
}

struct Check {
    start: Instant,
    now: u64,
    state: QueueMachine<u8>,
    model: Model,
    ended: Vec<Run>,
    /// Keys added since their last run started.
    owed: BTreeSet<u8>,
}

impl Check {
    fn at(&self, millis: u64) -> Instant {
        self.start + Duration::from_millis(millis)
    }

    fn again(priority: i32, delay: u64) -> Again {
        Again {
            delay: Duration::from_millis(delay),
            priority: Priority(priority),
            limited: false,
        }
    }

    fn step(&mut self, op: Op) -> Result<(), TestCaseError> {
        let now = self.at(self.now);
        match op {
            Op::Add(key, priority) => {
                let added = self.state.add(key, Priority(priority), now);
                prop_assert_eq!(matches!(added, Added::Refused(_)), self.model.down);
                if !self.model.down {
                    self.model.advance(self.now);
                    self.model.ask(key, priority);
                    self.owed.insert(key);
                }
            }
            Op::AddAfter(key, priority, delay) => {
                let added = self.state.add_after(key, Self::again(priority, delay), now);
                prop_assert_eq!(matches!(added, Added::Refused(_)), self.model.down);
                if !self.model.down {
                    self.owed.insert(key);
                    self.ask_after(key, priority, delay);
                }
            }
            Op::Look => {
                self.state.advance(now);
                self.model.advance(self.now);
            }
            Op::Take => self.take()?,
            Op::Finish(index, again) => {
                let Some((key, (run, asked))) = self
                    .model
                    .running
                    .iter()
                    .nth(index)
                    .map(|(key, run)| (*key, *run))
                else {
                    return Ok(());
                };
                let wish = again.map(|delay| Self::again(run.priority().0, delay));
                let finished = self.state.finish(run, wish, now);
                self.ended.push(run);
                self.model.advance(self.now);
                // The model may have added the key just now, because it was due.
                let asked = self.model.running.remove(&key).map_or(asked, |(_, asked)| asked);
                if let Some(priority) = asked {
                    self.model.ask(key, priority);
                }
                if let Some(delay) = again.filter(|_| !self.model.down) {
                    self.owed.insert(key);
                    self.ask_after(key, run.priority().0, delay);
                }
                let live = self.model.queued.iter().any(|queued| queued.key == key)
                    || self.model.delayed.contains_key(&key);
                prop_assert_eq!(matches!(finished, Finished::Live), live);
            }
            // Q9
            Op::FinishAgain => {
                for run in self.ended.iter().rev().take(3) {
                    prop_assert_eq!(self.state.finish(*run, None, now), Finished::Unknown);
                }
            }
            Op::Cancel(key) => {
                let cancelled = self.state.cancel(&key);
                prop_assert_eq!(cancelled.is_some(), self.model.delayed.remove(&key).is_some());
                if !self.is_outstanding(key) {
                    self.owed.remove(&key);
                }
            }
            // Keys that come due now are noticed by a later input.
            Op::Pass(millis) => self.now += millis,
            Op::ShutDown => {
                self.state.shutdown();
                self.model.down = true;
                for key in std::mem::take(&mut self.model.delayed).into_keys() {
                    if !self.is_outstanding(key) {
                        self.owed.remove(&key);
                    }
                }
            }
            Op::Discard => {
                self.state.discard();
                self.model.queued.clear();
                for (_, again) in self.model.running.values_mut() {
                    *again = None;
                }
                self.model.passed_over = 0;
                self.owed.clear();
            }
        }
        self.compare()
    }

    fn is_outstanding(&self, key: u8) -> bool {
        self.model.queued.iter().any(|queued| queued.key == key)
            || self
                .model
                .running
                .get(&key)
                .is_some_and(|(_, again)| again.is_some())
    }

    fn ask_after(&mut self, key: u8, priority: i32, delay: u64) {
        if delay == 0 {
            self.model.advance(self.now);
            self.model.ask(key, priority);
        } else {
            self.model.delay(key, priority, self.now + delay);
        }
    }

    fn take(&mut self) -> Result<(), TestCaseError> {
        let taken = self.state.take(self.at(self.now));
        let expected = self.model.take();
        prop_assert_eq!(
            taken.as_ref().map(|taken| taken.key),
            expected.map(|queued| queued.key)
        );
        let (Some(taken), Some(expected)) = (taken, expected) else {
            return Ok(());
        };
        prop_assert_eq!(taken.run.priority(), Priority(expected.priority));
        // Q10
        prop_assert!(expected.overtaken <= expected.ahead, "{:?}", expected);
        // Q2
        prop_assert!(self.model.running.insert(taken.key, (taken.run, None)).is_none());
        self.owed.remove(&taken.key);
        Ok(())
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        let (state, model) = (&self.state, &self.model);
        // Q1, Q3, Q7: machine and model hold the same number of keys, and take them in the same order.
        prop_assert_eq!(state.ready(), model.queued.len());
        prop_assert_eq!(state.running(), model.running.len());
        prop_assert_eq!(state.delayed(), model.delayed.len());
        prop_assert_eq!(
            state.next_due(),
            model.delayed.values().map(|(due, _, _)| self.at(*due)).min()
        );
        // Q8
        prop_assert_eq!(state.live(), model.live());
        // Q5
        prop_assert_eq!(
            state.is_drained(),
            model.queued.is_empty() && model.running.is_empty()
        );
        let stats = state.stats(self.at(self.now));
        let again = model
            .running
            .values()
            .filter(|(_, again)| again.is_some())
            .count();
        prop_assert_eq!(stats.depth, model.queued.len() + again);
        // Q4, as far as it can be checked before the end: owed keys are queued, delayed or added again.
        for key in &self.owed {
            prop_assert!(
                self.is_outstanding(*key) || model.delayed.contains_key(key),
                "key {} was lost",
                key
            );
        }
        Ok(())
    }

    /// Q4 and Q5: processes everything; then nothing is left and nothing is owed.
    fn work_off(&mut self) -> Result<(), TestCaseError> {
        while !self.model.running.is_empty() {
            self.step(Op::Finish(0, None))?;
        }
        self.step(Op::Pass(1000))?;
        self.step(Op::Look)?;
        while self.state.ready() > 0 {
            self.step(Op::Take)?;
            self.step(Op::Finish(0, None))?;
        }
        prop_assert!(self.owed.is_empty(), "never run: {:?}", self.owed);
        prop_assert_eq!(self.state.live(), 0);
        Ok(())
    }
}

proptest! {
    #[test]
    fn q1_to_q10_hold_after_every_input(ops in ops()) {
        let mut check = Check {
            start: Instant::now(),
            now: 0,
            state: QueueMachine::new(AGEING, true),
            model: Model::default(),
            ended: Vec::new(),
            owed: BTreeSet::new(),
        };
        for op in ops {
            check.step(op)?;
        }
        check.work_off()?;
    }
}
