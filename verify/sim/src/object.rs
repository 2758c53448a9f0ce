//! The object of the simulated collection.

use std::cell::Cell;

use kube_informers::Object;

/// The number of a key. Keys are spread over two namespaces.
pub type Key = u32;

/// An object as the client holds it.
#[derive(Debug, PartialEq, Eq)]
pub struct Thing {
    /// The number of its key.
    pub key: Key,
    /// The decoded form of `version`.
    pub revision: u64,
    /// What the index is about.
    pub label: u32,
    number: u64,
    namespace: &'static str,
    name: String,
    uid: String,
    version: String,
    /// Must never occur in a message.
    secret: &'static str,
    counted: Counted,
}

thread_local! {
    static IN_MEMORY: Cell<usize> = const { Cell::new(0) };
}

/// Counts the objects of a thread.
#[derive(Debug, PartialEq, Eq)]
struct Counted;

impl Counted {
    fn new() -> Self {
        IN_MEMORY.set(IN_MEMORY.get() + 1);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Other threads may drop an object in tests of interleavings, and then nobody asks for the number.
        IN_MEMORY.set(IN_MEMORY.get().saturating_sub(1));
    }
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
            number: uid,
            namespace: namespace(key),
            name: name(key),
            uid: uid_text(uid),
            version: revision.to_string(),
            secret: CANARY,
            counted: Counted::new(),
        }
    }

    /// The number of objects that this thread has made and not dropped.
    pub fn in_memory() -> usize {
        IN_MEMORY.get()
    }

    /// The UID as the server counts it.
    pub fn uid(&self) -> u64 {
        self.number
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

/// The UID with this number. Long enough for hashes that are spread evenly.
pub fn uid_text(number: u64) -> String {
    format!("{number}-{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
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
