//! `InHand`: what was taken out of a mailbox, given out one event at a time.

use std::sync::Arc;

use super::change::Notice;
use super::listener::Listener;
use super::mailbox::Item;
use crate::event::Event;
use crate::key::ObjectKey;
use crate::object::Object;

pub(crate) struct InHand<K> {
    from: From<K>,
    next: usize,
}

enum From<K> {
    Nothing,
    Batch(Arc<[Event<K>]>),
    /// A replay or resync.
    Objects {
        objects: Vec<Arc<K>>,
        resync: bool,
        coalesces: bool,
    },
    Change {
        object: Arc<K>,
        first: Option<Notice<K>>,
        second: Option<Notice<K>>,
    },
}

impl<K: Object> InHand<K> {
    pub(crate) fn nothing() -> Self {
        Self {
            from: From::Nothing,
            next: 0,
        }
    }

    pub(super) fn new(item: Item<K>, coalesces: bool) -> Self {
        let from = match item {
            Item::Batch(events) => From::Batch(events),
            Item::Change(change) => {
                let object = change.object().clone();
                let (first, second) = change.into_notices();
                From::Change {
                    object,
                    first: Some(first),
                    second,
                }
            }
            // Expanded here, in the handler's own time and outside of every lock.
            Item::Initial(snapshot) => From::Objects {
                objects: snapshot.iter().cloned().collect(),
                resync: false,
                coalesces,
            },
            Item::Resync(snapshot) => From::Objects {
                objects: snapshot.iter().cloned().collect(),
                resync: true,
                coalesces,
            },
            Item::Synced => From::Nothing,
        };
        Self { from, next: 0 }
    }

    /// The next event, with how many are left behind it.
    pub(crate) fn next(&mut self, listener: &Listener<K>) -> Option<(Notice<K>, usize)> {
        match &mut self.from {
            From::Nothing => None,
            From::Batch(events) => {
                let event = events.get(self.next)?.clone();
                self.next += 1;
                Some((Notice::plain(event), events.len() - self.next))
            }
            From::Change { first, second, .. } => match first.take() {
                Some(notice) => Some((notice, usize::from(second.is_some()))),
                None => second.take().map(|notice| (notice, 0)),
            },
            From::Objects {
                objects,
                resync,
                coalesces,
            } => loop {
                let object = objects.get(self.next)?;
                self.next += 1;
                let notice = match (*resync, *coalesces) {
                    (true, true) if listener.awaits(object) => None,
                    (true, _) => Some(Notice::plain(Event::Updated {
                        old: object.clone(),
                        new: object.clone(),
                        resync: true,
                    })),
                    (false, true) => listener.fold_initial(object),
                    (false, false) => Some(Notice::plain(Event::Added {
                        object: object.clone(),
                        initial: true,
                    })),
                };
                if let Some(notice) = notice {
                    return Some((notice, objects.len() - self.next));
                }
            },
        }
    }

    /// Whether this is a replay or a resync.
    pub(super) fn is_bulk(&self) -> bool {
        matches!(self.from, From::Objects { .. })
    }

    /// Which object the last event given out was about.
    pub(super) fn key(&self) -> Option<ObjectKey> {
        let object = match &self.from {
            From::Nothing => return None,
            From::Batch(events) => events.get(self.next.checked_sub(1)?)?.object(),
            From::Objects { objects, .. } => objects.get(self.next.checked_sub(1)?)?,
            From::Change { object, .. } => object,
        };
        Some(ObjectKey::of(&**object))
    }
}
