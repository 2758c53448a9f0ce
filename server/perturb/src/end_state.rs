//! The objects at the end of a run, without what differs between any two runs: uids, versions, times, generated names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use kube_testserver::TestServer;
use serde_json::{Map, Value};

/// Objects by identity: resource, namespace and name. Objects with generated names share one identity.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EndState {
    objects: BTreeMap<String, Vec<Value>>,
    /// Objects in deletion, with their finalizers.
    terminating: BTreeMap<String, Vec<String>>,
    /// Objects whose owners are all gone.
    ownerless: BTreeSet<String>,
}

/// A difference between the end of a run and that of the reference run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// More objects of this identity than in the reference run.
    Surplus {
        identity: String,
        count: usize,
        reference: usize,
    },
    /// Fewer objects.
    Missing {
        identity: String,
        count: usize,
        reference: usize,
    },
    /// The same objects with other contents: the paths that differ, with both values.
    Changed { identity: String, fields: Vec<String> },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Surplus {
                identity,
                count,
                reference,
            }
            | Difference::Missing {
                identity,
                count,
                reference,
            } => write!(f, "{identity} exists {count} times and {reference} times"),
            Difference::Changed { identity, fields } => write!(f, "{identity}: {}", fields.join("; ")),
        }
    }
}

impl EndState {
    pub(crate) fn read(
        server: &TestServer,
        ignored_resources: &[String],
        ignored_fields: &[String],
    ) -> EndState {
        let kinds = server.kinds();
        let resources: BTreeSet<String> = kinds
            .iter()
            .filter(|kind| kind.is_stored())
            .map(|kind| kind.group_resource())
            .filter(|resource| !ignored_resources.contains(resource))
            .collect();
        let mut all: Vec<(String, Value)> = Vec::new();
        for resource in resources {
            all.extend(
                server
                    .objects(&resource)
                    .into_iter()
                    .map(|object| (resource.clone(), object)),
            );
        }
        let names = Names::collect(&all);
        let mut state = EndState::default();
        for (resource, object) in &all {
            let identity = identity(resource, object);
            let finalizers = strings(object, "/metadata/finalizers");
            if object.pointer("/metadata/deletionTimestamp").is_some() {
                state.terminating.insert(identity.clone(), finalizers);
            }
            let owners = object
                .pointer("/metadata/ownerReferences")
                .and_then(Value::as_array);
            if owners.is_some_and(|owners| {
                let known = |owner: &Value| {
                    let uid = owner.get("uid").and_then(Value::as_str);
                    uid.is_some_and(|uid| names.uids.contains_key(uid))
                };
                !owners.is_empty() && !owners.iter().any(known)
            }) {
                state.ownerless.insert(identity.clone());
            }
            let value = names.normalise(object, ignored_fields, resource == "secrets");
            state.objects.entry(identity).or_default().push(value);
        }
        for objects in state.objects.values_mut() {
            objects.sort_by_cached_key(Value::to_string);
        }
        state
    }

    /// Objects that wait for finalizers, and for which.
    pub(crate) fn terminating(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.terminating
            .iter()
            .map(|(identity, finalizers)| (identity.as_str(), finalizers.as_slice()))
    }

    /// Objects whose owners are all gone.
    pub(crate) fn ownerless(&self) -> impl Iterator<Item = &str> {
        self.ownerless.iter().map(String::as_str)
    }

    /// What is different from the reference run.
    pub(crate) fn differences(&self, reference: &EndState) -> Vec<Difference> {
        let none = Vec::new();
        let identities: BTreeSet<&String> = self.objects.keys().chain(reference.objects.keys()).collect();
        let mut found = Vec::new();
        for identity in identities {
            let ours = self.objects.get(identity).unwrap_or(&none);
            let theirs = reference.objects.get(identity).unwrap_or(&none);
            let (count, wanted) = (ours.len(), theirs.len());
            let identity = identity.clone();
            if count > wanted {
                found.push(Difference::Surplus {
                    identity,
                    count,
                    reference: wanted,
                });
            } else if count < wanted {
                found.push(Difference::Missing {
                    identity,
                    count,
                    reference: wanted,
                });
            } else if ours != theirs {
                let mut fields = Vec::new();
                for (one, other) in ours.iter().zip(theirs) {
                    compare("", Some(one), Some(other), &mut fields);
                }
                found.push(Difference::Changed { identity, fields });
            }
        }
        found
    }
}

fn identity(resource: &str, object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let name = match text("/metadata/generateName") {
        Some(prefix) => format!("{prefix}*"),
        None => text("/metadata/name").unwrap_or_default().to_owned(),
    };
    match text("/metadata/namespace") {
        Some(namespace) => format!("{resource} {namespace}/{name}"),
        None => format!("{resource} {name}"),
    }
}

fn strings(object: &Value, pointer: &str) -> Vec<String> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// What stands for uids and generated names.
struct Names {
    uids: HashMap<String, String>,
    generated: HashMap<String, String>,
}

impl Names {
    fn collect(all: &[(String, Value)]) -> Names {
        let mut names = Names {
            uids: HashMap::new(),
            generated: HashMap::new(),
        };
        for (resource, object) in all {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
            if let Some(uid) = text("/metadata/uid") {
                names.uids.insert(uid.to_owned(), identity(resource, object));
            }
            if let (Some(prefix), Some(name)) = (text("/metadata/generateName"), text("/metadata/name")) {
                names.generated.insert(name.to_owned(), format!("{prefix}*"));
            }
        }
        names
    }

    fn normalise(&self, object: &Value, ignored: &[String], secret: bool) -> Value {
        let generation = object.pointer("/metadata/generation").cloned();
        let mut object = self.value(object, "", generation.as_ref(), ignored);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for volatile in [
                "uid",
                "resourceVersion",
                "generation",
                "creationTimestamp",
                "deletionGracePeriodSeconds",
                "managedFields",
                "selfLink",
            ] {
                metadata.remove(volatile);
            }
        }
        if secret {
            for field in ["data", "stringData"] {
                if let Some(values) = object.get_mut(field).and_then(Value::as_object_mut) {
                    values.values_mut().for_each(hide);
                }
            }
        }
        object
    }

    fn value(&self, value: &Value, path: &str, generation: Option<&Value>, ignored: &[String]) -> Value {
        match value {
            Value::Object(fields) => {
                let mut kept = Map::new();
                for (name, field) in fields {
                    let path = if path.is_empty() {
                        name.clone()
                    } else {
                        format!("{path}.{name}")
                    };
                    if ignored.contains(&path) {
                        continue;
                    }
                    let field = match name.as_str() {
                        "observedGeneration" if Some(field) == generation => "<current>".into(),
                        "observedGeneration" => "<outdated>".into(),
                        "resourceVersion" => "<version>".into(),
                        _ => self.value(field, &path, generation, ignored),
                    };
                    kept.insert(name.clone(), field);
                }
                Value::Object(kept)
            }
            // The items of a list have the path of the list.
            Value::Array(items) => items
                .iter()
                .map(|item| self.value(item, path, generation, ignored))
                .collect(),
            Value::String(text) => self.text(text).into(),
            other => other.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        if let Some(identity) = self.uids.get(text) {
            format!("<uid of {identity}>")
        } else if let Some(name) = self.generated.get(text) {
            name.clone()
        } else if is_time(text) {
            "<time>".to_owned()
        } else if is_uid(text) {
            "<uid of a missing object>".to_owned()
        } else {
            text.to_owned()
        }
    }
}

/// Replaces a secret by a number that differs for other values: reports must not show it.
fn hide(value: &mut Value) {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    *value = format!("<hidden {:08x}>", hasher.finish() as u32).into();
}

/// Whether a text is a time in RFC 3339, such as `2026-01-31T12:00:00Z`.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let pattern = b"0000-00-00T00:00:00";
    bytes.len() > pattern.len()
        && pattern.iter().zip(bytes).all(|(wanted, byte)| match wanted {
            b'0' => byte.is_ascii_digit(),
            other => other == byte,
        })
}

fn is_uid(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Appends the paths at which two values differ, with both values.
fn compare(path: &str, one: Option<&Value>, other: Option<&Value>, out: &mut Vec<String>) {
    match (one, other) {
        (Some(Value::Object(ours)), Some(Value::Object(theirs))) => {
            let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            for name in names {
                let dot = if path.is_empty() { "" } else { "." };
                compare(
                    &format!("{path}{dot}{name}"),
                    ours.get(name),
                    theirs.get(name),
                    out,
                );
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(theirs))) if ours.len() == theirs.len() => {
            for (index, (one, other)) in ours.iter().zip(theirs).enumerate() {
                compare(&format!("{path}[{index}]"), Some(one), Some(other), out);
            }
        }
        (one, other) if one == other => {}
        (one, other) => out.push(format!(
            "{path} is {}, in the reference run {}",
            show(one),
            show(other)
        )),
    }
}

/// A value in a report, shortened.
fn show(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "not set".to_owned();
    };
    let text = value.to_string();
    if text.chars().count() <= 60 {
        return text;
    }
    let short: String = text.chars().take(57).collect();
    format!("{short}...")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state(objects: &[Value]) -> EndState {
        let server = TestServer::new();
        server.load(objects.iter().cloned());
        EndState::read(&server, &[], &["data.noise".to_owned()])
    }

    fn map(name: &str, data: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
               "metadata": {"namespace": "shop", "name": name}, "data": data})
    }

    #[test]
    fn volatile_fields_do_not_differ() {
        let one = state(&[map("a", json!({"at": "2026-01-31T12:00:00Z", "noise": "1"}))]);
        let other = state(&[map("a", json!({"at": "2026-02-01T00:00:00.5Z", "noise": "2"}))]);
        assert_eq!(one.differences(&other), []);
    }

    #[test]
    fn generated_names_are_compared_by_their_number() {
        let generated = |name: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                   "metadata": {"namespace": "shop", "generateName": "a-", "name": name}})
        };
        let one = state(&[generated("a-1"), generated("a-2")]);
        let other = state(&[generated("a-3")]);
        assert_eq!(one.differences(&state(&[generated("a-4"), generated("a-5")])), []);
        let surplus = Difference::Surplus {
            identity: "configmaps shop/a-*".to_owned(),
            count: 2,
            reference: 1,
        };
        assert_eq!(one.differences(&other), [surplus]);
    }

    #[test]
    fn changed_fields_are_named_with_both_values() {
        let one = state(&[map("a", json!({"x": "1"}))]);
        let other = state(&[map("a", json!({"x": "2"}))]);
        let [Difference::Changed { fields, .. }] = &one.differences(&other)[..] else {
            panic!("one difference");
        };
        assert_eq!(fields[..], ["data.x is \"1\", in the reference run \"2\""]);
    }

    #[test]
    fn objects_without_their_owners_are_noticed() {
        let mut orphan = map("a", json!({}));
        orphan["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u-1"}]);
        let state = state(&[orphan, map("b", json!({}))]);
        assert_eq!(state.ownerless().collect::<Vec<_>>(), ["configmaps shop/a"]);
    }

    #[test]
    fn secret_values_differ_without_being_shown() {
        let secret = |value: &str| {
            json!({"apiVersion": "v1", "kind": "Secret",
                   "metadata": {"namespace": "shop", "name": "a"}, "data": {"password": value}})
        };
        let one = state(&[secret("aHVudGVyMg==")]);
        let differences = one.differences(&state(&[secret("c2VjcmV0")]));
        assert_eq!(differences.len(), 1);
        assert!(
            !format!("{differences:?}").contains("aHVudGVyMg"),
            "{differences:?}"
        );
    }
}
