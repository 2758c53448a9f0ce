//! Compression against similar objects: pods of one ReplicaSet differ in a few hundred bytes.
//!
//! ```text
//!  first pod of a ReplicaSet ──▶ Sibling: its whole body ◀── the other pods: their differences, as LZ4 blocks
//! ```
//!
//! A sibling is the body of one object, shared by that object and by those compressed against it, and freed with the last of
//! them. Objects are grouped by their controller. An object that differs too much from the sibling of its group becomes the
//! next one: a pod has no status when it is created, and its siblings do later.

use std::hash::BuildHasher;
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;
use lru::LruCache;
use parking_lot::Mutex;

use super::packed::{self, Packed};
use crate::codec::LazyCounters;
use crate::object::OwnerRef;

/// The groups whose sibling is remembered. Objects of a forgotten group start a new one.
const MAX_GROUPS: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();

/// A difference is held if it takes at most this part of the body. That of two pods of a ReplicaSet is well below it; a pod that
/// has grown much since, by its status for example, should be compared with one that has grown, too.
const WORTHWHILE: usize = 4;

/// What other objects are compressed against.
pub(super) struct Sibling {
    body: Box<[u8]>,
    /// Its labels and owners, if they cannot be read from the body.
    front: Option<Box<[u8]>>,
    repeats_labels: bool,
    counters: Arc<LazyCounters>,
}

impl Sibling {
    fn new(object: &Packed, counters: Arc<LazyCounters>) -> Self {
        let sibling = Self {
            body: object.body().into(),
            front: object.front().map(Into::into),
            repeats_labels: object.repeats_labels(),
            counters,
        };
        sibling.counters.hold(sibling.memory());
        sibling
    }

    fn memory(&self) -> usize {
        size_of::<Self>() + self.body.len() + self.front.as_ref().map_or(0, |front| front.len())
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn meta(&self) -> &[u8] {
        self.front.as_deref().unwrap_or(&self.body)
    }

    pub(super) fn repeats_labels(&self) -> bool {
        self.repeats_labels
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        packed::labels(self.meta(), self.repeats_labels)
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        packed::owners(self.meta())
    }

    /// The body whose difference this is.
    pub(super) fn restore(&self, difference: &[u8], length: usize) -> Vec<u8> {
        // The error is excluded: the difference was made from this body. Without bytes, every access would fail.
        lz4_flex::block::decompress_with_dict(difference, length, &self.body).unwrap_or_default()
    }
}

impl Drop for Sibling {
    fn drop(&mut self) {
        self.counters.release(self.memory());
    }
}

/// The siblings of one source.
pub(super) struct Siblings {
    counters: Arc<LazyCounters>,
    hasher: RandomState,
    /// By the hash of the group. Two groups with one hash would compress worse, and nothing else.
    groups: Mutex<LruCache<u64, Weak<Sibling>>>,
}

impl Siblings {
    pub(super) fn new(counters: Arc<LazyCounters>) -> Self {
        Self {
            counters,
            hasher: RandomState::default(),
            groups: Mutex::new(LruCache::new(MAX_GROUPS)),
        }
    }

    /// The difference of an object to the sibling of its group; empty if the object becomes the sibling.
    pub(super) fn compress(&self, group: &str, object: &Packed) -> (Arc<Sibling>, Vec<u8>) {
        let group = self.hasher.hash_one(group);
        let known = self.groups.lock().get(&group).and_then(Weak::upgrade);
        if let Some(sibling) = known {
            let body = object.body();
            let difference = lz4_flex::block::compress_with_dict(&body, &sibling.body);
            if difference.len() <= body.len() / WORTHWHILE {
                return (sibling, difference);
            }
        }
        let sibling = Arc::new(Sibling::new(object, self.counters.clone()));
        self.groups.lock().put(group, Arc::downgrade(&sibling));
        (sibling, Vec::new())
    }
}
