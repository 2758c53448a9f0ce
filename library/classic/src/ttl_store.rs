//! `TtlStore`: values that expire. No timer and no task: expired values are dropped when the store is read.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use kube_informers::delta::Replacement;
use kube_informers::quarantine::BadObject;
use kube_informers::target::{ReflectorStore, TargetError};
use kube_informers::{Object, ObjectKey};
use parking_lot::Mutex;
use tracing::warn;

use crate::may_be_missing;

/// A store whose values expire.
///
/// A value expires when it is older than its time to live; zero means never. Inserting a value again resets its age;
/// reading does not.
///
/// The clock is a function that returns the time since a fixed moment. With tokio's clock, which tests can pause, this is
/// `move || start.elapsed()`, where `start` is the `Instant` at which the store was created. Any other clock works too:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
/// use kube_informers_classic::TtlStore;
///
/// let clock = Arc::new(AtomicU64::new(0));
/// let seconds = clock.clone();
/// let names = TtlStore::with_key(
///     |name: &String| name.clone(),
///     Duration::from_secs(30),
///     move || Duration::from_secs(seconds.load(Ordering::Relaxed)),
/// );
/// names.insert("cart".to_owned());
///
/// clock.store(30, Ordering::Relaxed);
/// assert!(names.get("cart").is_some());
/// clock.store(31, Ordering::Relaxed);
/// assert!(names.get("cart").is_none());
/// ```
///
/// With [`StoreTarget`](kube_informers::target::StoreTarget) it can be the target of a
/// [`Reflector`](kube_informers::reflector::Reflector), shared with readers through an `Arc`. Then it holds the objects that
/// were listed or changed within the time to live.
#[doc(alias = "ExpirationPolicy")]
#[doc(alias = "NewExpirationStore")]
#[doc(alias = "ExpirationCache")]
#[doc(alias = "NewTTLStore")]
pub struct TtlStore<V, Q = ObjectKey> {
    key: Box<dyn Fn(&V) -> Q + Send + Sync>,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
    ttl: Duration,
    entries: Mutex<HashMap<Q, Stamped<V>>>,
}

#[doc(alias = "TimestampedEntry")]
struct Stamped<V> {
    value: Arc<V>,
    since: Duration,
    ttl: Duration,
}

impl<V> Stamped<V> {
    #[doc(alias = "TTLPolicy")]
    fn is_expired(&self, now: Duration) -> bool {
        !self.ttl.is_zero() && now.saturating_sub(self.since) > self.ttl
    }
}

impl<V: Object, Q> TtlStore<V, Q> {
    /// The key of a listed or deleted object. A panic of the key function costs one object.
    fn key_of(&self, object: &V) -> Option<Q> {
        let key = catch_unwind(AssertUnwindSafe(|| (self.key)(object)));
        key.inspect_err(|_| warn!(object = %ObjectKey::of(object), "the key function panicked"))
            .ok()
    }
}

impl<V, Q: Hash + Eq + Clone> TtlStore<V, Q> {
    /// A store with a key function, a time to live, and a clock.
    pub fn with_key(
        key: impl Fn(&V) -> Q + Send + Sync + 'static,
        ttl: Duration,
        now: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        Self {
            key: Box::new(key),
            now: Box::new(now),
            ttl,
            entries: Mutex::default(),
        }
    }

    /// Inserts a value and returns the previous value of its key.
    #[doc(alias = "Add")]
    #[doc(alias = "Update")]
    pub fn insert(&self, value: impl Into<Arc<V>>) -> Option<Arc<V>> {
        self.insert_for(self.ttl, value)
    }

    /// Inserts a value with a different time to live.
    pub fn insert_for(&self, ttl: Duration, value: impl Into<Arc<V>>) -> Option<Arc<V>> {
        let (key, stamped, now) = self.stamp(ttl, value.into());
        let old = self.entries.lock().insert(key, stamped);
        old.filter(|old| !old.is_expired(now)).map(|old| old.value)
    }

    /// Removes a value and returns it.
    pub fn remove<B: Hash + Eq + ?Sized>(&self, key: &B) -> Option<Arc<V>>
    where
        Q: Borrow<B>,
    {
        let now = (self.now)();
        let old = self.entries.lock().remove(key);
        old.filter(|old| !old.is_expired(now)).map(|old| old.value)
    }

    /// Replaces all values.
    pub fn replace<T: Into<Arc<V>>>(&self, values: impl IntoIterator<Item = T>) {
        let stamped = values.into_iter().map(|value| {
            let (key, stamped, _) = self.stamp(self.ttl, value.into());
            (key, stamped)
        });
        let new = stamped.collect();
        let old = std::mem::replace(&mut *self.entries.lock(), new);
        // Dropping the values may take a while, so it happens without the lock.
        drop(old);
    }

    /// The value with this key, unless it has expired.
    #[doc(alias = "GetByKey")]
    pub fn get<B: Hash + Eq + ?Sized>(&self, key: &B) -> Option<Arc<V>>
    where
        Q: Borrow<B>,
    {
        let now = (self.now)();
        let mut entries = self.entries.lock();
        let stamped = entries.get(key)?;
        if !stamped.is_expired(now) {
            return Some(stamped.value.clone());
        }
        let expired = entries.remove(key);
        drop(entries);
        drop(expired);
        None
    }

    /// All values that have not expired, in no particular order.
    pub fn list(&self) -> Vec<Arc<V>> {
        let now = (self.now)();
        let mut entries = self.entries.lock();
        let expired: Vec<_> = entries.extract_if(|_, stamped| stamped.is_expired(now)).collect();
        let values = entries.values().map(|stamped| stamped.value.clone()).collect();
        drop(entries);
        drop(expired);
        values
    }

    /// All keys, including those of expired values that were not read since.
    #[doc(alias = "ListKeys")]
    pub fn keys(&self) -> Vec<Q> {
        self.entries.lock().keys().cloned().collect()
    }

    fn stamp(&self, ttl: Duration, value: Arc<V>) -> (Q, Stamped<V>, Duration) {
        // User code runs before the lock is taken.
        let (key, since) = ((self.key)(&value), (self.now)());
        (key, Stamped { value, since, ttl }, since)
    }
}

impl<V, Q> ReflectorStore<V> for TtlStore<V, Q>
where
    V: Object,
    Q: Hash + Eq + Clone + Send + Sync + 'static,
{
    fn put(&self, object: Arc<V>) -> Result<(), TargetError> {
        self.insert(object);
        Ok(())
    }

    fn delete(&self, name: &ObjectKey, last: Option<&Arc<V>>) -> Result<(), TargetError> {
        let keys = match last.and_then(|last| self.key_of(last)) {
            Some(key) => vec![key],
            None => {
                let entries = self.entries.lock();
                let named = (entries.iter()).filter(|(_, stamped)| ObjectKey::of(&*stamped.value) == *name);
                named.map(|(key, _)| key.clone()).collect()
            }
        };
        for key in &keys {
            self.remove(key);
        }
        Ok(())
    }

    fn replace_all(&self, list: Replacement<V>) -> Result<(), TargetError> {
        let (ttl, since) = (self.ttl, (self.now)());
        let mut unreadable = Unreadable::new(list.unreadable);
        let mut new = HashMap::with_capacity(list.objects.len());
        for value in list.objects {
            match self.key_of(&value) {
                Some(key) => drop(new.insert(key, Stamped { value, since, ttl })),
                None => drop(unreadable.named.insert(ObjectKey::of(&*value))),
            }
        }
        let mut entries = self.entries.lock();
        for (key, kept) in entries.extract_if(|_, stamped| unreadable.may_be(&*stamped.value)) {
            new.entry(key).or_insert(kept);
        }
        let old = std::mem::replace(&mut *entries, new);
        drop(entries);
        drop(old);
        Ok(())
    }
}

/// The items of a list that could not be read. They exist, so their last values are kept.
struct Unreadable {
    named: HashSet<ObjectKey>,
    nameless: Vec<BadObject>,
}

impl Unreadable {
    fn new(items: Vec<BadObject>) -> Self {
        let (named, nameless): (Vec<_>, Vec<_>) = items.into_iter().partition(|bad| bad.key.is_some());
        Self {
            named: named.into_iter().filter_map(|bad| bad.key).collect(),
            nameless,
        }
    }

    /// Whether one of them may be this object.
    fn may_be<V: Object>(&self, object: &V) -> bool {
        if self.named.is_empty() && self.nameless.is_empty() {
            return false;
        }
        self.named.contains(&ObjectKey::of(object))
            || may_be_missing(&self.nameless, object.object_uid()).is_some()
    }
}

impl<V, Q> fmt::Debug for TtlStore<V, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TtlStore")
            .field("ttl", &self.ttl)
            .field("len", &self.entries.lock().len())
            .finish_non_exhaustive()
    }
}
