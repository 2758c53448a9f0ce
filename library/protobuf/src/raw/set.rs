//! Replacing one field of an encoded object.

use serde_json::Value;

use super::path::Path;
use super::single;
use crate::canonical::canonical_bytes;
use crate::error::Error;
use crate::schema::FieldSchema;
use crate::ser::{MAX_DEPTH, put_field};
use crate::wire;

/// The object with another value in a field; `None` removes the field. Every other field stays, also those that the
/// schema does not know.
///
/// The path leads through single messages: `data`, `spec.replicas` or `metadata.annotations`, but not into a list or map.
/// Lists and maps are replaced as a whole.
///
/// # Errors
///
/// The path leads into a list, a map or embedded JSON, the value is not of the type the schema has, or the bytes are
/// malformed.
pub fn set(path: &Path, object: &[u8], value: Option<&Value>) -> Result<Vec<u8>, Error> {
    let Some((numbers, field)) = path.fields() else {
        return Err(Error::mismatch(
            "only whole fields can be replaced, not elements of lists or maps",
        ));
    };
    let canonical = canonical_bytes(path.message(), object, MAX_DEPTH)?;
    let mut out = Vec::with_capacity(object.len());
    put(&mut out, &canonical, &numbers, field, value)?;
    Ok(out)
}

fn put(
    out: &mut Vec<u8>,
    message: &[u8],
    numbers: &[u32],
    field: &'static FieldSchema,
    value: Option<&Value>,
) -> Result<(), Error> {
    let Some((&number, inner)) = numbers.split_first() else {
        return Ok(());
    };
    let replacement = |out: &mut Vec<u8>| -> Result<(), Error> {
        if inner.is_empty() {
            return match value {
                Some(value) => put_field(out, number, field, value, MAX_DEPTH),
                None => Ok(()),
            };
        }
        match (single(message, number)?, value) {
            (None, None) => Ok(()),
            (content, _) => wire::put_nested(out, number, |out| {
                put(out, content.unwrap_or_default(), inner, field, value)
            }),
        }
    };
    let (mut rest, mut is_written) = (message, false);
    while !rest.is_empty() {
        let start = rest;
        let part = wire::part(&mut rest)?;
        if part.field >= number && !is_written {
            is_written = true;
            replacement(out)?;
        }
        if part.field != number {
            out.extend_from_slice(&start[..start.len() - rest.len()]);
        }
    }
    match is_written {
        true => Ok(()),
        false => replacement(out),
    }
}
