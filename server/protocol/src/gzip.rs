//! gzip, as a real server uses it: for large objects and lists, and for watches that start with the existing objects.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// Smaller bodies are not compressed.
pub const LARGE: usize = 128 * 1024;

/// Whether the client accepts gzip. Weights are not supported: a real server compares the whole token.
pub fn is_accepted(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.split(',').any(|token| token.trim() == "gzip"))
}

fn encoder() -> GzEncoder<Vec<u8>> {
    // The fastest level, as a real server.
    GzEncoder::new(Vec::new(), Compression::fast())
}

/// A chunk of a watch as a gzip member of its own, so that clients can read it at once.
///
/// # Errors
///
/// None in practice: it writes to memory.
pub fn member(chunk: &[u8]) -> io::Result<Bytes> {
    let mut encoder = encoder();
    encoder.write_all(chunk)?;
    // Otherwise Go's reader waits for the next member before it returns the end of this one.
    encoder.flush()?;
    Ok(encoder.finish()?.into())
}

/// Compresses a body chunk by chunk, as one gzip member.
#[derive(Debug)]
pub struct Stream {
    /// `None` at the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Default for Stream {
    fn default() -> Stream {
        Stream {
            encoder: Some(encoder()),
        }
    }
}

impl Stream {
    /// The next compressed bytes; `None` at the end. `next` returns the next bytes of the body.
    ///
    /// # Errors
    ///
    /// None in practice: it writes to memory.
    pub fn next_chunk(&mut self, mut next: impl FnMut() -> Option<Bytes>) -> io::Result<Option<Bytes>> {
        loop {
            let Some(encoder) = &mut self.encoder else {
                return Ok(None);
            };
            let Some(chunk) = next() else {
                let last = self.encoder.take().map(GzEncoder::finish).transpose()?;
                return Ok(last.map(Bytes::from));
            };
            encoder.write_all(&chunk)?;
            let written = std::mem::take(encoder.get_mut());
            if !written.is_empty() {
                return Ok(Some(written.into()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_accepted_as_a_whole_token() {
        let accepted = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            is_accepted(&headers)
        };

        assert!(accepted("gzip"));
        assert!(accepted("deflate, gzip"));
        assert!(!accepted("gzip;q=0.5"));
        assert!(!accepted("identity"));
        assert!(!is_accepted(&HeaderMap::new()));
    }
}
