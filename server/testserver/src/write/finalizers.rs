//! The finalizers that the server itself sets, and what they hold.

use serde_json::{Map, Value};

use crate::kinds::Kind;

/// The finalizers of a propagation policy.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// Holds a namespace until it is empty. Unlike all others, this finalizer is in `spec.finalizers`.
pub(super) const CONTENTS: &str = "kubernetes";

/// Whether an object is a namespace that waits for its contents to be removed.
pub(super) fn is_held(kind: &Kind, object: &Map<String, Value>) -> bool {
    let finalizers = object.get("spec").and_then(|spec| spec.get("finalizers"));
    let held = finalizers
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty());
    held && kind.group.is_empty() && kind.kind == "Namespace"
}
