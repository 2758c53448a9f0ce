//! Reads the cells of a table row from an object. Never fails: a missing value prints as a real server prints it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use crate::selector::selector_text;

/// Reads fields of an object.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub &'a Value);

impl<'a> Reader<'a> {
    pub(super) fn at(self, pointer: &str) -> Option<&'a Value> {
        self.0.pointer(pointer).filter(|value| !value.is_null())
    }

    /// A string; empty if it is missing.
    pub(super) fn text(self, pointer: &str) -> &'a str {
        self.at(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// A string or a default.
    pub(super) fn text_or(self, pointer: &str, otherwise: &'a str) -> &'a str {
        match self.text(pointer) {
            "" => otherwise,
            text => text,
        }
    }

    /// A number; zero if it is missing.
    pub(super) fn number(self, pointer: &str) -> i64 {
        self.at(pointer).and_then(Value::as_i64).unwrap_or(0)
    }

    pub(super) fn flag(self, pointer: &str) -> bool {
        self.at(pointer).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn list(self, pointer: &str) -> &'a [Value] {
        self.at(pointer)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// The number of fields of an object.
    pub(super) fn fields(self, pointer: &str) -> usize {
        self.at(pointer)
            .and_then(Value::as_object)
            .map_or(0, serde_json::Map::len)
    }

    /// A string, number or boolean as text; the default if it is missing.
    pub(super) fn scalar_or(self, pointer: &str, otherwise: &str) -> String {
        match self.at(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(other) if !other.is_object() && !other.is_array() => other.to_string(),
            _ => otherwise.to_owned(),
        }
    }

    pub(super) fn name(self) -> Value {
        json!(self.text("/metadata/name"))
    }

    pub(super) fn age(self, now: Timestamp) -> Value {
        json!(age::since(self.text("/metadata/creationTimestamp"), now))
    }

    /// A label selector as text.
    pub(super) fn selector(self, pointer: &str) -> String {
        match self.at(pointer).map(selector_text) {
            Some(text) if !text.is_empty() => text,
            _ => "<none>".to_owned(),
        }
    }

    /// The status of a condition, `None` if it is missing.
    pub(super) fn condition(self, kind: &str) -> Option<&'a str> {
        let conditions = self.list("/status/conditions").iter().map(Reader);
        conditions
            .into_iter()
            .find(|condition| condition.text("/type") == kind)
            .map(|found| found.text("/status"))
    }

    pub(super) fn is_being_deleted(self) -> bool {
        self.at("/metadata/deletionTimestamp").is_some()
    }

    /// The names and images of the containers of a pod template.
    pub(super) fn containers(self, pointer: &str) -> [Value; 2] {
        let join = |field: &str| {
            let texts: Vec<&str> = self
                .list(pointer)
                .iter()
                .map(|item| Reader(item).text(field))
                .collect();
            json!(texts.join(","))
        };
        [join("/name"), join("/image")]
    }
}

/// The first `max` texts: `a,b,c + 2 more...`.
pub(super) fn few(texts: &[String], max: usize, none: &str) -> String {
    let shown = texts.get(..max).unwrap_or(texts).join(",");
    match texts.len().checked_sub(max) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ if shown.is_empty() => none.to_owned(),
        _ => shown,
    }
}

/// Name and creation time.
pub(super) fn created_at(object: &Value, _: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    vec![object.name(), json!(object.text("/metadata/creationTimestamp"))]
}
