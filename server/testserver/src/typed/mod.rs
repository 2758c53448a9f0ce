//! Objects of built-in kinds, by their Go types: type checks, the stored form, defaults and validation.
//! Table-driven: the types come from `kube-protobuf`, the rest from text tables next to this file. Independent of requests
//! and storage.
//!
//! An object passes through in this order:
//!
//! 1. [`decode`] finds values of the wrong type and unknown fields, with the messages of Go's decoder.
//! 2. [`normalize`] brings the object into the form in which Go prints it: unknown fields and empty optional fields are
//!    dropped, quantities and times are canonical.
//! 3. [`set_defaults`] sets the defaults of `defaults.txt`.
//! 4. [`validate`] applies the rules of `rules.txt` and the rules that span several fields.

mod allocate;
mod decode;
mod defaults;
mod diff;
mod immutable;
mod internal;
mod print;
mod quantity;
mod rules;
mod table;
mod validate;
mod warnings;

use kube_protobuf::schema::Message;
use kube_protobuf::{Options, TypeMeta, from_message, ser};
use serde_json::{Map, Value};

pub(crate) use allocate::{allocate, complete_update, time_phase, to_validate};
pub(crate) use decode::{convert, decode, field_of};
pub(crate) use defaults::{count_templates, set_defaults};
pub(crate) use immutable::{check_ephemeral_containers, check_update};
pub(crate) use print::printed_patch;
pub(crate) use validate::{validate, validate_new, webhooks};
pub(crate) use warnings::warnings;

use crate::kinds::Kind;

/// The object as Go prints it after decoding. An object that does not fit its type is left as it is; [`decode`] has
/// rejected it, unless a test stored it.
pub(crate) fn normalize(kind: &Kind, object: &mut Map<String, Value>) {
    let Some(message) = kind.message() else { return };
    let whole = Value::Object(std::mem::take(object));
    let normal = printed(kind, message, &whole);
    if let Value::Object(map) = normal.unwrap_or(whole) {
        *object = map;
    }
}

/// The fields of an empty object, without type and metadata: those that Go prints even if they are empty. Custom kinds have none.
pub(crate) fn empty_parts(kind: &Kind) -> Map<String, Value> {
    let empty = Value::Object(Map::new());
    let printed = kind
        .message()
        .and_then(|message| printed(kind, message, &empty))
        .and_then(|value| match value {
            Value::Object(map) => Some(map),
            _ => None,
        });
    let mut parts = printed.unwrap_or_default();
    for of_every_object in ["apiVersion", "kind", "metadata"] {
        parts.remove(of_every_object);
    }
    parts
}

/// The parts of a bookmark. It comes from the internal type, in which the number of replicas is never absent.
pub(crate) fn bookmark_parts(kind: &Kind) -> Map<String, Value> {
    let mut parts = empty_parts(kind);
    if kind.group == "apps" && kind.scale.is_some() {
        parts["spec"]["replicas"] = 0.into();
    }
    parts
}

fn printed(kind: &Kind, message: &'static Message, object: &Value) -> Option<Value> {
    let bytes = ser::value_to_message(message, object).ok()?;
    let api_version = kind.api_version();
    let type_meta = TypeMeta {
        api_version: &api_version,
        kind: &kind.kind,
    };
    from_message(message, &bytes, Some(type_meta), &Options::new()).ok()
}

/// The text at a path below an object; empty if there is none.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of a list below an object.
fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten().enumerate()
}
