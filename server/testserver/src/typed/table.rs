//! Text tables by type: a line that begins in the first column names a type (`core.v1.PodSpec`), the indented lines below
//! belong to it. `#` begins a comment line.

use std::collections::HashMap;

use kube_protobuf::schema::{Kind as Type, Message, Shape};
use serde_json::Value;

/// The rows of each type, in the order of the text. A table that cannot be read is a bug; the test of each table reads it.
pub(super) fn parse<T>(
    text: &'static str,
    row: impl Fn(&'static str) -> Option<T>,
) -> HashMap<&'static str, Vec<T>> {
    let mut rows: HashMap<&'static str, Vec<T>> = HashMap::new();
    let mut current = "";
    for line in text.lines() {
        let content = line.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if line.starts_with(' ') {
            debug_assert!(row(content).is_some(), "{current}: {content}");
            rows.entry(current).or_default().extend(row(content));
        } else {
            current = content;
        }
    }
    rows
}

/// The value at a path of field names; `None` if it is missing, null or an empty string, which are the same to Go.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = value;
    for name in path.split('.') {
        value = value.get(name)?;
    }
    let empty = value.is_null() || value.as_str() == Some("");
    (!empty).then_some(value)
}

/// Visits a value and the values below it with their types and paths, the outer ones first.
pub(super) fn visit(
    message: &'static Message,
    value: &Value,
    path: &str,
    see: &mut impl FnMut(&'static Message, &Value, &str),
) {
    see(message, value, path);
    visit_fields(message, value, path, see);
}

fn visit_fields(
    message: &'static Message,
    value: &Value,
    path: &str,
    see: &mut impl FnMut(&'static Message, &Value, &str),
) {
    for (_, field) in message.fields() {
        let Some(inner) = field.message().filter(|_| field.kind() == Type::Message) else {
            continue;
        };
        if field.shape() == Shape::Embedded {
            // Its fields are those of the value itself.
            visit(inner, value, path, see);
            continue;
        }
        if path.is_empty() && field.name() == "metadata" {
            continue;
        }
        let name = if path.is_empty() {
            field.name().to_owned()
        } else {
            format!("{path}.{}", field.name())
        };
        match value.get(field.name()) {
            Some(Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    visit(inner, item, &format!("{name}[{index}]"), see);
                }
            }
            Some(Value::Object(entries)) if field.shape() == Shape::Map => {
                for (key, entry) in entries {
                    visit(inner, entry, &format!("{name}[{key}]"), see);
                }
            }
            Some(member @ Value::Object(_)) => visit(inner, member, &name, see),
            _ => {}
        }
    }
}

/// Changes a value and the values below it, the outer ones first.
pub(super) fn change(
    message: &'static Message,
    value: &mut Value,
    edit: &mut impl FnMut(&'static Message, &mut Value),
) {
    edit(message, value);
    for (_, field) in message.fields() {
        let Some(inner) = field.message().filter(|_| field.kind() == Type::Message) else {
            continue;
        };
        if field.shape() == Shape::Embedded {
            change(inner, value, edit);
            continue;
        }
        if inner.name() == "meta.v1.ObjectMeta" {
            continue;
        }
        match value.get_mut(field.name()) {
            Some(Value::Array(items)) => items.iter_mut().for_each(|item| change(inner, item, edit)),
            Some(Value::Object(entries)) if field.shape() == Shape::Map => {
                entries.values_mut().for_each(|entry| change(inner, entry, edit));
            }
            Some(member @ Value::Object(_)) => change(inner, member, edit),
            _ => {}
        }
    }
}
