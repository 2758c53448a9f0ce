//! Server-side apply: a manager sends all fields it wants; the server tracks which manager owns which field.

use serde_json::Value;

use super::compare::{compare, fields_of, same_but_managed_fields};
use super::fieldset::{FieldSet, item_by_key, item_by_value};
use super::managed::{Manager, ManagerEntry, Operation, entries_of, stripped, write};
use super::shape::{ListShape, is_atomic_map, list_shape};
use super::{Conflict, PatchError};
use crate::kinds::Kind;

/// Applies a configuration to an object, or creates the object if `live` is `None`.
///
/// Fields that the manager applied before and leaves out now are removed, unless another manager owns them too. A field
/// that another manager owns with a different value is a conflict; with `force` the ownership moves.
pub fn apply(
    kind: &Kind,
    live: Option<&Value>,
    applied: &Value,
    manager: &Manager<'_>,
    force: bool,
) -> Result<Value, PatchError> {
    check_applied(kind, applied)?;
    // A null is owned like a value.
    let wanted = fields_of(kind, &stripped(applied));
    let Some(live) = live else {
        let mut object = without_nulls(applied);
        let entries = if wanted.is_empty() {
            Vec::new()
        } else {
            vec![ManagerEntry::new(kind, manager, Operation::Apply, wanted)]
        };
        write(&mut object, entries);
        return Ok(object);
    };

    let mut entries = entries_of(live);
    if entries.is_empty() {
        // Fields of an object from before ownership was tracked belong to a placeholder manager, so that applying over
        // them still conflicts.
        let before = Manager {
            name: "before-first-apply",
            ..manager.clone()
        };
        entries.push(ManagerEntry::new(
            kind,
            &before,
            Operation::Update,
            fields_of(kind, &stripped(live)),
        ));
    }
    let own = entries
        .iter()
        .position(|entry| entry.belongs_to(kind, manager, Operation::Apply));
    let own = own.map(|position| entries.remove(position));

    let mut result = merge(kind, &mut Vec::new(), live, applied);
    if let Some(own) = &own {
        let mut others = FieldSet::default();
        entries.iter().for_each(|entry| others.union(&entry.fields));
        let gone = own.fields.difference(&wanted).difference(&others);
        let mut kept = wanted.clone();
        kept.union(&others);
        prune(kind, &mut Vec::new(), &mut result, &gone, &kept);
    }

    let comparison = compare(kind, &stripped(live), &stripped(&result));
    let mut changed = comparison.modified;
    changed.union(&comparison.added);
    let mut conflicts = Vec::new();
    for entry in &mut entries {
        let contested = entry.fields.intersection(&changed);
        if !force {
            let conflict = |field| Conflict {
                manager: entry.describe(),
                field,
            };
            conflicts.extend(contested.paths().into_iter().map(conflict));
        }
        entry.fields = entry
            .fields
            .difference(&contested)
            .difference(&comparison.removed);
    }
    if !conflicts.is_empty() {
        return Err(PatchError::Conflicts(conflicts));
    }
    entries.retain(|entry| !entry.fields.is_empty());

    if !wanted.is_empty() {
        let mut entry = ManagerEntry::new(kind, manager, Operation::Apply, wanted);
        if same_but_managed_fields(live, &result) {
            // Only a change sets the time: an unchanged record keeps its time or has none.
            let unchanged = own.filter(|own| own.fields == entry.fields);
            entry.time = unchanged.map(|own| own.time).unwrap_or_default();
        }
        entries.push(entry);
    }
    write(&mut result, entries);
    Ok(result)
}

/// A configuration must be an object of this kind and version, and name no managers.
pub(crate) fn check_applied(kind: &Kind, applied: &Value) -> Result<(), PatchError> {
    let Value::Object(fields) = applied else {
        return Err(PatchError::BadRequest(
            "error decoding patch: the configuration must be an object".to_owned(),
        ));
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, name) = (text("apiVersion"), text("kind"));
    if (api_version, name) != (kind.api_version().as_str(), kind.kind.as_str()) {
        // Also of kinds without group.
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        return Err(PatchError::BadRequest(format!(
            "invalid object type: {group}/{version}, Kind={name}"
        )));
    }
    match applied.pointer("/metadata/managedFields") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(PatchError::BadRequest(
            "metadata.managedFields must be nil".to_owned(),
        )),
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(name, value)| (name.clone(), without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

/// Merges the applied value into the live one.
fn merge<'a>(kind: &Kind, path: &mut Vec<&'a str>, live: &Value, applied: &'a Value) -> Value {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) if !is_atomic_map(kind, path) => {
            let mut merged = live.clone();
            for (name, value) in applied {
                if value.is_null() {
                    merged.remove(name);
                    continue;
                }
                path.push(name);
                let value = match live.get(name) {
                    Some(before) => merge(kind, path, before, value),
                    None => without_nulls(value),
                };
                path.pop();
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (Value::Array(live), Value::Array(applied)) => match list_shape(kind, path) {
            ListShape::Atomic => Value::Array(applied.iter().map(without_nulls).collect()),
            ListShape::Set => {
                let edges = |items: &[Value]| items.iter().map(|item| Some(item_by_value(item))).collect();
                Value::Array(merge_items(
                    live,
                    applied,
                    edges(live),
                    edges(applied),
                    |_, item| item.clone(),
                ))
            }
            ListShape::Map(keys) => {
                let edges = |items: &[Value]| -> Vec<_> {
                    items.iter().map(|item| item_by_key(item, &keys)).collect()
                };
                let (live_edges, applied_edges) = (edges(live), edges(applied));
                if live_edges.iter().chain(&applied_edges).any(Option::is_none) {
                    // Without keys the items have no identity, so the list is treated as one value.
                    return Value::Array(applied.iter().map(without_nulls).collect());
                }
                let both = |before: &Value, item: &'a Value| merge(kind, path, before, item);
                Value::Array(merge_items(live, applied, live_edges, applied_edges, both))
            }
        },
        (_, applied) => without_nulls(applied),
    }
}

/// Merges two lists whose items are identified by `Some` edge. The order of each is kept; an item that only the live
/// list has goes before the applied item that follows it.
fn merge_items<'a>(
    live: &[Value],
    applied: &'a [Value],
    live_edges: Vec<Option<String>>,
    applied_edges: Vec<Option<String>>,
    mut both: impl FnMut(&Value, &'a Value) -> Value,
) -> Vec<Value> {
    let partner = |edges: &[Option<String>], edge: &Option<String>| {
        edges.iter().position(|other| edge.is_some() && other == edge)
    };
    let mut merged = Vec::with_capacity(live.len() + applied.len());
    let mut rest = live.iter().zip(&live_edges).peekable();
    for (item, edge) in applied.iter().zip(&applied_edges) {
        while let Some((only, _)) = rest.next_if(|(_, edge)| partner(&applied_edges, edge).is_none()) {
            merged.push(only.clone());
        }
        match partner(&live_edges, edge).and_then(|position| live.get(position)) {
            Some(before) => {
                merged.push(both(before, item));
                rest.next_if(|(_, other)| *other == edge);
            }
            None => merged.push(without_nulls(item)),
        }
    }
    let only = rest.filter(|(_, edge)| partner(&applied_edges, edge).is_none());
    merged.extend(only.map(|(item, _)| item.clone()));
    merged
}

/// Removes the fields in `gone` from a value, unless a field in `kept` is below them.
fn prune<'a>(kind: &Kind, path: &mut Vec<&'a str>, value: &mut Value, gone: &'a FieldSet, kept: &FieldSet) {
    let nothing = FieldSet::default();
    match value {
        Value::Object(fields) => {
            for (edge, below) in &gone.children {
                let Some(name) = edge.strip_prefix("f:") else {
                    continue;
                };
                let kept = kept.children.get(edge).unwrap_or(&nothing);
                if let Some(child) = fields.get_mut(name) {
                    let whole = below.here && kept.is_empty();
                    if !whole {
                        path.push(name);
                        prune(kind, path, child, below, kept);
                        path.pop();
                    }
                    // A container that became empty and has no owner is removed too.
                    if whole || (kept.is_empty() && is_hollow(child)) {
                        fields.remove(name);
                    }
                }
            }
        }
        Value::Array(items) => {
            let shape = list_shape(kind, path);
            let edge_of = |item: &Value| match &shape {
                ListShape::Map(keys) => item_by_key(item, keys),
                ListShape::Set => Some(item_by_value(item)),
                ListShape::Atomic => None,
            };
            let mut remaining = Vec::with_capacity(items.len());
            for mut item in std::mem::take(items) {
                let edge = edge_of(&item);
                let below = edge.as_ref().and_then(|edge| gone.children.get(edge));
                let kept = edge
                    .as_ref()
                    .and_then(|edge| kept.children.get(edge))
                    .unwrap_or(&nothing);
                match below {
                    Some(below) if below.here && kept.is_empty() => continue,
                    Some(below) => prune(kind, path, &mut item, below, kept),
                    None => {}
                }
                remaining.push(item);
            }
            *items = remaining;
        }
        _ => {}
    }
}

fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
