//! One line of an event log, in the format of `kubectl-informers watch -o json`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The type of a line.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// An object was added.
    Added,
    /// An object was updated.
    Updated,
    /// An object was deleted.
    Deleted,
    /// The initial list was delivered.
    Synced,
    /// At the end: an object in the store.
    Stored,
    /// A list was requested. Only client-go's informer prints this.
    Listing,
}

/// One line.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// The type of the line.
    pub event: Event,
    /// Part of the initial list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub initial: bool,
    /// The cause of a deletion: `observed`, `missed` or `left-scope`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// The object's namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The object's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The object's uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The version of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The version of the old state in an update.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub old_resource_version: String,
}

impl Line {
    /// The version as a number; zero if it is not a number.
    pub fn version(&self) -> u64 {
        self.resource_version.parse().unwrap_or_default()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uid = self.uid.get(..8).unwrap_or(&self.uid);
        write!(
            f,
            "{:?} {} {uid}@{}",
            self.event, self.name, self.resource_version
        )?;
        if !self.old_resource_version.is_empty() {
            write!(f, " was @{}", self.old_resource_version)?;
        }
        if self.initial {
            f.write_str(" initial")?;
        }
        if !self.cause.is_empty() {
            write!(f, " {}", self.cause)?;
        }
        Ok(())
    }
}
