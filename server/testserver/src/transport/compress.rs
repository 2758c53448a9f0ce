//! gzip, as a real server uses it: for large objects and lists, and for watches that start with the existing objects.

use std::io::{self, Write};
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

use super::body::{Chunk, ListBody, next_piece};
use crate::watch::WatchBody;

/// Smaller bodies are not compressed.
pub(crate) const LARGE: usize = 128 * 1024;

/// Whether the client accepts gzip. Weights are not supported: a real server compares the whole token.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.split(',').any(|token| token.trim() == "gzip"))
}

/// A compressed body. Like every body it does nothing unless it is read.
#[derive(Debug)]
pub(super) enum Compressed {
    Stream(Box<Stream>),
    /// A watch. Each chunk is a gzip member of its own, so that clients can read it at once.
    Members(Box<WatchBody>),
}

/// One gzip member.
#[derive(Debug)]
pub(super) struct Stream {
    /// What was encoded to learn the size.
    start: Vec<u8>,
    rest: Rest,
    /// `None` at the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

/// The part of a body that is not encoded yet.
#[derive(Debug)]
pub(super) enum Rest {
    Bytes(Option<Bytes>),
    List(ListBody),
}

impl Compressed {
    pub(super) fn stream(start: Vec<u8>, rest: Rest) -> Compressed {
        Compressed::Stream(Box::new(Stream {
            start,
            rest,
            encoder: Some(encoder()),
        }))
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Chunk> {
        match self {
            Compressed::Stream(stream) => Poll::Ready(stream.next_chunk().transpose()),
            Compressed::Members(watch) => watch
                .poll(cx)
                .map(|chunk| chunk.map(|chunk| chunk.and_then(|chunk| member(&chunk)))),
        }
    }
}

fn encoder() -> GzEncoder<Vec<u8>> {
    // The fastest level, as a real server.
    GzEncoder::new(Vec::new(), Compression::fast())
}

fn member(chunk: &[u8]) -> io::Result<Bytes> {
    let mut encoder = encoder();
    encoder.write_all(chunk)?;
    // Otherwise Go's reader waits for the next member before it returns the end of this one.
    encoder.flush()?;
    Ok(encoder.finish()?.into())
}

impl Stream {
    /// The next compressed bytes; `None` at the end.
    fn next_chunk(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let Some(encoder) = &mut self.encoder else {
                return Ok(None);
            };
            let chunk = if self.start.is_empty() {
                match &mut self.rest {
                    Rest::Bytes(bytes) => next_piece(bytes),
                    Rest::List(list) => list.next_chunk(),
                }
            } else {
                Some(std::mem::take(&mut self.start).into())
            };
            let Some(chunk) = chunk else {
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
