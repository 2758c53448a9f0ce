//! The true history of each object, from the responses to the writes, filtered by the selector.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One step in the history of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An object existed in this state.
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
        /// The version of the write, if its response has one; a deletion's response does not.
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
    /// Every name that was written, whether or not the selector matches it.
    written: BTreeSet<String>,
    /// The number of steps of each name when the informers started.
    before: BTreeMap<String, usize>,
}

impl History {
    /// Records a write; `visible` is whether the selector matches the object.
    pub fn wrote(&mut self, name: &str, uid: &str, version: u64, visible: bool) {
        self.written.insert(name.to_owned());
        let step = if visible {
            // A no-op write keeps the version, and no event is sent.
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

    /// Records a removal.
    pub fn removed(&mut self, name: &str, uid: &str) {
        if self.now(name).is_some() {
            self.steps.entry(name.to_owned()).or_default().push(Step::Gone {
                uid: uid.to_owned(),
                version: None,
            });
        }
    }

    /// The informers start now: the current objects are their initial list.
    pub fn begin(&mut self) {
        let counts = self.steps.iter().map(|(name, steps)| (name.clone(), steps.len()));
        self.before = counts.collect();
    }

    fn before(&self, name: &str) -> usize {
        self.before.get(name).copied().unwrap_or_default()
    }

    /// The first step that the informers can deliver: the initial state, or the next step.
    pub fn start(&self, name: &str) -> usize {
        self.before(name) - usize::from(self.initial(name).is_some())
    }

    /// The state of an object when the informers started.
    pub fn initial(&self, name: &str) -> Option<(&str, u64)> {
        shown(self.steps(name).get(..self.before(name))?)
    }

    /// The current state of an object: uid and version.
    pub fn now(&self, name: &str) -> Option<(&str, u64)> {
        shown(self.steps(name))
    }

    /// Every name in the history.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.steps.keys().map(String::as_str)
    }

    /// The steps of a name.
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
