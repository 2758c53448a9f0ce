//! Reports to the reflector when its lists leave the queue and when they are in the store, for the trace of slow lists.

use tokio::time::Instant;

use crate::delta::Delta;
use crate::reflector::ReflectorHandle;

/// A list, or a part of one, on its way from the queue to the store.
pub(super) struct ListPart<'a> {
    reflector: &'a ReflectorHandle,
    /// The number of objects if the queue splits lists; `None` for a whole list.
    objects: Option<usize>,
}

impl<'a> ListPart<'a> {
    /// A batch has left the queue. Returns what it holds of a list.
    pub(super) fn dequeued<K>(
        reflector: &'a ReflectorHandle,
        deltas: &[Delta<K>],
        in_order: bool,
    ) -> Option<Self> {
        let objects = if !in_order {
            let listed = deltas.iter().filter(|delta| matches!(delta, Delta::Replaced(_)));
            Some(listed.count())
        } else if deltas.iter().any(|delta| matches!(delta, Delta::ReplacedAll(_))) {
            None
        } else {
            return None;
        };
        reflector
            .list_dequeued(Instant::now(), objects)
            .then_some(Self { reflector, objects })
    }

    /// The batch is in the store.
    pub(super) fn applied(self) {
        self.reflector.list_applied(Instant::now(), self.objects);
    }
}
