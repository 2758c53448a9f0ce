//! Encodes objects as protobuf. An object that a fault corrupts in JSON is corrupted in the same way here.

use std::sync::Arc;

use bytes::Bytes;
use kube_protobuf::envelope::{to_body, to_watch_frame};
use kube_protobuf::{TypeMeta, schema, ser};
use serde_json::{Value, json};

use crate::fault::Poison;

/// One object as a protobuf message.
pub(crate) struct Encoded {
    pub(super) api_version: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(crate) bytes: Bytes,
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
    // Only kinds with a schema are served as protobuf. An object that does not fit its schema was stored by a test.
    encode_value(&object).unwrap_or_else(|| undecodable(&object))
}

fn encode_value(object: &Value) -> Option<Encoded> {
    let (api_version, kind) = type_of(object);
    let message = schema::lookup(api_version, kind)?;
    Some(Encoded {
        api_version: api_version.into(),
        kind: kind.into(),
        bytes: ser::value_to_message(message, object).ok()?.into(),
    })
}

fn type_of(object: &Value) -> (&str, &str) {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    (text("apiVersion"), text("kind"))
}

/// The object's identity, followed by a field of the wrong type.
fn undecodable(object: &Value) -> Encoded {
    let (api_version, kind) = type_of(object);
    let identity = json!({ "metadata": {
        "name": object.pointer("/metadata/name"),
        "namespace": object.pointer("/metadata/namespace"),
        "uid": object.pointer("/metadata/uid"),
        "resourceVersion": object.pointer("/metadata/resourceVersion"),
    } });
    let metadata = schema::lookup("meta.k8s.io/v1", "PartialObjectMetadata");
    let encoded = metadata.and_then(|message| ser::value_to_message(message, &identity).ok());
    let mut bytes = encoded.unwrap_or_default();
    // Field 2 as a varint. In every kind of the server, field 2 is a message, a map or a string.
    bytes.extend_from_slice(&[0x10, 42]);
    Encoded {
        api_version: api_version.into(),
        kind: kind.into(),
        bytes: bytes.into(),
    }
}

/// Encodes the JSON of an object, corrupted by a fault.
pub(super) fn corrupted(object: &[u8], poison: &Poison) -> Encoded {
    let original: Value = serde_json::from_slice(object).unwrap_or_default();
    let raw = |bytes: Bytes| Encoded {
        bytes,
        ..undecodable(&original)
    };
    match poison {
        Poison::Null => raw(Bytes::from_static(&[0xff])),
        // The schema has no place for the extra field.
        Poison::TooDeep(_) => encode(object),
        Poison::Raw(bytes) => raw(bytes.clone()),
        Poison::GarbageAfter(garbage) => {
            raw([encode(object).bytes.as_ref(), garbage.as_ref()].concat().into())
        }
        _ => {
            let corrupted = serde_json::from_slice::<Value>(&poison.corrupt(object));
            let encoded = corrupted.ok().as_ref().and_then(encode_any);
            encoded.unwrap_or_else(|| undecodable(&original))
        }
    }
}

/// Encodes an object whose kind may be unknown: of such an object, the metadata only.
fn encode_any(object: &Value) -> Option<Encoded> {
    let (api_version, kind) = type_of(object);
    if schema::lookup(api_version, kind).is_some() {
        return encode_value(object);
    }
    let metadata = schema::lookup("meta.k8s.io/v1", "PartialObjectMetadata")?;
    Some(Encoded {
        api_version: api_version.into(),
        kind: kind.into(),
        bytes: ser::value_to_message(metadata, object).ok()?.into(),
    })
}

/// One watch frame.
pub(super) fn event(event: &str, type_meta: TypeMeta<'_>, message: &[u8]) -> Bytes {
    to_watch_frame(event, &to_body(type_meta, message)).into()
}

/// The watch frame of a bookmark or a `Status`.
pub(super) fn frame(event: &str, object: &Value) -> Bytes {
    let encoded = encode_any(object).unwrap_or_else(|| undecodable(object));
    self::event(event, encoded.type_meta(), &encoded.bytes)
}
