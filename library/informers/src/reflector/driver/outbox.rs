//! Deltas on their way to the target, handed over together.
//!
//! A chunk of a response holds many events. Each delta that reaches a queue wakes the task that applies it, on another
//! thread perhaps, so that handing them over one by one costs a wake-up per event.

use tokio::time::Instant;
use tracing::{trace, warn};

use super::Driver;
use crate::delta::Delta;
use crate::object::Object;
use crate::reflector::status::ReflectorStatus;
use crate::target::Target;

/// The outbox is flushed at the latest with this number of deltas.
const FULL: usize = 256;

/// Deltas that the target has not received yet. Empty whenever the driver waits.
pub(super) struct Outbox<K>(Vec<Delta<K>>);

impl<K: Object> Outbox<K> {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    /// Hands all deltas to the target, which then has everything up to `version`. `proof` is the time of the last one, unless
    /// it is older than the target.
    pub(super) fn flush(
        &mut self,
        target: &dyn Target<K>,
        status: &ReflectorStatus,
        resource: &str,
        version: Option<&str>,
        proof: Option<Instant>,
    ) {
        if self.0.is_empty() {
            return;
        }
        for error in target.accept_all(&mut self.0.drain(..)) {
            status.count(|stats| stats.target_errors += 1);
            warn!(resource, %error, "the target rejected a delta");
        }
        status.version(version, proof);
    }
}

impl<K: Object> Driver<K> {
    /// Sends the delta of an event to the target.
    pub(super) fn forward(&mut self, delta: Delta<K>) {
        if tracing::enabled!(tracing::Level::TRACE)
            && let Some(key) = delta.key()
        {
            let version = delta.object().and_then(|object| object.object_version());
            trace!(resource = %self.resource, %key, version, delta = delta.name(), "received");
        }
        self.status.count(|stats| stats.events += 1);
        self.offer(delta);
    }

    /// The time of the current event, if it proves that the target is current.
    pub(super) fn proof(&self) -> Option<Instant> {
        (!self.machine.receives_older_events()).then_some(self.trace.last_data)
    }

    /// Sends a delta to the target, with those that arrived together with it.
    pub(super) fn offer(&mut self, delta: Delta<K>) {
        self.outbox.0.push(delta);
        if self.outbox.0.len() >= FULL {
            self.flush();
        }
    }

    /// Must precede every wait but that of `read`, which flushes when there is nothing to read.
    pub(super) fn flush(&mut self) {
        let proof = self.proof();
        let target = &*self.parts.target;
        let version = self.machine.last_version();
        self.outbox
            .flush(target, &self.status, &self.resource, version, proof);
    }
}
