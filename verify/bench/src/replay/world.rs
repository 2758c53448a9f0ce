//! The state of the replay server: the objects, their last writes, and the pending changes.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use super::template::{Encoded, Encoding, FIRST_VERSION, Written};
use crate::pod::now_nanos;

/// A series of changes to send to watches.
#[derive(Clone, Copy, Debug)]
pub struct Play {
    /// The round written into the objects.
    pub round: u16,
    /// The number of changes.
    pub events: usize,
    /// Changes per second; `None` for as fast as they are read.
    pub per_second: Option<u32>,
}

/// A collection of pods for one client at a time.
pub struct World {
    json: Encoded,
    protobuf: Option<Encoded>,
    metadata: Option<Encoded>,
    state: Mutex<ReplayState>,
    /// Incremented on every change, to wake waiters.
    changes: watch::Sender<u64>,
}

struct ReplayState {
    written: Vec<Written>,
    version: u64,
    plays: VecDeque<Play>,
    due: Option<Instant>,
    next: usize,
    /// Watches of an older era receive a 410.
    era: u64,
}

/// The next step of a watch.
pub enum Step {
    /// Send these changes.
    Send(Vec<(usize, Written)>),
    /// Wait until this time.
    Wait(Instant),
    /// Wait for a change.
    Idle,
    /// The version is too old.
    Expired,
}

impl World {
    /// # Errors
    ///
    /// The two encodings hold different numbers of objects.
    pub fn new(json: Encoded, protobuf: Option<Encoded>) -> Result<Self, String> {
        let count = json.objects.len();
        if let Some(other) = protobuf
            .as_ref()
            .map(|other| other.objects.len())
            .filter(|other| *other != count)
        {
            return Err(format!(
                "there are {count} objects in JSON and {other} in protobuf: record both again"
            ));
        }
        let world = Self {
            json,
            metadata: protobuf.as_ref().and_then(Encoded::metadata_only),
            protobuf,
            state: Mutex::new(ReplayState {
                written: vec![Written::default(); count],
                version: FIRST_VERSION,
                plays: VecDeque::new(),
                due: None,
                next: 0,
                era: 0,
            }),
            changes: watch::Sender::new(0),
        };
        world.reset();
        Ok(world)
    }

    /// The objects in the best encoding that the client accepts.
    pub fn encoded(&self, encoding: Encoding) -> (&Encoded, Encoding) {
        match (&self.protobuf, encoding) {
            (Some(protobuf), Encoding::Protobuf) => (protobuf, Encoding::Protobuf),
            _ => (&self.json, Encoding::Json),
        }
    }

    /// The metadata of the objects, in protobuf.
    pub fn metadata(&self) -> Option<&Encoded> {
        self.metadata.as_ref()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.json.objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Restores the initial state and ends all watches.
    pub fn reset(&self) {
        {
            let mut state = self.state.lock();
            let count = state.written.len() as u64;
            for (index, written) in (0..).zip(&mut state.written) {
                *written = Written {
                    version: FIRST_VERSION + index,
                    ..Written::default()
                };
            }
            state.version = FIRST_VERSION + count;
            state.plays.clear();
            state.due = None;
            state.next = 0;
            state.era += 1;
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// Queues changes after the pending ones.
    pub fn play(&self, play: Play) {
        self.state.lock().plays.push_back(play);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Expires all watches; every `every`-th object has changed in between.
    pub fn expire(&self, round: u16, every: usize) {
        {
            let mut state = self.state.lock();
            let mut version = state.version;
            for written in state.written.iter_mut().step_by(every.max(1)) {
                version += 1;
                *written = Written {
                    version,
                    round,
                    nanos: now_nanos(),
                };
            }
            state.version = version;
            state.era += 1;
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// A snapshot of the collection: last writes, version, and the era for [`World::next`].
    pub fn snapshot(&self) -> (Vec<Written>, u64, u64) {
        let state = self.state.lock();
        (state.written.clone(), state.version, state.era)
    }

    /// The era, for a watch that resumes at a version.
    pub fn era(&self) -> u64 {
        self.state.lock().era
    }

    /// The next step of a watch of this era. Returned changes must be sent by the watch.
    pub fn next(&self, era: u64, batch: usize) -> Step {
        let mut state = self.state.lock();
        if state.era != era {
            return Step::Expired;
        }
        let Some(play) = state.plays.front().copied() else {
            return Step::Idle;
        };
        let mut batch = batch.min(play.events);
        if let Some(per_second) = play.per_second {
            let now = Instant::now();
            let due = *state.due.get_or_insert(now);
            if now < due {
                return Step::Wait(due);
            }
            state.due = Some(due + Duration::from_secs(1) / per_second.max(1));
            batch = batch.min(1);
        }
        let mut changes = Vec::with_capacity(batch);
        for _ in 0..batch {
            state.version += 1;
            let index = state.next % state.written.len().max(1);
            state.next += 1;
            let written = Written {
                version: state.version,
                round: play.round,
                nanos: now_nanos(),
            };
            if let Some(place) = state.written.get_mut(index) {
                *place = written;
                changes.push((index, written));
            }
        }
        if let Some(play) = state.plays.front_mut() {
            play.events -= batch;
            if play.events == 0 {
                state.plays.pop_front();
                state.due = None;
            }
        }
        Step::Send(changes)
    }

    /// Signals changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changes_are_sent_once_in_order_and_a_watch_expires_once() {
        let world = World::new(Encoded::made(3, Encoding::Json).unwrap(), None).unwrap();
        let (_, version, era) = world.snapshot();
        assert!(matches!(world.next(era, 10), Step::Idle));

        world.play(Play {
            round: 5,
            events: 4,
            per_second: None,
        });
        let Step::Send(changes) = world.next(era, 10) else {
            panic!("expected changes to send")
        };
        let sent: Vec<(usize, u64)> = changes
            .iter()
            .map(|(index, written)| (*index, written.version - version))
            .collect();
        assert_eq!(sent, [(0, 1), (1, 2), (2, 3), (0, 4)]);
        assert!(matches!(world.next(era, 10), Step::Idle));

        world.expire(6, 2);
        assert!(matches!(world.next(era, 10), Step::Expired));
        let (written, after, era) = world.snapshot();
        assert_eq!(after - version, 6);
        assert_eq!(
            written.iter().map(|written| written.round).collect::<Vec<_>>(),
            [6, 5, 6]
        );
        assert!(matches!(world.next(era, 10), Step::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn paced_changes_wait_in_between() {
        let world = World::new(Encoded::made(1, Encoding::Json).unwrap(), None).unwrap();
        world.play(Play {
            round: 1,
            events: 2,
            per_second: Some(100),
        });
        let (began, era) = (Instant::now(), world.era());

        assert!(matches!(world.next(era, 10), Step::Send(changes) if changes.len() == 1));
        let Step::Wait(until) = world.next(era, 10) else {
            panic!("expected to wait")
        };

        assert_eq!(until - began, Duration::from_millis(10));
    }
}
