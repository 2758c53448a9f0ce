//! The object of the simulated collection.

use kube_informers::Object;

/// The number of a key. Keys are spread over two namespaces.
pub type Key = u32;

/// An object as the client holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thing {
    /// The number of its key.
    pub key: Key,
    /// The decoded form of `version`.
    pub revision: u64,
    /// What the index is about.
    pub label: u32,
    namespace: &'static str,
    name: String,
    uid: String,
    version: String,
    /// Must never occur in a message.
    secret: &'static str,
}

/// The value of every object that must never occur in logs, errors or `Debug` output.
pub const CANARY: &str = "canary-7f3a";

impl Thing {
    /// The object as it leaves the decoder.
    pub fn new(key: Key, uid: u64, revision: u64, label: u32) -> Self {
        Self {
            key,
            revision,
            label,
            namespace: namespace(key),
            name: name(key),
            uid: uid.to_string(),
            version: revision.to_string(),
            secret: CANARY,
        }
    }

    /// The UID as the server counts it.
    pub fn uid(&self) -> u64 {
        self.uid.parse().unwrap_or_default()
    }
}

impl Object for Thing {
    fn object_name(&self) -> &str {
        &self.name
    }

    fn object_namespace(&self) -> Option<&str> {
        Some(self.namespace)
    }

    fn object_uid(&self) -> Option<&str> {
        Some(&self.uid)
    }

    fn object_version(&self) -> Option<&str> {
        Some(&self.version)
    }
}

/// The namespace of a key.
pub fn namespace(key: Key) -> &'static str {
    if key.is_multiple_of(2) { "even" } else { "odd" }
}

/// The name of a key.
pub fn name(key: Key) -> String {
    format!("k{key}")
}

/// The number of a key, from its name.
pub fn key_of(name: &str) -> Option<Key> {
    name.strip_prefix('k')?.parse().ok()
}
