//! Random histories and random handlers: what each is last_delivered must hold the invariants.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use proptest::prelude::*;

use super::*;
use crate::handler::blocking;

#[derive(Clone, Debug)]
enum Op {
    /// Makes the object appear, or change.
    Touch(u8),
    Delete(u8, bool),
    /// Deletes and makes anew under the same name, in one batch.
    Recreate(u8),
    /// Ends the batch.
    Flush,
    Join {
        coalesces: bool,
    },
    Leave(u8),
    /// One listener takes some events.
    Take(u8, u8),
    Resync,
    Synced,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..5_u8).prop_map(Op::Touch),
        3 => (0..5_u8, any::<bool>()).prop_map(|(key, observed)| Op::Delete(key, observed)),
        2 => (0..5_u8).prop_map(Op::Recreate),
        5 => Just(Op::Flush),
        1 => any::<bool>().prop_map(|coalesces| Op::Join { coalesces }),
        1 => any::<u8>().prop_map(Op::Leave),
        6 => (any::<u8>(), 1..4_u8).prop_map(|(who, many)| Op::Take(who, many)),
        1 => Just(Op::Resync),
        1 => Just(Op::Synced),
    ]
}

/// The collection as a store would hold it, and the batch of events not yet dispatched.
#[derive(Default)]
struct World {
    live: BTreeMap<String, Arc<Thing>>,
    batch: Vec<Event<Thing>>,
    version: u64,
    synced: bool,
}

impl World {
    fn touch(&mut self, key: u8) {
        self.version += 1;
        let name = format!("k{key}-");
        let event = match self.live.get(&name) {
            None => {
                let new = thing_of_uid(&name, &format!("uid{}", self.version), self.version);
                self.live.insert(name, new.clone());
                Event::Added {
                    object: new,
                    initial: !self.synced,
                }
            }
            Some(old) => {
                let (old, new) = (old.clone(), thing_of_uid(&name, &old.uid, self.version));
                self.live.insert(name, new.clone());
                updated(&old, &new)
            }
        };
        self.batch.push(event);
    }

    fn delete(&mut self, key: u8, observed: bool) {
        self.version += 1;
        if let Some(old) = self.live.remove(&format!("k{key}-")) {
            self.batch.push(if observed {
                deleted(&thing_of_uid(&old.name, &old.uid, self.version))
            } else {
                missed(&old)
            });
        }
    }

    fn snapshot(&self) -> Snapshot<Thing> {
        self.live.values().cloned().collect()
    }

    fn flush(&mut self, stage: &mut Stage) {
        stage.dispatch(std::mem::take(&mut self.batch));
    }
}

/// One listener, and what follows from what it was last_delivered.
struct Witness {
    subscription: Subscription<Thing>,
    coalesces: bool,
    last_delivered: BTreeMap<String, Arc<Thing>>,
    /// The initial objects not delivered yet; `None` for listeners added before the sync.
    expected: Option<BTreeMap<String, Arc<Thing>>>,
    /// Deleted objects it may have to be last_delivered of still, at most.
    joined_with: usize,
    sequence: Vec<String>,
}

impl Witness {
    fn join(stage: &mut Stage, world: &World, coalesces: bool) -> Self {
        let options = if coalesces {
            coalescing()
        } else {
            HandlerOptions::default()
        };
        let listener = stage.dispatcher.subscribe(
            &options.resync(Duration::from_secs(1)),
            Instant::now(),
            world.snapshot(),
            world.synced,
        );
        Self {
            subscription: Subscription::new(listener),
            coalesces,
            last_delivered: BTreeMap::new(),
            expected: world.synced.then(|| world.live.clone()),
            joined_with: world.live.len(),
            sequence: Vec::new(),
        }
    }

    /// Reads one event and checks it against the earlier ones; `false` if there is none.
    fn take(&mut self) -> Result<bool, TestCaseError> {
        let was_synced = self.subscription.has_synced();
        let Some(event) = self.subscription.next().now_or_never().flatten() else {
            return Ok(false);
        };
        self.sequence.push(text(&event));
        let name = event.object().name.clone();
        let known = self.last_delivered.get(&name);
        match &event {
            Event::Added { object, initial } => {
                // H2: an add only of what is unknown.
                prop_assert!(known.is_none(), "{} of what is known", text(&event));
                if let (true, Some(expected)) = (*initial, &mut self.expected) {
                    // H7: initial once, for objects of the snapshot, and before the sync.
                    let there = expected.remove(&name);
                    prop_assert!(there.is_some_and(|there| there.uid == object.uid));
                    prop_assert!(!was_synced, "initial after the sync");
                }
                self.last_delivered.insert(name, object.clone());
            }
            Event::Updated { old, new, resync } => {
                // H3, H4, H12.
                let known = known
                    .ok_or_else(|| TestCaseError::fail(format!("{} of what is unknown", text(&event))))?;
                prop_assert!(
                    Arc::ptr_eq(known, old),
                    "{} but last last_delivered {}",
                    text(&event),
                    known.version
                );
                prop_assert_eq!(&old.uid, &new.uid);
                prop_assert_eq!(*resync, old.version == new.version);
                self.last_delivered.insert(name, new.clone());
            }
            Event::Deleted { object, .. } => {
                let known = known
                    .ok_or_else(|| TestCaseError::fail(format!("{} of what is unknown", text(&event))))?;
                prop_assert_eq!(&known.uid, &object.uid);
                self.last_delivered.remove(&name);
            }
        }
        Ok(true)
    }

    /// H11: what waits is bounded by the objects, however many events there were. Each of the keys can have two changes, before and
    /// behind a resync, and each change can be a deletion and an addition. A resync repeats objects that were alive when it was
    /// due, and another one may be in flight.
    fn check_backlog(&self) -> Result<(), TestCaseError> {
        if self.coalesces {
            let keys = 5;
            let (bound, pending) = (
                self.joined_with + keys * 4 + keys * 2,
                self.subscription.pending(),
            );
            prop_assert!(pending <= bound, "{pending} wait, {bound} may");
        }
        Ok(())
    }
}

/// Runs a history. Gives what each witness was last_delivered, in the order of joining.
fn run(ops: &[Op], keep_others: bool) -> Result<Vec<Vec<String>>, TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut stage = Stage::started();
        let mut world = World::default();
        // The first two stay to the end.
        let mut witnesses = vec![
            Some(Witness::join(&mut stage, &world, false)),
            Some(Witness::join(&mut stage, &world, true)),
        ];
        let mut last_delivered = Vec::new();
        for op in ops {
            match *op {
                Op::Touch(key) => world.touch(key),
                Op::Delete(key, observed) => world.delete(key, observed),
                Op::Recreate(key) => {
                    world.delete(key, true);
                    world.touch(key);
                }
                Op::Flush => world.flush(&mut stage),
                Op::Join { coalesces } => {
                    // Joining happens under the lock that applies batches, never inside one.
                    world.flush(&mut stage);
                    if keep_others {
                        witnesses.push(Some(Witness::join(&mut stage, &world, coalesces)));
                    }
                }
                Op::Leave(who) => {
                    let who = 2 + who as usize % 8;
                    if let Some(slot) = witnesses.get_mut(who) {
                        slot.take();
                    }
                }
                Op::Take(who, many) => {
                    let who = who as usize % 10;
                    if let Some(Some(witness)) = witnesses.get_mut(who) {
                        for _ in 0..many {
                            witness.take()?;
                        }
                    }
                }
                Op::Resync => {
                    world.flush(&mut stage);
                    tokio::time::advance(Duration::from_secs(1)).await;
                    stage.dispatcher.resync_due(Instant::now(), &world.snapshot());
                }
                Op::Synced => {
                    world.flush(&mut stage);
                    world.synced = true;
                    stage.dispatcher.synced();
                }
            }
            for witness in witnesses.iter().flatten() {
                witness.check_backlog()?;
            }
        }
        world.flush(&mut stage);
        stage.dispatcher.synced();

        for witness in witnesses.iter_mut().flatten() {
            while witness.take()? {}
            // H1, H13: the delivered events add up to the live objects.
            prop_assert_eq!(witness.subscription.pending(), 0);
            let same = witness.last_delivered.len() == world.live.len()
                && world.live.iter().all(|(name, object)| {
                    witness
                        .last_delivered
                        .get(name)
                        .is_some_and(|last_delivered| Arc::ptr_eq(last_delivered, object))
                });
            prop_assert!(same, "last_delivered {:?}", witness.sequence);
            // H8.
            prop_assert!(witness.subscription.has_synced());
            if !witness.coalesces
                && let Some(expected) = &witness.expected
            {
                prop_assert!(expected.is_empty(), "never last_delivered: {:?}", expected.keys());
            }
            last_delivered.push(std::mem::take(&mut witness.sequence));
        }
        Ok(last_delivered)
    })
}

proptest! {
    #[test]
    fn every_listener_receives_a_history_that_holds_the_invariants(ops in prop::collection::vec(op(), 0..150)) {
        let last_delivered = run(&ops, true)?;

        // H10: without the others, the first two are last_delivered the very same.
        let alone = run(&ops, false)?;
        prop_assert_eq!(&last_delivered[..2], &alone[..2]);
    }

    /// H9, H10: whatever the neighbours do, a well-behaved handler is last_delivered exactly what was dispatched.
    #[test]
    fn neighbours_that_panic_hang_block_or_leave_change_nothing(
        ops in prop::collection::vec(op(), 0..80),
        panics_on in 0..20_usize,
        leaves_after in 0..40_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut stage = Stage::started();
            let mut world = World { synced: true, ..World::default() };
            let (record, noisy) = (Record::default(), Record::default());
            let mut count = 0;
            let noted = noisy.clone();
            let panicking = stage.add(move |event: Event<Thing>| {
                count += 1;
                assert!(count % 20 != panics_on, "on purpose");
                noted.note(&event);
            });
            stage.add(|_: Event<Thing>| std::future::pending());
            stage.add(record.handler());
            let leaver = stage.add(blocking(|_: Event<Thing>| ()));
            stage.add_with(coalescing(), |_: Event<Thing>| tokio::task::yield_now(), no_objects());

            let mut expected = Vec::new();
            for (n, op) in ops.iter().enumerate() {
                match *op {
                    Op::Touch(key) => world.touch(key),
                    Op::Delete(key, observed) => world.delete(key, observed),
                    Op::Recreate(key) => {
                        world.delete(key, true);
                        world.touch(key);
                    }
                    _ => {
                        expected.extend(world.batch.iter().map(text));
                        world.flush(&mut stage);
                        tokio::task::yield_now().await;
                    }
                }
                if n == leaves_after {
                    leaver.remove().await;
                }
            }
            quiet().await;

            prop_assert_eq!(panicking.delivered(), expected.len() as u64);
            prop_assert_eq!(noisy.take().len() as u64 + panicking.panics(), expected.len() as u64);
            prop_assert_eq!(record.take(), expected);
            stage.stop(false).await;
            Ok(())
        })?;
    }
}
