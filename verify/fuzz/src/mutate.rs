//! Mutations of bytes. Some know JSON and protobuf well enough to produce inputs that are wrong in one place only.

use fastrand::Rng;

/// The longest input.
pub const MAX_LENGTH: usize = 16 * 1024;

const BYTES: &[u8] = &[
    0, 1, 7, 8, 0x0a, 0x12, 0x1a, 0x22, 0x7f, 0x80, 0xc0, 0xff, b'"', b'\\', b'{', b'}', b'[', b']', b',',
    b':',
];

const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-1",
    "1e400",
    "0.1",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775809",
    "18446744073709551616",
    "00",
    "1.",
    "NaN",
];

/// Varints that promise more than there is, and one that never ends.
const VARINTS: &[&[u8]] = &[
    &[0],
    &[0x7f],
    &[0x80, 0x01],
    &[0xff, 0xff, 0x03],
    &[0xff, 0xff, 0xff, 0xff, 0x07],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
];

/// Applies one to eight mutations.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], words: &[&str], rng: &mut Rng) {
    for _ in 0..1 << rng.u32(0..4) {
        once(input, other, words, rng);
        input.truncate(MAX_LENGTH);
    }
}

fn once(input: &mut Vec<u8>, other: &[u8], words: &[&str], rng: &mut Rng) {
    let at = rng.usize(0..=input.len());
    match rng.u32(0..14) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << rng.u32(0..8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = *choose(BYTES, rng);
            }
        }
        2 => input.insert(at, *choose(BYTES, rng)),
        3 => drop(input.drain(range(input.len(), at, rng))),
        4 => {
            let copy = input[range(input.len(), at, rng)].to_vec();
            insert(input, rng.usize(0..=input.len()), &copy);
        }
        5 => {
            let part = &other[range(other.len(), rng.usize(0..=other.len()), rng)];
            insert(input, at, part);
        }
        // The beginning of one and the end of the other.
        6 => {
            input.truncate(at);
            input.extend_from_slice(&other[rng.usize(0..=other.len())..]);
        }
        7 => input.truncate(at),
        8 => {
            if !words.is_empty() {
                insert(input, at, choose(words, rng).as_bytes());
            }
        }
        9 => replace_number(input, at, rng),
        10 => {
            let end = input.len().min(at + rng.usize(0..3));
            drop(input.splice(at..end, choose(VARINTS, rng).iter().copied()));
        }
        11 => replace_string(input, at, words, rng),
        12 => nest(input, at, rng),
        _ => {
            let from = range(input.len(), at, rng);
            let copy = input[from.clone()].to_vec();
            drop(input.drain(from));
            insert(input, rng.usize(0..=input.len()), &copy);
        }
    }
}

fn choose<'a, T>(list: &'a [T], rng: &mut Rng) -> &'a T {
    &list[rng.usize(0..list.len())]
}

fn range(length: usize, at: usize, rng: &mut Rng) -> std::ops::Range<usize> {
    at..length.min(at + rng.usize(0..=64.min(length - at)))
}

fn insert(input: &mut Vec<u8>, at: usize, part: &[u8]) {
    drop(input.splice(at..at, part.iter().copied()));
}

/// Replaces the next decimal number.
fn replace_number(input: &mut Vec<u8>, at: usize, rng: &mut Rng) {
    let Some(start) = input[at..]
        .iter()
        .position(u8::is_ascii_digit)
        .map(|start| at + start)
    else {
        return;
    };
    let length = input[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    drop(input.splice(start..start + length, choose(NUMBERS, rng).bytes()));
}

/// Replaces the contents of the next JSON string.
fn replace_string(input: &mut Vec<u8>, at: usize, words: &[&str], rng: &mut Rng) {
    let mut quotes = input[at..]
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'"')
        .map(|(quote, _)| at + quote);
    let (Some(start), Some(end)) = (quotes.next(), quotes.next()) else {
        return;
    };
    let text = if words.is_empty() || rng.bool() {
        "\\ud800"
    } else {
        choose(words, rng)
    };
    drop(input.splice(start + 1..end, text.bytes()));
}

/// Deep nesting, of JSON or of protobuf messages.
fn nest(input: &mut Vec<u8>, at: usize, rng: &mut Rng) {
    let depth = 1 << rng.usize(1..11);
    let nested: Vec<u8> = match rng.u32(0..3) {
        0 => b"[".repeat(depth),
        1 => b"{\"a\":".repeat(depth),
        _ => {
            let mut message = Vec::new();
            let field = *choose(&[0x0a, 0x12, 0x1a, 0x22, 0x2a], rng);
            for _ in 0..depth.min(64) {
                let mut outer = vec![field];
                outer.push((message.len() & 0x7f) as u8 | if message.len() > 0x7f { 0x80 } else { 0 });
                if message.len() > 0x7f {
                    outer.push((message.len() >> 7) as u8);
                }
                outer.extend_from_slice(&message);
                message = outer;
            }
            message
        }
    };
    insert(input, at, &nested);
}
