//! Decodes one object from bytes that are kept.

use std::borrow::Cow;

use kube_protobuf::schema::Message;
use serde::de::DeserializeOwned;

use super::format::{DecodeOptions, RawObject, Schema, Skim, Text};
use super::{Expected, json, protobuf};

/// The encoded bytes of one object, and what is needed to decode them.
#[derive(Clone, Copy)]
pub(crate) struct Encoded<'a> {
    pub(crate) bytes: &'a [u8],
    /// The schema, if the bytes are protobuf.
    pub(crate) message: Option<&'static Message>,
    pub(crate) expected: &'a Expected,
}

/// Decodes an object as any type. The error names the path and the expected type, and no value.
pub(crate) fn decode<T: DeserializeOwned + 'static>(encoded: Encoded<'_>) -> Result<T, String> {
    let expected = encoded.expected;
    let raw = RawObject {
        bytes: encoded.bytes,
        skim: Skim {
            api_version: Text::Value(Cow::Borrowed(&expected.api_version)),
            kind: Text::Value(Cow::Borrowed(&expected.kind)),
            ..Skim::default()
        },
        size: encoded.bytes.len(),
        too_large: false,
        schema: encoded.message.map(|message| Schema {
            message,
            type_in_json: true,
        }),
    };
    let options = DecodeOptions {
        expected,
        drop_managed_fields: false,
        max_object_size: encoded.bytes.len(),
        scratch: &mut Vec::new(),
    };
    match encoded.message {
        Some(_) => protobuf::decode_function::<T>()(&raw, options),
        None => json::decode_function::<T>()(&raw, options),
    }
}
