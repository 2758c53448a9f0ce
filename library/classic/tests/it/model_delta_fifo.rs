//! Random histories of a server through a `DeltaFifo` into a consumer that is slow, fails and retries.
//!
//! Whenever the queue reports a version, the consumer holds the state of the server at that version.

use std::collections::{BTreeMap, HashMap};

use kube_informers::delta::{Delta as Input, Replacement};
use kube_informers::target::Target;
use kube_informers_classic::{Batch, Delta, DeltaFifo};
use proptest::prelude::*;

use crate::queue_support::{Held, Thing, accept, bad, bookmark, text, try_pop, versioned};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Copy, Debug)]
enum Change {
    Write(usize),
    /// An unreadable state.
    Spoil(usize),
    Delete(usize),
}

#[derive(Clone, Debug)]
enum Op {
    /// The change arrives as a watch event.
    Watched(Change),
    /// The change is missed and followed by a list.
    Relist(Vec<Change>),
    Bookmark,
    Resync,
    /// Pops a batch, if none is in flight.
    Pop(usize),
    /// Applies the batch in flight, and keeps it.
    Apply,
    /// Applies the batch in flight, and ends it.
    Done,
    /// Requeues the batch in flight.
    Requeue,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0..NAMES.len()).prop_map(Change::Write),
        1 => (0..NAMES.len()).prop_map(Change::Spoil),
        3 => (0..NAMES.len()).prop_map(Change::Delete),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => change().prop_map(Op::Watched),
        2 => prop::collection::vec(change(), 0..4).prop_map(Op::Relist),
        1 => Just(Op::Bookmark),
        1 => Just(Op::Resync),
        5 => (1..5usize).prop_map(Op::Pop),
        2 => Just(Op::Apply),
        4 => Just(Op::Done),
        2 => Just(Op::Requeue),
    ]
}

/// The state of a server: versions by name, and whether they are readable.
type Collection = BTreeMap<String, (u64, bool)>;

#[derive(Default)]
struct Server {
    now: Collection,
    version: u64,
    history: HashMap<String, Collection>,
}

impl Server {
    fn change(&mut self, change: Change) -> Option<Input<Thing>> {
        let version = self.version + 1;
        let (name, readable) = match change {
            Change::Write(name) => (NAMES[name], Some(true)),
            Change::Spoil(name) => (NAMES[name], Some(false)),
            Change::Delete(name) => (NAMES[name], None),
        };
        let before = match readable {
            Some(readable) => self.now.insert(name.to_owned(), (version, readable)),
            None => Some(self.now.remove(name)?),
        };
        self.version = version;
        self.remember();
        Some(match (readable, before) {
            (Some(false), _) => Input::Unreadable(bad(name, Some(version))),
            (Some(true), None) => Input::Added(versioned(name, version)),
            (Some(true), Some(_)) => Input::Updated(versioned(name, version)),
            (None, Some((_, false))) => Input::DeletedUnreadable(bad(name, Some(version))),
            (None, _) => Input::Deleted(versioned(name, version)),
        })
    }

    fn list(&mut self) -> Input<Thing> {
        self.version += 1;
        self.remember();
        let (readable, unreadable): (Vec<_>, Vec<_>) =
            self.now.iter().partition(|(_, (_, readable))| *readable);
        Input::ReplacedAll(Replacement {
            shard: None,
            objects: readable
                .into_iter()
                .map(|(name, (version, _))| versioned(name, *version))
                .collect(),
            unreadable: unreadable
                .into_iter()
                .map(|(name, (version, _))| bad(name, Some(*version)))
                .collect(),
            resource_version: Some(self.version.to_string()),
        })
    }

    fn remember(&mut self) {
        self.history.insert(self.version.to_string(), self.now.clone());
    }
}

struct World {
    server: Server,
    queue: DeltaFifo<Thing>,
    held: Held,
    out: Option<Batch<Thing>>,
    synced: bool,
}

impl World {
    fn step(&mut self, op: Op) {
        match op {
            Op::Watched(change) => {
                let delta = self.server.change(change);
                accept(&self.queue, delta);
            }
            Op::Relist(missed) => {
                for change in missed {
                    self.server.change(change);
                }
                let list = self.server.list();
                accept(&self.queue, [list]);
            }
            Op::Bookmark => {
                self.server.version += 1;
                self.server.remember();
                accept(&self.queue, [bookmark(self.server.version)]);
            }
            Op::Resync => accept(&self.queue, [Input::SyncAll]),
            Op::Pop(max) => self.pop(max),
            Op::Apply => {
                if let Some(batch) = &self.out {
                    self.apply(batch);
                }
            }
            Op::Done => {
                if let Some(batch) = self.out.take() {
                    self.apply(&batch);
                    batch.done();
                }
            }
            Op::Requeue => {
                if let Some(batch) = self.out.take() {
                    batch.requeue();
                }
            }
        }
        self.check();
    }

    fn pop(&mut self, max: usize) {
        let popped = try_pop(&self.queue, max);
        if self.out.is_some() {
            assert!(popped.is_none(), "two batches at once");
            return;
        }
        if let Some(batch) = &popped {
            assert!(
                !(batch.initial && self.synced),
                "an initial batch after the queue has synced"
            );
        }
        self.out = popped;
    }

    fn apply(&self, batch: &Batch<Thing>) {
        for delta in &batch.deltas {
            self.held.apply(delta);
            if let Delta::Bookmark { resource_version } = delta {
                self.assert_exact(&self.server.history[resource_version], resource_version);
            }
        }
    }

    /// Readable objects are held in their newest state, unreadable ones in any state, and no others are held.
    fn assert_exact(&self, collection: &Collection, version: &str) {
        let held = self.held.values();
        assert_eq!(
            held.keys().collect::<Vec<_>>(),
            collection.keys().collect::<Vec<_>>(),
            "at version {version}"
        );
        for (name, (newest, readable)) in collection {
            if *readable {
                assert_eq!(held[name], Some(*newest), "{name} at version {version}");
            }
        }
    }

    fn check(&mut self) {
        let list = self.queue.list();
        assert_eq!(self.queue.len(), list.len());
        assert_eq!(
            self.queue.has_room(),
            list.len() < 6,
            "room with {} queued",
            list.len()
        );
        for key in self.queue.keys() {
            let history = self.queue.get(&key);
            assert!(!history.is_empty());
            for pair in history.windows(2) {
                let (older, newer) = (value(&pair[0]), value(&pair[1]));
                assert!(older <= newer || newer == 0, "{older} before {newer}");
                let twice = pair[0].is_deletion() && pair[1].is_deletion();
                assert!(!twice, "{} then {}", text(&pair[0]), text(&pair[1]));
            }
        }
        let synced = self.queue.has_synced();
        assert!(synced || !self.synced, "has_synced went back to false");
        self.synced = synced;
    }
}

/// The version of a delta; 0 for none.
fn value(delta: &Delta<Thing>) -> u64 {
    delta.object().map_or(0, |object| object.value)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn reported_version_is_always_exact(ops in prop::collection::vec(op(), 1..80)) {
        let held = Held::default();
        let mut world = World {
            server: Server::default(),
            queue: DeltaFifo::new().known(held.clone()).capacity(6),
            held,
            out: None,
            synced: false,
        };

        for op in ops {
            world.step(op);
        }
        world.step(Op::Relist(Vec::new()));
        world.step(Op::Done);
        while let Some(batch) = try_pop(&world.queue, 3) {
            world.out = Some(batch);
            world.step(Op::Done);
        }

        prop_assert!(world.queue.is_empty());
        prop_assert!(world.queue.has_synced());
        world.assert_exact(&world.server.now, "the end");
    }
}
