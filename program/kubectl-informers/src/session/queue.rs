//! The queue between the informers and the command that shows their changes.
//!
//! Sending never blocks. Up to [`COALESCE_ABOVE`] pending changes and [`COALESCE_ABOVE_BYTES`] are delivered one by one.
//! Above either limit, a change of an object that already has a pending change is merged into it, so the queue holds at
//! most two changes per object, however slow the reader is.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use kube_informers::ObjectKey;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::changes::diff;
use crate::changes::{Change, What};
use crate::objects::item::Contents;
use crate::objects::kinds::Kind;
use crate::objects::who::Written;

/// Pending changes above which changes of the same object are merged.
pub const COALESCE_ABOVE: usize = 1024;
/// Approximate size of all pending changes above which changes of the same object are merged.
pub const COALESCE_ABOVE_BYTES: usize = 8 << 20;

/// What coalescing has left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalesced {
    /// Changes that were merged into a later change of the same object.
    pub merged: u64,
    /// Objects that were added and deleted while pending, and so are not shown at all.
    pub vanished: u64,
}

impl fmt::Display for Coalesced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the output was blocked: {} changes were merged into later ones, {} objects that were added and deleted \
             meanwhile are not shown",
            self.merged, self.vanished
        )
    }
}

impl Coalesced {
    /// Whether nothing was left out.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

type ObjectRef = (Arc<Kind>, ObjectKey);

#[derive(Default)]
struct Pending {
    /// By sequence number.
    changes: BTreeMap<u64, Change>,
    bytes: usize,
    /// The last pending change of each object.
    last: HashMap<ObjectRef, u64>,
    next: u64,
    senders: usize,
    closed: bool,
    unreported: Coalesced,
    total: Coalesced,
}

struct Queue {
    pending: Mutex<Pending>,
    changed: Notify,
}

/// The receiver is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// Puts changes into the queue.
pub struct ChangeSender(Arc<Queue>);

/// Takes changes out of the queue.
pub struct ChangeReceiver(Arc<Queue>);

/// An empty queue.
pub fn queue() -> (ChangeSender, ChangeReceiver) {
    let queue = Arc::new(Queue {
        pending: Mutex::new(Pending {
            senders: 1,
            ..Pending::default()
        }),
        changed: Notify::new(),
    });
    (ChangeSender(queue.clone()), ChangeReceiver(queue))
}

impl ChangeSender {
    /// Adds a change.
    ///
    /// # Errors
    ///
    /// The receiver is gone.
    pub fn send(&self, change: Change) -> Result<(), Closed> {
        let mut pending = self.0.pending.lock();
        if pending.closed {
            return Err(Closed);
        }
        pending.push(change);
        drop(pending);
        self.0.changed.notify_one();
        Ok(())
    }
}

impl Clone for ChangeSender {
    fn clone(&self) -> Self {
        self.0.pending.lock().senders += 1;
        Self(self.0.clone())
    }
}

impl Drop for ChangeSender {
    fn drop(&mut self) {
        self.0.pending.lock().senders -= 1;
        self.0.changed.notify_one();
    }
}

impl ChangeReceiver {
    /// The next change; `None` when all senders are gone and nothing is pending. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Change> {
        loop {
            {
                let mut pending = self.0.pending.lock();
                if let Some(change) = pending.pop() {
                    return Some(change);
                }
                if pending.senders == 0 {
                    return None;
                }
            }
            // One receiver: a notification between the check and this wait is stored and returns at once.
            self.0.changed.notified().await;
        }
    }

    /// The next change, if one is pending.
    pub fn try_recv(&mut self) -> Option<Change> {
        self.0.pending.lock().pop()
    }

    /// What was left out since the last call, once the backlog has been taken.
    pub fn take_coalesced(&mut self) -> Option<Coalesced> {
        let mut pending = self.0.pending.lock();
        match !pending.is_full() && !pending.unreported.is_empty() {
            true => Some(std::mem::take(&mut pending.unreported)),
            false => None,
        }
    }

    /// What was left out since the start.
    pub fn coalesced(&self) -> Coalesced {
        self.0.pending.lock().total
    }
}

impl Drop for ChangeReceiver {
    fn drop(&mut self) {
        let mut pending = self.0.pending.lock();
        pending.closed = true;
        pending.changes.clear();
        pending.last.clear();
    }
}

impl Pending {
    fn push(&mut self, change: Change) {
        let Some(key) = change.key.clone() else {
            self.append(change);
            return;
        };
        let object = (change.kind.clone(), key);
        if self.is_full()
            && let Some(number) = self.last.get(&object).copied()
            && let Some(earlier) = self.remove(number)
        {
            match merge(earlier, change) {
                Merged::One(merged) => {
                    self.count(|coalesced| coalesced.merged += 1);
                    self.insert(number, *merged);
                }
                Merged::Nothing => {
                    self.count(|coalesced| coalesced.vanished += 1);
                    self.last.remove(&object);
                }
                Merged::Both(earlier, change) => {
                    self.insert(number, *earlier);
                    let next = self.append(*change);
                    self.last.insert(object, next);
                }
            }
            return;
        }
        let number = self.append(change);
        self.last.insert(object, number);
    }

    fn count(&mut self, add: impl Fn(&mut Coalesced)) {
        add(&mut self.unreported);
        add(&mut self.total);
    }

    fn append(&mut self, change: Change) -> u64 {
        let number = self.next;
        self.next += 1;
        self.insert(number, change);
        number
    }

    fn is_full(&self) -> bool {
        self.changes.len() >= COALESCE_ABOVE || self.bytes >= COALESCE_ABOVE_BYTES
    }

    fn insert(&mut self, number: u64, change: Change) {
        self.bytes += size(&change);
        self.changes.insert(number, change);
    }

    fn remove(&mut self, number: u64) -> Option<Change> {
        let change = self.changes.remove(&number)?;
        self.bytes -= size(&change);
        Some(change)
    }

    fn pop(&mut self) -> Option<Change> {
        let number = *self.changes.first_key_value()?.0;
        let change = self.remove(number)?;
        if let Some(key) = &change.key {
            let object = (change.kind.clone(), key.clone());
            if self.last.get(&object) == Some(&number) {
                self.last.remove(&object);
            }
        }
        Some(change)
    }
}

/// The memory a change takes, roughly.
fn size(change: &Change) -> usize {
    let items = [&change.object, &change.old].into_iter().flatten();
    items.map(|item| item.size()).sum::<usize>() + change.weight()
}

enum Merged {
    One(Box<Change>),
    Both(Box<Change>, Box<Change>),
    Nothing,
}

/// Two pending changes of one object as one.
fn merge(earlier: Change, later: Change) -> Merged {
    let coalesced = earlier.coalesced + later.coalesced + 1;
    match (earlier.event, later.event) {
        (What::Added { .. }, What::Deleted { .. }) => Merged::Nothing,
        (What::Added { .. }, _) => Merged::One(Box::new(Change {
            event: earlier.event,
            diff: Vec::new(),
            old: None,
            old_resource_version: None,
            by: all_authors(earlier.by, later.by),
            coalesced,
            ..later
        })),
        (What::Updated { .. }, What::Updated { .. }) => {
            let diff = match (&earlier.old, &later.object, &later.noise) {
                (Some(old), Some(new), Some(noise)) => diff::of_items(old, new, noise),
                _ => later.diff,
            };
            Merged::One(Box::new(Change {
                event: What::Updated { resync: false },
                diff,
                old: earlier.old,
                old_resource_version: earlier.old_resource_version,
                by: all_authors(earlier.by, later.by),
                coalesced,
                ..later
            }))
        }
        (What::Updated { .. }, What::Deleted { .. }) => Merged::One(Box::new(Change { coalesced, ..later })),
        // Deleted and added again: another object of the same name.
        _ => Merged::Both(Box::new(earlier), Box::new(later)),
    }
}

/// The authors of both changes; `None` as soon as one of them has an unknown author.
fn all_authors(earlier: Option<Vec<Written>>, later: Option<Vec<Written>>) -> Option<Vec<Written>> {
    let (mut all, later) = (earlier?, later?);
    for written in later {
        let same = |known: &&mut Written| {
            known.author.manager == written.author.manager
                && known.author.operation == written.author.operation
                && known.author.subresource == written.author.subresource
        };
        match all.iter_mut().find(same) {
            Some(known) => {
                known.author.time = written.author.time;
                known.paths.extend(written.paths);
                known.paths.sort();
                known.paths.dedup();
            }
            None => all.push(written),
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::fixtures::{added, deleted, updated};

    fn full(queue: &ChangeSender) {
        for number in 0..COALESCE_ABOVE {
            queue
                .send(updated("pods", "shop", &format!("filler-{number}"), &["/a"]))
                .unwrap();
        }
    }

    fn rest(receiver: &mut ChangeReceiver) -> Vec<(String, String, u64)> {
        std::iter::from_fn(|| receiver.try_recv())
            .filter(|change| !change.name().contains("filler"))
            .map(|change| {
                (
                    change.event.name().to_owned(),
                    change.name().to_owned(),
                    change.coalesced,
                )
            })
            .collect()
    }

    #[test]
    fn changes_below_the_limit_are_delivered_one_by_one() {
        let (sender, mut receiver) = queue();
        for _ in 0..3 {
            sender.send(updated("pods", "shop", "cart", &["/a"])).unwrap();
        }

        assert_eq!(rest(&mut receiver).len(), 3);
        assert_eq!(receiver.take_coalesced(), None);
    }

    #[test]
    fn changes_above_the_limit_are_merged_by_key() {
        let (sender, mut receiver) = queue();
        full(&sender);
        for _ in 0..5 {
            sender.send(updated("pods", "shop", "cart", &["/a"])).unwrap();
        }
        sender.send(updated("pods", "shop", "web", &["/a"])).unwrap();
        sender.send(deleted("pods", "shop", "web")).unwrap();
        sender.send(added("pods", "shop", "web")).unwrap();

        let all = rest(&mut receiver);

        let expected = [
            ("updated", "shop/cart", 4),
            ("deleted", "shop/web", 1),
            ("added", "shop/web", 0),
        ];
        assert_eq!(
            all,
            expected.map(|(event, name, count)| (event.to_owned(), name.to_owned(), count))
        );
        assert_eq!(
            receiver.take_coalesced(),
            Some(Coalesced {
                merged: 5,
                vanished: 0
            })
        );
        assert_eq!(receiver.take_coalesced(), None);
    }

    #[test]
    fn an_object_added_and_deleted_while_pending_is_counted_and_dropped() {
        let (sender, mut receiver) = queue();
        full(&sender);
        for number in 0..10_000 {
            let name = format!("job-{number}");
            sender.send(added("pods", "shop", &name)).unwrap();
            sender.send(deleted("pods", "shop", &name)).unwrap();
        }

        assert_eq!(receiver.0.pending.lock().changes.len(), COALESCE_ABOVE);
        assert_eq!(receiver.0.pending.lock().last.len(), COALESCE_ABOVE);
        assert_eq!(rest(&mut receiver), []);
        assert_eq!(receiver.coalesced().vanished, 10_000);
    }

    #[tokio::test]
    async fn the_receiver_ends_when_all_senders_are_gone() {
        let (sender, mut receiver) = queue();
        sender
            .clone()
            .send(updated("pods", "shop", "cart", &["/a"]))
            .unwrap();
        drop(sender);

        assert!(receiver.recv().await.is_some());
        assert!(receiver.recv().await.is_none());
    }

    #[test]
    fn sending_fails_when_the_receiver_is_gone() {
        let (sender, receiver) = queue();
        drop(receiver);
        assert_eq!(sender.send(updated("pods", "shop", "cart", &["/a"])), Err(Closed));
    }
}
