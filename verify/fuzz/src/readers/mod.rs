//! Everything here that reads foreign bytes.

mod bodies;
mod recordings;
mod server;
mod text;

use std::fmt;

use crate::outcome::Outcome;

/// Reads an input and adds what it observes to the outcome.
pub type Read = Box<dyn FnMut(&[u8], &mut Outcome)>;

/// Something that reads foreign bytes.
pub struct Reader {
    /// The name on the command line and of its corpus.
    pub name: &'static str,
    /// Valid inputs.
    pub seeds: Vec<Vec<u8>>,
    /// Words that it knows.
    pub words: &'static [&'static str],
    /// The memory it may allocate, whatever the input.
    pub memory_base: usize,
    /// The memory it may allocate for each byte of input. Structs are larger than `{}`.
    pub memory_per_byte: usize,
    /// The reader.
    pub read: Read,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// All readers.
pub fn all() -> Vec<Reader> {
    let mut readers = bodies::readers();
    readers.extend(text::readers());
    readers.extend(server::readers());
    readers.extend(recordings::readers());
    readers
}

const MEGABYTE: usize = 1 << 20;

/// Names of members and values that mean something to a reader of Kubernetes objects.
const WORDS: &[&str] = &[
    "\"metadata\":",
    "\"items\":",
    "\"managedFields\":",
    "\"resourceVersion\":",
    "\"continue\":",
    "\"kind\":",
    "\"apiVersion\":",
    "\"object\":",
    "\"type\":",
    "\"uid\":",
    "\"labels\":{",
    "\"ownerReferences\":[{",
    "\"name\":\"",
    "null",
    "true",
    "\"BOOKMARK\"",
    "\"ERROR\"",
    "\"DELETED\"",
    "\"Status\"",
    "k8s.io/initial-events-end",
    "k8s\u{0}",
    "\u{FEFF}",
    "\u{1F600}",
];
