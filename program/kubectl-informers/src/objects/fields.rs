//! A field that changed, and the fields that identify the elements of a list.

use serde::Serialize;
use serde_json::Value;

/// One field that changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// Where, as a JSON pointer. For elements of lists the index in the new list, or in the old one if it is gone.
    pub path: String,
    /// The same as people write it, with list elements by identity: `status.conditions[Ready].status`.
    pub field: String,
    /// The old value; `None` if the field was added.
    pub old: Option<Value>,
    /// The new value; `None` if it was removed.
    pub new: Option<Value>,
}

/// Fields that identify the elements of a list, the best first. One is used if every element has it and no two
/// elements have the same.
pub const KEYS: [&[&str]; 9] = [
    &["uid"],
    &["name"],
    &["type"],
    &["mountPath"],
    &["containerPort", "protocol"],
    &["port", "protocol"],
    &["ip"],
    &["key", "effect", "operator"],
    &["topologyKey"],
];
