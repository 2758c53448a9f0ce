//! The share of one handler in an event.
//!
//! Objects that are decoded on access keep their decoded form while events that carry them are in flight. A share counts
//! one delivery, from the moment the event is queued until the handler has returned, or will not receive it.

use std::sync::Arc;

use crate::event::Event;
use crate::object::Object;

/// Called for each event whose delivery ends. `None` for objects to which this means nothing.
type End<K> = Option<EndOf<K>>;
type EndOf<K> = fn(&Event<K>);

fn begin<K: Object>(event: &Event<K>) {
    match event {
        Event::Added { object, .. } | Event::Deleted { object, .. } => object.begin_delivery(),
        Event::Updated { old, new, .. } => {
            old.begin_delivery();
            new.begin_delivery();
        }
    }
}

fn end<K: Object>(event: &Event<K>) {
    match event {
        Event::Added { object, .. } | Event::Deleted { object, .. } => object.end_delivery(),
        Event::Updated { old, new, .. } => {
            old.end_delivery();
            new.end_delivery();
        }
    }
}

fn end_function<K: Object>() -> End<K> {
    K::SHARES_DECODED.then_some(end::<K>)
}

/// A batch of events that several handlers share, with the progress of one of them.
pub(super) struct BatchShare<K> {
    events: Arc<[Event<K>]>,
    /// Events that have been returned. The delivery of the last one has not ended.
    returned: usize,
    end: End<K>,
}

impl<K: Object> BatchShare<K> {
    pub(super) fn new(events: &Arc<[Event<K>]>) -> Self {
        if K::SHARES_DECODED {
            events.iter().for_each(begin);
        }
        Self {
            events: events.clone(),
            returned: 0,
            end: end_function(),
        }
    }
}

impl<K> BatchShare<K> {
    /// The next event. The one returned before has been delivered.
    pub(super) fn next(&mut self) -> Option<&Event<K>> {
        let event = self.events.get(self.returned)?;
        if let Some(end) = self.end
            && let Some(before) = self.last()
        {
            end(before);
        }
        self.returned += 1;
        Some(event)
    }

    /// The event that was returned last.
    pub(super) fn last(&self) -> Option<&Event<K>> {
        self.events.get(self.returned.checked_sub(1)?)
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Events that have not been returned.
    pub(super) fn left(&self) -> usize {
        self.events.len() - self.returned
    }
}

impl<K> Drop for BatchShare<K> {
    fn drop(&mut self) {
        if let Some(end) = self.end {
            self.events
                .iter()
                .skip(self.returned.saturating_sub(1))
                .for_each(end);
        }
    }
}

/// One event that a single handler receives.
pub(super) struct EventShare<K>(Option<(Event<K>, EndOf<K>)>);

impl<K> EventShare<K> {
    pub(super) fn none() -> Self {
        Self(None)
    }
}

impl<K: Object> EventShare<K> {
    pub(super) fn new(event: &Event<K>) -> Self {
        Self(end_function().map(|end| {
            begin(event);
            (event.clone(), end)
        }))
    }
}

impl<K> Drop for EventShare<K> {
    fn drop(&mut self) {
        if let Some((event, end)) = self.0.take() {
            end(&event);
        }
    }
}
