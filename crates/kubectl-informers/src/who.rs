//! Who changed an object: the field managers that `metadata.managedFields` records.
//!
//! The server notes for every field which manager wrote it last, by which operation and when. A field whose value
//! changed belongs to its new writer, so the owners of the changed fields in the new state are the authors of the
//! change. A field that was removed has no owner any more: it is attributed to the author of the other changes if there
//! is one author only. Deletions are not recorded, and neither are writes by servers without managed fields.

use std::hash::{DefaultHasher, Hash, Hasher};

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::diff::{FieldChange, KEYS};

/// Field sets with more list elements than this are searched by the usual keys only.
const SEARCHED_ELEMENTS: usize = 64;

/// What is kept of the managed fields of an object: who wrote, and until the change has been attributed, which fields.
#[derive(Default)]
pub struct Managers {
    entries: Box<[Entry]>,
    /// In the order of the entries. They make up half of an object, so they are dropped as soon as they were used.
    fields: Mutex<Box<[Value]>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Entry {
    author: Author,
    /// Of the field set: tells whether it changed.
    fields_hash: u64,
}

/// A field manager and its last write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
    /// Reads the managed fields of an object, and takes them out of it unless they are to be kept.
    pub fn take(object: &mut Value, keep: bool) -> Self {
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
            return Self::default();
        };
        let list = match keep {
            true => metadata.get("managedFields").cloned(),
            false => metadata.remove("managedFields"),
        };
        let Some(Value::Array(list)) = list else {
            return Self::default();
        };
        let (entries, fields): (Vec<Entry>, Vec<Value>) = list.into_iter().filter_map(entry).unzip();
        Self {
            entries: entries.into(),
            fields: Mutex::new(fields.into()),
        }
    }

    /// The same authors without their fields.
    pub fn without_fields(&self) -> Self {
        Self {
            entries: self.entries.clone(),
            fields: Mutex::default(),
        }
    }

    /// Drops the field sets: the object is in the cache, and its next state brings its own.
    pub fn forget_fields(&self) {
        *self.fields.lock() = Box::default();
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
        let fields = std::mem::take(&mut *new.fields.lock());
        let mut paths: Vec<Vec<String>> = vec![Vec::new(); new.entries.len()];
        let mut unowned = Vec::new();
        for change in changes {
            let state = if change.new.is_some() { states.1 } else { states.0 };
            match owner(&new.entries, &fields, &change.path, state) {
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

fn entry(value: Value) -> Option<(Entry, Value)> {
    let Value::Object(mut entry) = value else {
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
    let fields = entry.remove("fieldsV1").unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    fields.to_string().hash(&mut hasher);
    let fields_hash = hasher.finish();
    Some((Entry { author, fields_hash }, fields))
}

/// Whether an entry was written since the old state. Losing fields to another manager changes the field set, but not the
/// time.
fn has_written(entry: &Entry, old: &[Entry]) -> bool {
    let same = |other: &&Entry| {
        other.author.manager == entry.author.manager
            && other.author.operation == entry.author.operation
            && other.author.subresource == entry.author.subresource
    };
    old.iter()
        .find(same)
        .is_none_or(|before| before.author.time != entry.author.time)
}

/// The entry that owns a field: the most specific one, and of these the one that wrote last.
fn owner(entries: &[Entry], fields: &[Value], path: &str, state: &Value) -> Option<usize> {
    entries
        .iter()
        .zip(fields)
        .enumerate()
        .filter_map(|(at, (entry, fields))| Some((owned_depth(fields, path, state)?, &entry.author.time, at)))
        .max()
        .map(|(_, _, at)| at)
}

/// How much of a path a field set contains; `None` if it does not own the field. A leaf of the set stands for the whole
/// value below it if nobody owns a part of that.
fn owned_depth(fields: &Value, path: &str, state: &Value) -> Option<usize> {
    let (mut fields, mut state) = (fields, Some(state));
    let mut depth = 0;
    for part in path.split('/').skip(1) {
        let Value::Object(owned) = fields else { return None };
        let name = part.replace("~1", "/").replace("~0", "~");
        let next = match state {
            Some(Value::Array(items)) => {
                let element = name.parse::<usize>().ok().and_then(|index| items.get(index));
                state = element;
                element.and_then(|element| owned_element(owned, element))
            }
            _ => {
                state = state.and_then(|state| state.get(&name));
                owned.get(&format!("f:{name}"))
            }
        };
        match next {
            Some(next) => fields = next,
            None => return (owned.is_empty() && depth > 0).then_some(depth),
        }
        depth += 1;
    }
    Some(depth)
}

/// The part of a field set that stands for a list element: by its key, or by its value.
fn owned_element<'a>(owned: &'a Map<String, Value>, element: &Value) -> Option<&'a Value> {
    // Written as the server writes it: names in order, no spaces. A lookup, because lists may be long.
    let by_key = KEYS.iter().find_map(|key| {
        let mut names: Vec<&str> = key.to_vec();
        names.sort_unstable();
        let values: Map<String, Value> = names
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), element.get(name)?.clone())))
            .collect();
        (!values.is_empty()).then(|| owned.get(&format!("k:{}", Value::Object(values))))?
    });
    let by_value = || owned.get(&format!("v:{element}"));
    by_key.or_else(by_value).or_else(|| {
        let matches = |key: &str| {
            let key = key.strip_prefix("k:")?;
            let key: Map<String, Value> = serde_json::from_str(key).ok()?;
            Some(!key.is_empty() && key.iter().all(|(name, value)| element.get(name) == Some(value)))
        };
        owned
            .iter()
            .take(SEARCHED_ELEMENTS)
            .find(|(key, _)| matches(key) == Some(true))
            .map(|(_, fields)| fields)
    })
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
    use crate::diff::diff;

    fn manager(name: &str, time: &str, fields: Value) -> Value {
        json!({ "manager": name, "operation": "Update", "apiVersion": "v1", "time": time, "fieldsV1": fields })
    }

    fn authors(mut old: Value, mut new: Value) -> Option<Vec<(String, Vec<String>)>> {
        let (before, after) = (Managers::take(&mut old, false), Managers::take(&mut new, false));
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
        let depth = |path: &str| owned_depth(&owned, path, &state);
        assert_eq!(depth("/a/0"), Some(2));
        assert_eq!(depth("/a/1/b"), Some(3));
        assert_eq!(depth("/a/1/b/atomic"), Some(3));
        assert_eq!(depth("/a/1/c"), None);
        assert_eq!(depth("/a/9"), None);
        for shape in [
            json!(null),
            json!([1]),
            json!({ "managedFields": 3 }),
            json!({ "managedFields": [1, {}] }),
        ] {
            let mut object = json!({ "metadata": shape });
            Managers::take(&mut object, false);
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
