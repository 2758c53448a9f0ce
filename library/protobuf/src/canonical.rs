//! The form in which Go writes a message.

use std::borrow::Cow;

use crate::cbor;
use crate::error::{Error, Problem};
use crate::schema::{FieldSchema, Kind, Message, Shape};
use crate::wire::{self, FIXED64, LENGTH_DELIMITED, Part, VARINT};

/// The message in the form in which Go writes it: fields ascend by number, occurrences of a single message are merged,
/// of other single fields the last one stays, packed numbers are unpacked, and embedded CBOR becomes JSON. Unknown fields
/// stay.
///
/// Borrowed if the message is in that form already.
///
/// # Errors
///
/// The bytes are malformed or nested too deeply.
pub fn canonical<'a>(message: &'static Message, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, Error> {
    let copy = canonical_bytes(message, bytes, 128)?;
    Ok(if copy == bytes {
        Cow::Borrowed(bytes)
    } else {
        Cow::Owned(copy)
    })
}

pub(crate) fn canonical_bytes(message: &'static Message, bytes: &[u8], depth: u8) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(bytes.len());
    put_message(&mut out, message, bytes, depth)?;
    Ok(out)
}

fn put_message(out: &mut Vec<u8>, message: &'static Message, bytes: &[u8], depth: u8) -> Result<(), Error> {
    let depth = depth.checked_sub(1).ok_or_else(|| Error::new(Problem::TooDeep))?;
    let (mut rest, mut fields) = (bytes, Vec::new());
    while !rest.is_empty() {
        let start = rest;
        let part = wire::part(&mut rest)?;
        fields.push((part, &start[..start.len() - rest.len()]));
    }
    fields.sort_by_key(|(part, _)| part.field);
    for same in fields.chunk_by(|(a, _), (b, _)| a.field == b.field) {
        match message.field(same[0].0.field) {
            Some(field) => put_field(out, field, same, depth)?,
            None => same.iter().for_each(|(_, bytes)| out.extend_from_slice(bytes)),
        }
    }
    Ok(())
}

/// Writes all occurrences of one field.
fn put_field(
    out: &mut Vec<u8>,
    field: &'static FieldSchema,
    same: &[(Part<'_>, &[u8])],
    depth: u8,
) -> Result<(), Error> {
    let number = same[0].0.field;
    match field.shape() {
        Shape::Single | Shape::Embedded => match field.message() {
            Some(inner) if same.len() > 1 => {
                let mut all = Vec::new();
                for (part, _) in same {
                    all.extend_from_slice(part.message()?);
                }
                wire::put_nested(out, number, |out| put_message(out, inner, &all, depth))?;
            }
            Some(inner) => {
                let content = same[0].0.message()?;
                wire::put_nested(out, number, |out| put_message(out, inner, content, depth))?;
            }
            // Messages of a few fields, merged by Go as well.
            None if same.len() > 1 && merges(field.kind()) => {
                let mut all = Vec::new();
                for (part, _) in same {
                    all.extend_from_slice(part.message()?);
                }
                let with_json = with_json(field, &all, depth)?;
                wire::put_bytes(out, number, with_json.as_ref().unwrap_or(&all));
            }
            None => put_last(out, field, same[same.len() - 1], depth)?,
        },
        Shape::List if field.is_numeric() => {
            for (part, bytes) in same {
                match part.wire {
                    LENGTH_DELIMITED => unpack(out, field, part)?,
                    _ => out.extend_from_slice(bytes),
                }
            }
        }
        Shape::List => {
            for (part, bytes) in same {
                match field.message() {
                    Some(inner) => {
                        let content = part.message()?;
                        wire::put_nested(out, number, |out| put_message(out, inner, content, depth))?;
                    }
                    None => put_last(out, field, (*part, bytes), depth)?,
                }
            }
        }
        Shape::Map => {
            for (part, _) in same {
                let entry = part.message()?;
                wire::put_nested(out, number, |out| put_entry(out, field, entry, depth))?;
            }
        }
        Shape::None => {}
    }
    Ok(())
}

/// Whether a second occurrence adds to the first instead of replacing it.
fn merges(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Quantity
            | Kind::IntOrString
            | Kind::Duration
            | Kind::RawExtension
            | Kind::FieldsV1
            | Kind::Json
            | Kind::Strings
    )
}

/// Of an entry, Go uses the last key and the last value.
fn put_entry(out: &mut Vec<u8>, field: &'static FieldSchema, entry: &[u8], depth: u8) -> Result<(), Error> {
    let (mut key, mut value, mut rest) = (None, None, entry);
    while !rest.is_empty() {
        let start = rest;
        let part = wire::part(&mut rest)?;
        let bytes = &start[..start.len() - rest.len()];
        match part.field {
            1 => key = Some(bytes),
            2 => value = Some((part, bytes)),
            _ => {}
        }
    }
    out.extend_from_slice(key.unwrap_or_default());
    match (value, field.message()) {
        (Some((part, _)), Some(inner)) => {
            let content = part.message()?;
            wire::put_nested(out, 2, |out| put_message(out, inner, content, depth))?;
        }
        (Some(value), None) => put_last(out, field, value, depth)?,
        (None, _) => {}
    }
    Ok(())
}

/// Writes the occurrence of a field that counts.
fn put_last(
    out: &mut Vec<u8>,
    field: &'static FieldSchema,
    (part, bytes): (Part<'_>, &[u8]),
    depth: u8,
) -> Result<(), Error> {
    match with_json(field, part.bytes, depth)? {
        Some(message) => wire::put_bytes(out, part.field, &message),
        None => out.extend_from_slice(bytes),
    }
    Ok(())
}

/// A message around CBOR as one around JSON, which is all that a deserializer reads.
fn with_json(field: &'static FieldSchema, message: &[u8], depth: u8) -> Result<Option<Vec<u8>>, Error> {
    if !matches!(field.kind(), Kind::RawExtension | Kind::FieldsV1 | Kind::Json) {
        return Ok(None);
    }
    let Some(embedded) = wire::first(message)?.filter(|embedded| cbor::is_cbor(embedded)) else {
        return Ok(None);
    };
    let mut with_json = Vec::new();
    let json = cbor::to_value(embedded, depth)?.to_string();
    wire::put_bytes(&mut with_json, 1, json.as_bytes());
    Ok(Some(with_json))
}

fn unpack(out: &mut Vec<u8>, field: &'static FieldSchema, part: &Part<'_>) -> Result<(), Error> {
    let mut packed = part.bytes;
    while !packed.is_empty() {
        if field.kind() == Kind::Double {
            let Some((bits, rest)) = packed.split_at_checked(8) else {
                return Err(Error::malformed("truncated within a packed field"));
            };
            wire::put_tag(out, part.field, FIXED64);
            out.extend_from_slice(bits);
            packed = rest;
        } else {
            wire::put_tag(out, part.field, VARINT);
            wire::put_varint(out, wire::varint(&mut packed)?);
        }
    }
    Ok(())
}
