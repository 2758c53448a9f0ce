//! Decompresses a response body while it arrives.

use std::io::{self, Write};

use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;

/// A body of gzip members, one after the other. API servers end a member whenever they flush events, so everything
/// that has arrived of a member is returned before more input is needed.
pub(super) struct Gunzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    input: Bytes,
}

impl Gunzip {
    pub(super) fn new() -> Self {
        Self {
            decoder: MultiGzDecoder::new(Vec::new()),
            input: Bytes::new(),
        }
    }

    /// Adds the next bytes. Call it only after `next` has returned `None` for the bytes before.
    pub(super) fn push(&mut self, chunk: Bytes) {
        self.input = chunk;
    }

    /// Returns the next decompressed bytes; `None` when more input is needed.
    ///
    /// Each call returns about 64 kB at most, however well the input was compressed.
    pub(super) fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.input.is_empty() {
            // Fills the decoder's own buffer once, and consumes the input it needs for that.
            let consumed = self.decoder.write(&self.input)?;
            self.input.advance(consumed);
            // Without this, the last bytes would stay in that buffer until more input arrives.
            self.decoder.flush()?;
            let output = std::mem::take(self.decoder.get_mut());
            if !output.is_empty() {
                return Ok(Some(output.into()));
            }
        }
        Ok(None)
    }

    /// Checks that the body ends with a complete member.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.decoder.try_finish()
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn member(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read(gunzip: &mut Gunzip, chunk: &[u8]) -> Vec<u8> {
        gunzip.push(Bytes::copy_from_slice(chunk));
        let mut output = Vec::new();
        while let Some(bytes) = gunzip.next().unwrap() {
            output.extend_from_slice(&bytes);
        }
        output
    }

    #[test]
    fn members_are_read_in_chunks_of_any_size() {
        let texts = [
            "one".to_owned(),
            String::new(),
            "two ".repeat(20_000),
            "3".to_owned(),
        ];
        let body: Vec<u8> = texts.iter().flat_map(|text| member(text.as_bytes())).collect();

        for size in [1, 2, 7, 100, body.len()] {
            let mut gunzip = Gunzip::new();
            let output: Vec<u8> = body
                .chunks(size)
                .flat_map(|chunk| read(&mut gunzip, chunk))
                .collect();
            assert_eq!(output, texts.concat().as_bytes(), "chunks of {size}");
            gunzip.finish().unwrap();
        }
    }

    #[test]
    fn a_member_is_returned_when_its_last_byte_arrives() {
        let mut gunzip = Gunzip::new();

        assert_eq!(read(&mut gunzip, &member(b"first")), b"first");
        assert_eq!(read(&mut gunzip, &member(b"second")), b"second");
    }

    #[test]
    fn what_was_flushed_is_returned_before_the_member_ends() {
        let (mut gunzip, mut encoder) = (Gunzip::new(), GzEncoder::new(Vec::new(), Compression::fast()));
        for event in ["first event", "second event"] {
            encoder.write_all(event.as_bytes()).unwrap();
            encoder.flush().unwrap();
            let flushed = std::mem::take(encoder.get_mut());
            assert_eq!(read(&mut gunzip, &flushed), event.as_bytes());
        }
        assert!(gunzip.finish().is_err());
    }

    #[test]
    fn highly_compressed_input_is_returned_in_pieces() {
        let size = 64 << 20;
        let mut gunzip = Gunzip::new();
        gunzip.push(member(&vec![0; size]).into());

        let (mut total, mut largest) = (0, 0);
        while let Some(bytes) = gunzip.next().unwrap() {
            total += bytes.len();
            largest = largest.max(bytes.len());
        }

        assert_eq!(total, size);
        assert!(largest <= 128 << 10, "{largest}");
    }

    #[test]
    fn corrupt_input_is_an_error() {
        let mut body = member(b"some text that is long enough to have a middle");
        let middle = body.len() - 9;
        body[middle] ^= 0xff;
        let mut gunzip = Gunzip::new();
        gunzip.push(body.into());
        let mut read = || -> io::Result<()> {
            while gunzip.next()?.is_some() {}
            gunzip.finish()
        };
        assert!(read().is_err());

        gunzip = Gunzip::new();
        gunzip.push(Bytes::from_static(b"{\"kind\":\"PodList\"}"));
        assert!(gunzip.next().is_err());
    }
}
