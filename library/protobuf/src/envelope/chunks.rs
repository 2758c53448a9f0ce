//! Bytes that arrived and were not consumed yet.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::Error;

/// Chunks in a row. What lies within one chunk is returned without a copy.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// Non-empty.
    chunks: std::collections::VecDeque<Bytes>,
    len: usize,
    /// What was collected of a piece that is larger than what has arrived.
    partial: BytesMut,
}

impl Chunks {
    pub(super) fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.len += chunk.len();
            self.chunks.push_back(chunk);
        }
    }

    /// Whether everything was consumed.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0 && self.partial.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The next byte `at` positions ahead.
    fn peek(&self, mut at: usize) -> Option<u8> {
        for chunk in &self.chunks {
            if let Some(&byte) = chunk.get(at) {
                return Some(byte);
            }
            at -= chunk.len();
        }
        None
    }

    /// A varint and its length, without consuming it; `None` if it is not complete.
    pub(super) fn peek_varint(&self, from: usize) -> Result<Option<(u64, usize)>, Error> {
        let mut number = 0_u64;
        for i in 0..10 {
            let Some(byte) = self.peek(from + i) else {
                return Ok(None);
            };
            number |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                return Ok(Some((number, i + 1)));
            }
        }
        Err(Error::malformed("a varint is too long"))
    }

    /// Consumes up to `length` bytes and returns how many.
    pub(super) fn skip(&mut self, length: u64) -> u64 {
        let mut left = length;
        while left > 0
            && let Some(chunk) = self.chunks.front_mut()
        {
            let step = (chunk.len() as u64).min(left) as usize;
            chunk.advance(step);
            if chunk.is_empty() {
                self.chunks.pop_front();
            }
            self.len -= step;
            left -= step as u64;
        }
        length - left
    }

    /// Consumes `length` bytes as one piece; `None` until all of them have arrived. Bytes that arrived are moved out of
    /// their chunks at once, so that a chunk is not kept for the sake of a few bytes.
    pub(super) fn take(&mut self, length: usize) -> Option<Bytes> {
        if self.partial.is_empty()
            && let Some(chunk) = self.chunks.front_mut()
            && chunk.len() >= length
        {
            let piece = chunk.split_to(length);
            if chunk.is_empty() {
                self.chunks.pop_front();
            }
            self.len -= length;
            return Some(piece);
        }
        if length == 0 {
            return Some(Bytes::new());
        }
        if self.partial.is_empty() && self.len > 0 {
            self.partial.reserve(length);
        }
        while self.partial.len() < length {
            let chunk = self.chunks.front_mut()?;
            let step = chunk.len().min(length - self.partial.len());
            self.partial.extend_from_slice(&chunk.split_to(step));
            if chunk.is_empty() {
                self.chunks.pop_front();
            }
            self.len -= step;
        }
        Some(std::mem::take(&mut self.partial).freeze())
    }
}
