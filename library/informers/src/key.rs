//! `ObjectKey`: identifies an object in a cache.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use crate::errors::ParseError;
use crate::object::Object;

/// Identifies an object in an informer: its namespace, if it has one, and its name.
///
/// A cache holds one kind of object, so the kind is not part of the key. Displays and parses as
/// `namespace/name`, or `name` alone for cluster-scoped objects. Cloning is cheap.
///
/// ```
/// use kube_informers::ObjectKey;
///
/// let key: ObjectKey = "shop/cart".parse()?;
/// assert_eq!(key.namespace(), Some("shop"));
/// assert_eq!(key.name(), "cart");
/// assert_eq!(key.to_string(), "shop/cart");
/// # Ok::<(), kube_informers::error::ParseError>(())
/// ```
#[doc(alias = "NewObjectName")]
#[doc(alias = "NamespacedNameAsObjectName")]
#[doc(alias = "ParseObjectName")]
#[doc(alias = "reconcile.Request")]
#[doc(alias = "ObjectName")]
#[doc(alias = "MetaNamespaceKeyFunc")]
#[doc(alias = "SplitMetaNamespaceKey")]
#[derive(Clone)]
pub struct ObjectKey {
    /// Namespace and name in one allocation, so cloning a key copies one pointer.
    text: Arc<str>,
    /// The length of the namespace; `None` if there is none. An empty namespace is none.
    namespace: Option<u32>,
}

impl ObjectKey {
    /// The key of a namespaced object. An empty namespace means cluster-scoped.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self::new(Some(namespace), name)
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self::new(None, name)
    }

    /// The key of a namespace and a name. An empty namespace means cluster-scoped.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace.filter(|namespace| !namespace.is_empty()) {
            None => Self {
                text: name.into(),
                namespace: None,
            },
            Some(namespace) => {
                let mut text = String::with_capacity(namespace.len() + 1 + name.len());
                text.push_str(namespace);
                text.push('/');
                text.push_str(name);
                Self {
                    text: text.into(),
                    namespace: u32::try_from(namespace.len()).ok(),
                }
            }
        }
    }

    /// The key of an object.
    #[doc(alias = "DeletionHandlingMetaNamespaceKeyFunc")]
    #[doc(alias = "ExplicitKey")]
    #[doc(alias = "ObjectToName")]
    #[doc(alias = "DeletionHandlingObjectToName")]
    #[doc(alias = "MetaNamespaceKeyFunc")]
    #[doc(alias = "MetaObjectToName")]
    pub fn of<K: Object + ?Sized>(object: &K) -> Self {
        Self::new(object.object_namespace(), object.object_name())
    }

    /// Whether this is the key of an object. Allocates nothing.
    pub(crate) fn is_of<K: Object + ?Sized>(&self, object: &K) -> bool {
        let namespace = object
            .object_namespace()
            .filter(|namespace| !namespace.is_empty());
        self.is(namespace, object.object_name())
    }

    /// Whether this is the key of a namespace, which is not empty, and a name. Every lookup compares keys, so this compares bytes
    /// and not parts of the text, whose limits would have to be checked.
    #[inline]
    pub(crate) fn is(&self, namespace: Option<&str>, name: &str) -> bool {
        let (text, name) = (self.text.as_bytes(), name.as_bytes());
        match (namespace, self.namespace) {
            (None, None) => text == name,
            (Some(namespace), Some(length)) => {
                let length = length as usize;
                namespace.len() == length
                    && text.len() == length + 1 + name.len()
                    && text.ends_with(name)
                    && text.starts_with(namespace.as_bytes())
            }
            _ => false,
        }
    }

    /// The namespace; `None` for cluster-scoped objects.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.and_then(|length| self.text.get(..length as usize))
    }

    /// The name.
    pub fn name(&self) -> &str {
        match self.namespace {
            None => &self.text,
            Some(length) => self.text.get(length as usize + 1..).unwrap_or_default(),
        }
    }

    /// `namespace/name`, or the name alone.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.text == other.text
    }
}

impl Eq for ObjectKey {}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As bytes: limits of parts of a text would have to be checked.
        let text = self.text.as_bytes();
        let namespace = self
            .namespace
            .and_then(|length| text.split_at_checked(length as usize));
        match namespace {
            None => hash_parts(None, text, state),
            Some((namespace, name)) => hash_parts(Some(namespace), name.get(1..).unwrap_or_default(), state),
        }
    }
}

/// The hash of a key by its parts: `ObjectKey` and `KeyRef` must agree.
///
/// Every lookup hashes a key, so this writes the bytes only. Derived code also writes whether there is a namespace and
/// where each text ends, which takes as long again. Two keys that differ only in that have equal hashes, and comparing
/// them tells them apart.
pub(crate) fn hash_parts<H: Hasher>(namespace: Option<&[u8]>, name: &[u8], state: &mut H) {
    if let Some(namespace) = namespace {
        state.write(namespace);
    }
    state.write(name);
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.namespace(), self.name()).cmp(&(other.namespace(), other.name()))
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectKey({})", self.text)
    }
}

impl FromStr for ObjectKey {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.split_once('/') {
            None => Ok(Self::cluster(text)),
            Some((_, name)) if name.contains('/') => Err(ParseError::new(
                "an object key",
                text,
                "expected `namespace/name`, or `name` for a cluster-scoped object",
            )),
            Some((namespace, name)) => Ok(Self::namespaced(namespace, name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Upstream: TestObjectNames
        #[test]
        fn parse_then_print_is_identity_for_at_most_one_slash(text in "[a-i/]{10}") {
            let parsed = text.parse::<ObjectKey>();
            if text.matches('/').count() > 1 {
                prop_assert!(parsed.is_err());
            } else {
                // A leading slash means the empty namespace, which is none, and is not printed.
                let printed = text.strip_prefix('/').unwrap_or(&text);
                prop_assert_eq!(parsed.unwrap().to_string(), printed);
            }
        }
    }

    #[test]
    fn a_name_with_a_slash_is_a_different_key() {
        assert_ne!(
            ObjectKey::namespaced("a", "b/c"),
            ObjectKey::namespaced("a/b", "c")
        );
        assert_ne!(ObjectKey::namespaced("a", "b"), ObjectKey::cluster("a/b"));
    }

    #[test]
    fn a_key_is_that_of_its_parts_and_of_no_others() {
        let parts = [
            (None, "a"),
            (None, "a/b"),
            (Some("a"), "b"),
            (Some("a"), "b/c"),
            (Some("a/b"), "c"),
            (Some("ab"), ""),
        ];
        for (namespace, name) in parts {
            let key = ObjectKey::new(namespace, name);
            for (other_namespace, other_name) in parts {
                let expected = (namespace, name) == (other_namespace, other_name);
                assert_eq!(
                    key.is(other_namespace, other_name),
                    expected,
                    "{key} {other_namespace:?} {other_name}"
                );
            }
        }
    }

    #[test]
    fn order_is_namespace_then_name() {
        let mut keys: Vec<ObjectKey> = ["b/a", "a/z", "c", "a/b"]
            .iter()
            .map(|k| k.parse().unwrap())
            .collect();
        keys.sort();
        assert_eq!(
            keys.iter().map(ObjectKey::as_str).collect::<Vec<_>>(),
            ["c", "a/b", "a/z", "b/a"]
        );
    }

    #[test]
    fn the_error_contains_the_text_and_the_expected_format() {
        let error = "a/b/c".parse::<ObjectKey>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"a/b/c\" is not an object key: expected `namespace/name`, or `name` for a cluster-scoped object"
        );
    }
}
