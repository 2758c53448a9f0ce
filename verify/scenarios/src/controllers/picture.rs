//! The objects of a namespace at one moment, and the form in which two clusters can be compared: without uids, versions, times,
//! addresses and random names.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The resources in a picture.
pub(super) const RESOURCES: &[&str] = &[
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "controllerrevisions.apps",
    "jobs.batch",
    "endpointslices.discovery.k8s.io",
    "persistentvolumeclaims",
    "pods",
];

/// The objects of a namespace, as the server returned them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    pub(super) objects: BTreeMap<&'static str, Vec<Value>>,
}

impl Picture {
    /// The objects of a resource.
    pub fn all(&self, resource: &str) -> &[Value] {
        self.objects.get(resource).map_or(&[], Vec::as_slice)
    }

    /// The value at a JSON pointer into an object; null if there is none.
    pub fn at(&self, resource: &str, name: &str, pointer: &str) -> &Value {
        let mut all = self.all(resource).iter();
        let object = all.find(|object| text(object, "/metadata/name") == name);
        object
            .and_then(|object| object.pointer(pointer))
            .unwrap_or(&Value::Null)
    }

    /// Whether the controller of a workload has seen its latest spec.
    pub fn is_observed(&self, resource: &str, name: &str) -> bool {
        let generation = self.at(resource, name, "/metadata/generation");
        !generation.is_null() && generation == self.at(resource, name, "/status/observedGeneration")
    }

    /// The objects in the form to compare.
    pub fn normal(&self) -> Vec<Value> {
        let names = self.names();
        let mut all: Vec<Value> = Vec::new();
        for object in self.objects.values().flatten() {
            let mut object = object.clone();
            clean(&mut object);
            rename(&mut object, &names);
            if let Some(endpoints) = object.get_mut("endpoints").and_then(Value::as_array_mut) {
                endpoints.sort_by_key(Value::to_string);
            }
            all.push(object);
        }
        all.sort_by_key(|object| {
            let place = |pointer| text(object, pointer).to_owned();
            (place("/kind"), place("/metadata/name"), object.to_string())
        });
        all
    }

    /// What is replaced in all texts: longer ones first, because one may contain another.
    fn names(&self) -> Vec<(String, String)> {
        let mut names: Vec<(String, String)> = Vec::new();
        let mut hashes: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
        for object in self.objects.values().flatten() {
            let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
            let generated = text(object, "/metadata/generateName");
            let shown = match generated {
                "" => name.to_owned(),
                generated => format!("{generated}*"),
            };
            if !generated.is_empty() {
                names.push((name.to_owned(), shown.clone()));
            }
            names.push((
                text(object, "/metadata/uid").to_owned(),
                format!("<uid of {kind} {shown}>"),
            ));
            if let Some(address) = object.pointer("/status/podIP").and_then(Value::as_str) {
                names.push((address.to_owned(), format!("<address of {shown}>")));
            }
            let owner = text(object, "/metadata/ownerReferences/0/name").to_owned();
            let revision = match kind {
                "ReplicaSet" => {
                    let revision = text(object, "/metadata/annotations/deployment.kubernetes.io~1revision");
                    Some((
                        revision.parse().unwrap_or(0),
                        text(object, "/metadata/labels/pod-template-hash"),
                    ))
                }
                "ControllerRevision" => Some((
                    object["revision"].as_i64().unwrap_or(0),
                    name.rsplit('-').next().unwrap_or_default(),
                )),
                _ => None,
            };
            if let Some((revision, hash)) = revision.filter(|(_, hash)| !hash.is_empty()) {
                hashes.entry(owner).or_default().push((revision, hash.to_owned()));
            }
        }
        for (owner, mut revisions) in hashes {
            revisions.sort();
            for (number, (_, hash)) in revisions.into_iter().enumerate() {
                names.push((hash, format!("<{owner} {}>", number + 1)));
            }
        }
        names.retain(|(name, _)| !name.is_empty());
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names
    }
}

/// Removes what the API server writes into every object. The status of a pod is the kubelet's, but for its phase.
fn clean(object: &mut Value) {
    if object["kind"] == "Pod" {
        object["status"] = json!({ "phase": object["status"]["phase"] });
    }
    if object["kind"] == "EndpointSlice"
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        // It counts the steps, which depend on timing.
        metadata.remove("generation");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "managedFields", "creationTimestamp"] {
            metadata.remove(field);
        }
    }
    if let Some(conditions) = object
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
    {
        conditions.sort_by_key(|condition| text(condition, "/type").to_owned());
    }
}

fn rename(value: &mut Value, names: &[(String, String)]) {
    match value {
        Value::String(text) => {
            if is_time(text) {
                *text = "<time>".to_owned();
                return;
            }
            for (name, shown) in names {
                if text.contains(name.as_str()) {
                    *text = text.replace(name.as_str(), shown);
                }
            }
            if is_uid(text) {
                *text = "<uid of an object that is gone>".to_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        Value::Object(map) => {
            let renamed = std::mem::take(map).into_iter().map(|(key, mut value)| {
                rename(&mut value, names);
                (key, value)
            });
            *map = renamed.collect::<Map<String, Value>>();
        }
        _ => {}
    }
}

fn is_time(text: &str) -> bool {
    let form: String = text
        .chars()
        .map(|letter| if letter.is_ascii_digit() { '0' } else { letter })
        .collect();
    form.starts_with("0000-00-00T00:00:00") && form.ends_with('Z')
}

fn is_uid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12]
        && text
            .chars()
            .all(|letter| letter == '-' || letter.is_ascii_hexdigit())
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_names_hashes_and_uids_are_replaced_wherever_they_occur() {
        let uid = "0c2aa6c5-0d7b-4d6d-8c2b-5a3f7f6f7a10";
        let set = json!({ "kind": "ReplicaSet", "metadata": {
            "name": "web-5d4f", "uid": uid, "labels": { "pod-template-hash": "5d4f" },
            "annotations": { "deployment.kubernetes.io/revision": "2" }, "ownerReferences": [{ "name": "web" }],
        } });
        let pod = json!({ "kind": "Pod", "metadata": {
            "name": "web-5d4f-x7", "generateName": "web-5d4f-", "resourceVersion": "7", "labels": { "pod-template-hash": "5d4f" },
            "ownerReferences": [{ "name": "web-5d4f", "uid": uid }], "deletionTimestamp": "2026-11-17T10:00:00Z",
        }, "status": { "phase": "Running", "podIP": "10.0.0.7" } });
        let picture = Picture {
            objects: BTreeMap::from([("pods", vec![pod]), ("replicasets.apps", vec![set])]),
        };
        let objects = picture.normal();
        assert_eq!(
            objects[0],
            json!({ "kind": "Pod", "metadata": {
                "name": "web-<web 1>-*", "generateName": "web-<web 1>-", "labels": { "pod-template-hash": "<web 1>" },
                "ownerReferences": [{ "name": "web-<web 1>", "uid": "<uid of ReplicaSet web-<web 1>>" }],
                "deletionTimestamp": "<time>",
            }, "status": { "phase": "Running" } })
        );
    }
}
