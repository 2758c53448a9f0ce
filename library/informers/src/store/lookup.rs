//! The forms in which a key can be looked up.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};

use hashbrown::Equivalent;

use crate::key::{ObjectKey, hash_parts};
use crate::object::Object;

/// A key as the argument of a lookup.
///
/// A reference to the key always works, as does whatever the key can be borrowed as: `&str` for a `String`. Stores of
/// objects also accept `(namespace, name)` and the text of a key. None of these allocates.
///
/// ```
/// # use kube_informers::{ObjectKey, Store};
/// # fn example(pods: Store<k8s_openapi::api::core::v1::Pod>, key: &ObjectKey) {
/// pods.get(key);
/// pods.get(("shop", "cart"));
/// pods.get((None, "worker-1")); // no namespace
/// pods.get("shop/cart");
/// # }
/// ```
pub trait Lookup<Q> {
    #[doc(hidden)]
    type Key: Hash + Equivalent<Q>;

    #[doc(hidden)]
    fn into_key(self) -> Self::Key;
}

impl<'a, Q: Borrow<B>, B: Hash + Eq + ?Sized> Lookup<Q> for &'a B {
    type Key = Borrowed<'a, B>;

    fn into_key(self) -> Borrowed<'a, B> {
        Borrowed(self)
    }
}

impl<'a> Lookup<ObjectKey> for KeyRef<'a> {
    type Key = Self;

    fn into_key(self) -> Self {
        self
    }
}

impl<'a, N: AsRef<str> + ?Sized, M: AsRef<str> + ?Sized> Lookup<ObjectKey> for (&'a N, &'a M) {
    type Key = KeyRef<'a>;

    fn into_key(self) -> KeyRef<'a> {
        self.into()
    }
}

impl<'a, M: AsRef<str> + ?Sized> Lookup<ObjectKey> for (Option<&'a str>, &'a M) {
    type Key = KeyRef<'a>;

    fn into_key(self) -> KeyRef<'a> {
        self.into()
    }
}

impl<'a> Lookup<ObjectKey> for &'a str {
    type Key = KeyRef<'a>;

    fn into_key(self) -> KeyRef<'a> {
        self.into()
    }
}

/// A borrowed form of a key.
#[derive(Debug, Hash)]
pub struct Borrowed<'a, B: ?Sized>(&'a B);

impl<Q: Borrow<B>, B: Eq + ?Sized> Equivalent<Q> for Borrowed<'_, B> {
    fn equivalent(&self, key: &Q) -> bool {
        self.0 == key.borrow()
    }
}

/// A borrowed [`ObjectKey`]: made from `&key`, `(namespace, name)` or `"namespace/name"` without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef<'a> {
    namespace: Option<&'a str>,
    name: &'a str,
}

impl<'a> KeyRef<'a> {
    /// An empty namespace is the same as none.
    pub fn new(namespace: Option<&'a str>, name: &'a str) -> Self {
        Self {
            namespace: namespace.filter(|namespace| !namespace.is_empty()),
            name,
        }
    }

    /// The key of an object.
    pub fn of<K: Object>(object: &'a K) -> Self {
        Self::new(object.object_namespace(), object.object_name())
    }

    /// The namespace; `None` for cluster-scoped objects.
    pub fn namespace(self) -> Option<&'a str> {
        self.namespace
    }

    /// The name.
    pub fn name(self) -> &'a str {
        self.name
    }

    /// The owned key.
    pub fn to_key(self) -> ObjectKey {
        ObjectKey::new(self.namespace, self.name)
    }
}

impl<'a> From<&'a ObjectKey> for KeyRef<'a> {
    fn from(key: &'a ObjectKey) -> Self {
        Self::new(key.namespace(), key.name())
    }
}

impl<'a, N: AsRef<str> + ?Sized, M: AsRef<str> + ?Sized> From<(&'a N, &'a M)> for KeyRef<'a> {
    fn from((namespace, name): (&'a N, &'a M)) -> Self {
        Self::new(Some(namespace.as_ref()), name.as_ref())
    }
}

impl<'a, M: AsRef<str> + ?Sized> From<(Option<&'a str>, &'a M)> for KeyRef<'a> {
    fn from((namespace, name): (Option<&'a str>, &'a M)) -> Self {
        Self::new(namespace, name.as_ref())
    }
}

impl<'a> From<&'a str> for KeyRef<'a> {
    fn from(text: &'a str) -> Self {
        match text.split_once('/') {
            Some((namespace, name)) => Self::new(Some(namespace), name),
            None => Self::new(None, text),
        }
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_parts(self.namespace.map(str::as_bytes), self.name.as_bytes(), state);
    }
}

impl Equivalent<ObjectKey> for KeyRef<'_> {
    fn equivalent(&self, key: &ObjectKey) -> bool {
        key.is(self.namespace, self.name)
    }
}

impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use foldhash::fast::RandomState;

    use super::*;

    #[test]
    fn a_borrowed_key_has_the_hash_of_the_key() {
        let hasher = RandomState::default();
        let parts = [
            (None, "web"),
            (None, ""),
            (None, "a/b"),
            (Some("shop"), "web"),
            (Some("shop"), ""),
            (Some("a/b"), "c"),
            (Some("ä"), "ö"),
        ];
        for (namespace, name) in parts {
            let key = ObjectKey::new(namespace, name);
            let borrowed = KeyRef::new(namespace, name);
            assert_eq!(hasher.hash_one(&key), hasher.hash_one(borrowed), "{key}");
        }
    }

    #[test]
    fn a_borrowed_key_reads_like_the_key() {
        for key in [ObjectKey::namespaced("shop", "web"), ObjectKey::cluster("web")] {
            assert_eq!(KeyRef::from(&key).to_string(), key.to_string());
        }
    }
}
