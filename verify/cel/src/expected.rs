//! The values that the cases expect and bind, which are protobuf messages as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

/// A value of a case.
pub enum Known {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
    List(Vec<Known>),
    Map(Vec<(Known, Known)>),
    Type(String),
    /// In nanoseconds.
    Duration(i64),
    Timestamp(jiff::Timestamp),
}

/// Reads a value; `None` if it is a message that has no counterpart in JSON.
pub fn read(json: &Json) -> Option<Known> {
    let (kind, value) = json.as_object()?.iter().next()?;
    let text = || value.as_str().unwrap_or_default();
    Some(match kind.as_str() {
        "nullValue" => Known::Null,
        "boolValue" => Known::Bool(value.as_bool()?),
        "int64Value" => Known::Int(text().parse().ok()?),
        "uint64Value" => Known::Uint(text().parse().ok()?),
        "doubleValue" => Known::Double(double(value)?),
        "stringValue" => Known::String(text().to_owned()),
        "bytesValue" => Known::Bytes(STANDARD.decode(text()).ok()?),
        "typeValue" => Known::Type(text().to_owned()),
        "enumValue" => Known::Int(value["value"].as_i64().unwrap_or_default()),
        "listValue" => {
            let items = value["values"].as_array().map_or(&[][..], Vec::as_slice);
            Known::List(items.iter().map(read).collect::<Option<_>>()?)
        }
        "mapValue" => {
            let entries = value["entries"].as_array().map_or(&[][..], Vec::as_slice);
            let entry = |entry: &Json| Some((read(&entry["key"])?, read(&entry["value"])?));
            Known::Map(entries.iter().map(entry).collect::<Option<_>>()?)
        }
        "objectValue" => message(value)?,
        _ => return None,
    })
}

fn double(value: &Json) -> Option<f64> {
    match value.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => value.as_f64(),
    }
}

/// The messages that are values of CEL.
fn message(value: &Json) -> Option<Known> {
    let name = value["@type"].as_str()?.rsplit('/').next()?;
    let inner = &value["value"];
    let text = || inner.as_str().unwrap_or_default();
    Some(match name.strip_prefix("google.protobuf.")? {
        "Duration" => {
            let seconds = text().strip_suffix('s')?;
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
            let fraction: i64 = format!("{fraction:0<9}").parse().ok()?;
            let sign = if whole.starts_with('-') { -1 } else { 1 };
            Known::Duration(whole.parse::<i64>().ok()?.checked_mul(1_000_000_000)? + sign * fraction)
        }
        "Timestamp" => Known::Timestamp(text().parse().ok()?),
        "BoolValue" => Known::Bool(inner.as_bool()?),
        "Int32Value" => Known::Int(inner.as_i64()?),
        "Int64Value" => Known::Int(text().parse().ok()?),
        "UInt32Value" => Known::Uint(inner.as_u64()?),
        "UInt64Value" => Known::Uint(text().parse().ok()?),
        "FloatValue" | "DoubleValue" => Known::Double(double(inner)?),
        "StringValue" => Known::String(text().to_owned()),
        "BytesValue" => Known::Bytes(STANDARD.decode(text()).ok()?),
        "Struct" | "Value" | "ListValue" => from_json(inner),
        _ => return None,
    })
}

fn from_json(json: &Json) -> Known {
    match json {
        Json::Null => Known::Null,
        Json::Bool(value) => Known::Bool(*value),
        Json::Number(number) => Known::Double(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Known::String(text.clone()),
        Json::Array(items) => Known::List(items.iter().map(from_json).collect()),
        Json::Object(fields) => {
            let entry = |(name, value): (&String, &Json)| (Known::String(name.clone()), from_json(value));
            Known::Map(fields.iter().map(entry).collect())
        }
    }
}

/// The notation of an expected value.
pub fn value(json: &Json) -> Option<String> {
    read(json).map(|known| known.notation())
}

impl Known {
    pub fn notation(&self) -> String {
        match self {
            Known::Null => "null".to_owned(),
            Known::Bool(value) => value.to_string(),
            Known::Int(value) => format!("int {value}"),
            Known::Uint(value) => format!("uint {value}"),
            Known::Double(value) => format!("double {value:?}"),
            Known::String(value) => format!("{value:?}"),
            Known::Bytes(value) => format!("bytes {value:?}"),
            Known::Type(name) => format!("type {name}"),
            Known::Duration(nanoseconds) => format!("duration {nanoseconds}"),
            Known::Timestamp(at) => format!("timestamp {}", at.as_nanosecond()),
            Known::List(items) => list(items.iter().map(Known::notation)),
            Known::Map(entries) => map(entries
                .iter()
                .map(|(key, value)| (key.notation(), value.notation()))),
        }
    }
}

pub fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

pub fn map(entries: impl Iterator<Item = (String, String)>) -> String {
    let mut entries: Vec<String> = entries.map(|(key, value)| format!("{key}: {value}")).collect();
    entries.sort();
    format!("{{{}}}", entries.join(", "))
}
