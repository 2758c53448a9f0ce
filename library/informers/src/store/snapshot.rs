//! `Snapshot`: the content of a store at one moment, shared and immutable.

use std::fmt;
use std::sync::Arc;

use super::slots::Slots;

/// The content of a store at one moment. Holds no lock.
///
/// Creating and cloning a snapshot copies a pointer, regardless of the size of the store. It shares its objects with the
/// store. While it exists, a write to the store copies the pointers around the object that it changes.
#[doc(alias = "List")]
pub struct Snapshot<V> {
    slots: Slots<Arc<V>>,
    len: usize,
}

impl<V> Snapshot<V> {
    pub(super) fn new(slots: Slots<Arc<V>>, len: usize) -> Self {
        Self { slots, len }
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The objects, in an arbitrary but stable order.
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
