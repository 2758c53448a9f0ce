//! Who changed an object: the field managers that `metadata.managedFields` records.
//!
//! The server notes for every field which manager wrote it last, by which operation and when. A field whose value
//! changed belongs to its new writer, so the owners of the changed fields in the new state are the authors of the
//! change. A field that was removed has no owner any more: it is attributed to the author of the other changes if there
//! is one author only. Deletions are not recorded, and neither are writes by servers without managed fields.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::objects::fields::{FieldChange, KEYS};
use crate::objects::path::unescape;

/// The largest number of unusual keys of list elements that are remembered of one object.
const MOST_KEYS: usize = 16;

/// A summary of the managed fields of an object: who wrote, and which fields, by their hashes. It takes about a tenth of
/// the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers {
    pub(crate) entries: Vec<ManagerEntry>,
    /// The names of the fields that identify list elements, where they are not among [`KEYS`].
    pub(crate) keys: Vec<Vec<String>>,
}

/// One manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManagerEntry {
    pub(crate) author: Author,
    pub(crate) fields: FieldSet,
}

/// A set of owned fields: the hashes of their paths, sorted. The lowest bit of a hash tells whether the field is a leaf.
///
/// Two paths rarely have the same hash. A change would then be attributed to an additional manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(pub(crate) Vec<u32>);

/// A field in a set.
#[derive(Clone, Copy)]
struct Node {
    hash: u64,
    is_leaf: bool,
}

impl Node {
    const ROOT: Self = Self {
        hash: 0,
        is_leaf: false,
    };

    fn child_hash(self, key: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.hash, key).hash(&mut hasher);
        hasher.finish()
    }
}

impl FieldSet {
    /// The fields of a set as the server writes it.
    fn of(fields: &Value, keys: &mut Vec<Vec<String>>) -> Self {
        let mut set = Self::default();
        set.collect(Node::ROOT, fields, keys);
        set.0.sort_unstable();
        set.0.dedup();
        set
    }

    fn collect(&mut self, node: Node, fields: &Value, keys: &mut Vec<Vec<String>>) {
        // The name of the field itself: whoever owns it also owns a part of it.
        for (key, fields) in fields
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != ".")
        {
            let child = Node {
                hash: node.child_hash(key),
                is_leaf: fields.as_object().is_some_and(Map::is_empty),
            };
            self.0.push(child.hash as u32 & !1 | u32::from(child.is_leaf));
            if let Some(names) = unusual_key(key)
                && keys.len() < MOST_KEYS
                && !keys.contains(&names)
            {
                keys.push(names);
            }
            self.collect(child, fields, keys);
        }
    }

    fn child(&self, node: Node, key: &str) -> Option<Node> {
        let hash = node.child_hash(key);
        let stored = hash as u32 & !1;
        [(stored, false), (stored | 1, true)]
            .into_iter()
            .find(|(stored, _)| self.0.binary_search(stored).is_ok())
            .map(|(_, is_leaf)| Node { hash, is_leaf })
    }
}

/// The names in the key of a list element (`k:{"id":7}`), if they are not usual ones.
fn unusual_key(key: &str) -> Option<Vec<String>> {
    let key: Map<String, Value> = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
    let mut names: Vec<String> = key.into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    let is_usual = KEYS
        .iter()
        .any(|usual| names.len() <= usual.len() && names.iter().all(|name| usual.contains(&name.as_str())));
    (!is_usual && !names.is_empty()).then_some(names)
}

/// A field manager and its last write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Author {
    /// The name of the manager: `kubectl-edit`, `kubelet`.
    pub manager: Box<str>,
    /// `Apply` or `Update`.
    pub operation: Box<str>,
    /// `status`, `scale`; `None` for the object itself.
    pub subresource: Option<Box<str>>,
    /// When it wrote, to the second; `None` if the server does not say.
    pub time: Option<Box<str>>,
}

/// One author of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Written {
    /// Who, how and when.
    #[serde(flatten)]
    pub author: Author,
    /// The changed fields that are known to be this author's.
    pub paths: Vec<String>,
}

impl Managers {
    /// Summarises `metadata.managedFields`.
    pub fn of(managed_fields: &Value) -> Self {
        let mut keys = Vec::new();
        let list = managed_fields.as_array().into_iter().flatten();
        let entries = list
            .filter_map(|value| ManagerEntry::of(value, &mut keys))
            .collect();
        Self { entries, keys }
    }

    /// The authors of a new object: everybody who has written to it. `None` if the server records no managers.
    pub fn creators(&self) -> Option<Vec<Written>> {
        (!self.entries.is_empty()).then(|| {
            self.entries
                .iter()
                .map(|entry| Written {
                    author: entry.author.clone(),
                    paths: Vec::new(),
                })
                .collect()
        })
    }

    /// The authors of a change from `old` to `new`, with the states as JSON. `None` if they cannot be known.
    pub fn authors(
        old: &Self,
        new: &Self,
        changes: &[FieldChange],
        states: (&Value, &Value),
    ) -> Option<Vec<Written>> {
        if new.entries.is_empty() {
            return None;
        }
        let mut paths: Vec<Vec<String>> = vec![Vec::new(); new.entries.len()];
        let mut unowned = Vec::new();
        for change in changes {
            let state = if change.new.is_some() { states.1 } else { states.0 };
            match new.owner(&change.path, state) {
                Some(at) => {
                    if let Some(paths) = paths.get_mut(at) {
                        paths.push(change.field.clone());
                    }
                }
                None => unowned.push(change.field.clone()),
            }
        }
        let mut written: Vec<Written> = new
            .entries
            .iter()
            .zip(paths)
            // Who has a new time or other fields has written, too, even if nothing of it is shown.
            .filter(|(entry, paths)| !paths.is_empty() || has_written(entry, &old.entries))
            .map(|(entry, paths)| Written {
                author: entry.author.clone(),
                paths,
            })
            .collect();
        match written.as_mut_slice() {
            // Nobody but this one has written.
            [only] => only.paths = changes.iter().map(|change| change.field.clone()).collect(),
            [] => return None,
            _ => {}
        }
        Some(written)
    }
}

impl ManagerEntry {
    fn of(value: &Value, keys: &mut Vec<Vec<String>>) -> Option<Self> {
        let Value::Object(entry) = value else {
            return None;
        };
        let text = |name: &str| {
            entry
                .get(name)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
                .map(Box::<str>::from)
        };
        let author = Author {
            manager: text("manager").unwrap_or_else(|| "unknown".into()),
            operation: text("operation").unwrap_or_default(),
            subresource: text("subresource"),
            time: text("time"),
        };
        let fields = entry.get("fieldsV1").unwrap_or(&Value::Null);
        Some(Self {
            author,
            fields: FieldSet::of(fields, keys),
        })
    }
}

/// Whether an entry was written since the old state. Losing fields to another manager changes the field set, but not the
/// time.
fn has_written(entry: &ManagerEntry, old: &[ManagerEntry]) -> bool {
    let same = |other: &&ManagerEntry| {
        other.author.manager == entry.author.manager
            && other.author.operation == entry.author.operation
            && other.author.subresource == entry.author.subresource
    };
    old.iter()
        .find(same)
        .is_none_or(|before| before.author.time != entry.author.time)
}

impl Managers {
    /// The entry that owns a field: the most specific one, and of these the one that wrote last.
    fn owner(&self, path: &str, state: &Value) -> Option<usize> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| {
                let depth = self.owned_depth(&entry.fields, path, state)?;
                Some((depth, &entry.author.time, at))
            })
            .max()
            .map(|(_, _, at)| at)
    }

    /// How much of a path a field set contains; `None` if it does not own the field. A leaf of the set stands for the whole
    /// value below it if nobody owns a part of that.
    fn owned_depth(&self, fields: &FieldSet, path: &str, state: &Value) -> Option<usize> {
        let (mut node, mut state) = (Node::ROOT, Some(state));
        let mut depth = 0;
        for part in path.split('/').skip(1) {
            let name = unescape(part);
            let next = match state {
                Some(Value::Array(items)) => {
                    let element = name.parse::<usize>().ok().and_then(|index| items.get(index));
                    state = element;
                    element.and_then(|element| self.owned_element(fields, node, element))
                }
                _ => {
                    state = state.and_then(|state| state.get(&name));
                    fields.child(node, &format!("f:{name}"))
                }
            };
            match next {
                Some(next) => node = next,
                None => return node.is_leaf.then_some(depth),
            }
            depth += 1;
        }
        Some(depth)
    }

    /// The part of a field set that stands for a list element: by its key, or by its value.
    fn owned_element(&self, fields: &FieldSet, list: Node, element: &Value) -> Option<Node> {
        // Written as the server writes it: names in order, no spaces.
        let by_names = |names: &[&str]| {
            let mut names = names.to_vec();
            names.sort_unstable();
            let values: Map<String, Value> = names
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), element.get(name)?.clone())))
                .collect();
            (!values.is_empty()).then(|| fields.child(list, &format!("k:{}", Value::Object(values))))?
        };
        let usual = || KEYS.iter().find_map(|names| by_names(names));
        let by_value = || fields.child(list, &format!("v:{element}"));
        let unusual = || {
            self.keys.iter().find_map(|names| {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                by_names(&names)
            })
        };
        usual().or_else(by_value).or_else(unusual)
    }
}

/// The authors in one line: `kubelet`, `kubectl-edit and hpa (scale)`. Foreign text.
pub fn names(written: &[Written]) -> String {
    let mut names: Vec<String> = Vec::new();
    for Written { author, .. } in written {
        let name = match author.subresource.as_deref() {
            // Who writes a status is clear from the fields.
            None | Some("status") => author.manager.to_string(),
            Some(subresource) => format!("{} ({subresource})", author.manager),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::changes::diff::diff;

    fn manager(name: &str, time: &str, fields: Value) -> Value {
        json!({ "manager": name, "operation": "Update", "apiVersion": "v1", "time": time, "fieldsV1": fields })
    }

    fn authors(mut old: Value, mut new: Value) -> Option<Vec<(String, Vec<String>)>> {
        let take = |object: &mut Value| Managers::of(&object["metadata"]["managedFields"].take());
        let (before, after) = (take(&mut old), take(&mut new));
        let changes = diff(&old, &new);
        let written = Managers::authors(&before, &after, &changes, (&old, &new))?;
        Some(
            written
                .into_iter()
                .map(|written| (written.author.manager.to_string(), written.paths))
                .collect(),
        )
    }

    fn pod(image: &str, ready: &str, managers: &[Value]) -> Value {
        json!({
            "metadata": { "name": "cart", "managedFields": managers },
            "spec": { "containers": [{ "name": "web", "image": image }] },
            "status": { "conditions": [{ "type": "Ready", "status": ready }] },
        })
    }

    fn image() -> Value {
        json!({ "f:spec": { "f:containers": { "k:{\"name\":\"web\"}": { ".": {}, "f:image": {}, "f:name": {} } } } })
    }

    fn ready() -> Value {
        json!({ "f:status": { "f:conditions": { "k:{\"type\":\"Ready\"}": { ".": {}, "f:status": {} } } } })
    }

    #[test]
    fn the_owner_of_the_changed_field_is_the_author() {
        let managers = |time| {
            [
                manager("kubectl", "T0", image()),
                manager("kubelet", time, ready()),
            ]
        };
        assert_eq!(
            authors(
                pod("a", "False", &managers("T1")),
                pod("a", "True", &managers("T2"))
            ),
            Some(vec![(
                "kubelet".into(),
                vec!["status.conditions[Ready].status".into()]
            )])
        );
    }

    #[test]
    fn two_managers_within_one_second_are_distinguished_by_their_fields() {
        let managers = [
            manager("kubectl", "T1", image()),
            manager("kubelet", "T1", ready()),
        ];
        assert_eq!(
            authors(pod("a", "False", &managers), pod("b", "True", &managers)),
            Some(vec![
                ("kubectl".into(), vec!["spec.containers[web].image".into()]),
                ("kubelet".into(), vec!["status.conditions[Ready].status".into()]),
            ])
        );
    }

    #[test]
    fn a_second_write_within_a_second_still_has_an_author() {
        let managers = [
            manager("kubectl", "T0", image()),
            manager("kubelet", "T1", ready()),
        ];
        assert_eq!(
            authors(pod("a", "False", &managers), pod("a", "True", &managers)),
            Some(vec![(
                "kubelet".into(),
                vec!["status.conditions[Ready].status".into()]
            )])
        );
    }

    #[test]
    fn a_removed_field_belongs_to_the_only_one_who_wrote() {
        let state = |time: &str, fields: Value, labels: Value| {
            json!({
                "metadata": { "labels": labels, "managedFields": [
                    manager("other", "T0", json!({ "f:spec": {} })), manager("edit", time, fields),
                ] },
                "spec": 1,
            })
        };
        let labels = json!({ "f:metadata": { "f:labels": { "f:a": {} } } });
        let old = state("T1", labels, json!({ "a": "1" }));
        let new = state("T2", json!({}), json!({}));
        assert_eq!(
            authors(old, new),
            Some(vec![("edit".into(), vec!["metadata.labels.a".into()])])
        );
    }

    #[test]
    fn the_owner_of_a_field_goes_before_the_owner_of_the_object_around_it() {
        let state = |value: &str, managers: Value| json!({ "metadata": { "managedFields": managers }, "data": { "b": value } });
        let creator = manager("creator", "T1", json!({ "f:data": {} }));
        let old = state("1", json!([creator]));
        let new = state(
            "2",
            json!([
                creator,
                manager("second", "T1", json!({ "f:data": { "f:b": {} } }))
            ]),
        );
        assert_eq!(
            authors(old, new),
            Some(vec![("second".into(), vec!["data.b".into()])])
        );
    }

    #[test]
    fn without_managed_fields_nothing_is_known() {
        assert_eq!(authors(pod("a", "True", &[]), pod("b", "True", &[])), None);
    }

    #[test]
    fn sets_and_unusual_keys_are_found_and_any_shape_is_survived() {
        let owned = json!({ "f:a": { "v:\"x\"": {}, "k:{\"id\":7}": { "f:b": {} } } });
        let state = json!({ "a": ["x", { "id": 7, "b": 1 }] });
        let managers = Managers::of(&json!([{ "manager": "m", "fieldsV1": owned }]));
        let depth = |path: &str| managers.owned_depth(&managers.entries[0].fields, path, &state);
        assert_eq!(depth("/a/0"), Some(2));
        assert_eq!(depth("/a/1/b"), Some(3));
        assert_eq!(depth("/a/1/b/atomic"), Some(3));
        assert_eq!(depth("/a/1/c"), None);
        assert_eq!(depth("/a/9"), None);
        for shape in [
            json!(null),
            json!([1]),
            json!([{ "fieldsV1": [{}] }]),
            json!([1, {}]),
        ] {
            Managers::of(&shape);
        }
    }

    #[test]
    fn authors_are_named_once() {
        let written = |manager: &str, subresource: Option<&str>| Written {
            author: Author {
                manager: manager.into(),
                operation: "Update".into(),
                subresource: subresource.map(Box::from),
                time: None,
            },
            paths: Vec::new(),
        };
        assert_eq!(names(&[written("kubelet", Some("status"))]), "kubelet");
        assert_eq!(
            names(&[
                written("a", None),
                written("a", Some("status")),
                written("b", Some("scale"))
            ]),
            "a and b (scale)"
        );
    }
}
