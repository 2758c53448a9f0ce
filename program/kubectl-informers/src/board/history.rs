//! The last changes of each object, in bounded memory: those that changed longest ago are forgotten first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::{LogEntry, ObjectId};
use crate::objects::item::{Contents, Item};

/// Changes kept for one object.
const EACH: usize = 60;
/// The approximate memory limit for all objects together.
const MOST_BYTES: usize = 24 << 20;

/// The recorded changes of one object.
pub struct ObjectHistory {
    entries: VecDeque<Arc<LogEntry>>,
    /// All changes since the start, kept or not.
    pub total: u64,
    /// The object as it last was, if it is gone.
    pub last_state: Option<Arc<Item>>,
    bytes: usize,
}

impl ObjectHistory {
    /// The changes that are kept, newest first.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<LogEntry>> {
        self.entries.iter().rev()
    }

    /// The newest.
    pub fn last(&self) -> Option<&Arc<LogEntry>> {
        self.entries.back()
    }

    /// The number of changes that were dropped.
    pub fn forgotten(&self) -> u64 {
        self.total.saturating_sub(self.entries.len() as u64)
    }
}

/// The recorded changes of each object.
pub struct History {
    objects: HashMap<ObjectId, ObjectHistory>,
    /// By the number of the last change: the first entry is the next to be dropped.
    order: BTreeMap<u64, ObjectId>,
    bytes: usize,
    most_bytes: usize,
}

impl Default for History {
    fn default() -> Self {
        Self {
            objects: HashMap::new(),
            order: BTreeMap::new(),
            bytes: 0,
            most_bytes: MOST_BYTES,
        }
    }
}

impl History {
    /// Adds a change.
    pub fn push(&mut self, id: ObjectId, entry: Arc<LogEntry>, last_state: Option<Arc<Item>>) {
        let number = entry.number;
        let history = self.objects.entry(id.clone()).or_insert_with(|| ObjectHistory {
            entries: VecDeque::new(),
            total: 0,
            last_state: None,
            bytes: 0,
        });
        if let Some(last) = history.entries.back() {
            self.order.remove(&last.number);
        }
        let before = history.bytes;
        history.bytes += entry.bytes();
        history.entries.push_back(entry);
        history.total += 1;
        if history.entries.len() > EACH
            && let Some(gone) = history.entries.pop_front()
        {
            history.bytes -= gone.bytes();
        }
        let size = |state: &Option<Arc<Item>>| state.as_ref().map_or(0, |item| item.size());
        history.bytes = history.bytes + size(&last_state) - size(&history.last_state);
        history.last_state = last_state;
        self.bytes = self.bytes + history.bytes - before;
        self.order.insert(number, id);
        while self.bytes > self.most_bytes && self.objects.len() > 1 {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            if let Some(gone) = self.objects.remove(&oldest) {
                self.bytes -= gone.bytes;
            }
        }
    }

    /// The recorded changes of this object; `None` if there are none or they were dropped.
    pub fn of(&self, id: &ObjectId) -> Option<&ObjectHistory> {
        self.objects.get(id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Log;
    use super::super::fixtures::{deleted, updated};
    use super::*;

    fn id(name: &str) -> ObjectId {
        ObjectId {
            kind: 0,
            key: format!("shop/{name}").parse().unwrap(),
        }
    }

    #[test]
    fn an_object_keeps_its_last_changes_and_the_count_of_all() {
        let (mut log, mut history) = (Log::default(), History::default());
        for _ in 0..100 {
            history.push(
                id("cart"),
                log.push(0, updated("pods", "shop", "cart", &["/a"])),
                None,
            );
        }

        let cart = history.of(&id("cart")).unwrap();
        assert_eq!((cart.total, cart.forgotten()), (100, 40));
        assert_eq!(cart.entries().next().unwrap().number, 100);
        assert!(history.of(&id("other")).is_none());
    }

    #[test]
    fn the_oldest_changes_are_dropped_first() {
        let (mut log, mut history) = (Log::default(), History::default());
        history.most_bytes = 40_000;
        for number in 0..200 {
            let name = format!("pod-{number}");
            history.push(
                id(&name),
                log.push(0, updated("pods", "shop", &name, &["/a"])),
                None,
            );
            history.push(
                id("steady"),
                log.push(0, updated("pods", "shop", "steady", &["/a"])),
                None,
            );
        }

        assert!(history.of(&id("pod-0")).is_none());
        assert!(history.of(&id("pod-199")).is_some());
        assert_eq!(history.of(&id("steady")).unwrap().total, 200);
        assert!(history.bytes <= 40_000);
        assert_eq!(history.order.len(), history.objects.len());
    }

    #[test]
    fn the_last_state_stays_until_the_name_is_used_again() {
        let (mut log, mut history) = (Log::default(), History::default());
        let gone = deleted("pods", "shop", "cart");
        let state = gone.object.clone();
        history.push(id("cart"), log.push(0, gone), state);
        assert!(history.of(&id("cart")).unwrap().last_state.is_some());

        history.push(
            id("cart"),
            log.push(0, updated("pods", "shop", "cart", &[])),
            None,
        );
        assert!(history.of(&id("cart")).unwrap().last_state.is_none());
    }
}
