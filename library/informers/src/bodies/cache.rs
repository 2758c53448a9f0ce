//! The fetched objects, bounded in size and age.

use std::sync::Arc;

use lru::LruCache;
use tokio::time::Instant;

use super::BodyLimits;
use crate::key::ObjectKey;

/// A fetched object.
pub(super) struct Body<K> {
    pub(super) object: Arc<K>,
    /// Its size as JSON.
    pub(super) size: usize,
    pub(super) fetched: Instant,
}

impl<K> Clone for Body<K> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            size: self.size,
            fetched: self.fetched,
        }
    }
}

pub(super) struct BodyCache<K> {
    limits: BodyLimits,
    bodies: LruCache<ObjectKey, Body<K>>,
    bytes: usize,
}

impl<K> BodyCache<K> {
    pub(super) fn new(limits: BodyLimits) -> Self {
        Self {
            limits,
            bodies: LruCache::unbounded(),
            bytes: 0,
        }
    }

    /// The object, unless it is too old.
    pub(super) fn get(&mut self, key: &ObjectKey, now: Instant) -> Option<Body<K>> {
        let body = self.bodies.get(key)?;
        if now.duration_since(body.fetched) < self.limits.max_age {
            return Some(body.clone());
        }
        self.remove(key);
        None
    }

    pub(super) fn peek(&self, key: &ObjectKey) -> Option<&Body<K>> {
        self.bodies.peek(key)
    }

    /// Adds an object, and returns those that exceed the limits, to be dropped outside of locks.
    pub(super) fn put(&mut self, key: ObjectKey, body: Body<K>) -> Vec<Body<K>> {
        let now = body.fetched;
        self.bytes += body.size;
        let mut evicted = Vec::from_iter(self.bodies.put(key, body));
        self.bytes -= evicted.iter().map(|body| body.size).sum::<usize>();
        while let Some((_, oldest)) = self.bodies.peek_lru() {
            let is_old = now.duration_since(oldest.fetched) >= self.limits.max_age;
            if self.bytes <= self.limits.max_bytes && !is_old {
                break;
            }
            if let Some((_, body)) = self.bodies.pop_lru() {
                self.bytes -= body.size;
                evicted.push(body);
            }
        }
        evicted
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Body<K>> {
        let removed = self.bodies.pop(key);
        self.bytes -= removed.as_ref().map_or(0, |body| body.size);
        removed
    }

    /// The number of objects, and their size.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.bodies.len(), self.bytes)
    }
}
