//! What truly happened to each object, as the server said in its answers to the writes; seen through the selector.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One step in the life of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An object was there in this state.
    Shown {
        /// Its uid.
        uid: String,
        /// Its version.
        version: u64,
    },
    /// An object was deleted, or left the selection.
    Gone {
        /// Its uid.
        uid: String,
        /// The version of the write, where its answer says it: that to a deletion does not.
        version: Option<u64>,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, uid, version) = match self {
            Step::Shown { uid, version } => ("shown", uid, Some(*version)),
            Step::Gone { uid, version } => ("gone", uid, *version),
        };
        let uid = uid.get(..8).unwrap_or(uid);
        match version {
            Some(version) => write!(f, "{word} {uid}@{version}"),
            None => write!(f, "{word} {uid}"),
        }
    }
}

/// The history of every name.
#[derive(Clone, Debug, Default)]
pub struct History {
    steps: BTreeMap<String, Vec<Step>>,
    /// Every name that was written, seen through the selector or not.
    written: BTreeSet<String>,
    /// How many steps each name had when the informers started.
    before: BTreeMap<String, usize>,
}

impl History {
    /// An object was written; `visible` says whether the selector takes it.
    pub fn wrote(&mut self, name: &str, uid: &str, version: u64, visible: bool) {
        self.written.insert(name.to_owned());
        let step = if visible {
            // A write that changes nothing leaves the version as it is, and nobody is told.
            if self.now(name) == Some((uid, version)) {
                return;
            }
            Step::Shown {
                uid: uid.to_owned(),
                version,
            }
        } else if self.now(name).is_some() {
            Step::Gone {
                uid: uid.to_owned(),
                version: Some(version),
            }
        } else {
            return;
        };
        self.steps.entry(name.to_owned()).or_default().push(step);
    }

    /// Whether anything was ever written under this name.
    pub fn wrote_about(&self, name: &str) -> bool {
        self.written.contains(name)
    }

    /// An object was removed.
    pub fn removed(&mut self, name: &str, uid: &str) {
        if self.now(name).is_some() {
            self.steps.entry(name.to_owned()).or_default().push(Step::Gone {
                uid: uid.to_owned(),
                version: None,
            });
        }
    }

    /// The informers start now: what is there is their first list.
    pub fn begin(&mut self) {
        let counts = self.steps.iter().map(|(name, steps)| (name.clone(), steps.len()));
        self.before = counts.collect();
    }

    fn before(&self, name: &str) -> usize {
        self.before.get(name).copied().unwrap_or_default()
    }

    /// The first step that the informers can tell: the state that they found, or what came after.
    pub fn start(&self, name: &str) -> usize {
        self.before(name) - usize::from(self.initial(name).is_some())
    }

    /// The state in which the informers found an object when they started.
    pub fn initial(&self, name: &str) -> Option<(&str, u64)> {
        shown(self.steps(name).get(..self.before(name))?)
    }

    /// The state of an object now: uid and version.
    pub fn now(&self, name: &str) -> Option<(&str, u64)> {
        shown(self.steps(name))
    }

    /// Every name there ever was.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.steps.keys().map(String::as_str)
    }

    /// All that happened under a name.
    pub fn steps(&self, name: &str) -> &[Step] {
        self.steps.get(name).map_or(&[], Vec::as_slice)
    }
}

/// The state after these steps.
fn shown(steps: &[Step]) -> Option<(&str, u64)> {
    match steps.last()? {
        Step::Shown { uid, version } => Some((uid, *version)),
        Step::Gone { .. } => None,
    }
}
