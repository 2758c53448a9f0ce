//! The fields that an empty object of a built-in kind still has, because a typed server always encodes them.

use serde_json::{Map, Value, json};

use super::Kind;
use crate::typed;

/// The annotation of a daemon set with the number of its templates. It belongs to a version that no longer exists, in which the number
/// was a field, as it still is in Go's internal type.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn is_daemon_set(kind: &Kind) -> bool {
    kind.group == "apps" && kind.kind == "DaemonSet"
}

/// The annotations of a bookmark, which is converted from an empty object of the internal type.
pub(crate) fn bookmark_annotations(kind: &Kind) -> Map<String, Value> {
    let mut annotations = Map::new();
    if is_daemon_set(kind) {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), json!("0"));
    }
    annotations
}

/// Whether metadata that is shown alone differs from that of the whole object: it is taken from the internal type.
pub(crate) fn has_internal_metadata(kind: &Kind) -> bool {
    is_daemon_set(kind)
}

/// The metadata of a daemon set in the internal type.
pub(crate) fn internal_metadata(mut metadata: Value) -> Value {
    let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
    let emptied = annotations.is_some_and(|annotations| {
        annotations.remove(TEMPLATE_GENERATION);
        annotations.is_empty()
    });
    if let Some(metadata) = metadata.as_object_mut().filter(|_| emptied) {
        metadata.remove("annotations");
    }
    metadata
}

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
