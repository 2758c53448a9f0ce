//! The metadata of an encoded object.

use std::borrow::Cow;

use super::single;
use crate::error::Error;
use crate::wire::{self, LENGTH_DELIMITED};

/// `metadata` of an object.
const METADATA: u32 = 1;
// Fields of meta/v1.ObjectMeta.
const NAME: u32 = 1;
const NAMESPACE: u32 = 3;
const UID: u32 = 5;
const RESOURCE_VERSION: u32 = 6;
const LABELS: u32 = 11;
const ANNOTATIONS: u32 = 12;
const OWNER_REFERENCES: u32 = 13;
const MANAGED_FIELDS: u32 = 17;

/// What identifies an object and its version. Absent fields are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header<'a> {
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.namespace`.
    pub namespace: &'a str,
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `metadata.resourceVersion`.
    pub resource_version: &'a str,
}

/// Reads name, namespace, uid and resource version.
///
/// # Errors
///
/// The bytes are malformed, or one of the fields is not UTF-8.
pub fn header(object: &[u8]) -> Result<Header<'_>, Error> {
    let mut header = Header::default();
    let mut rest = single(object, METADATA)?.unwrap_or_default();
    while let Some(part) = wire::next(&mut rest)? {
        match part.field {
            NAME => header.name = part.text()?,
            NAMESPACE => header.namespace = part.text()?,
            UID => header.uid = part.text()?,
            RESOURCE_VERSION => header.resource_version = part.text()?,
            _ => {}
        }
    }
    Ok(header)
}

/// Reads the header from the first bytes of an object that was cut off, as far as it is there.
pub fn header_of_prefix(prefix: &[u8]) -> Header<'_> {
    let mut header = Header::default();
    let mut rest = prefix;
    while let Some((field, bytes)) = next_of_prefix(&mut rest) {
        if field != METADATA {
            continue;
        }
        let mut metadata = bytes;
        while let Some((field, bytes)) = next_of_prefix(&mut metadata) {
            // A text that reaches the end of the prefix may be cut off itself.
            if metadata.is_empty() && bytes.as_ptr_range().end == prefix.as_ptr_range().end {
                break;
            }
            let Ok(text) = std::str::from_utf8(bytes) else {
                continue;
            };
            match field {
                NAME => header.name = text,
                NAMESPACE => header.namespace = text,
                UID => header.uid = text,
                RESOURCE_VERSION => header.resource_version = text,
                _ => {}
            }
        }
        break;
    }
    header
}

/// The next field; the content ends where the prefix ends.
pub(crate) fn next_of_prefix<'a>(rest: &mut &'a [u8]) -> Option<(u32, &'a [u8])> {
    let mut probe = *rest;
    if let Ok(Some(part)) = wire::next(&mut probe) {
        *rest = probe;
        return Some((part.field, part.bytes));
    }
    let tag = wire::varint(rest).ok()?;
    wire::varint(rest).ok()?;
    let bytes = std::mem::take(rest);
    (tag & 7 == u64::from(LENGTH_DELIMITED)).then_some(((tag >> 3) as u32, bytes))
}

/// The entries of a map of strings.
#[derive(Clone, Debug)]
pub struct Strings<'a> {
    rest: &'a [u8],
    field: u32,
}

impl<'a> Iterator for Strings<'a> {
    type Item = Result<(&'a str, &'a str), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match next_entry(&mut self.rest, self.field) {
            Ok(None) => None,
            Ok(Some(entry)) => Some(Ok(entry)),
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

fn next_entry<'a>(rest: &mut &'a [u8], field: u32) -> Result<Option<(&'a str, &'a str)>, Error> {
    while let Some(part) = wire::next(rest)? {
        if part.field != field {
            continue;
        }
        let (mut key, mut value, mut entry) = ("", "", part.message()?);
        while let Some(part) = wire::next(&mut entry)? {
            match part.field {
                1 => key = part.text()?,
                2 => value = part.text()?,
                _ => {}
            }
        }
        return Ok(Some((key, value)));
    }
    Ok(None)
}

/// The labels, in the order of the wire. If a key occurs twice, the last one counts.
///
/// # Errors
///
/// The bytes are malformed.
pub fn labels(object: &[u8]) -> Result<Strings<'_>, Error> {
    Ok(Strings {
        rest: single(object, METADATA)?.unwrap_or_default(),
        field: LABELS,
    })
}

/// The annotations, in the order of the wire. If a key occurs twice, the last one counts.
///
/// # Errors
///
/// The bytes are malformed.
pub fn annotations(object: &[u8]) -> Result<Strings<'_>, Error> {
    Ok(Strings {
        rest: single(object, METADATA)?.unwrap_or_default(),
        field: ANNOTATIONS,
    })
}

/// An owner of an object. Absent fields are empty or false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    /// `apiVersion`.
    pub api_version: &'a str,
    /// `kind`.
    pub kind: &'a str,
    /// `name`.
    pub name: &'a str,
    /// `uid`.
    pub uid: &'a str,
    /// `controller`.
    pub controller: bool,
    /// `blockOwnerDeletion`.
    pub block_owner_deletion: bool,
}

/// The owners of an object.
#[derive(Clone, Debug)]
pub struct OwnerReferences<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for OwnerReferences<'a> {
    type Item = Result<OwnerReference<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match next_owner(&mut self.rest) {
            Ok(None) => None,
            Ok(Some(owner)) => Some(Ok(owner)),
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

fn next_owner<'a>(rest: &mut &'a [u8]) -> Result<Option<OwnerReference<'a>>, Error> {
    while let Some(part) = wire::next(rest)? {
        if part.field != OWNER_REFERENCES {
            continue;
        }
        let (mut owner, mut fields) = (OwnerReference::default(), part.message()?);
        while let Some(part) = wire::next(&mut fields)? {
            match part.field {
                1 => owner.kind = part.text()?,
                3 => owner.name = part.text()?,
                4 => owner.uid = part.text()?,
                5 => owner.api_version = part.text()?,
                6 => owner.controller = part.number != 0,
                7 => owner.block_owner_deletion = part.number != 0,
                _ => {}
            }
        }
        return Ok(Some(owner));
    }
    Ok(None)
}

/// The owner references.
///
/// # Errors
///
/// The bytes are malformed.
pub fn owner_references(object: &[u8]) -> Result<OwnerReferences<'_>, Error> {
    Ok(OwnerReferences {
        rest: single(object, METADATA)?.unwrap_or_default(),
    })
}

/// The encoded `metadata.managedFields`, each a `meta.v1.ManagedFieldsEntry`.
///
/// # Errors
///
/// The bytes are malformed.
pub fn managed_fields(object: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let (mut entries, mut rest) = (Vec::new(), single(object, METADATA)?.unwrap_or_default());
    while let Some(part) = wire::next(&mut rest)? {
        if part.field == MANAGED_FIELDS {
            entries.push(part.message()?);
        }
    }
    Ok(entries)
}

/// Whether the object has `metadata.managedFields`.
///
/// # Errors
///
/// The bytes are malformed.
pub fn has_managed_fields(object: &[u8]) -> Result<bool, Error> {
    Ok(!managed_fields(object)?.is_empty())
}

/// The object without `metadata.managedFields`. Every other byte stays, as do the `managedFields` of templates and
/// fields the schema does not know. A copy has the exact size.
///
/// # Errors
///
/// The bytes are malformed.
pub fn without_managed_fields(object: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    // The pieces to keep: most objects have one gap at the end of the metadata.
    let Some(metadata) = single(object, METADATA)? else {
        return Ok(Cow::Borrowed(object));
    };
    let (mut cut, mut rest) = (0, metadata);
    while !rest.is_empty() {
        let before = rest.len();
        if wire::part(&mut rest)?.field == MANAGED_FIELDS {
            cut += before - rest.len();
        }
    }
    if cut == 0 {
        return Ok(Cow::Borrowed(object));
    }
    let length = metadata.len() - cut;
    let mut rest = object;
    let (mut head, mut tail) = (0, object.len());
    while !rest.is_empty() {
        let start = object.len() - rest.len();
        if wire::part(&mut rest)?.field == METADATA {
            (head, tail) = (start, object.len() - rest.len());
        }
    }
    let size = head + 1 + wire::varint_len(length as u64) + length + object.len() - tail;
    let mut copy = Vec::with_capacity(size);
    copy.extend_from_slice(&object[..head]);
    wire::put_tag(&mut copy, METADATA, LENGTH_DELIMITED);
    wire::put_varint(&mut copy, length as u64);
    let (mut rest, mut kept_from) = (metadata, 0);
    while !rest.is_empty() {
        let start = metadata.len() - rest.len();
        if wire::part(&mut rest)?.field == MANAGED_FIELDS {
            copy.extend_from_slice(&metadata[kept_from..start]);
            kept_from = metadata.len() - rest.len();
        }
    }
    copy.extend_from_slice(&metadata[kept_from..]);
    copy.extend_from_slice(&object[tail..]);
    Ok(Cow::Owned(copy))
}
