//! `Overlay`: makes own writes visible in a store until the watch delivers them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use kube_informers::error::{IndexError, ParseError};
use kube_informers::store::KeyRef;
use kube_informers::{Cause, Event, Object, ObjectKey, ResourceVersion, Store};
use parking_lot::Mutex;

/// Reads from a store as if the watch had already delivered the program's own writes.
///
/// After a write, [`record`](Self::record) the object in the response. Until the store holds that version or a newer one,
/// [`get`](Self::get) and [`by_index`](Self::by_index) return the recorded one. Versions are compared as numbers. Entries
/// beyond the capacity, least recently used first, and entries older than the time to live are dropped; reads then
/// return the content of the store. If the program can wait until the informer has reached a version, that is simpler
/// and exact.
///
/// Call [`observe`](Self::observe) from an event handler. It removes entries that the watch has caught up with and
/// remembers deletions, so that a late `record` does not resurrect a deleted object.
///
/// The clock is a function that returns the time since a fixed moment, as in [`TtlStore`](crate::TtlStore).
#[doc(alias = "NewIntegerResourceVersionMutationCacheWithOptions")]
#[doc(alias = "MutationCache")]
#[doc(alias = "NewIntegerResourceVersionMutationCache")]
pub struct Overlay<K> {
    store: Store<K>,
    options: OverlayOptions,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
    own: Mutex<OwnWrites<K>>,
}

/// The limits and behaviour of an [`Overlay`].
#[doc(alias = "MutationCacheOptions")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverlayOptions {
    /// The maximum number of writes and deletions to remember.
    #[doc(alias = "MaxCacheSize")]
    pub capacity: usize,
    /// How long they are remembered; zero for no limit.
    pub ttl: Duration,
    /// Whether to return objects that the store does not hold. Such an object may not have arrived yet, or may be deleted
    /// already: if it was deleted before the watch delivered it, it stays visible for `ttl`.
    pub include_adds: bool,
}

impl Default for OverlayOptions {
    /// 100 entries for five minutes, without additions, as in client-go.
    fn default() -> Self {
        Self {
            capacity: 100,
            ttl: Duration::from_secs(5 * 60),
            include_adds: false,
        }
    }
}

impl<K: Object> Overlay<K> {
    /// An overlay for a store.
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

    /// Records the object in the response to a write. Ignored if it is older than what was recorded before, or is known
    /// to be deleted.
    ///
    /// # Errors
    ///
    /// Its version is not a number, so it cannot be compared with those of the watch.
    #[doc(alias = "Mutation")]
    pub fn record(&self, object: impl Into<Arc<K>>) -> Result<(), ParseError> {
        let object = object.into();
        let version: ResourceVersion = object.object_version().unwrap_or_default().parse()?;
        let key = ObjectKey::of(&*object);
        let now = (self.now)();
        let mut own = self.own.lock();
        let outdated = match own.get(KeyRef::from(&key), now) {
            Some(Written::Object(known)) => is_newer(known.object_version(), Some(version.as_str())),
            Some(Written::Deleted { uid, version: gone }) => {
                uid.is_some() && uid.as_deref() == object.object_uid()
                    || !is_newer(Some(version.as_str()), gone.as_deref())
            }
            None => false,
        };
        if !outdated {
            own.put(key, Written::Object(object), self.until(now));
        }
        Ok(())
    }

    /// Processes an event of the informer that fills the store.
    #[doc(alias = "OnAddOrUpdate")]
    #[doc(alias = "OnDelete")]
    pub fn observe(&self, event: &Event<K>) {
        let object = event.object();
        let key = ObjectKey::of(&**object);
        let now = (self.now)();
        let mut own = self.own.lock();
        let known = own.get(KeyRef::from(&key), now);
        // Versions compare across objects of one type, so an older one is outdated even if the UID differs.
        let caught_up = known.as_ref().is_some_and(|known| {
            let same_object = object.object_uid().is_some() && known.uid() == object.object_uid();
            let deleted = matches!(event, Event::Deleted { .. });
            deleted && same_object || !is_newer(known.version(), object.object_version())
        });
        if caught_up {
            own.remove(KeyRef::from(&key));
        }
        let is_gone = matches!(event, Event::Deleted { cause, .. } if *cause != Cause::LeftScope);
        // If a newer object of that name was written, the deletion is of its predecessor.
        if is_gone && (caught_up || known.is_none()) {
            let tombstone = Written::Deleted {
                uid: object.object_uid().map(str::to_owned),
                version: object.object_version().map(str::to_owned),
            };
            own.put(key, tombstone, self.until(now));
        }
    }

    /// The object with this key: the stored or the recorded one, whichever is newer.
    #[doc(alias = "GetByKey")]
    pub fn get<'a>(&self, key: impl Into<KeyRef<'a>>) -> Option<Arc<K>> {
        let key = key.into();
        let own = self.own.lock().get(key, (self.now)());
        let held = self.store.get(key);
        match (own, held) {
            (None, held) => held,
            (Some(own), Some(held)) => match own {
                Written::Object(object) if is_newer(object.object_version(), held.object_version()) => {
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

    /// The objects with a value in an index, with recorded writes taken into account: an object that gained the value is
    /// included, and one that lost it is not.
    ///
    /// Differs from client-go, which returns a stored object that gained the value by a recorded write only with
    /// `include_adds`. [`get`](Self::get) returns that write, so this does too.
    ///
    /// # Errors
    ///
    /// The store has no index of this name.
    ///
    /// # Panics
    ///
    /// If the index function panics on a recorded object.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<K>>, IndexError> {
        let mut objects = self.store.by_index(name, value)?;
        let Some(index) = self.store.index(name) else {
            return Ok(objects);
        };
        let own = self.own.lock().objects((self.now)());
        for own in own {
            let key = KeyRef::of(&*own);
            let place = objects.iter().position(|held| KeyRef::of(&**held) == key);
            let visible = self.get(key);
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

    /// The number of remembered writes and deletions.
    pub fn len(&self) -> usize {
        self.own.lock().len()
    }

    /// Whether no write or deletion is remembered.
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

/// Whether the left version is known to be newer.
fn is_newer(left: Option<&str>, right: Option<&str>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => ResourceVersion::compare(left, right).is_some_and(|order| order.is_gt()),
        // An object with a version is newer than one without.
        (Some(_), None) => true,
        _ => false,
    }
}

/// The last write or deletion of each key, limited in number and age.
struct OwnWrites<K> {
    capacity: usize,
    entries: HashMap<ObjectKey, OwnWrite<K>, RandomState>,
    /// Keys by last use, oldest first.
    by_use: BTreeMap<u64, ObjectKey>,
    uses: u64,
}

struct OwnWrite<K> {
    written: Written<K>,
    until: Duration,
    used: u64,
}

enum Written<K> {
    Object(Arc<K>),
    /// This UID was deleted, and every state up to this version.
    Deleted {
        uid: Option<String>,
        version: Option<String>,
    },
}

impl<K: Object> Written<K> {
    fn uid(&self) -> Option<&str> {
        match self {
            Self::Object(object) => object.object_uid(),
            Self::Deleted { uid, .. } => uid.as_deref(),
        }
    }

    fn version(&self) -> Option<&str> {
        match self {
            Self::Object(object) => object.object_version(),
            Self::Deleted { version, .. } => version.as_deref(),
        }
    }
}

impl<K> OwnWrites<K> {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            entries: HashMap::default(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry of a key. Counts as a use.
    fn get(&mut self, key: KeyRef<'_>, now: Duration) -> Option<Written<K>> {
        if self.entries.get(&key)?.until < now {
            self.remove(key);
            return None;
        }
        self.uses += 1;
        let entry = self.entries.get_mut(&key)?;
        if let Some(key) = self.by_use.remove(&entry.used) {
            entry.used = self.uses;
            self.by_use.insert(self.uses, key);
        }
        Some(entry.written.clone())
    }

    /// All objects, least recently used first. Does not count as a use.
    fn objects(&self, now: Duration) -> Vec<Arc<K>> {
        let entries = self.by_use.values().filter_map(|key| self.entries.get(key));
        let live = entries.filter(|entry| entry.until >= now);
        live.filter_map(|entry| match &entry.written {
            Written::Object(object) => Some(object.clone()),
            Written::Deleted { .. } => None,
        })
        .collect()
    }

    fn put(&mut self, key: ObjectKey, written: Written<K>, until: Duration) {
        if self.capacity == 0 {
            return;
        }
        self.remove(KeyRef::from(&key));
        while self.entries.len() >= self.capacity {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                break;
            };
            self.entries.remove(&oldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, key.clone());
        let entry = OwnWrite {
            written,
            until,
            used: self.uses,
        };
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: KeyRef<'_>) {
        if let Some(entry) = self.entries.remove(&key) {
            self.by_use.remove(&entry.used);
        }
    }

    /// Removes the entry of a key, unless it was replaced meanwhile.
    fn remove_if(&mut self, key: KeyRef<'_>, written: &Written<K>) {
        let present = self.entries.get(&key).map(|entry| &entry.written);
        let same = match (present, written) {
            (Some(Written::Object(left)), Written::Object(right)) => Arc::ptr_eq(left, right),
            (Some(Written::Deleted { version: left, .. }), Written::Deleted { version: right, .. }) => {
                left == right
            }
            _ => false,
        };
        if same {
            self.remove(key);
        }
    }
}

impl<K> Clone for Written<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Object(object) => Self::Object(object.clone()),
            Self::Deleted { uid, version } => Self::Deleted {
                uid: uid.clone(),
                version: version.clone(),
            },
        }
    }
}
