//! The fields that an empty object of a built-in kind still has, because a typed server always encodes them.

use serde_json::{Map, Value, json};

use super::Kind;
use crate::typed;

/// The parts besides type and metadata that a bookmark of this kind contains; custom kinds have none.
///
/// Go prints them by the types, except that a bookmark comes from the internal type, in which the number of replicas is
/// never absent.
pub(crate) fn empty_parts(kind: &Kind) -> Map<String, Value> {
    let mut parts = typed::empty_parts(kind);
    if kind.group == "apps" && kind.scale.is_some() {
        parts["spec"]["replicas"] = json!(0);
    }
    parts
}
