//! Encodes objects as protobuf.

use std::sync::Arc;

use bytes::Bytes;
use kube_protobuf::{TypeMeta, schema, ser};
use serde_json::{Value, json};

/// One object as a protobuf message.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The API version of the object.
    pub api_version: Arc<str>,
    /// Its kind.
    pub kind: Arc<str>,
    /// The message, without the envelope that says its type.
    pub bytes: Bytes,
}

impl Encoded {
    /// The type, as the envelope has it.
    pub fn type_meta(&self) -> TypeMeta<'_> {
        TypeMeta {
            api_version: &self.api_version,
            kind: &self.kind,
        }
    }
}

/// Encodes the JSON of an object.
pub fn encode(object: &[u8]) -> Encoded {
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
pub fn undecodable(object: &Value) -> Encoded {
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

/// Encodes an object whose kind may be unknown: of such an object, the metadata only.
pub fn encode_any(object: &Value) -> Option<Encoded> {
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
