//! A small object as text.

use std::sync::Arc;

use kube_informers::{Object, ObjectKey};

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

/// `a/cart@7`.
pub fn state(thing: &Thing) -> String {
    format!(
        "{}@{}",
        ObjectKey::of(thing),
        thing.version.as_deref().unwrap_or("?")
    )
}
