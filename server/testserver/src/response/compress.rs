//! Bodies that are compressed while they are read.

use std::task::{Context, Poll};

use bytes::Bytes;
use kube_api_protocol::gzip::{self, member};

use super::body::{Chunk, ListBody, next_piece};
use crate::watch::WatchBody;

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
    gzip: gzip::Stream,
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
            gzip: gzip::Stream::default(),
        }))
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Chunk> {
        match self {
            Compressed::Stream(stream) => {
                let Stream { start, rest, gzip } = &mut **stream;
                let next = || match rest {
                    _ if !start.is_empty() => Some(std::mem::take(start).into()),
                    Rest::Bytes(bytes) => next_piece(bytes),
                    Rest::List(list) => list.next_chunk(),
                };
                Poll::Ready(gzip.next_chunk(next).transpose())
            }
            Compressed::Members(watch) => watch
                .poll(cx)
                .map(|chunk| chunk.map(|chunk| chunk.and_then(|chunk| member(&chunk)))),
        }
    }
}
