//! An object that a fault corrupts in JSON is corrupted in the same way in protobuf.

use bytes::Bytes;
use kube_api_protocol::protobuf::{Encoded, encode, encode_any, undecodable};
use serde_json::Value;

use crate::fault::Poison;

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
