//! What stands before and after an encoded object: the magic, its type, and the empty content type.

use crate::{TypeMeta, wire};

/// What every body starts with.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// Encodes an object of an encoded message: the magic, the type and the bytes, as the API server does.
pub fn to_body(type_meta: TypeMeta<'_>, raw: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(raw.len() + type_meta.api_version.len() + type_meta.kind.len() + 32);
    write_head(&mut body, type_meta);
    wire::put_bytes(&mut body, 2, raw);
    body.extend_from_slice(&TAIL);
    body
}

/// The empty content encoding and content type that Go writes.
pub(crate) const TAIL: [u8; 4] = [0x1a, 0, 0x22, 0];

pub(crate) fn write_head(body: &mut Vec<u8>, type_meta: TypeMeta<'_>) {
    body.extend_from_slice(&MAGIC);
    let mut types = Vec::with_capacity(64);
    wire::put_bytes(&mut types, 1, type_meta.api_version.as_bytes());
    wire::put_bytes(&mut types, 2, type_meta.kind.as_bytes());
    wire::put_bytes(body, 1, &types);
}
