//! Decoded objects: those of events in flight, and the cache of those that were used last.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lru::LruCache;
use parking_lot::Mutex;

/// Decoded objects of events in flight beyond this are not shared: a handler with a large backlog would otherwise hold the
/// objects that faster handlers have decoded, each ten times the size of its bytes.
const MAX_IN_FLIGHT: usize = 64 << 20;

/// The decoded form of one object while events that carry it are in flight.
pub(super) struct InFlight<K> {
    /// Deliveries that have not ended.
    deliveries: u32,
    decoded: Option<Arc<K>>,
    /// A failed access has been logged.
    pub(super) is_reported: bool,
}

impl<K> Default for InFlight<K> {
    fn default() -> Self {
        Self {
            deliveries: 0,
            decoded: None,
            is_reported: false,
        }
    }
}

impl<K> InFlight<K> {
    pub(super) fn begin(&mut self) {
        self.deliveries = self.deliveries.saturating_add(1);
    }

    /// One delivery has ended. After the last one, returns the decoded object, to be dropped outside of the lock.
    pub(super) fn end(&mut self) -> Option<Arc<K>> {
        self.deliveries = self.deliveries.saturating_sub(1);
        if self.deliveries > 0 {
            return None;
        }
        self.decoded.take()
    }

    pub(super) fn get(&self) -> Option<Arc<K>> {
        self.decoded.clone()
    }

    /// Forgets the decoded object.
    pub(super) fn clear(&mut self) -> Option<Arc<K>> {
        self.decoded.take()
    }

    /// Keeps the object until the last delivery has ended, and returns the one to use.
    pub(super) fn keep(&mut self, object: Arc<K>, size: usize, in_flight: &AtomicUsize) -> Arc<K> {
        if let Some(first) = &self.decoded {
            // Another handler was faster.
            return first.clone();
        }
        let fits = in_flight.load(Ordering::Relaxed).saturating_add(size) <= MAX_IN_FLIGHT;
        if self.deliveries > 0 && fits {
            in_flight.fetch_add(size, Ordering::Relaxed);
            self.decoded = Some(object.clone());
        }
        object
    }
}

/// The decoded objects that were used last, bounded by their estimated size.
pub(crate) struct DecodedCache<K> {
    limit: usize,
    entries: Mutex<Entries<K>>,
}

struct Entries<K> {
    /// By the address of the bytes. An object removes its entry before its bytes are freed.
    objects: LruCache<usize, (Arc<K>, usize)>,
    bytes: usize,
}

impl<K> DecodedCache<K> {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            entries: Mutex::new(Entries {
                objects: LruCache::unbounded(),
                bytes: 0,
            }),
        }
    }

    pub(super) fn get(&self, address: usize) -> Option<Arc<K>> {
        let mut entries = self.entries.lock();
        entries.objects.get(&address).map(|(object, _)| object.clone())
    }

    pub(super) fn put(&self, address: usize, object: &Arc<K>, size: usize) {
        if size > self.limit {
            return;
        }
        let mut evicted = Vec::new();
        let mut entries = self.entries.lock();
        entries.bytes += size;
        if let Some((object, size)) = entries.objects.put(address, (object.clone(), size)) {
            entries.bytes -= size;
            evicted.push(object);
        }
        while entries.bytes > self.limit
            && let Some((_, (object, size))) = entries.objects.pop_lru()
        {
            entries.bytes -= size;
            evicted.push(object);
        }
        // Dropping an object may run user code: not under the lock.
        drop(entries);
        drop(evicted);
    }

    pub(super) fn remove(&self, address: usize) {
        let mut entries = self.entries.lock();
        let removed = entries.objects.pop(&address);
        if let Some((_, size)) = &removed {
            entries.bytes -= size;
        }
        drop(entries);
        drop(removed);
    }
}
