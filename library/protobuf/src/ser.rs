//! Encoding: writes the JSON tree of an object as protobuf, byte by byte as Go writes it.
//!
//! Members that the schema does not know are left out, as an API server drops them. `apiVersion` and `kind` are not
//! part of the message; [`to_body`] puts them around it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{Error, Problem, Step};
use crate::schema::{FieldSchema, Kind, Message, Shape};
use crate::wire::{self, FIXED64, VARINT};
use crate::{TypeMeta, head, quantity, schema, text};

/// Deeper trees are an error.
pub(crate) const MAX_DEPTH: u8 = 128;

/// Encodes an object with its envelope. It must have `apiVersion` and `kind`.
///
/// # Errors
///
/// The kind has no schema, or a value is not of the type the schema has.
pub fn to_body<T: Serialize + ?Sized>(object: &T) -> Result<Vec<u8>, Error> {
    let value = serde_json::to_value(object)?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let type_meta = TypeMeta {
        api_version: text("apiVersion"),
        kind: text("kind"),
    };
    let message = schema::lookup(type_meta.api_version, type_meta.kind)
        .ok_or_else(|| Error::unknown_kind(type_meta.api_version, type_meta.kind))?;
    Ok(head::to_body(type_meta, &value_to_message(message, &value)?))
}

/// Encodes an object as the bytes of a message, for items of lists and objects of watch frames.
///
/// # Errors
///
/// A value is not of the type the schema has.
pub fn to_message<T: Serialize + ?Sized>(message: &'static Message, object: &T) -> Result<Vec<u8>, Error> {
    value_to_message(message, &serde_json::to_value(object)?)
}

/// Encodes a tree as the bytes of a message.
///
/// # Errors
///
/// A value is not of the type the schema has.
pub fn value_to_message(message: &'static Message, object: &Value) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    put_message(&mut out, message, object, MAX_DEPTH)?;
    Ok(out)
}

fn put_message(out: &mut Vec<u8>, message: &'static Message, value: &Value, depth: u8) -> Result<(), Error> {
    let depth = depth.checked_sub(1).ok_or_else(|| Error::new(Problem::TooDeep))?;
    let empty = Map::new();
    let members = match value {
        Value::Object(members) => members,
        Value::Null => &empty,
        _ => return Err(mismatch(value, "an object")),
    };
    for (number, field) in message.fields() {
        if field.shape() == Shape::Embedded {
            wire::put_nested(out, number, |out| put_message(out, field.inner(), value, depth))?;
            continue;
        }
        let member = members.get(field.name()).unwrap_or(&Value::Null);
        put_field(out, number, field, member, depth).map_err(|error| error.at(Step::Field(field.name())))?;
    }
    Ok(())
}

pub(crate) fn put_field(
    out: &mut Vec<u8>,
    number: u32,
    field: &'static FieldSchema,
    value: &Value,
    depth: u8,
) -> Result<(), Error> {
    match (field.shape(), value) {
        (Shape::List | Shape::Map, Value::Null) => Ok(()),
        (Shape::List, Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                put_value(out, number, field, item, depth).map_err(|error| error.at(Step::Index(index)))?;
            }
            Ok(())
        }
        (Shape::List, _) => Err(mismatch(value, "an array")),
        (Shape::Map, Value::Object(entries)) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            for (key, value) in entries {
                wire::put_nested(out, number, |out| put_entry(out, field, key, value, depth))
                    .map_err(|error| error.at_key(key))?;
            }
            Ok(())
        }
        (Shape::Map, _) => Err(mismatch(value, "an object")),
        // Go writes everything but nil pointers, nil bytes and nil lists.
        (_, Value::Null) if field.is_pointer() || matches!(field.kind(), Kind::Bytes | Kind::Strings) => {
            Ok(())
        }
        _ => put_value(out, number, field, value, depth),
    }
}

fn put_entry(
    out: &mut Vec<u8>,
    field: &'static FieldSchema,
    key: &str,
    value: &Value,
    depth: u8,
) -> Result<(), Error> {
    wire::put_bytes(out, 1, key.as_bytes());
    put_value(out, 2, field, value, depth)
}

/// Writes one value; `null` is Go's zero.
fn put_value(
    out: &mut Vec<u8>,
    number: u32,
    field: &'static FieldSchema,
    value: &Value,
    depth: u8,
) -> Result<(), Error> {
    match field.kind() {
        Kind::String => wire::put_bytes(out, number, string(value)?.as_bytes()),
        Kind::Message => {
            return wire::put_nested(out, number, |out| put_message(out, field.inner(), value, depth));
        }
        Kind::Bool => {
            let flag = match value {
                Value::Bool(flag) => *flag,
                Value::Null => false,
                _ => return Err(mismatch(value, "a boolean")),
            };
            wire::put_tag(out, number, VARINT);
            out.push(u8::from(flag));
        }
        Kind::Int32 => {
            let integer = integer(value)?;
            i32::try_from(integer).map_err(|_| mismatch(value, "a 32-bit integer"))?;
            put_integer(out, number, integer);
        }
        Kind::Int64 => put_integer(out, number, integer(value)?),
        Kind::Double => {
            let double = match value {
                Value::Null => 0.0,
                _ => value.as_f64().ok_or_else(|| mismatch(value, "a number"))?,
            };
            wire::put_tag(out, number, FIXED64);
            out.extend_from_slice(&double.to_le_bytes());
        }
        Kind::Bytes => {
            let bytes = STANDARD
                .decode(string(value)?)
                .map_err(|_| mismatch(value, "base64"))?;
            wire::put_bytes(out, number, &bytes);
        }
        Kind::Quantity => {
            let text = match value {
                Value::Null => "0".into(),
                Value::Number(number) => number.to_string(),
                _ => string(value)?.to_owned(),
            };
            let text = quantity::canonical(text.as_bytes())?;
            put_in_message(out, number, |out| wire::put_bytes(out, 1, text.as_bytes()));
        }
        Kind::Time | Kind::MicroTime => put_time(out, number, value, field.kind() == Kind::MicroTime)?,
        Kind::Duration => {
            let nanos = match value {
                Value::Null => 0,
                _ => text::parse_duration(string(value)?).ok_or_else(|| mismatch(value, "a duration"))?,
            };
            put_in_message(out, number, |out| put_integer(out, 1, nanos));
        }
        Kind::IntOrString => put_int_or_string(out, number, value)?,
        Kind::RawExtension | Kind::FieldsV1 | Kind::Json => match value {
            Value::Null => wire::put_bytes(out, number, b""),
            _ => {
                let json = serde_json::to_vec(value)?;
                put_in_message(out, number, |out| wire::put_bytes(out, 1, &json));
            }
        },
        Kind::Strings => return put_strings(out, number, 1, value),
        Kind::SchemaOrBool | Kind::SchemaOrArray | Kind::SchemaOrStrings => {
            return wire::put_nested(out, number, |out| put_schema(out, field, value, depth));
        }
    }
    Ok(())
}

fn put_integer(out: &mut Vec<u8>, number: u32, integer: i64) {
    wire::put_tag(out, number, VARINT);
    wire::put_varint(out, integer.cast_unsigned());
}

fn put_in_message(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    wire::put_bytes(out, number, &inner);
}

fn put_time(out: &mut Vec<u8>, number: u32, value: &Value, micro: bool) -> Result<(), Error> {
    if value.is_null() {
        wire::put_bytes(out, number, b"");
        return Ok(());
    }
    let (seconds, nanos) =
        text::parse_time(string(value)?).ok_or_else(|| mismatch(value, "a time in RFC 3339"))?;
    put_in_message(out, number, |out| {
        if text::is_zero_seconds(seconds, if micro { nanos } else { 0 }) {
            return;
        }
        put_integer(out, 1, seconds);
        put_integer(out, 2, if micro { i64::from(nanos / 1000 * 1000) } else { 0 });
    });
    Ok(())
}

fn put_int_or_string(out: &mut Vec<u8>, number: u32, value: &Value) -> Result<(), Error> {
    let (kind, integer, string) = match value {
        Value::Null => (0, 0, ""),
        Value::String(text) => (1, 0, text.as_str()),
        _ => (0, integer(value)?, ""),
    };
    i32::try_from(integer).map_err(|_| mismatch(value, "a 32-bit integer or a string"))?;
    put_in_message(out, number, |out| {
        put_integer(out, 1, kind);
        put_integer(out, 2, integer);
        wire::put_bytes(out, 3, string.as_bytes());
    });
    Ok(())
}

/// A message of strings in `field`.
fn put_strings(out: &mut Vec<u8>, number: u32, field: u32, value: &Value) -> Result<(), Error> {
    wire::put_nested(out, number, |out| put_repeated_strings(out, field, value))
}

fn put_repeated_strings(out: &mut Vec<u8>, field: u32, value: &Value) -> Result<(), Error> {
    match value {
        Value::Null => Ok(()),
        Value::Array(items) => {
            for item in items {
                wire::put_bytes(out, field, string(item)?.as_bytes());
            }
            Ok(())
        }
        _ => Err(mismatch(value, "an array of strings")),
    }
}

/// The content of a wrapper around a schema.
fn put_schema(out: &mut Vec<u8>, field: &'static FieldSchema, value: &Value, depth: u8) -> Result<(), Error> {
    let is_bool = field.kind() == Kind::SchemaOrBool;
    let schema_field = if is_bool { 2 } else { 1 };
    let schema = field
        .inner()
        .field(schema_field)
        .map_or(field.inner(), FieldSchema::inner);
    if is_bool {
        wire::put_tag(out, 1, VARINT);
        out.push(u8::from(value.is_object() || value == &Value::Bool(true)));
    }
    match (field.kind(), value) {
        (_, Value::Object(_)) => {
            wire::put_nested(out, schema_field, |out| put_message(out, schema, value, depth))
        }
        (Kind::SchemaOrBool, Value::Bool(_)) | (_, Value::Null) => Ok(()),
        (Kind::SchemaOrArray, Value::Array(items)) => {
            for item in items {
                wire::put_nested(out, 2, |out| put_message(out, schema, item, depth))?;
            }
            Ok(())
        }
        (Kind::SchemaOrStrings, _) => put_repeated_strings(out, 2, value),
        _ => Err(mismatch(value, "a schema")),
    }
}

fn string(value: &Value) -> Result<&str, Error> {
    match value {
        Value::String(text) => Ok(text),
        Value::Null => Ok(""),
        _ => Err(mismatch(value, "a string")),
    }
}

fn integer(value: &Value) -> Result<i64, Error> {
    match value {
        Value::Null => Ok(0),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Ok(integer),
            // Clients may write a whole number with a point.
            (None, Some(double)) if double.fract() == 0.0 && double.abs() < 9e15 => Ok(double as i64),
            _ => Err(mismatch(value, "a 64-bit integer")),
        },
        _ => Err(mismatch(value, "an integer")),
    }
}

#[cold]
fn mismatch(value: &Value, expected: &str) -> Error {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    Error::mismatch(format!("invalid type or value: {found}, expected {expected}"))
}
