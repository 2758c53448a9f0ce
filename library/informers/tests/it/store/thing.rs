//! A small object, and short notations for deltas and events.

use std::sync::Arc;

use kube_informers::delta::{Delta, Replacement};
use kube_informers::quarantine::{BadObject, Problem};
use kube_informers::sim::{Applied, DeltaWriter, Origin, Prepared};
use kube_informers::{Event, Object, ObjectKey};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thing {
    pub namespace: Option<String>,
    pub name: String,
    pub uid: Option<String>,
    pub version: Option<String>,
    /// Index values.
    pub tags: Vec<String>,
}

impl Object for Thing {
    fn object_name(&self) -> &str {
        &self.name
    }

    fn object_namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    fn object_uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    fn object_version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

/// `a/cart:u1@7 red blue`: namespace, name, UID, version, tags. All but the name are optional.
pub fn thing(text: &str) -> Arc<Thing> {
    let mut words = text.split_whitespace();
    let identity = words.next().unwrap_or_default();
    let (identity, version) = split(identity, '@');
    let (key, uid) = split(identity, ':');
    let key: ObjectKey = key.parse().expect("a key");
    Arc::new(Thing {
        namespace: key.namespace().map(str::to_owned),
        name: key.name().to_owned(),
        uid,
        version,
        tags: words.map(str::to_owned).collect(),
    })
}

fn split(text: &str, at: char) -> (&str, Option<String>) {
    match text.split_once(at) {
        Some((left, right)) => (left, Some(right.to_owned())),
        None => (text, None),
    }
}

/// An object that cannot be read, written as in [`thing`].
pub fn bad(text: &str) -> BadObject {
    let thing = thing(text);
    BadObject {
        key: Some(ObjectKey::of(&*thing)),
        uid: thing.uid.clone(),
        resource_version: thing.version.clone(),
        problem: Problem::Decode("spec: as wanted".to_owned()),
        size: 10,
    }
}

pub fn added(text: &str) -> Delta<Thing> {
    Delta::Added(thing(text))
}

pub fn updated(text: &str) -> Delta<Thing> {
    Delta::Updated(thing(text))
}

pub fn deleted(text: &str) -> Delta<Thing> {
    Delta::Deleted(thing(text))
}

pub fn bookmark(version: &str) -> Delta<Thing> {
    Delta::Bookmark {
        resource_version: version.to_owned(),
    }
}

pub fn list(version: &str, objects: &[&str]) -> Delta<Thing> {
    list_with_bad(version, objects, &[])
}

pub fn list_with_bad(version: &str, objects: &[&str], unreadable: &[&str]) -> Delta<Thing> {
    Delta::ReplacedAll(Replacement {
        shard: None,
        objects: objects.iter().copied().map(thing).collect(),
        unreadable: unreadable.iter().copied().map(bad).collect(),
        resource_version: Some(version.to_owned()),
    })
}

/// A writer and the events it returned.
pub struct Cache {
    pub writer: DeltaWriter<Thing>,
    pub events: Vec<Event<Thing>>,
}

impl Cache {
    pub fn new() -> Self {
        Self {
            writer: DeltaWriter::new(),
            events: Vec::new(),
        }
    }

    /// A cache after an initial list.
    pub fn with(version: &str, objects: &[&str]) -> Self {
        let mut cache = Self::new();
        cache.apply([list(version, objects)]);
        cache.events.clear();
        cache
    }

    pub fn apply<const N: usize>(&mut self, deltas: [Delta<Thing>; N]) -> Applied {
        self.apply_from(Origin::default(), deltas)
    }

    pub fn apply_from<const N: usize>(&mut self, origin: Origin, deltas: [Delta<Thing>; N]) -> Applied {
        let prepared = Prepared::new(&self.writer.store(), origin, deltas.into());
        self.writer.apply(prepared, &mut self.events)
    }

    /// The events since the last call, as text.
    pub fn delivered(&mut self) -> Vec<String> {
        let events = self.events.drain(..);
        events.map(|event| event.to_string()).collect()
    }

    /// The content of the store, as `a/cart@7`, sorted.
    pub fn held(&self) -> Vec<String> {
        let snapshot = self.writer.store().list();
        let mut held: Vec<String> = snapshot.iter().map(|object| state(object)).collect();
        held.sort();
        held
    }

    pub fn version(&self) -> Option<String> {
        self.writer.store().resource_version()
    }
}

/// `a/cart@7`.
pub fn state(thing: &Thing) -> String {
    format!(
        "{}@{}",
        ObjectKey::of(thing),
        thing.version.as_deref().unwrap_or("?")
    )
}
