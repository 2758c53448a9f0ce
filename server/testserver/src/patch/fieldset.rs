//! Field sets: the fields owned by one manager, in memory and as the `fieldsV1` of `managedFields`.
//!
//! A set is a tree whose edges use the wire format: `f:name` for a field, `k:{…}` for a keyed item, `v:…` for a scalar
//! in a set.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::shape::key_default;

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    /// Whether this path itself is a member, apart from the paths below it.
    pub here: bool,
    pub children: BTreeMap<String, FieldSet>,
}

/// The edge to a field of an object.
pub(super) fn field(name: &str) -> String {
    format!("f:{name}")
}

/// The edge to an item of a list of objects; `None` if the item lacks a key.
pub(super) fn item_by_key(item: &Value, keys: &[String]) -> Option<String> {
    let mut values = BTreeMap::new();
    for key in keys {
        let value = item.get(key).cloned().or_else(|| key_default(key))?;
        values.insert(key.as_str(), value);
    }
    serde_json::to_string(&values)
        .ok()
        .map(|text| format!("k:{text}"))
}

/// The edge to a scalar of a set.
pub(super) fn item_by_value(item: &Value) -> String {
    format!("v:{item}")
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        !self.here && self.children.values().all(Self::is_empty)
    }

    /// The set below an edge, created if it does not exist.
    pub(super) fn child(&mut self, edge: String) -> &mut Self {
        self.children.entry(edge).or_default()
    }

    /// Inserts a path.
    pub(super) fn insert(&mut self, path: &[String]) {
        let mut place = self;
        for edge in path {
            place = place.child(edge.clone());
        }
        place.here = true;
    }

    pub(super) fn union(&mut self, other: &Self) {
        self.here |= other.here;
        for (edge, theirs) in &other.children {
            self.child(edge.clone()).union(theirs);
        }
    }

    /// The members that are not in `other`.
    pub(super) fn difference(&self, other: &Self) -> Self {
        let mut result = Self {
            here: self.here && !other.here,
            children: BTreeMap::new(),
        };
        for (edge, ours) in &self.children {
            let rest = match other.children.get(edge) {
                Some(theirs) => ours.difference(theirs),
                None => ours.clone(),
            };
            if !rest.is_empty() {
                result.children.insert(edge.clone(), rest);
            }
        }
        result
    }

    /// The members that are also in `other`.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut result = Self {
            here: self.here && other.here,
            children: BTreeMap::new(),
        };
        for (edge, ours) in &self.children {
            if let Some(theirs) = other.children.get(edge) {
                let both = ours.intersection(theirs);
                if !both.is_empty() {
                    result.children.insert(edge.clone(), both);
                }
            }
        }
        result
    }

    /// The paths of all members, as messages show them: `.spec.containers[name="web"].image`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths(String::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, path: String, paths: &mut Vec<String>) {
        for (edge, set) in &self.children {
            set.collect_paths(format!("{path}{}", readable(edge)), paths);
        }
        if self.here {
            paths.push(path);
        }
    }

    /// The set in `fieldsV1` format.
    pub(super) fn to_fields_v1(&self) -> Value {
        let mut fields = Map::new();
        if self.here && !self.children.is_empty() {
            fields.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (edge, set) in &self.children {
            if !set.is_empty() {
                fields.insert(edge.clone(), set.to_fields_v1());
            }
        }
        Value::Object(fields)
    }

    /// Parses the `fieldsV1` format. Unknown edges are kept unchanged, so that they survive a round trip.
    pub(super) fn from_fields_v1(fields: &Value) -> Self {
        let Value::Object(fields) = fields else {
            return Self::default();
        };
        let mut set = Self::default();
        for (edge, below) in fields {
            if edge == "." {
                set.here = true;
                continue;
            }
            let mut child = Self::from_fields_v1(below);
            if child.children.is_empty() {
                child.here = true;
            }
            set.children.insert(normal(edge), child);
        }
        set
    }
}

/// An edge with its key fields sorted, as `item_by_key` writes them.
fn normal(edge: &str) -> String {
    let key = edge
        .strip_prefix("k:")
        .and_then(|text| serde_json::from_str::<BTreeMap<String, Value>>(text).ok());
    key.and_then(|key| serde_json::to_string(&key).ok())
        .map_or_else(|| edge.to_owned(), |text| format!("k:{text}"))
}

fn readable(edge: &str) -> String {
    match edge.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("v", value)) => format!("[={value}]"),
        Some(("i", index)) => format!("[{index}]"),
        Some(("k", key)) => {
            let key: BTreeMap<String, Value> = serde_json::from_str(key).unwrap_or_default();
            shown_key(key.iter().map(|(name, value)| (name, value.clone())).collect())
        }
        _ => edge.to_owned(),
    }
}

/// The key of an item, as messages name it: `[containerPort=80,protocol="TCP"]`.
pub(super) fn shown_key(mut fields: Vec<(&String, Value)>) -> String {
    fields.sort_by_key(|(name, _)| *name);
    let parts: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!("[{}]", parts.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(fields: Value) -> FieldSet {
        FieldSet::from_fields_v1(&fields)
    }

    #[test]
    fn sets_round_trip_through_fields_v1() {
        let wire = json!({
            "f:metadata": { "f:labels": { ".": {}, "f:app": {} }, "f:finalizers": { "v:\"x\"": {} } },
            "f:spec": { "f:containers": { "k:{\"name\":\"web\"}": { ".": {}, "f:image": {} } } },
        });
        let fields = set(wire.clone());

        assert_eq!(fields.to_fields_v1(), wire);
        assert_eq!(
            fields.paths(),
            [
                ".metadata.finalizers[=\"x\"]",
                ".metadata.labels.app",
                ".metadata.labels",
                ".spec.containers[name=\"web\"].image",
                ".spec.containers[name=\"web\"]",
            ]
        );
    }

    #[test]
    fn difference_and_intersection_compare_each_member() {
        let a = set(json!({ "f:x": { "f:a": {}, "f:b": {} }, "f:y": {} }));
        let b = set(json!({ "f:x": { "f:b": {}, "f:c": {} } }));

        assert_eq!(a.difference(&b), set(json!({ "f:x": { "f:a": {} }, "f:y": {} })));
        assert_eq!(a.intersection(&b), set(json!({ "f:x": { "f:b": {} } })));
        let mut both = a.clone();
        both.union(&b);
        assert_eq!(
            both,
            set(json!({ "f:x": { "f:a": {}, "f:b": {}, "f:c": {} }, "f:y": {} }))
        );
        assert!(a.difference(&a).is_empty());
    }

    #[test]
    fn keys_are_sorted_and_defaulted() {
        let keys = ["protocol".to_owned(), "containerPort".to_owned()];

        assert_eq!(
            item_by_key(&json!({ "containerPort": 80, "name": "http" }), &keys),
            Some("k:{\"containerPort\":80,\"protocol\":\"TCP\"}".to_owned())
        );
        assert_eq!(item_by_key(&json!({ "name": "http" }), &keys), None);
        assert_eq!(normal("k:{\"b\":1,\"a\":2}"), "k:{\"a\":2,\"b\":1}");
    }
}
