//! The work queue against a plain model of its rules.
//!
//! `Q1` a key is queued at most once; `Q2` never two runs of one key at once; `Q3` an add during a run causes exactly one
//! more; `Q4` every add is followed by a run that starts after it; `Q5` drained means that nothing is queued or running; `Q7`
//! delayed keys are not early, and the earlier time wins; `Q8` nothing is kept about a key that has left; `Q9` the end of an
//! unknown run changes nothing; `Q10` first in, first out within a priority, and no key is passed over for ever.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use fastrand::Rng;
use kube_workqueue::Priority;
use kube_workqueue::sim::{Added, Again, Finished, QueueMachine, Run};
use tokio::time::Instant;

use crate::invariants::{Check, Violation, violated};

/// What the model knows about a key.
#[derive(Clone, Debug, Default)]
struct KeyModel {
    /// Its priority, when it became ready, and how many older keys were ready then.
    ready: Option<Waiting>,
    running: bool,
    /// Added during the run, with this priority.
    again: Option<i32>,
    delayed: Option<(u64, i32, u64)>,
    limited: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    priority: i32,
    /// The order within the priority.
    turn: u64,
    /// The number of picks when it became ready, and of older keys.
    picks: u64,
    older: u64,
}

struct Model {
    keys: BTreeMap<u32, KeyModel>,
    now: u64,
    turns: u64,
    picks: u64,
    shutting_down: bool,
    ageing: u32,
}

impl Model {
    fn ready(&self) -> usize {
        self.keys.values().filter(|key| key.ready.is_some()).count()
    }

    fn ask(&mut self, key: u32, priority: i32) {
        let older = self.ready() as u64;
        self.turns += 1;
        let (turn, picks) = (self.turns, self.picks);
        let state = self.keys.entry(key).or_default();
        if state.running {
            state.again = Some(state.again.map_or(priority, |before| before.max(priority)));
            return;
        }
        match &mut state.ready {
            Some(waiting) if priority > waiting.priority => {
                waiting.priority = priority;
                waiting.turn = turn;
            }
            Some(_) => {}
            None => {
                state.ready = Some(Waiting {
                    priority,
                    turn,
                    picks,
                    older,
                });
            }
        }
    }

    fn delay(&mut self, key: u32, due: u64, priority: i32) {
        self.turns += 1;
        let number = self.turns;
        let delayed = &mut self.keys.entry(key).or_default().delayed;
        *delayed = Some(match *delayed {
            Some((before, raised, number)) => (before.min(due), raised.max(priority), number),
            None => (due, priority, number),
        });
    }

    /// Makes due keys ready, the earliest first.
    fn advance(&mut self) {
        let now = self.now;
        let mut due: Vec<(u64, u64, u32, i32)> = (self.keys.iter())
            .filter_map(|(key, state)| {
                let (due, priority, number) = state.delayed?;
                (due <= now).then_some((due, number, *key, priority))
            })
            .collect();
        due.sort_unstable();
        for (_, _, key, priority) in due {
            if let Some(state) = self.keys.get_mut(&key) {
                state.delayed = None;
            }
            self.ask(key, priority);
        }
    }

    fn forget_idle(&mut self) {
        self.keys
            .retain(|_, key| key.ready.is_some() || key.running || key.delayed.is_some());
    }

    /// The key that is next if nothing ages.
    fn next(&self) -> Option<u32> {
        let ready = self
            .keys
            .iter()
            .filter_map(|(key, state)| Some((key, state.ready?)));
        ready
            .max_by_key(|(_, waiting)| (waiting.priority, std::cmp::Reverse(waiting.turn)))
            .map(|(key, _)| *key)
    }
}

/// The line about a seed that violates something, with the command that replays it.
pub fn failure(seed: u64) -> Option<String> {
    let (hash, failure) = run(seed);
    let (step, Violation { invariant, detail }) = failure?;
    Some(format!(
        "seed={seed} profile=workqueue step={step} invariant={invariant} hash={hash:016x}: {detail}; \
         replay: cargo run -p kube-sim -- workqueue --from {seed} --seeds 1"
    ))
}

/// Runs one seed. Returns the hash of the trace, and what was violated at which step.
pub fn run(seed: u64) -> (u64, Option<(usize, Violation)>) {
    let mut rng = Rng::with_seed(seed ^ 0x90e0e);
    let ageing = [0, 1, 3][rng.usize(0..3)];
    let start = Instant::now();
    let mut world = World {
        machine: QueueMachine::new(ageing, true),
        model: Model {
            keys: BTreeMap::new(),
            now: 0,
            turns: 0,
            picks: 0,
            shutting_down: false,
            ageing,
        },
        start,
        runs: Vec::new(),
        finished: Vec::new(),
        trace: DefaultHasher::new(),
    };
    let steps = rng.usize(20..300);
    let keys = rng.u32(1..7);
    for step in 0..steps {
        let done = world.step(&mut rng, keys).and_then(|()| world.check());
        if let Err(violation) = done {
            return (world.trace.finish(), Some((step, violation)));
        }
    }
    let result = world.work_off();
    (
        world.trace.finish(),
        result.err().map(|violation| (steps, violation)),
    )
}

struct World {
    machine: QueueMachine<u32>,
    model: Model,
    start: Instant,
    runs: Vec<(u32, Run)>,
    finished: Vec<Run>,
    trace: DefaultHasher,
}

impl World {
    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.model.now)
    }

    fn step(&mut self, rng: &mut Rng, keys: u32) -> Check {
        let key = rng.u32(0..keys);
        let priority = rng.i32(-1..2);
        match rng.u32(0..20) {
            0..=5 => self.add(key, priority),
            6..=7 => self.add_after(key, rng.u64(1..500), priority, rng.bool()),
            8..=11 => self.take(),
            12..=14 => {
                let again = (rng.u32(0..3) == 0).then(|| (rng.u64(0..300), priority, rng.bool()));
                let position = rng.usize(0..self.runs.len().max(1));
                self.finish(position, again)
            }
            15 => self.finish_again(rng),
            16 => self.cancel(key),
            17..=18 => {
                self.model.now += rng.u64(0..400);
                self.model.advance();
                self.machine.advance(self.now());
                Ok(())
            }
            _ if rng.u32(0..40) == 0 => self.shut_down(),
            _ => Ok(()),
        }
    }

    fn add(&mut self, key: u32, priority: i32) -> Check {
        self.model.advance();
        let was_known = self.model.keys.contains_key(&key);
        let added = self.machine.add(key, Priority(priority), self.now());
        let expected = match (self.model.shutting_down, was_known) {
            (true, _) => Added::Refused(key),
            (false, true) => Added::Merged(key),
            (false, false) => Added::New,
        };
        if self.model.shutting_down {
            // Refused before anything else.
        } else {
            self.model.ask(key, priority);
        }
        if added != expected {
            return violated("Q1", format!("add of {key}: {added:?}, expected {expected:?}"));
        }
        Ok(())
    }

    fn add_after(&mut self, key: u32, delay: u64, priority: i32, limited: bool) -> Check {
        let again = Again {
            delay: Duration::from_millis(delay),
            priority: Priority(priority),
            limited,
        };
        self.machine.add_after(key, again, self.now());
        if !self.model.shutting_down {
            let due = self.model.now + delay;
            self.model.delay(key, due, priority);
            if let Some(state) = self.model.keys.get_mut(&key) {
                state.limited |= limited;
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Check {
        let expected = self.model.next();
        let Some(taken) = self.machine.take(self.now()) else {
            return match expected {
                Some(key) => violated("Q4", format!("key {key} is ready, and none was taken")),
                None => Ok(()),
            };
        };
        let key = taken.key;
        key.hash(&mut self.trace);
        let ageing = u64::from(self.model.ageing);
        self.model.picks += 1;
        let Some(state) = self.model.keys.get_mut(&key) else {
            return violated("Q8", format!("key {key} was taken and is unknown"));
        };
        if state.running {
            return violated("Q2", format!("key {key} was taken twice"));
        }
        let Some(waiting) = state.ready.take() else {
            return violated("Q7", format!("key {key} was taken and is not ready"));
        };
        state.running = true;
        self.runs.push((key, taken.run));
        if ageing == 0 && expected != Some(key) {
            return violated("Q10", format!("key {key} was taken, next is {expected:?}"));
        }
        let waited = self.model.picks - waiting.picks;
        if ageing > 0 && waited > (waiting.older + 1) * (ageing + 1) {
            return violated("Q10", format!("key {key} was passed over {waited} times"));
        }
        Ok(())
    }

    fn finish(&mut self, position: usize, again: Option<(u64, i32, bool)>) -> Check {
        if position >= self.runs.len() {
            return Ok(());
        }
        let (key, run) = self.runs.remove(position);
        self.finished.push(run);
        let request = again.map(|(delay, priority, limited)| Again {
            delay: Duration::from_millis(delay),
            priority: Priority(priority),
            limited,
        });
        self.model.advance();
        let finished = self.machine.finish(run, request, self.now());
        if let Some(state) = self.model.keys.get_mut(&key) {
            state.running = false;
            if let Some(priority) = state.again.take() {
                self.model.ask(key, priority);
            }
        }
        if let Some((delay, priority, limited)) = again {
            if let Some(state) = self.model.keys.get_mut(&key) {
                state.limited |= limited;
            }
            match delay {
                _ if self.model.shutting_down => {}
                0 => self.model.ask(key, priority),
                delay => self.model.delay(key, self.model.now + delay, priority),
            }
        }
        let limited = self.model.keys.get(&key).is_some_and(|state| state.limited);
        self.model.forget_idle();
        match (finished, self.model.keys.contains_key(&key)) {
            (Finished::Live, true) => Ok(()),
            (Finished::Gone(gone), false) if gone.limited == limited => Ok(()),
            (Finished::Gone(_), false) => {
                violated("Q8", format!("key {key} left, and its failure count is kept"))
            }
            (other, live) => violated(
                "Q3",
                format!("the end of {key}: {other:?}, expected live: {live}"),
            ),
        }
    }

    fn finish_again(&mut self, rng: &mut Rng) -> Check {
        if self.finished.is_empty() {
            return Ok(());
        }
        let run = self.finished[rng.usize(0..self.finished.len())];
        match self.machine.finish(run, None, self.now()) {
            Finished::Unknown => Ok(()),
            other => violated("Q9", format!("a run that ended before: {other:?}")),
        }
    }

    fn cancel(&mut self, key: u32) -> Check {
        let expected = self
            .model
            .keys
            .get(&key)
            .is_some_and(|state| state.delayed.is_some());
        let cancelled = self.machine.cancel(&key).is_some();
        if let Some(state) = self.model.keys.get_mut(&key) {
            state.delayed = None;
        }
        self.model.forget_idle();
        if cancelled != expected {
            return violated(
                "Q7",
                format!("cancelling {key}: {cancelled}, expected {expected}"),
            );
        }
        Ok(())
    }

    fn shut_down(&mut self) -> Check {
        self.machine.shutdown();
        self.model.shutting_down = true;
        self.model
            .keys
            .values_mut()
            .for_each(|state| state.delayed = None);
        self.model.forget_idle();
        Ok(())
    }

    /// The counts of the machine are those of the model.
    fn check(&mut self) -> Check {
        let model = &self.model;
        let ready = model.ready();
        let running = model.keys.values().filter(|key| key.running).count();
        let delayed = model.keys.values().filter(|key| key.delayed.is_some()).count();
        let machine = &self.machine;
        (ready, running, delayed).hash(&mut self.trace);
        if machine.ready() != ready {
            return violated(
                "Q1",
                format!("{} keys are ready, expected {ready}", machine.ready()),
            );
        }
        if machine.running() != running {
            return violated(
                "Q2",
                format!("{} keys run, expected {running}", machine.running()),
            );
        }
        if machine.delayed() != delayed {
            return violated(
                "Q7",
                format!("{} keys are delayed, expected {delayed}", machine.delayed()),
            );
        }
        if machine.live() != model.keys.len() {
            return violated(
                "Q8",
                format!("{} keys are held, expected {}", machine.live(), model.keys.len()),
            );
        }
        if machine.is_drained() != (ready == 0 && running == 0) {
            return violated("Q5", "drained although keys are queued or running");
        }
        let due = model
            .keys
            .values()
            .filter_map(|key| key.delayed)
            .map(|(due, ..)| due)
            .min();
        let next = machine
            .next_due()
            .map(|due| due.duration_since(self.start).as_millis() as u64);
        if next != due {
            return violated("Q7", format!("the next key is due at {next:?}, expected {due:?}"));
        }
        Ok(())
    }

    /// Time passes and workers work until nothing is left.
    fn work_off(&mut self) -> Check {
        for _ in 0..10_000 {
            self.model.now += 1000;
            self.model.advance();
            self.machine.advance(self.now());
            self.take()?;
            self.finish(0, None)?;
            self.check()?;
            if self.model.keys.is_empty() {
                break;
            }
        }
        if self.machine.live() > 0 {
            return violated("Q4", format!("{} keys are left", self.machine.live()));
        }
        Ok(())
    }
}
