//! The fields of a value, and the differences between two values, as field sets.

use serde_json::{Map, Value};

use super::fieldset::{FieldSet, field, item_by_key, item_by_value};
use super::shape::{ListShape, is_atomic_map, list_shape};
use crate::kinds::Kind;

/// The differences between an old and a new object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

/// Whether two objects are equal apart from `managedFields`.
pub fn same_but_managed_fields(a: &Value, b: &Value) -> bool {
    without_managed_fields(a) == without_managed_fields(b)
}

fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}

/// The fields of an applied configuration.
pub(super) fn fields_of(kind: &Kind, object: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect(kind, &mut Vec::new(), object, &mut set, false);
    // The root is not a field.
    set.here = false;
    set
}

/// The differences between `old` and `new`.
pub(super) fn compare(kind: &Kind, old: &Value, new: &Value) -> Comparison {
    let mut comparison = Comparison::default();
    walk(kind, &mut Vec::new(), &mut Vec::new(), old, new, &mut comparison);
    // The root is not a field.
    comparison.modified.here = false;
    comparison
}

/// Adds the leaves of a value to a set. With `containers`, the objects in between are added too: an update that creates
/// a map owns the map.
fn collect<'a>(kind: &Kind, path: &mut Vec<&'a str>, value: &'a Value, set: &mut FieldSet, containers: bool) {
    match value {
        Value::Object(fields) if !fields.is_empty() && !is_atomic_map(kind, path) => {
            set.here |= containers && is_optional(path);
            for (name, value) in fields {
                path.push(name);
                collect(kind, path, value, set.child(field(name)), containers);
                path.pop();
            }
        }
        Value::Array(items) if !items.is_empty() => match list_shape(kind, path) {
            ListShape::Atomic => set.here = true,
            ListShape::Set => {
                set.here |= containers;
                for item in items {
                    set.child(item_by_value(item)).here = true;
                }
            }
            ListShape::Map(keys) => {
                set.here |= containers && is_optional(path);
                for item in items {
                    match item_by_key(item, &keys) {
                        Some(edge) => {
                            let child = set.child(edge);
                            collect(kind, path, item, child, containers);
                            child.here = true;
                        }
                        // An item without its key has no identity, so the list is treated as one value.
                        None => set.here = true,
                    }
                }
            }
        },
        _ => set.here = true,
    }
}

/// Whether the container at `path` can be owned; the object itself and its metadata cannot.
fn is_optional(path: &[&str]) -> bool {
    !matches!(path, [] | ["metadata"])
}

fn walk<'a>(
    kind: &Kind,
    path: &mut Vec<&'a str>,
    edges: &mut Vec<String>,
    old: &'a Value,
    new: &'a Value,
    comparison: &mut Comparison,
) {
    match (old, new) {
        _ if old == new => {}
        // An empty list or map that is printed as null: its elements are new, the container is not.
        (Value::Null, Value::Array(_) | Value::Object(_)) if !kind.custom => {
            let place = edges
                .iter()
                .fold(&mut comparison.added, |place, edge| place.child(edge.clone()));
            collect(kind, path, new, place, true);
            place.here &= place.children.is_empty();
        }
        (Value::Object(old), Value::Object(new)) if !is_atomic_map(kind, path) => {
            walk_fields(kind, path, edges, old, new, comparison);
        }
        (Value::Array(old), Value::Array(new)) => match list_shape(kind, path) {
            ListShape::Atomic => comparison.modified.insert(edges),
            ListShape::Set => {
                let pairs =
                    |items: &'a [Value]| items.iter().map(|item| (item_by_value(item), item)).collect();
                walk_items(kind, path, edges, pairs(old), pairs(new), comparison);
            }
            ListShape::Map(keys) => {
                let pairs = |items: &'a [Value]| -> Option<Vec<(String, &'a Value)>> {
                    items
                        .iter()
                        .map(|item| Some((item_by_key(item, &keys)?, item)))
                        .collect()
                };
                match (pairs(old), pairs(new)) {
                    (Some(old), Some(new)) => walk_items(kind, path, edges, old, new, comparison),
                    _ => comparison.modified.insert(edges),
                }
            }
        },
        _ => comparison.modified.insert(edges),
    }
}

fn walk_fields<'a>(
    kind: &Kind,
    path: &mut Vec<&'a str>,
    edges: &mut Vec<String>,
    old: &'a Map<String, Value>,
    new: &'a Map<String, Value>,
    comparison: &mut Comparison,
) {
    for (name, value) in new {
        path.push(name);
        edges.push(field(name));
        match old.get(name) {
            Some(before) => walk(kind, path, edges, before, value, comparison),
            None => add(kind, path, edges, value, &mut comparison.added),
        }
        edges.pop();
        path.pop();
    }
    for (name, value) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        path.push(name);
        edges.push(field(name));
        add(kind, path, edges, value, &mut comparison.removed);
        edges.pop();
        path.pop();
    }
}

fn walk_items<'a>(
    kind: &Kind,
    path: &mut Vec<&'a str>,
    edges: &mut Vec<String>,
    old: Vec<(String, &'a Value)>,
    new: Vec<(String, &'a Value)>,
    comparison: &mut Comparison,
) {
    for (edge, value) in &new {
        edges.push(edge.clone());
        match old.iter().find(|(other, _)| other == edge) {
            Some((_, before)) => walk(kind, path, edges, before, value, comparison),
            None => add(kind, path, edges, value, &mut comparison.added),
        }
        edges.pop();
    }
    for (edge, value) in old
        .iter()
        .filter(|(edge, _)| !new.iter().any(|(other, _)| other == edge))
    {
        edges.push(edge.clone());
        add(kind, path, edges, value, &mut comparison.removed);
        edges.pop();
    }
}

/// Adds a whole value at `path`.
fn add<'a>(kind: &Kind, path: &mut Vec<&'a str>, edges: &[String], value: &'a Value, set: &mut FieldSet) {
    let mut place = set;
    for edge in edges {
        place = place.child(edge.clone());
    }
    collect(kind, path, value, place, true);
    let is_item = edges.last().is_some_and(|edge| !edge.starts_with("f:"));
    place.here |= is_item;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;

    #[test]
    fn configuration_fields_are_its_leaves_and_keyed_items() {
        let kind = Registry::builtin().resource("apps", "v1", "deployments").unwrap();
        let fields = fields_of(
            &kind,
            &json!({
                "metadata": { "labels": { "app": "web" }, "finalizers": ["x"] },
                "spec": {
                    "selector": { "matchLabels": { "app": "web" } },
                    "template": { "spec": {
                        "tolerations": [{ "key": "a" }],
                        "containers": [{ "name": "web", "ports": [{ "containerPort": 80 }] }],
                    } },
                },
            }),
        );

        assert_eq!(
            fields.to_fields_v1(),
            json!({
                "f:metadata": { "f:labels": { "f:app": {} }, "f:finalizers": { "v:\"x\"": {} } },
                "f:spec": {
                    "f:selector": {},
                    "f:template": { "f:spec": {
                        "f:tolerations": {},
                        "f:containers": { "k:{\"name\":\"web\"}": {
                            ".": {}, "f:name": {},
                            "f:ports": { "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                                ".": {}, "f:containerPort": {},
                            } },
                        } },
                    } },
                },
            })
        );
    }

    #[test]
    fn additions_changes_and_removals_are_distinguished() {
        let kind = Registry::builtin().resource("", "v1", "pods").unwrap();
        let old = json!({
            "metadata": { "labels": { "a": "1", "b": "1" } },
            "spec": { "containers": [{ "name": "x", "image": "1" }, { "name": "gone" }], "nodeName": "n" },
        });
        let new = json!({
            "metadata": { "labels": { "a": "2" }, "annotations": { "c": "1" } },
            "spec": { "containers": [{ "name": "x", "image": "2" }, { "name": "new" }], "nodeName": "n" },
        });

        let comparison = compare(&kind, &old, &new);

        assert_eq!(
            comparison.modified.paths(),
            [".metadata.labels.a", ".spec.containers[name=\"x\"].image"]
        );
        assert_eq!(
            comparison.added.paths(),
            [
                ".metadata.annotations.c",
                ".metadata.annotations",
                ".spec.containers[name=\"new\"].name",
                ".spec.containers[name=\"new\"]",
            ]
        );
        assert_eq!(
            comparison.removed.paths(),
            [
                ".metadata.labels.b",
                ".spec.containers[name=\"gone\"].name",
                ".spec.containers[name=\"gone\"]",
            ]
        );
        assert_eq!(compare(&kind, &old, &old), Comparison::default());
    }
}
