//! Writes objects as protobuf. What cannot be written, because a fault corrupted it, becomes protobuf that is corrupted in
//! the same place.

use bytes::Bytes;
use kube_protobuf::envelope::{to_body, to_watch_frame};
use kube_protobuf::{TypeMeta, schema, ser};
use serde_json::{Value, json};

use crate::fault::Poison;

/// One object as a protobuf message.
pub(crate) struct Encoded {
    api_version: String,
    kind: String,
    pub(crate) bytes: Vec<u8>,
}

impl Encoded {
    pub(super) fn type_meta(&self) -> TypeMeta<'_> {
        TypeMeta {
            api_version: &self.api_version,
            kind: &self.kind,
        }
    }
}

/// Encodes the JSON of an object.
pub(super) fn encode(object: &[u8]) -> Encoded {
    let object: Value = serde_json::from_slice(object).unwrap_or_default();
    // A kind without a schema is not served as protobuf, and the server's objects fit their schema unless a test
    // stored one that does not.
    encode_value(&object).unwrap_or_else(|| undecodable(&object))
}

fn encode_value(object: &Value) -> Option<Encoded> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let message = schema::lookup(api_version, kind)?;
    Some(Encoded {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        bytes: ser::value_to_message(message, object).ok()?,
    })
}

/// An object with its identity, and a field that is of a wrong type.
fn undecodable(object: &Value) -> Encoded {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let identity = json!({ "metadata": {
        "name": object.pointer("/metadata/name"),
        "namespace": object.pointer("/metadata/namespace"),
        "uid": object.pointer("/metadata/uid"),
        "resourceVersion": object.pointer("/metadata/resourceVersion"),
    } });
    let metadata = schema::lookup("meta.k8s.io/v1", "PartialObjectMetadata");
    let encoded = metadata.and_then(|message| ser::value_to_message(message, &identity).ok());
    let mut bytes = encoded.unwrap_or_default();
    // Field 2 as a number: in all kinds of the server it is a message, a map or text.
    bytes.extend_from_slice(&[0x10, 42]);
    Encoded {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        bytes,
    }
}

/// Encodes the JSON of an object, corrupted.
pub(super) fn spoiled(object: &[u8], poison: &Poison) -> Encoded {
    let original: Value = serde_json::from_slice(object).unwrap_or_default();
    let raw = |bytes: Vec<u8>| Encoded {
        bytes,
        ..undecodable(&original)
    };
    match poison {
        Poison::Null => raw(vec![0xff]),
        // The extra field has no place in the schema.
        Poison::TooDeep(_) => encode(object),
        Poison::Raw(bytes) => raw(bytes.to_vec()),
        Poison::GarbageAfter(garbage) => raw([encode(object).bytes, garbage.to_vec()].concat()),
        _ => {
            let spoiled = serde_json::from_slice::<Value>(&poison.spoil(object));
            let encoded = spoiled.ok().as_ref().and_then(encode_foreign);
            encoded.unwrap_or_else(|| undecodable(&original))
        }
    }
}

/// Encodes an object whose kind may have no schema: its metadata is that of every kind.
fn encode_foreign(object: &Value) -> Option<Encoded> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if schema::lookup(api_version, kind).is_some() {
        return encode_value(object);
    }
    let metadata = schema::lookup("meta.k8s.io/v1", "PartialObjectMetadata")?;
    Some(Encoded {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        bytes: ser::value_to_message(metadata, object).ok()?,
    })
}

/// One frame of a watch.
pub(super) fn event(event: &str, type_meta: TypeMeta<'_>, message: &[u8]) -> Bytes {
    to_watch_frame(event, &to_body(type_meta, message)).into()
}

/// One frame of a watch, of a bookmark or a `Status`.
pub(super) fn frame(event: &str, object: &Value) -> Bytes {
    let encoded = encode_foreign(object).unwrap_or_else(|| undecodable(object));
    self::event(event, encoded.type_meta(), &encoded.bytes)
}
