//! The protobuf wire format: a message is a sequence of tagged fields.

use crate::error::Error;

/// Wire type of a varint.
pub const VARINT: u8 = 0;
/// Wire type of eight little-endian bytes.
pub const FIXED64: u8 = 1;
/// Wire type of a length and as many bytes.
pub const LENGTH_DELIMITED: u8 = 2;
/// Wire type of four little-endian bytes.
pub const FIXED32: u8 = 5;

/// Groups are obsolete; unknown ones are skipped up to this depth.
const MAX_GROUP_DEPTH: usize = 16;
/// The largest valid field number.
const MAX_FIELD: u64 = (1 << 29) - 1;

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The field number.
    pub field: u32,
    /// The wire type.
    pub wire: u8,
    /// The number of a varint, or the bits of a fixed-size value. 0 otherwise.
    pub number: u64,
    /// The content of a length-delimited field. Empty otherwise.
    pub bytes: &'a [u8],
}

/// Reads a varint.
///
/// # Errors
///
/// The bytes end within the number, or it has more than 64 bits.
#[inline(always)]
pub fn varint(rest: &mut &[u8]) -> Result<u64, Error> {
    match rest.split_first() {
        Some((&byte, after)) if byte < 0x80 => {
            *rest = after;
            Ok(u64::from(byte))
        }
        _ => long_varint(rest),
    }
}

fn long_varint(rest: &mut &[u8]) -> Result<u64, Error> {
    let mut number = 0_u64;
    for (i, &byte) in rest.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *rest = &rest[i + 1..];
            return Ok(number);
        }
    }
    Err(Error::malformed("a varint is truncated or too long"))
}

#[inline(always)]
fn take<'a>(rest: &mut &'a [u8], length: u64) -> Result<&'a [u8], Error> {
    if length > rest.len() as u64 {
        return Err(Error::malformed("truncated within a field"));
    }
    let (taken, after) = rest.split_at(length as usize);
    *rest = after;
    Ok(taken)
}

/// Reads the next field of a message that has one.
///
/// # Errors
///
/// The field is truncated or its tag is invalid.
#[inline(always)]
pub fn part<'a>(rest: &mut &'a [u8]) -> Result<Part<'a>, Error> {
    let tag = varint(rest)?;
    if tag >> 3 == 0 || tag >> 3 > MAX_FIELD {
        return Err(Error::malformed("invalid field number"));
    }
    let mut part = Part {
        field: (tag >> 3) as u32,
        wire: (tag & 7) as u8,
        number: 0,
        bytes: &[],
    };
    match part.wire {
        LENGTH_DELIMITED => {
            let length = varint(rest)?;
            part.bytes = take(rest, length)?;
        }
        VARINT => part.number = varint(rest)?,
        _ => other(rest, &mut part)?,
    }
    Ok(part)
}

fn other<'a>(rest: &mut &'a [u8], part: &mut Part<'a>) -> Result<(), Error> {
    match part.wire {
        FIXED64 => part.number = take(rest, 8)?.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)),
        FIXED32 => part.number = take(rest, 4)?.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)),
        3 => skip_group(rest)?,
        _ => return Err(Error::malformed("invalid wire type")),
    }
    Ok(())
}

/// Skips to the end of a group, without recursion.
fn skip_group(rest: &mut &[u8]) -> Result<(), Error> {
    let mut depth = 1;
    while depth > 0 {
        match varint(rest)? & 7 {
            0 => drop(varint(rest)?),
            1 => drop(take(rest, 8)?),
            2 => {
                let length = varint(rest)?;
                take(rest, length)?;
            }
            3 if depth < MAX_GROUP_DEPTH => depth += 1,
            4 => depth -= 1,
            5 => drop(take(rest, 4)?),
            _ => return Err(Error::malformed("invalid group")),
        }
    }
    Ok(())
}

/// Reads the next field; `None` at the end of the message.
///
/// # Errors
///
/// The field is truncated or its tag is invalid.
#[inline]
pub fn next<'a>(rest: &mut &'a [u8]) -> Result<Option<Part<'a>>, Error> {
    if rest.is_empty() {
        Ok(None)
    } else {
        part(rest).map(Some)
    }
}

/// Skips the fields that follow with the same number and wire type, and returns how many there are with the first.
#[inline]
pub(crate) fn run(rest: &mut &[u8], field: u32, wire: u8) -> Result<u64, Error> {
    let tag = u64::from(field) << 3 | u64::from(wire);
    let mut count = 1;
    loop {
        let mut probe = *rest;
        if probe.is_empty() || varint(&mut probe)? != tag {
            return Ok(count);
        }
        part(rest)?;
        count += 1;
    }
}

impl<'a> Part<'a> {
    /// The content of a length-delimited field, as UTF-8.
    ///
    /// # Errors
    ///
    /// It has another wire type, or it is not UTF-8.
    pub fn text(&self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.message()?).map_err(|_| Error::malformed("a string is not UTF-8"))
    }

    /// The content of a length-delimited field.
    ///
    /// # Errors
    ///
    /// It has another wire type.
    pub fn message(&self) -> Result<&'a [u8], Error> {
        if self.wire == LENGTH_DELIMITED {
            Ok(self.bytes)
        } else {
            Err(Error::wire_type("a length-delimited field"))
        }
    }
}

/// Appends a varint.
pub fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends the tag of a field.
pub fn put_tag(out: &mut Vec<u8>, field: u32, wire: u8) {
    put_varint(out, u64::from(field) << 3 | u64::from(wire));
}

/// Appends a length-delimited field.
pub fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_tag(out, field, LENGTH_DELIMITED);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The number of bytes of a varint.
pub fn varint_len(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a length-delimited field whose content `write` appends.
pub(crate) fn put_nested<E>(
    out: &mut Vec<u8>,
    field: u32,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    put_tag(out, field, LENGTH_DELIMITED);
    let at = out.len();
    out.push(0);
    write(out)?;
    let length = out.len() - at - 1;
    let extra = varint_len(length as u64) - 1;
    if extra > 0 {
        out.resize(out.len() + extra, 0);
        out.copy_within(at + 1..at + 1 + length, at + 1 + extra);
    }
    let mut rest = length as u64;
    for byte in &mut out[at..at + extra] {
        *byte = rest as u8 | 0x80;
        rest >>= 7;
    }
    out[at + extra] = rest as u8;
    Ok(())
}

/// The bytes of field 1 of a message; the last if there are several.
pub(crate) fn first(mut rest: &[u8]) -> Result<Option<&[u8]>, Error> {
    let mut found = None;
    while let Some(part) = next(&mut rest)? {
        if part.field == 1 {
            found = Some(part.message()?);
        }
    }
    Ok(found)
}
