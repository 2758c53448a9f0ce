//! A tape: a sequence of writes and disturbances, generated from a seed. Independent of the server.

use std::fmt;

/// The number of object names: few, so that each is written often.
const NAMES: usize = 16;
/// The minimum number of operations.
const LENGTH: usize = 320;

/// The informer whose connections are affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Our informer's.
    Ours,
    /// client-go's.
    Theirs,
    /// Both.
    Both,
}

/// One operation. The number is that of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Creates an object.
    Create {
        /// The object.
        object: usize,
        /// Whether the selector matches it.
        selected: bool,
        /// Whether it has a finalizer.
        held: bool,
    },
    /// Updates an object.
    Update(usize),
    /// Moves an object into or out of the selection.
    Flip(usize),
    /// Adds a finalizer.
    Hold(usize),
    /// Removes the finalizer; an object marked for deletion is then removed.
    Release(usize),
    /// Deletes an object; with a finalizer it is only marked.
    Delete(usize),
    /// Deletes an object and creates another one with its name.
    Recreate(usize),
    /// Breaks connections; new ones are accepted.
    Cut(Who),
    /// Breaks connections; new ones are refused.
    Close(Who),
    /// Accepts new connections again.
    Open(Who),
    /// Connections stay open but transfer nothing.
    Clog(Who),
    /// Transfers resume.
    Unclog(Who),
    /// Waits until both informers have delivered all changes so far.
    Settle,
    /// Compacts the storage and restarts the server.
    Forget,
    /// Restarts the server.
    Restart,
}

/// A sequence of operations.
#[derive(Clone, Debug)]
pub struct Tape {
    /// Its seed.
    pub seed: u64,
    /// Group, version, plural and kind of the objects.
    pub resource: [&'static str; 4],
    /// The label selector of both informers, if they have one.
    pub selector: Option<&'static str>,
    /// Whether both informers use a watch-list for the initial list.
    pub watch_list: bool,
    /// Whether our informer reads protobuf rather than JSON. client-go's always reads JSON here.
    pub protobuf: bool,
    /// The operations before the informers start.
    pub before: Vec<Op>,
    /// The operations while they watch.
    pub ops: Vec<Op>,
}

const RESOURCES: [[&str; 4]; 4] = [
    ["", "v1", "configmaps", "ConfigMap"],
    ["", "v1", "secrets", "Secret"],
    ["coordination.k8s.io", "v1", "leases", "Lease"],
    ["", "v1", "serviceaccounts", "ServiceAccount"],
];

/// The selector of both informers.
pub(crate) const SELECTOR: &str = "show=yes";

impl Tape {
    /// The encoding that our informer requests.
    pub fn encoding(&self) -> &'static str {
        if self.protobuf { "protobuf" } else { "json" }
    }

    /// Generates a tape. A `violent` one restarts the server, which must not be shared.
    pub fn new(seed: u64, violent: bool) -> Tape {
        let mut generator = Generator::new(seed);
        let resource = RESOURCES[generator.rng.usize(..RESOURCES.len())];
        let selector = generator.rng.bool().then_some(SELECTOR);
        let watch_list = generator.rng.bool();
        for object in 0..NAMES * 2 / 3 {
            generator.create(object);
        }
        // One object is created and deleted before the informers start.
        generator.write(Op::Delete(0));
        generator.write(Op::Release(0));
        let before = std::mem::take(&mut generator.ops);
        generator.play(violent);
        Tape {
            seed,
            resource,
            selector,
            watch_list,
            protobuf: seed.is_multiple_of(2),
            before,
            ops: generator.ops,
        }
    }

    /// Whether lists replace watches during the tape.
    pub fn relists(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Forget | Op::Restart))
    }
}

impl fmt::Display for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: {} with selector {:?}, watch-list {}, {}",
            self.seed,
            self.resource[2],
            self.selector,
            self.watch_list,
            self.encoding()
        )?;
        for (number, op) in self.before.iter().chain(&self.ops).enumerate() {
            let mark = if number == self.before.len() {
                "---- the informers start\n"
            } else {
                ""
            };
            writeln!(f, "{mark}{number:4} {op:?}")?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Object {
    held: bool,
    deleting: bool,
}

/// Generates operations that are possible in the current state.
struct Generator {
    rng: fastrand::Rng,
    objects: [Option<Object>; NAMES],
    ops: Vec<Op>,
}

impl Generator {
    fn new(seed: u64) -> Generator {
        Generator {
            // Adjacent seeds would start with the same draws.
            rng: fastrand::Rng::with_seed(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            objects: [None; NAMES],
            ops: Vec::new(),
        }
    }

    fn play(&mut self, violent: bool) {
        // The backoff of both informers grows with each cut, and a tape should take seconds.
        let quiet = LENGTH / 4;
        for part in 0..4 {
            let who = [Who::Ours, Who::Theirs, Who::Both][self.rng.usize(..3)];
            self.writes(quiet / 2);
            match (part, violent) {
                (0, _) => {
                    self.ops.push(Op::Cut(who));
                    self.writes(quiet / 2);
                }
                (1, _) => {
                    self.ops.push(Op::Clog(who));
                    self.writes(quiet / 2);
                    self.ops.push(Op::Unclog(who));
                }
                (2, false) | (3, false) => {
                    self.ops.push(Op::Close(who));
                    self.writes(quiet / 2);
                    self.ops.push(Op::Open(who));
                }
                (2, true) => {
                    // From here on both informers miss the same changes, regardless of earlier disturbances.
                    self.ops.push(Op::Settle);
                    self.ops.push(Op::Close(Who::Both));
                    self.writes(quiet / 2);
                    self.recreate_one();
                    self.ops.push(Op::Forget);
                    self.ops.push(Op::Open(Who::Both));
                }
                (_, true) => {
                    self.ops.push(Op::Restart);
                    self.writes(quiet / 2);
                }
                _ => {}
            }
        }
        self.writes(LENGTH.saturating_sub(self.ops.len()));
    }

    fn writes(&mut self, count: usize) {
        for _ in 0..count {
            let object = self.rng.usize(..NAMES);
            let op = match (self.objects[object], self.rng.u8(..100)) {
                (None, _) => {
                    self.create(object);
                    continue;
                }
                (Some(Object { deleting: true, .. }), 0..60) => Op::Release(object),
                (Some(Object { deleting: true, .. }), 60..80) => Op::Flip(object),
                (Some(Object { deleting: true, .. }), _) => Op::Update(object),
                (Some(_), 0..40) => Op::Update(object),
                (Some(_), 40..62) => Op::Flip(object),
                (Some(Object { held: false, .. }), 62..68) => Op::Hold(object),
                (Some(Object { held: true, .. }), 62..68) => Op::Release(object),
                (Some(Object { held: false, .. }), 68..80) => Op::Recreate(object),
                (Some(_), _) => Op::Delete(object),
            };
            self.write(op);
        }
    }

    /// Guarantees one recreation.
    fn recreate_one(&mut self) {
        let free = |object: &Option<Object>| *object == Some(Object::default());
        if let Some(object) = self.objects.iter().position(free) {
            self.write(Op::Recreate(object));
        }
    }

    fn create(&mut self, object: usize) {
        let (selected, held) = (self.rng.u8(..10) < 7, self.rng.u8(..10) < 2);
        self.write(Op::Create {
            object,
            selected,
            held,
        });
    }

    /// Records an operation and its effect; impossible operations are dropped.
    fn write(&mut self, op: Op) {
        let (number, next) = match op {
            Op::Create { object, held, .. } => (
                object,
                Some(Object {
                    held,
                    deleting: false,
                }),
            ),
            Op::Update(object) | Op::Flip(object) | Op::Recreate(object) => (object, self.objects[object]),
            Op::Hold(object) => (
                object,
                Some(Object {
                    held: true,
                    deleting: false,
                }),
            ),
            Op::Release(object) => {
                let freed = self.objects[object].filter(|object| !object.deleting);
                (object, freed.map(|_| Object::default()))
            }
            Op::Delete(object) => {
                let held = self.objects[object].filter(|object| object.held);
                (
                    object,
                    held.map(|_| Object {
                        held: true,
                        deleting: true,
                    }),
                )
            }
            _ => return,
        };
        if matches!(op, Op::Create { .. }) || self.objects[number].is_some() {
            self.objects[number] = next;
            self.ops.push(op);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tape_depends_on_the_seed_only() {
        for violent in [false, true] {
            assert_eq!(
                Tape::new(7, violent).to_string(),
                Tape::new(7, violent).to_string()
            );
        }
        assert_ne!(Tape::new(7, false).to_string(), Tape::new(8, false).to_string());
    }

    #[test]
    fn every_tape_has_all_kinds_of_operations() {
        for seed in 0..50 {
            let tape = Tape::new(seed, seed % 2 == 1);
            let has = |wanted: fn(&Op) -> bool| tape.ops.iter().any(wanted);

            assert!(tape.ops.len() >= LENGTH, "seed {seed}: {}", tape.ops.len());
            assert!(has(|op| matches!(op, Op::Flip(_))) && has(|op| matches!(op, Op::Recreate(_))));
            assert!(has(|op| matches!(op, Op::Delete(_))) && has(|op| matches!(op, Op::Release(_))));
            assert!(has(|op| matches!(op, Op::Cut(_))) && has(|op| matches!(op, Op::Close(_))));
            assert_eq!(tape.relists(), seed % 2 == 1, "seed {seed}");
        }
    }
}
