//! `metadata.managedFields`: which manager owns which fields, maintained on every write.

use serde_json::{Map, Value, json};

use super::compare::{compare, same_but_managed_fields};
use super::fieldset::FieldSet;
use crate::kinds::Kind;
use crate::typed;

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply: the manager sends all fields it manages, every time.
    Apply,
    /// Any other write: the manager owns the fields it changed.
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The manager, subresource and time of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager<'a> {
    /// The name, see [`manager_name`].
    pub name: &'a str,
    /// The subresource written to, such as `status`; empty for the object itself.
    pub subresource: &'a str,
    /// The time of the write, as in `creationTimestamp`.
    pub now: &'a str,
}

/// One entry of `managedFields`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ManagerEntry {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
    pub time: String,
    pub fields: FieldSet,
}

impl ManagerEntry {
    pub(super) fn new(kind: &Kind, manager: &Manager<'_>, operation: Operation, fields: FieldSet) -> Self {
        Self {
            manager: manager.name.to_owned(),
            operation,
            api_version: kind.api_version(),
            subresource: manager.subresource.to_owned(),
            time: manager.now.to_owned(),
            fields,
        }
    }

    /// Whether this entry is of that manager and operation.
    pub(super) fn belongs_to(&self, kind: &Kind, manager: &Manager<'_>, operation: Operation) -> bool {
        self.manager == manager.name
            && self.operation == operation
            && self.subresource == manager.subresource
            && self.api_version == kind.api_version()
    }

    /// The manager as conflict messages name it.
    pub(super) fn describe(&self) -> String {
        let mut text = kube_api_protocol::field_error::quote(&self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(
                " with subresource {}",
                kube_api_protocol::field_error::quote(&self.subresource)
            ));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
            if !self.time.is_empty() {
                text.push_str(&format!(" at {}", self.time));
            }
        }
        text
    }

    fn parse(entry: &Value) -> Option<Self> {
        let text = |name: &str| {
            entry
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let operation = match entry.get("operation")?.as_str()? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        Some(Self {
            manager: text("manager"),
            operation,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields: FieldSet::from_fields_v1(entry.get("fieldsV1")?),
        })
    }

    fn to_json(&self) -> Value {
        let mut entry = json!({
            "manager": self.manager,
            "operation": self.operation.text(),
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_fields_v1(),
        });
        if let Value::Object(fields) = &mut entry {
            for (name, value) in [("time", &self.time), ("subresource", &self.subresource)] {
                if !value.is_empty() {
                    fields.insert(name.to_owned(), json!(value));
                }
            }
        }
        entry
    }
}

/// The name under which a client's writes are recorded: its field manager, or the first part of its user agent.
#[doc(alias = "managerOrUserAgent")]
pub fn manager_name(field_manager: Option<&str>, user_agent: Option<&str>) -> String {
    const MAX_LENGTH: usize = 128;
    if let Some(manager) = field_manager.filter(|manager| !manager.is_empty()) {
        return manager.to_owned();
    }
    let agent = user_agent
        .unwrap_or_default()
        .split('/')
        .next()
        .unwrap_or_default();
    let mut name = String::new();
    for character in agent.chars().filter(|character| !character.is_control()) {
        if name.len() + character.len_utf8() > MAX_LENGTH {
            break;
        }
        name.push(character);
    }
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name
    }
}

/// Updates the `managedFields` of `new` after any write but an apply: the manager owns the fields it changed, and
/// removed fields have no owner. `old` is `None` for a create.
///
/// The record starts from that of `old`, or from the list that the client sent; an empty list clears it.
pub fn track_update(kind: &Kind, old: Option<&Value>, new: &mut Value, manager: &Manager<'_>) {
    let sent = new.pointer("/metadata/managedFields").and_then(Value::as_array);
    let cleared =
        sent.is_some_and(|sent| matches!(sent.as_slice(), [] | [Value::Null]) || *sent == vec![json!({})]);
    let mut entries = match sent {
        _ if cleared && manager.subresource.is_empty() => Vec::new(),
        Some(sent) if !sent.is_empty() && manager.subresource.is_empty() => read(sent),
        _ => old.map(entries_of).unwrap_or_default(),
    };
    // What an empty object of the kind has, no manager owns.
    let before = old
        .cloned()
        .unwrap_or_else(|| Value::Object(typed::empty_parts(kind)));
    let comparison = compare(kind, &stripped(&before), &stripped(new));
    let mut taken = comparison.modified.clone();
    taken.union(&comparison.added);
    let mut mine = FieldSet::default();
    let mut time = None;
    entries.retain_mut(|entry| {
        if entry.belongs_to(kind, manager, Operation::Update) {
            mine.union(&entry.fields);
            time = Some(std::mem::take(&mut entry.time));
            return false;
        }
        entry.fields = entry.fields.difference(&taken).difference(&comparison.removed);
        !entry.fields.is_empty()
    });
    mine.union(&taken);
    let mine = mine.difference(&comparison.removed);
    if !mine.is_empty() {
        let mut entry = ManagerEntry::new(kind, manager, Operation::Update, mine);
        if manager.subresource == "scale" {
            // The record passes through the Scale object, which drops the time.
            entry.time.clear();
        }
        if let (Some(time), Some(old)) = (time, old)
            && same_but_managed_fields(old, new)
        {
            entry.time = time;
        }
        entries.push(entry);
    }
    write(new, entries);
}

/// The entries of an object; malformed ones are skipped.
pub(super) fn entries_of(object: &Value) -> Vec<ManagerEntry> {
    object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .map(|list| read(list))
        .unwrap_or_default()
}

fn read(list: &[Value]) -> Vec<ManagerEntry> {
    // An entry without fields has no meaning; only hand-written records have one.
    list.iter()
        .filter_map(ManagerEntry::parse)
        .filter(|entry| !entry.fields.is_empty())
        .collect()
}

/// Writes the entries into an object, ordered as by a real server: operation, time, manager, subresource.
pub(super) fn write(object: &mut Value, mut entries: Vec<ManagerEntry>) {
    let Value::Object(fields) = object else { return };
    let metadata = fields
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(metadata) = metadata else { return };
    if entries.is_empty() {
        metadata.remove("managedFields");
        return;
    }
    entries.sort_by(|a, b| {
        (a.operation, &a.time, &a.manager, &a.subresource).cmp(&(
            b.operation,
            &b.time,
            &b.manager,
            &b.subresource,
        ))
    });
    metadata.insert(
        "managedFields".to_owned(),
        entries.iter().map(ManagerEntry::to_json).collect(),
    );
}

/// The object without the fields that cannot be owned.
pub(super) fn stripped(object: &Value) -> Value {
    let mut object = object.clone();
    if let Value::Object(fields) = &mut object {
        fields.remove("apiVersion");
        fields.remove("kind");
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            for name in [
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            ] {
                metadata.remove(name);
            }
            if metadata.is_empty() {
                fields.remove("metadata");
            }
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Registry;

    const T1: &str = "2026-01-01T00:00:00Z";
    const T2: &str = "2026-01-02T00:00:00Z";

    fn owned(object: &Value) -> Vec<(String, Vec<String>)> {
        entries_of(object)
            .iter()
            .map(|entry| (entry.manager.clone(), entry.fields.paths()))
            .collect()
    }

    fn by<'a>(name: &'a str, now: &'a str) -> Manager<'a> {
        Manager {
            name,
            subresource: "",
            now,
        }
    }

    #[test]
    fn each_manager_owns_the_fields_it_wrote_last() {
        let kind = Registry::builtin().resource("", "v1", "configmaps").unwrap();
        let mut first = json!({ "metadata": { "name": "c" }, "data": { "a": "1", "b": "1" } });
        track_update(&kind, None, &mut first, &by("alice", T1));
        assert_eq!(
            owned(&first),
            [(
                "alice".to_owned(),
                vec![".data.a".to_owned(), ".data.b".to_owned(), ".data".to_owned()]
            )]
        );

        let mut second = first.clone();
        second["data"] = json!({ "a": "1", "b": "2", "c": "1" });
        track_update(&kind, Some(&first), &mut second, &by("bob", T2));
        assert_eq!(
            owned(&second),
            [
                ("alice".to_owned(), vec![".data.a".to_owned(), ".data".to_owned()]),
                ("bob".to_owned(), vec![".data.b".to_owned(), ".data.c".to_owned()]),
            ]
        );
        assert_eq!(second["metadata"]["managedFields"][1]["time"], T2);
        assert_eq!(second["metadata"]["managedFields"][1]["apiVersion"], "v1");

        let mut third = second.clone();
        third["data"] = json!({ "a": "1" });
        track_update(&kind, Some(&second), &mut third, &by("alice", T2));
        assert_eq!(
            owned(&third),
            [("alice".to_owned(), vec![".data.a".to_owned(), ".data".to_owned()])]
        );
    }

    #[test]
    fn no_op_write_keeps_the_record_and_its_time() {
        let kind = Registry::builtin().resource("", "v1", "configmaps").unwrap();
        let mut first = json!({ "data": { "a": "1" } });
        track_update(&kind, None, &mut first, &by("alice", T1));
        let mut same = first.clone();
        track_update(&kind, Some(&first), &mut same, &by("alice", T2));

        assert_eq!(same, first);
    }

    #[test]
    fn empty_list_clears_the_record_and_a_missing_one_keeps_it() {
        let kind = Registry::builtin().resource("", "v1", "configmaps").unwrap();
        let mut first = json!({ "metadata": {}, "data": { "a": "1" } });
        track_update(&kind, None, &mut first, &by("alice", T1));

        let mut cleared = first.clone();
        cleared["metadata"]["managedFields"] = json!([]);
        track_update(&kind, Some(&first), &mut cleared, &by("bob", T2));
        assert_eq!(owned(&cleared), []);

        let mut missing = first.clone();
        missing["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        track_update(&kind, Some(&first), &mut missing, &by("bob", T2));
        assert_eq!(owned(&missing).len(), 1);
    }

    #[test]
    fn manager_name_comes_from_the_field_manager_or_the_user_agent() {
        assert_eq!(manager_name(Some("me"), Some("kubectl/v1.32")), "me");
        assert_eq!(manager_name(None, Some("kubectl/v1.32 (linux)")), "kubectl");
        assert_eq!(manager_name(Some(""), None), "unknown");
        assert_eq!(manager_name(None, Some(&"x".repeat(200))).len(), 128);
    }
}
