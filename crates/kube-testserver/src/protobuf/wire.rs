//! The protobuf wire format: a sequence of tagged fields.

use super::ProtobufError;

/// Reads the fields of one message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// The value of a field on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field, `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Token<'a>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number =
            u32::try_from(tag >> 3).map_err(|_| ProtobufError::Malformed("a field number is too large"))?;
        let token = match tag & 7 {
            0 => Token::Varint(self.varint()?),
            1 => Token::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| TOO_SHORT)?;
                Token::Bytes(self.take(length)?)
            }
            5 => Token::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(ProtobufError::Malformed("unknown wire type")),
        };
        Ok(Some((number, token)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(TOO_SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufError> {
        self.take(N)?.try_into().map_err(|_| TOO_SHORT)
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(ProtobufError::Malformed("a varint is too long"))
    }
}

const TOO_SHORT: ProtobufError = ProtobufError::Malformed("it ends in the middle of a field");

impl<'a> Token<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], ProtobufError> {
        match self {
            Token::Bytes(bytes) => Ok(bytes),
            _ => Err(ProtobufError::Malformed(
                "expected a string or message, found a number",
            )),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, ProtobufError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| ProtobufError::Malformed("a string is not UTF-8"))
    }

    /// A signed integer, two's complement on the wire.
    pub(super) fn integer(self) -> Result<i64, ProtobufError> {
        match self {
            Token::Varint(number) => Ok(number.cast_signed()),
            _ => Err(ProtobufError::Malformed("expected a number")),
        }
    }

    pub(super) fn double(self) -> Result<f64, ProtobufError> {
        match self {
            Token::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(ProtobufError::Malformed("expected a number")),
        }
    }
}
