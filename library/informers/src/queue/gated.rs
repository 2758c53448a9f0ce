//! The common implementation of [`DeltaQueue`](super::DeltaQueue): a [`Gate`](super::gate::Gate) around plain contents.

use super::batch::Finished;
use super::gate::Contents;
use crate::delta::Delta;
use crate::key::ObjectKey;
use crate::object::Object;

/// The contents of a delta queue: the decisions, without lock, clock or waiting.
pub(super) trait DeltaContents<K>: Contents {
    /// Whether deltas are returned in the order of their arrival.
    const IN_ORDER: bool;

    /// Adds a delta.
    fn accept(&mut self, delta: Delta<K>);

    /// What counts towards the capacity.
    fn weight(&self) -> usize;

    /// Takes about `max` deltas. The flag tells whether they belong to the initial population.
    fn take(&mut self, max: usize) -> Option<(Vec<Delta<K>>, bool)>;

    /// Ends the processing of what [`take`](Self::take) returned, with its flag.
    fn finish(&mut self, initial: bool, finished: Finished<K>);

    fn get(&self, key: &ObjectKey) -> Vec<Delta<K>>;

    fn list(&self) -> Vec<Delta<K>>;

    fn keys(&self) -> Vec<ObjectKey>;
}

/// At trace level an object can be followed through the queue.
pub(super) fn trace_delta<K: Object>(delta: &Delta<K>, step: &'static str) {
    if tracing::enabled!(tracing::Level::TRACE) {
        let key = delta.key();
        tracing::trace!(
            delta = delta.name(),
            key = key.as_ref().map(ObjectKey::as_str),
            "{step}"
        );
    }
}

/// Implements `Target` and `DeltaQueue` for a type with the fields `gate: Arc<Gate<impl DeltaContents<K>>>` and
/// `capacity: usize`.
macro_rules! impl_delta_queue {
    ($queue:ident, $contents:ident) => {
        impl<K: Object> Target<K> for $queue<K> {
            fn accept(&self, delta: Delta<K>) -> Result<(), TargetError> {
                trace_delta(&delta, "queued");
                self.gate.change(|contents| contents.accept(delta));
                Ok(())
            }

            fn accept_all(&self, deltas: &mut dyn Iterator<Item = Delta<K>>) -> Vec<TargetError> {
                self.gate.change(|contents| {
                    for delta in deltas {
                        trace_delta(&delta, "queued");
                        contents.accept(delta);
                    }
                });
                Vec::new()
            }

            fn has_room(&self) -> bool {
                self.gate
                    .has_room(|contents| contents.weight() < self.capacity)
            }

            fn room(&self) -> BoxFuture<'_, ()> {
                Box::pin(self.gate.room(|contents| contents.weight() < self.capacity))
            }
        }

        impl<K: Object> DeltaQueue<K> for $queue<K> {
            fn pop_batch(&self, max: usize) -> BoxFuture<'_, Option<Batch<K>>> {
                Box::pin(async move {
                    let (deltas, initial) = self.gate.take(|contents| contents.take(max)).await?;
                    for delta in &deltas {
                        trace_delta(delta, "popped");
                    }
                    let gate = self.gate.clone();
                    Some(Batch::new(deltas, initial, move |finished| {
                        gate.finish(|contents| contents.finish(initial, finished));
                    }))
                })
            }

            fn in_order(&self) -> bool {
                <$contents<K> as DeltaContents<K>>::IN_ORDER
            }

            fn close(&self) {
                self.gate.close();
            }

            fn is_closed(&self) -> bool {
                self.gate.is_closed()
            }

            fn has_synced(&self) -> bool {
                self.gate.has_synced()
            }

            fn synced(&self) -> BoxFuture<'_, Result<(), Closed>> {
                Box::pin(self.gate.synced())
            }

            fn get(&self, key: &ObjectKey) -> Vec<Delta<K>> {
                self.gate.read(|contents| contents.get(key))
            }

            fn list(&self) -> Vec<Delta<K>> {
                self.gate.read(DeltaContents::list)
            }

            fn keys(&self) -> Vec<ObjectKey> {
                self.gate.read(DeltaContents::keys)
            }

            fn stats(&self) -> QueueStats {
                self.gate.stats()
            }
        }
    };
}

pub(super) use impl_delta_queue;
