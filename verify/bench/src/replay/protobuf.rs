//! The part of the protobuf wire format needed to read and modify encoded objects and watch frames. Uses the field
//! numbers of Kubernetes' types.

use bytes::Bytes;

/// The prefix of every protobuf object of Kubernetes; a message of type `Unknown` follows.
pub const MAGIC: &[u8] = b"k8s\0";

fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length-delimited field: a string, bytes or a message.
pub fn put(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    put_head(out, field, value.len());
    out.extend_from_slice(value);
}

/// Appends the head of such a field.
pub fn put_head(out: &mut Vec<u8>, field: u64, length: usize) {
    put_varint(out, field << 3 | 2);
    put_varint(out, length as u64);
}

/// Appends a number.
pub fn put_number(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3);
    put_varint(out, value);
}

/// The field at `at`: its number, the range of its value if it is length-delimited, and the start of the next one.
fn next_field(message: &[u8], at: usize) -> Option<(u64, Option<std::ops::Range<usize>>, usize)> {
    let (tag, size) = varint(message.get(at..)?)?;
    let value = at + size;
    Some(match tag & 7 {
        0 => (tag >> 3, None, value + varint(message.get(value..)?)?.1),
        1 => (tag >> 3, None, value + 8),
        2 => {
            let (length, size) = varint(message.get(value..)?)?;
            let start = value + size;
            let end = start.checked_add(usize::try_from(length).ok()?)?;
            message.get(start..end)?;
            (tag >> 3, Some(start..end), end)
        }
        5 => (tag >> 3, None, value + 4),
        _ => return None,
    })
}

/// The value of the first field with this number, if it is length-delimited.
pub fn get(message: &[u8], field: u64) -> Option<&[u8]> {
    let mut at = 0;
    while at < message.len() {
        let (number, range, end) = next_field(message, at)?;
        if number == field
            && let Some(range) = range
        {
            return message.get(range);
        }
        at = end;
    }
    None
}

/// The message with the value at the path replaced, and all enclosing lengths corrected.
pub fn replace(message: &[u8], path: &[u64], new: &[u8]) -> Option<Vec<u8>> {
    let (field, rest) = path.split_first()?;
    let mut at = 0;
    while at < message.len() {
        let (number, range, end) = next_field(message, at)?;
        if number == *field
            && let Some(range) = range
        {
            let old = message.get(range)?;
            let value = if rest.is_empty() {
                new.to_vec()
            } else {
                replace(old, rest, new)?
            };
            let mut out = Vec::with_capacity(message.len() + new.len());
            out.extend_from_slice(message.get(..at)?);
            put(&mut out, *field, &value);
            out.extend_from_slice(message.get(end..)?);
            return Some(out);
        }
        at = end;
    }
    None
}

/// Splits the first frame off a watch stream: four bytes of length, then the event. Returns type and object.
pub fn split_frame(stream: &[u8]) -> Option<(String, Bytes, usize)> {
    let length = u32::from_be_bytes(stream.get(..4)?.try_into().ok()?) as usize;
    let event = stream.get(4..4 + length)?;
    let kind = String::from_utf8(get(event, 1)?.to_vec()).ok()?;
    let object = Bytes::copy_from_slice(get(get(event, 2)?, 1)?);
    Some((kind, object, 4 + length))
}

/// The bytes before an object of this length in a watch stream.
pub fn frame_head(kind: &str, object: usize) -> Vec<u8> {
    let mut extension = Vec::new();
    put_head(&mut extension, 1, object);
    let mut event = Vec::new();
    put(&mut event, 1, kind.as_bytes());
    put_head(&mut event, 2, extension.len() + object);
    let length = event.len() + extension.len() + object;
    let mut head = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    head.extend_from_slice(&event);
    head.extend_from_slice(&extension);
    head
}

/// The metadata of an object with its prefix, as a `PartialObjectMetadata`.
pub fn metadata_only(object: &[u8]) -> Option<Vec<u8>> {
    // Unknown.raw, and the metadata of any kind.
    let metadata = get(get(object.strip_prefix(MAGIC)?, 2)?, 1)?;
    let mut partial = Vec::with_capacity(metadata.len() + 8);
    put(&mut partial, 1, metadata);
    Some(unknown("meta.k8s.io/v1", "PartialObjectMetadata", &partial))
}

fn unknown(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    put(&mut type_meta, 1, api_version.as_bytes());
    put(&mut type_meta, 2, kind.as_bytes());
    let mut unknown = MAGIC.to_vec();
    put(&mut unknown, 1, &type_meta);
    put(&mut unknown, 2, message);
    unknown
}

/// The `Status` for a version that is too old.
pub fn expired() -> Vec<u8> {
    let mut status = Vec::new();
    put(&mut status, 2, b"Failure");
    put(&mut status, 3, b"too old resource version");
    put(&mut status, 4, b"Expired");
    put_number(&mut status, 6, 410);
    unknown("v1", "Status", &status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Vec<u8> {
        let mut inner = Vec::new();
        put_number(&mut inner, 2, 300);
        put(&mut inner, 6, b"12");
        put(&mut inner, 7, &[0; 200]);
        let mut outer = Vec::new();
        put(&mut outer, 1, &inner);
        put(&mut outer, 3, b"after");
        outer
    }

    #[test]
    fn nested_value_can_be_replaced_by_a_longer_one() {
        let changed = replace(&message(), &[1, 6], b"1234567890").unwrap();

        let inner = get(&changed, 1).unwrap();
        assert_eq!(get(inner, 6), Some(&b"1234567890"[..]));
        assert_eq!(get(inner, 7).map(<[u8]>::len), Some(200));
        assert_eq!(get(&changed, 3), Some(&b"after"[..]));
        assert_eq!(replace(&message(), &[1, 9], b"x"), None);
    }

    #[test]
    fn frames_round_trip() {
        let object = message();
        let mut stream = frame_head("MODIFIED", object.len());
        stream.extend_from_slice(&object);
        let length = stream.len();
        stream.extend_from_slice(b"more");

        let (kind, read, consumed) = split_frame(&stream).unwrap();

        assert_eq!(
            (kind.as_str(), &read[..], consumed),
            ("MODIFIED", &object[..], length)
        );
        assert_eq!(split_frame(&stream[..length - 1]), None);
    }

    #[test]
    fn truncated_messages_are_rejected_without_a_panic() {
        let message = message();
        for end in 1..message.len() {
            let _ = get(&message[..end], 9);
            let _ = replace(&message[..end], &[1, 7], b"x");
        }
        assert_eq!(get(&[0xFF; 12], 1), None);
    }
}
