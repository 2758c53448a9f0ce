//! Decodes protobuf bodies of built-in kinds, as kubectl and many Go clients send them, into JSON.
//!
//! Custom kinds are never sent as protobuf.

mod messages;
mod wire;

use std::fmt;

use base64::Engine;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use messages::{Field, Shape, Type, message};
use wire::{Reader, Token};

/// The media type of protobuf bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The prefix of every protobuf object.
const MAGIC: &[u8] = b"k8s\0";
/// More than the nesting depth of any kind.
const MAX_DEPTH: usize = 64;

/// Why a body was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtobufError {
    /// The server has no message for this type.
    UnknownType {
        /// The version in the body.
        api_version: String,
        /// The kind in the body.
        kind: String,
    },
    /// The bytes are malformed.
    Malformed(&'static str),
}

impl fmt::Display for ProtobufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType { api_version, kind } => {
                write!(
                    f,
                    "no protobuf message for {kind:?} in {api_version:?}: send it as JSON"
                )
            }
            Self::Malformed(what) => write!(f, "the protobuf body is malformed: {what}"),
        }
    }
}

impl std::error::Error for ProtobufError {}

/// Decodes a body into an object with its `apiVersion` and `kind`.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::Malformed(
        "it does not start with the bytes \"k8s\\0\"",
    ))?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader::new(envelope);
    while let Some((number, token)) = reader.next()? {
        match number {
            1 => {
                let mut reader = Reader::new(token.bytes()?);
                while let Some((number, token)) = reader.next()? {
                    match number {
                        1 => api_version = token.text()?.to_owned(),
                        2 => kind = token.text()?.to_owned(),
                        _ => {}
                    }
                }
            }
            2 => raw = token.bytes()?,
            _ => {}
        }
    }
    let Some(fields) = message(&message_name(&api_version, &kind)) else {
        return Err(ProtobufError::UnknownType { api_version, kind });
    };
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    read_message(fields, raw, &mut object, 0)?;
    Ok(Value::Object(object))
}

/// The name of the message for a kind: `core/v1.Pod`.
fn message_name(api_version: &str, kind: &str) -> String {
    // Options are sent under the version of the resource they apply to.
    if kind.ends_with("Options") {
        return format!("meta/v1.{kind}");
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let package = match group.split('.').next().unwrap_or_default() {
        "" => "core",
        "meta" => "meta",
        first => first,
    };
    format!("{package}/{version}.{kind}")
}

fn read_message(
    fields: &[Field],
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::Malformed("it is nested too deeply"));
    }
    let mut reader = Reader::new(bytes);
    while let Some((number, token)) = reader.next()? {
        // Unknown fields, sent by newer clients, are dropped.
        let Some(field) = fields.iter().find(|field| field.number == number) else {
            continue;
        };
        if field.name.is_empty() {
            if let Type::Message(name) = field.kind {
                read_message(
                    message(name).unwrap_or_default(),
                    token.bytes()?,
                    object,
                    depth + 1,
                )?;
            }
            continue;
        }
        match field.shape {
            Shape::Single => {
                if let Some(value) = read_value(field.kind, token, field.keeps_zero, depth)? {
                    object.insert(field.name.to_owned(), value);
                }
            }
            Shape::List => {
                let value = read_value(field.kind, token, true, depth)?.unwrap_or(Value::Null);
                let list = object.entry(field.name).or_insert_with(|| json!([]));
                if let Value::Array(items) = list {
                    items.push(value);
                }
            }
            Shape::Map => {
                let (key, value) = read_entry(field.kind, token.bytes()?, depth)?;
                let map = object.entry(field.name).or_insert_with(|| json!({}));
                if let Value::Object(entries) = map {
                    entries.insert(key, value);
                }
            }
        }
    }
    Ok(())
}

/// Decodes a map entry: a message of key and value.
fn read_entry(kind: Type, bytes: &[u8], depth: usize) -> Result<(String, Value), ProtobufError> {
    let (mut key, mut value) = (String::new(), None);
    let mut reader = Reader::new(bytes);
    while let Some((number, token)) = reader.next()? {
        match number {
            1 => key = token.text()?.to_owned(),
            2 => value = read_value(kind, token, true, depth)?,
            _ => {}
        }
    }
    let empty = || match kind {
        Type::Text | Type::Bytes | Type::Quantity => json!(""),
        _ => Value::Null,
    };
    Ok((key, value.unwrap_or_else(empty)))
}

/// A JSON value; `None` for values that JSON leaves out.
fn read_value(
    kind: Type,
    token: Token<'_>,
    keeps_zero: bool,
    depth: usize,
) -> Result<Option<Value>, ProtobufError> {
    Ok(match kind {
        Type::Text => {
            let text = token.text()?;
            (keeps_zero || !text.is_empty()).then(|| json!(text))
        }
        Type::Bytes => {
            let bytes = token.bytes()?;
            let text = base64::engine::general_purpose::STANDARD.encode(bytes);
            (keeps_zero || !text.is_empty()).then(|| json!(text))
        }
        Type::Flag => {
            let flag = token.integer()? != 0;
            (keeps_zero || flag).then(|| json!(flag))
        }
        Type::Integer => {
            let number = token.integer()?;
            (keeps_zero || number != 0).then(|| json!(number))
        }
        Type::Double => {
            let number = token.double()?;
            (keeps_zero || number != 0.0).then(|| json!(number))
        }
        Type::Time => read_time(token.bytes()?, false)?,
        Type::MicroTime => read_time(token.bytes()?, true)?,
        Type::Duration => Some(json!(duration(first_integer(token.bytes()?)?))),
        Type::Quantity => Some(json!(first_text(token.bytes()?)?)),
        Type::IntOrText => Some(int_or_text(token.bytes()?)?),
        Type::Raw => {
            let mut reader = Reader::new(token.bytes()?);
            let mut value = None;
            while let Some((number, token)) = reader.next()? {
                if number == 1 {
                    let parsed = serde_json::from_slice(token.bytes()?);
                    value =
                        Some(parsed.map_err(|_| ProtobufError::Malformed("a raw extension is not JSON"))?);
                }
            }
            value
        }
        Type::Texts => {
            let mut reader = Reader::new(token.bytes()?);
            let mut texts = Vec::new();
            while let Some((_, token)) = reader.next()? {
                texts.push(json!(token.text()?));
            }
            Some(Value::Array(texts))
        }
        Type::Message(name) => {
            let mut object = Map::new();
            read_message(
                message(name).unwrap_or_default(),
                token.bytes()?,
                &mut object,
                depth + 1,
            )?;
            Some(Value::Object(object))
        }
    })
}

/// A timestamp of seconds and nanoseconds; an empty message is no timestamp.
fn read_time(bytes: &[u8], micro: bool) -> Result<Option<Value>, ProtobufError> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, token)) = reader.next()? {
        match number {
            1 => seconds = token.integer()?,
            2 => nanos = token.integer()?,
            _ => {}
        }
    }
    if seconds == 0 && nanos == 0 {
        return Ok(None);
    }
    let malformed = |_| ProtobufError::Malformed("a time is out of range");
    let nanos = i32::try_from(nanos).map_err(|_| ProtobufError::Malformed("a time is out of range"))?;
    let time = Timestamp::new(seconds, if micro { nanos } else { 0 }).map_err(malformed)?;
    Ok(Some(json!(if micro {
        format!("{time:.6}")
    } else {
        time.to_string()
    })))
}

fn first_integer(bytes: &[u8]) -> Result<i64, ProtobufError> {
    let mut reader = Reader::new(bytes);
    let mut number = 0;
    while let Some((field, token)) = reader.next()? {
        if field == 1 {
            number = token.integer()?;
        }
    }
    Ok(number)
}

fn first_text(bytes: &[u8]) -> Result<&str, ProtobufError> {
    let mut reader = Reader::new(bytes);
    let mut text = "";
    while let Some((field, token)) = reader.next()? {
        if field == 1 {
            text = token.text()?;
        }
    }
    Ok(text)
}

fn int_or_text(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    let mut reader = Reader::new(bytes);
    while let Some((field, token)) = reader.next()? {
        match field {
            1 => is_text = token.integer()? == 1,
            2 => number = token.integer()?,
            3 => text = token.text()?,
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(number) })
}

/// Nanoseconds as Go writes them: `1h30m0s`, `1.5s`, `300ms`.
fn duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let fraction = |whole: u64, rest: u64, digits: usize| {
        let text = format!("{whole}.{rest:0digits$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if nanos < 1_000_000_000 {
        let (value, unit) = match nanos {
            0..1_000 => (nanos.to_string(), "ns"),
            1_000..1_000_000 => (fraction(nanos / 1_000, nanos % 1_000, 3), "µs"),
            _ => (fraction(nanos / 1_000_000, nanos % 1_000_000, 6), "ms"),
        };
        return format!("{sign}{value}{unit}");
    }
    let seconds = nanos / 1_000_000_000;
    let last = fraction(seconds % 60, nanos % 1_000_000_000, 9);
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{sign}{last}s"),
        (0, minutes) => format!("{sign}{minutes}m{last}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{last}s"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A length-delimited field.
    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
        field.extend_from_slice(content);
        field
    }

    fn varint(number: u8, value: u8) -> Vec<u8> {
        vec![number << 3, value]
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC, &bytes(1, &types), &bytes(2, raw)].concat()
    }

    #[test]
    fn config_map_decodes_to_its_json() {
        let metadata = [bytes(1, b"conf"), bytes(2, b""), bytes(3, b"shop"), bytes(8, b"")].concat();
        let entry = [bytes(1, b"a"), bytes(2, b"1")].concat();
        let binary = [bytes(1, b"b"), bytes(2, &[0xff])].concat();
        let raw = [
            bytes(1, &metadata),
            bytes(2, &entry),
            bytes(3, &binary),
            varint(4, 0),
        ]
        .concat();

        assert_eq!(
            decode(&envelope("v1", "ConfigMap", &raw)).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "conf", "namespace": "shop" },
                "data": { "a": "1" }, "binaryData": { "b": "/w==" }, "immutable": false,
            })
        );
    }

    #[test]
    fn significant_zeros_are_kept_and_others_left_out() {
        let container = [bytes(1, b"web"), bytes(2, b"web:1")].concat();
        let port = [varint(3, 80), bytes(4, b"")].concat();
        let container = [container, bytes(6, &port)].concat();
        let template = bytes(2, &bytes(2, &container));
        let spec = [varint(1, 0), bytes(3, &template), varint(5, 0)].concat();

        assert_eq!(
            decode(&envelope("apps/v1", "Deployment", &bytes(2, &spec))).unwrap()["spec"],
            json!({ "replicas": 0, "template": { "spec": { "containers": [
                { "name": "web", "image": "web:1", "ports": [{ "containerPort": 80 }] },
            ] } } })
        );
    }

    #[test]
    fn options_reviews_and_special_types_are_decoded() {
        let options = [varint(1, 30), bytes(4, b"Background")].concat();
        assert_eq!(
            decode(&envelope("apps/v1", "DeleteOptions", &options)).unwrap(),
            json!({ "apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 30,
                    "propagationPolicy": "Background" })
        );
        let budget = bytes(2, &bytes(1, &[varint(1, 1), bytes(3, b"50%")].concat()));
        assert_eq!(
            decode(&envelope("policy/v1", "PodDisruptionBudget", &budget)).unwrap()["spec"],
            json!({ "minAvailable": "50%" })
        );
        let lease = bytes(2, &bytes(4, &varint(1, 100)));
        assert_eq!(
            decode(&envelope("coordination.k8s.io/v1", "Lease", &lease)).unwrap()["spec"]["renewTime"],
            "1970-01-01T00:01:40.000000Z"
        );
    }

    #[test]
    fn durations_are_formatted_as_in_go() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (300_000_000, "300ms"),
            (1_500_000_000, "1.5s"),
            (90_000_000_000, "1m30s"),
            (5_400_000_000_000, "1h30m0s"),
            (-1_000_000_000, "-1s"),
        ] {
            assert_eq!(duration(nanos), text);
        }
    }

    #[test]
    fn unknown_kinds_and_malformed_bodies_are_rejected() {
        assert_eq!(
            decode(&envelope("example.com/v1", "Widget", b""))
                .unwrap_err()
                .to_string(),
            "no protobuf message for \"Widget\" in \"example.com/v1\": send it as JSON"
        );
        assert!(matches!(decode(b"{}"), Err(ProtobufError::Malformed(_))));
        assert!(matches!(
            decode(b"k8s\0\x0a\x7f"),
            Err(ProtobufError::Malformed(_))
        ));
        let bomb = (0..200).fold(Vec::new(), |inner: Vec<u8>, _| {
            if inner.len() < 120 {
                bytes(2, &inner)
            } else {
                inner
            }
        });
        let _ = decode(&envelope("v1", "Pod", &bomb));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_decoded_or_rejected_without_a_panic(raw in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&raw);
            let _ = decode(&[MAGIC, &raw].concat());
            for (version, kind) in [("v1", "Pod"), ("apps/v1", "Deployment"), ("coordination.k8s.io/v1", "Lease")] {
                let _ = decode(&envelope(version, kind, &raw));
            }
        }
    }
}
