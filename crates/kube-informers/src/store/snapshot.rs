//! `Snapshot`: everything a store held at one moment, shared and immutable.

use std::fmt;
use std::sync::Arc;

use super::slots::Slots;

/// What a store held at one moment. Holds no lock.
///
/// Taking and cloning one copies a pointer, whatever the size of the store. It shares its objects with the
/// store; while it lives, a write to the store copies the few hundred pointers around the object it changes.
#[doc(alias = "List")]
pub struct Snapshot<V> {
    slots: Slots<V>,
    len: usize,
}

impl<V> Snapshot<V> {
    pub(super) fn new(slots: Slots<V>, len: usize) -> Self {
        Self { slots, len }
    }

    /// How many objects.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The objects, in no particular order, but in the same one each time.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<V>> {
        self.slots.iter()
    }
}

impl<V> Clone for Snapshot<V> {
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            len: self.len,
        }
    }
}

impl<V> FromIterator<Arc<V>> for Snapshot<V> {
    fn from_iter<I: IntoIterator<Item = Arc<V>>>(objects: I) -> Self {
        let mut len = 0;
        let slots = objects.into_iter().inspect(|_| len += 1).collect();
        Self { slots, len }
    }
}

/// The number of objects only: they may be Secrets.
impl<V> fmt::Debug for Snapshot<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({} objects)", self.len)
    }
}
