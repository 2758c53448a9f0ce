//! CBOR inside `RawExtension` and `FieldsV1`, as Go turns it into JSON.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Number, Value};

use crate::error::{Error, Problem};
use crate::text;

/// Whether embedded bytes are CBOR: JSON never starts with such a byte.
pub(crate) fn is_cbor(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|&byte| byte >= 0x80)
}

/// Whether embedded bytes are a CBOR null.
pub(crate) fn is_null(bytes: &[u8]) -> bool {
    bytes == [0xf6] || bytes == [0xd9, 0xd9, 0xf7, 0xf6]
}

/// Decodes one CBOR item that is all of the bytes.
pub(crate) fn to_value(bytes: &[u8], max_depth: u8) -> Result<Value, Error> {
    let mut reader = Reader { rest: bytes };
    let value = reader.value(max_depth, None)?;
    if reader.rest.is_empty() {
        Ok(value)
    } else {
        Err(malformed())
    }
}

#[cold]
fn malformed() -> Error {
    Error::malformed("the embedded CBOR is invalid")
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, Error> {
        let (&byte, rest) = self.rest.split_first().ok_or_else(malformed)?;
        self.rest = rest;
        Ok(byte)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        if length > self.rest.len() as u64 {
            return Err(malformed());
        }
        let (taken, rest) = self.rest.split_at(length as usize);
        self.rest = rest;
        Ok(taken)
    }

    /// The argument of a head; `None` for an indefinite length.
    fn argument(&mut self, info: u8) -> Result<Option<u64>, Error> {
        let length = match info {
            0..=23 => return Ok(Some(u64::from(info))),
            24..=27 => 1 << (info - 24),
            31 => return Ok(None),
            _ => return Err(malformed()),
        };
        Ok(Some(
            self.take(length)?
                .iter()
                .fold(0, |n, &byte| n << 8 | u64::from(byte)),
        ))
    }

    /// Whether another element follows; takes the end of an indefinite length.
    fn more(&mut self, left: &mut Option<u64>) -> Result<bool, Error> {
        match left {
            Some(0) => Ok(false),
            Some(n) => {
                *n -= 1;
                Ok(true)
            }
            None if self.rest.first() == Some(&0xff) => self.byte().map(|_| false),
            None => Ok(true),
        }
    }

    fn value(&mut self, depth: u8, tag: Option<u64>) -> Result<Value, Error> {
        let depth = depth.checked_sub(1).ok_or_else(|| Error::new(Problem::TooDeep))?;
        let head = self.byte()?;
        let info = head & 31;
        if head >> 5 == 7 {
            return self.simple(info);
        }
        let mut argument = self.argument(info)?;
        match (head >> 5, argument) {
            (0, Some(number)) => i64::try_from(number).map(Value::from).map_err(|_| malformed()),
            (1, Some(number)) => i64::try_from(number)
                .map(|n| Value::from(-1 - n))
                .map_err(|_| malformed()),
            (kind @ (2 | 3), length) => {
                let bytes = self.string(kind, length)?;
                Ok(Value::String(match (kind, tag) {
                    (3, _) => String::from_utf8(bytes).map_err(|_| malformed())?,
                    (_, Some(21)) => URL_SAFE_NO_PAD.encode(&bytes),
                    (_, Some(22)) => STANDARD.encode(&bytes),
                    (_, Some(23)) => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
                    _ => text::lossy(&bytes),
                }))
            }
            (4, _) => {
                let mut items = Vec::new();
                while self.more(&mut argument)? {
                    items.push(self.value(depth, tag)?);
                }
                Ok(Value::Array(items))
            }
            (5, _) => {
                let mut entries = Map::new();
                while self.more(&mut argument)? {
                    let Value::String(key) = self.value(depth, None)? else {
                        return Err(malformed());
                    };
                    if entries.insert(key, self.value(depth, tag)?).is_some() {
                        return Err(malformed());
                    }
                }
                Ok(Value::Object(entries))
            }
            (6, Some(tag)) => self.value(depth, Some(tag)),
            _ => Err(malformed()),
        }
    }

    /// A string of a known length, or in chunks.
    fn string(&mut self, kind: u8, length: Option<u64>) -> Result<Vec<u8>, Error> {
        if let Some(length) = length {
            return Ok(self.take(length)?.to_vec());
        }
        let mut bytes = Vec::new();
        loop {
            let head = self.byte()?;
            if head == 0xff {
                return Ok(bytes);
            }
            let length = self
                .argument(head & 31)?
                .filter(|_| head >> 5 == kind)
                .ok_or_else(malformed)?;
            bytes.extend_from_slice(self.take(length)?);
        }
    }

    fn simple(&mut self, info: u8) -> Result<Value, Error> {
        let double = match info {
            20 => return Ok(Value::Bool(false)),
            21 => return Ok(Value::Bool(true)),
            22 => return Ok(Value::Null),
            25 => half(self.take(2)?),
            26 => f64::from(f32::from_bits(
                self.take(4)?.iter().fold(0, |n, &b| n << 8 | u32::from(b)),
            )),
            27 => f64::from_bits(self.take(8)?.iter().fold(0, |n, &b| n << 8 | u64::from(b))),
            _ => return Err(malformed()),
        };
        // Go prints whole numbers without a point.
        if double.fract() == 0.0 && double.abs() < 9e15 {
            return Ok(Value::from(double as i64));
        }
        Number::from_f64(double).map(Value::Number).ok_or_else(malformed)
    }
}

fn half(bytes: &[u8]) -> f64 {
    let bits = bytes.iter().fold(0_u16, |n, &b| n << 8 | u16::from(b));
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => mantissa * 2_f64.powi(-24),
        31 => f64::INFINITY,
        _ => (mantissa + 1024.0) * 2_f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}
