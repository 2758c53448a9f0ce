//! `Overlay`: your own writes, visible over a store until the watch has caught up with them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::index::UnknownIndex;
use super::own_writes::{OwnWrites, Written};
use super::read::Store;
use crate::event::{Cause, Event};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::version::{ParseVersionError, ResourceVersion};

/// Reads from a store as if the watch had brought your own writes already.
///
/// After a write, [`record`](Self::record) what the server answered. Until the store holds that version or a
/// newer one, [`get`](Self::get) and [`by_index`](Self::by_index) answer with it. Versions are compared as
/// numbers. It is bounded: what is over its capacity or older than its time to live is forgotten, least
/// recently used first, and reads then see the plain store. Where waiting is possible, waiting until the
/// informer has reached a version is simpler and exact.
///
/// Call [`observe`](Self::observe) from an event handler: it clears what the watch has caught up with and
/// remembers deletions, so that a late `record` does not bring a deleted object back.
///
/// The clock is a function that gives the time since some fixed moment, as in
/// [`TtlStore`](super::TtlStore).
#[doc(alias = "MutationCache")]
#[doc(alias = "NewIntegerResourceVersionMutationCache")]
pub struct Overlay<K> {
    store: Store<K>,
    options: OverlayOptions,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
    own: Mutex<OwnWrites<K>>,
}

/// How an [`Overlay`] behaves.
#[doc(alias = "MutationCacheOptions")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverlayOptions {
    /// How many writes and deletions are remembered.
    #[doc(alias = "MaxCacheSize")]
    pub capacity: usize,
    /// How long they are remembered; zero for as long as there is room.
    pub ttl: Duration,
    /// Whether to show objects that the store does not hold at all. It cannot be told whether such an object
    /// is not there yet or no longer: if it was deleted before the watch saw it, it stays visible for `ttl`.
    pub include_adds: bool,
}

impl Default for OverlayOptions {
    /// A hundred for five minutes, without additions: client-go's numbers.
    fn default() -> Self {
        Self {
            capacity: 100,
            ttl: Duration::from_secs(5 * 60),
            include_adds: false,
        }
    }
}

impl<K: Object> Overlay<K> {
    /// An overlay over a store.
    pub fn new(
        store: Store<K>,
        options: OverlayOptions,
        now: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        Self {
            store,
            options,
            now: Box::new(now),
            own: Mutex::new(OwnWrites::new(options.capacity)),
        }
    }

    /// Remembers an object as the server answered it to a write. One that is older than what was recorded
    /// before, or that is known to be deleted, is ignored.
    ///
    /// # Errors
    ///
    /// If its version is no number and so cannot be compared with what the watch brings.
    #[doc(alias = "Mutation")]
    pub fn record(&self, object: impl Into<Arc<K>>) -> Result<(), ParseVersionError> {
        let object = object.into();
        let version: ResourceVersion = object.resource_version().unwrap_or_default().parse()?;
        let key = ObjectKey::of(&*object);
        let now = (self.now)();
        let mut own = self.own.lock();
        let outdated = match own.get(&key, now) {
            Some(Written::Object(known)) => is_newer(known.resource_version(), Some(version.as_str())),
            Some(Written::Deleted { uid, version: gone }) => {
                uid.is_some() && uid.as_deref() == object.uid()
                    || !is_newer(Some(version.as_str()), gone.as_deref())
            }
            None => false,
        };
        if !outdated {
            own.put(key, Written::Object(object), self.until(now));
        }
        Ok(())
    }

    /// Takes note of what an informer told about the store.
    #[doc(alias = "OnAddOrUpdate")]
    #[doc(alias = "OnDelete")]
    pub fn observe(&self, event: &Event<K>) {
        let object = event.object();
        let key = ObjectKey::of(&**object);
        let now = (self.now)();
        let mut own = self.own.lock();
        let known = own.get(&key, now);
        // Versions compare across objects of one type: whatever is older is outdated, whoever it was.
        let caught_up = known.as_ref().is_some_and(|known| {
            let same_object = object.uid().is_some() && known.uid() == object.uid();
            let deleted = matches!(event, Event::Deleted { .. });
            deleted && same_object || !is_newer(known.version(), object.resource_version())
        });
        if caught_up {
            own.remove(&key);
        }
        let is_gone = matches!(event, Event::Deleted { cause, .. } if *cause != Cause::LeftScope);
        // If we wrote a newer object of that name, the deletion of the one before says nothing.
        if is_gone && (caught_up || known.is_none()) {
            let tombstone = Written::Deleted {
                uid: object.uid().map(str::to_owned),
                version: object.resource_version().map(str::to_owned),
            };
            own.put(key, tombstone, self.until(now));
        }
    }

    /// The object under a key: the newer one of the store's and your own.
    #[doc(alias = "GetByKey")]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let own = self.own.lock().get(key, (self.now)());
        let held = self.store.get(key);
        match (own, held) {
            (None, held) => held,
            (Some(own), Some(held)) => match own {
                Written::Object(object) if is_newer(object.resource_version(), held.resource_version()) => {
                    Some(object)
                }
                outdated => {
                    self.own.lock().remove_if(key, &outdated);
                    Some(held)
                }
            },
            (Some(Written::Object(object)), None) if self.options.include_adds => Some(object),
            (Some(_), None) => None,
        }
    }

    /// The objects with a value in an index, your own writes taken into account: one that has the value now is
    /// there, and one that has it no longer is not.
    ///
    /// Differs from client-go, which returns an object of the store that gained the value by your own write
    /// only with `include_adds`: [`get`](Self::get) shows that write, so this does too.
    ///
    /// # Errors
    ///
    /// If the store has no index of this name.
    ///
    /// # Panics
    ///
    /// If the index function panics on one of your own objects.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<K>>, UnknownIndex> {
        let mut objects = self.store.by_index(name, value)?;
        let Some(index) = self.store.index(name) else {
            return Ok(objects);
        };
        let own = self.own.lock().objects((self.now)());
        for own in own {
            let key = ObjectKey::of(&*own);
            let place = (objects.iter())
                .position(|held| held.name() == own.name() && held.namespace() == own.namespace());
            let visible = self.get(&key);
            let is_ours = visible.as_ref().is_some_and(|visible| Arc::ptr_eq(visible, &own));
            if !is_ours {
                continue;
            }
            let has_value = index.values_of(&own).iter().any(|own| own == value);
            match (place, has_value) {
                (Some(place), true) => objects[place] = own,
                (Some(place), false) => {
                    objects.remove(place);
                }
                (None, true) => objects.push(own),
                (None, false) => {}
            }
        }
        Ok(objects)
    }

    fn until(&self, now: Duration) -> Duration {
        if self.options.ttl.is_zero() {
            return Duration::MAX;
        }
        now.saturating_add(self.options.ttl)
    }

    /// How many writes and deletions are remembered.
    pub fn len(&self) -> usize {
        self.own.lock().len()
    }

    /// Whether reads see the plain store.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K> fmt::Debug for Overlay<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay")
            .field("options", &self.options)
            .field("len", &self.own.lock().len())
            .finish_non_exhaustive()
    }
}

/// Whether the left version is surely the newer one.
fn is_newer(left: Option<&str>, right: Option<&str>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => ResourceVersion::compare(left, right).is_some_and(|order| order.is_gt()),
        // Something that has a version is newer than something that has none.
        (Some(_), None) => true,
        _ => false,
    }
}
