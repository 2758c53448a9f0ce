//! `DeliveryCursor`: one item of a mailbox, delivered event by event.

use std::sync::Arc;

use super::listener::Listener;
use super::mailbox::Item;
use super::share::{BatchShare, EventShare};
use crate::event::Event;
use crate::handler::Delivery;
use crate::key::ObjectKey;
use crate::object::Object;

pub(crate) struct DeliveryCursor<K> {
    item: CursorItem<K>,
    next: usize,
    /// The last event returned, if it is not of a batch.
    returned: EventShare<K>,
}

enum CursorItem<K> {
    Empty,
    Batch(BatchShare<K>),
    /// A snapshot or resync.
    Objects {
        objects: Vec<Arc<K>>,
        resync: bool,
        coalesces: bool,
    },
    Change {
        object: Arc<K>,
        first: Option<Delivery<K>>,
        second: Option<Delivery<K>>,
    },
}

impl<K: Object> DeliveryCursor<K> {
    pub(crate) fn empty() -> Self {
        Self {
            item: CursorItem::Empty,
            next: 0,
            returned: EventShare::none(),
        }
    }

    pub(super) fn new(item: Item<K>, coalesces: bool) -> Self {
        let item = match item {
            Item::Batch(events) => CursorItem::Batch(events),
            Item::Change(change) => {
                let object = change.object().clone();
                let (first, second) = change.into_deliveries();
                CursorItem::Change {
                    object,
                    first: Some(first),
                    second,
                }
            }
            // Expanded here, on the handler's task and outside of every lock.
            Item::Initial(snapshot) => CursorItem::Objects {
                objects: snapshot.iter().cloned().collect(),
                resync: false,
                coalesces,
            },
            Item::Resync(snapshot) => CursorItem::Objects {
                objects: snapshot.iter().cloned().collect(),
                resync: true,
                coalesces,
            },
            Item::Synced => CursorItem::Empty,
        };
        Self {
            item,
            next: 0,
            returned: EventShare::none(),
        }
    }

    /// The next event, and the number of events left. The event returned before has been delivered.
    pub(crate) fn next(&mut self, listener: &Listener<K>) -> Option<(Delivery<K>, usize)> {
        self.returned = EventShare::none();
        let next = self.advance(listener);
        if let Some((delivery, _)) = &next
            && !matches!(self.item, CursorItem::Batch(_))
        {
            self.returned = EventShare::new(&delivery.event);
        }
        next
    }

    fn advance(&mut self, listener: &Listener<K>) -> Option<(Delivery<K>, usize)> {
        match &mut self.item {
            CursorItem::Empty => None,
            CursorItem::Batch(events) => {
                let event = events.next()?.clone();
                Some((Delivery::from(event), events.left()))
            }
            CursorItem::Change { first, second, .. } => match first.take() {
                Some(delivery) => Some((delivery, usize::from(second.is_some()))),
                None => second.take().map(|delivery| (delivery, 0)),
            },
            CursorItem::Objects {
                objects,
                resync,
                coalesces,
            } => loop {
                let object = objects.get(self.next)?;
                self.next += 1;
                let delivery = match (*resync, *coalesces) {
                    (true, true) if listener.has_pending(object) => None,
                    (true, _) => Some(Delivery::from(Event::Updated {
                        old: object.clone(),
                        new: object.clone(),
                        resync: true,
                    })),
                    (false, true) => listener.fold_initial(object),
                    (false, false) => Some(Delivery::from(Event::Added {
                        object: object.clone(),
                        initial: true,
                    })),
                };
                if let Some(delivery) = delivery {
                    return Some((delivery, objects.len() - self.next));
                }
            },
        }
    }

    /// Whether this is a snapshot or a resync.
    pub(super) fn is_bulk(&self) -> bool {
        matches!(self.item, CursorItem::Objects { .. })
    }

    /// The key of the last event returned.
    pub(super) fn key(&self) -> Option<ObjectKey> {
        let object = match &self.item {
            CursorItem::Empty => return None,
            CursorItem::Batch(events) => events.last()?.object(),
            CursorItem::Objects { objects, .. } => objects.get(self.next.checked_sub(1)?)?,
            CursorItem::Change { object, .. } => object,
        };
        Some(ObjectKey::of(&**object))
    }
}
