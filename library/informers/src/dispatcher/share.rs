//! The share of one handler in an event.
//!
//! Objects that are decoded on access keep their decoded form while events that carry them are in flight. A share counts
//! one delivery, from the moment the event is queued until the handler has returned, or will not receive it.

use std::sync::Arc;

use crate::event::Event;
use crate::object::{DecodedOnAccess, Object};

/// A delivery of an event begins or ends, for each of its objects.
fn deliver<K: Object>(event: &Event<K>, step: fn(&dyn DecodedOnAccess)) {
    let (object, old) = match event {
        Event::Added { object, .. } | Event::Deleted { object, .. } => (object, None),
        Event::Updated { old, new, .. } => (new, Some(old)),
    };
    let objects = old.into_iter().chain([object]);
    objects
        .filter_map(|object| object.decoded_on_access())
        .for_each(step);
}

fn begin<K: Object>(event: &Event<K>) {
    deliver(event, |object| object.begin_delivery());
}

fn end<K: Object>(event: &Event<K>) {
    deliver(event, |object| object.end_delivery());
}

/// Called for each event whose delivery ends. `None` for objects to which this means nothing.
type End<K> = Option<EndOf<K>>;
type EndOf<K> = fn(&Event<K>);

fn end_function<K: Object>(event: &Event<K>) -> End<K> {
    let is_shared = event.object().decoded_on_access().is_some();
    is_shared.then_some(end::<K>)
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
        let end = events.first().and_then(end_function);
        if end.is_some() {
            events.iter().for_each(begin);
        }
        Self {
            events: events.clone(),
            returned: 0,
            end,
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
        Self(end_function(event).map(|end| {
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
