//! One gate per slot, and permits to work behind an open gate. Knows nothing about Leases; the driver opens and closes the
//! gates.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use kube::Resource;
use kube_informers_core::shards::{Shard, ShardField, ShardRange};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The slots that a replica owns now. Get a permit before working on an object. Clones share the same state.
#[derive(Clone)]
pub struct Ownership {
    gates: Arc<Gates>,
}

/// Permission to work on one object. Its slot is not released to another replica before the permit is dropped.
///
/// This guarantee ends when the slot is revoked because the cluster could not be reached for too long; see
/// [`revoked`](Self::revoked).
#[must_use = "a dropped permit permits nothing"]
pub struct Permit {
    gates: Arc<Gates>,
    slot: usize,
    revoked: CancellationToken,
}

/// The gates of all slots, in one replica.
pub(super) struct Gates {
    pub(super) field: ShardField,
    ranges: Vec<ShardRange>,
    state: Mutex<GateStates>,
    /// The last permit of a slot was dropped.
    pub(super) left: Notify,
}

struct GateStates {
    limits: Option<Limits>,
    gates: Vec<Gate>,
}

/// Until when the slots are owned if no further renewal succeeds.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) valid_until: Instant,
    /// When work that is still running then must have ended.
    pub(super) deadline: Instant,
}

#[derive(Default)]
struct Gate {
    open: bool,
    running: usize,
    revoked: CancellationToken,
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ownership").field("shard", &self.shard()).finish()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("slot", &self.slot)
            .field("is_valid", &self.is_valid())
            .finish_non_exhaustive()
    }
}

impl Ownership {
    pub(super) fn new(gates: Arc<Gates>) -> Self {
        Self { gates }
    }

    /// A permit for the object with this hash; `None` if this replica does not own it, or is giving it up.
    ///
    /// This reads the clock, so no permit is issued beyond the renew deadline, even if the process was suspended.
    pub fn enter(&self, hash: u64) -> Option<Permit> {
        let slot = self.gates.slot_of(hash);
        let mut state = self.gates.state.lock();
        state
            .limits
            .filter(|limits| Instant::now() < limits.valid_until)?;
        let gate = state.gates.get_mut(slot).filter(|gate| gate.open)?;
        gate.running += 1;
        Some(Permit {
            revoked: gate.revoked.clone(),
            gates: self.gates.clone(),
            slot,
        })
    }

    /// A permit for this object. `None` also for an object without the field that is hashed, such as an object without
    /// a UID.
    pub fn enter_for<K: Resource>(&self, object: &K) -> Option<Permit> {
        let meta = object.meta();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let hash = self.gates.field.hash(meta.uid.as_deref(), Some(namespace))?;
        self.enter(hash)
    }

    /// The shard this replica owns now, without slots that are being given up.
    pub fn shard(&self) -> Shard {
        let state = self.gates.state.lock();
        let valid = state
            .limits
            .is_some_and(|limits| Instant::now() < limits.valid_until);
        let open = (0..state.gates.len()).filter(|slot| valid && state.gates[*slot].open);
        self.gates.shard_of(open)
    }
}

impl Permit {
    /// Waits until the slot is revoked while the permit is held: the work must stop before
    /// [`deadline`](Self::deadline).
    pub async fn revoked(&self) {
        self.revoked.cancelled().await;
    }

    /// Whether this replica still owns the slot. Check it immediately before any action that only the owner may take.
    pub fn is_valid(&self) -> bool {
        let state = self.gates.state.lock();
        !self.revoked.is_cancelled()
            && state
                .limits
                .is_some_and(|limits| Instant::now() < limits.valid_until)
    }

    /// When work under this permit must have ended if no further renewal succeeds: halfway between the end of ownership
    /// and the earliest time another replica may own the slot. Each renewal extends it.
    pub fn deadline(&self) -> Instant {
        match self.gates.state.lock().limits {
            Some(limits) => limits.deadline,
            None => Instant::now(),
        }
    }

    /// Runs work under the permit. When the slot is revoked, drops the work and returns `None`.
    pub async fn run<T>(self, work: impl Future<Output = T>) -> Option<T> {
        // The work is dropped on purpose if the slot is revoked first.
        tokio::select! {
            output = work => Some(output),
            () = self.revoked() => None,
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.gates.state.lock();
        if let Some(gate) = state.gates.get_mut(self.slot) {
            gate.running = gate.running.saturating_sub(1);
            if gate.running == 0 {
                self.gates.left.notify_one();
            }
        }
    }
}

impl Gates {
    /// `slots` is a power of two.
    pub(super) fn new(field: ShardField, slots: u32) -> Self {
        let ranges = ShardRange::ALL.split(slots);
        Self {
            field,
            state: Mutex::new(GateStates {
                limits: None,
                gates: ranges.iter().map(|_| Gate::default()).collect(),
            }),
            ranges,
            left: Notify::new(),
        }
    }

    pub(super) fn shard_of(&self, slots: impl IntoIterator<Item = usize>) -> Shard {
        let ranges = slots
            .into_iter()
            .filter_map(|slot| self.ranges.get(slot).copied());
        Shard::new(self.field, ranges)
    }

    fn slot_of(&self, hash: u64) -> usize {
        self.ranges
            .partition_point(|range| range.start() <= hash)
            .saturating_sub(1)
    }

    pub(super) fn set_limits(&self, limits: Option<Limits>) {
        self.state.lock().limits = limits;
    }

    pub(super) fn open(&self, slots: &[usize]) {
        self.each(slots, |gate| {
            gate.open = true;
            gate.revoked = CancellationToken::new();
        });
    }

    pub(super) fn close(&self, slots: &[usize]) {
        self.each(slots, |gate| gate.open = false);
    }

    pub(super) fn revoke(&self, slots: &[usize]) {
        self.each(slots, |gate| {
            gate.open = false;
            gate.revoked.cancel();
        });
    }

    /// Whether no permit of this slot is held.
    pub(super) fn is_quiet(&self, slot: usize) -> bool {
        self.state
            .lock()
            .gates
            .get(slot)
            .is_none_or(|gate| gate.running == 0)
    }

    fn each(&self, slots: &[usize], change: impl Fn(&mut Gate)) {
        let mut state = self.state.lock();
        for slot in slots {
            if let Some(gate) = state.gates.get_mut(*slot) {
                change(gate);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    fn gates() -> (Arc<Gates>, Ownership) {
        let gates = Arc::new(Gates::new(ShardField::Uid, 4));
        let now = Instant::now();
        gates.set_limits(Some(Limits {
            valid_until: now + Duration::from_secs(10),
            deadline: now + Duration::from_secs(12),
        }));
        (gates.clone(), Ownership::new(gates))
    }

    #[tokio::test(start_paused = true)]
    async fn permits_are_issued_for_open_slots_only() {
        let (gates, ownership) = gates();
        gates.open(&[0, 3]);

        assert!(ownership.enter(0).is_some());
        assert!(ownership.enter(u64::MAX).is_some());
        assert!(ownership.enter(1 << 62).is_none());
        assert_eq!(ownership.shard(), gates.shard_of([0, 3]));
        gates.close(&[0]);
        assert!(ownership.enter(0).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn no_permit_is_issued_beyond_the_limit_even_if_the_gate_is_open() {
        let (gates, ownership) = gates();
        gates.open(&[0]);
        let permit = ownership.enter(0).unwrap();
        assert!(permit.is_valid());

        advance(Duration::from_secs(10)).await;

        assert!(ownership.enter(0).is_none() && !permit.is_valid());
        assert!(ownership.shard().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_is_quiet_when_its_last_permit_is_dropped() {
        let (gates, ownership) = gates();
        gates.open(&[0]);
        let first = ownership.enter(1).unwrap();
        let second = ownership.enter(2).unwrap();
        gates.close(&[0]);
        drop(first);
        assert!(!gates.is_quiet(0));
        drop(second);
        assert!(gates.is_quiet(0));
    }

    #[tokio::test(start_paused = true)]
    async fn revoked_work_is_dropped_and_a_slot_owned_again_has_a_new_token() {
        let (gates, ownership) = gates();
        gates.open(&[0]);
        let permit = ownership.enter(0).unwrap();
        gates.revoke(&[0]);

        assert_eq!(permit.run(std::future::pending::<()>()).await, None);
        gates.open(&[0]);
        let again = ownership.enter(0).unwrap();
        assert_eq!(again.run(async { 1 }).await, Some(1));
    }
}
