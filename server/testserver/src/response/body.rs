//! Response bodies: a few bytes, a list that is encoded while it is read, or a watch.
//! A body is passive: it does nothing unless the client polls it, and dropping it releases everything behind it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use kube_api_protocol::gzip::LARGE;
use kube_api_protocol::list::ListWriter;

use crate::encode::Encoder;
use crate::fault::Shaper;
use crate::hub::InFlight;
use crate::response::compress::{Compressed, Rest};
use crate::storage::Stored;
use crate::watch::WatchBody;

/// The number of bytes of an object sent at a time.
const CHUNK: usize = 64 * 1024;

/// A response body of the test server.
#[derive(Debug)]
pub struct TestBody {
    source: Source,
    shaper: Option<Shaper>,
    /// Bytes read from the source ahead of the client.
    first: Option<Chunk>,
    /// Counts as in flight until the body is read or dropped.
    in_flight: Option<InFlight>,
}

pub(super) type Chunk = Option<Result<Bytes, io::Error>>;

#[derive(Debug)]
enum Source {
    Bytes(Option<Bytes>),
    List(ListBody),
    Watch(Box<WatchBody>),
    Compressed(Compressed),
}

impl TestBody {
    pub(crate) fn bytes(bytes: impl Into<Bytes>) -> TestBody {
        let bytes = bytes.into();
        TestBody::from(Source::Bytes(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    pub(crate) fn list(list: ListBody) -> TestBody {
        TestBody::from(Source::List(list))
    }

    pub(crate) fn watch(watch: WatchBody) -> TestBody {
        TestBody::from(Source::Watch(Box::new(watch)))
    }

    /// Compresses the body if a real server would, and returns whether it does: a watch if it delivers initial events, anything
    /// else if it is large.
    pub(crate) fn compress(&mut self) -> bool {
        if self.first.is_some() {
            // A fault has read ahead.
            return false;
        }
        let source = std::mem::replace(&mut self.source, Source::Bytes(None));
        let compressed;
        (self.source, compressed) = match source {
            Source::Watch(watch) if watch.is_watch_list() => {
                (Source::Compressed(Compressed::Members(watch)), true)
            }
            source @ (Source::Watch(_) | Source::Compressed(_)) => (source, false),
            Source::Bytes(bytes) if bytes.as_ref().is_none_or(|bytes| bytes.len() <= LARGE) => {
                (Source::Bytes(bytes), false)
            }
            Source::Bytes(bytes) => {
                let rest = Rest::Bytes(bytes);
                (Source::Compressed(Compressed::stream(Vec::new(), rest)), true)
            }
            Source::List(mut list) => {
                let mut start = Vec::new();
                while start.len() <= LARGE
                    && let Some(chunk) = list.next_chunk()
                {
                    start.extend_from_slice(&chunk);
                }
                if start.len() <= LARGE {
                    (Source::Bytes(Some(start.into())), false)
                } else {
                    (
                        Source::Compressed(Compressed::stream(start, Rest::List(list))),
                        true,
                    )
                }
            }
        };
        compressed
    }

    fn from(source: Source) -> TestBody {
        TestBody {
            source,
            shaper: None,
            first: None,
            in_flight: None,
        }
    }

    /// Whether it is neither a list nor a watch.
    pub(crate) fn is_bytes(&self) -> bool {
        matches!(self.source, Source::Bytes(_))
    }

    pub(crate) fn is_watch(&self) -> bool {
        matches!(self.source, Source::Watch(_))
    }

    /// All bytes of a list at once.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.source {
            Source::Bytes(bytes) => out.extend_from_slice(&bytes.unwrap_or_default()),
            Source::List(mut list) => {
                while let Some(chunk) = list.next_chunk() {
                    out.extend_from_slice(&chunk);
                }
            }
            // A watch has no end and is never collected; a body is compressed last.
            Source::Watch(_) | Source::Compressed(_) => {}
        }
        out
    }

    /// Waits for the first bytes, like a proxy that holds the headers back until then.
    pub(crate) async fn something_to_read(&mut self) {
        if self.first.is_none() {
            self.first = Some(std::future::poll_fn(|cx| self.source.poll(cx)).await);
        }
    }

    pub(crate) fn shaped(mut self, shaper: Shaper) -> TestBody {
        self.shaper = Some(shaper);
        self
    }

    pub(crate) fn counted(mut self, in_flight: InFlight) -> TestBody {
        self.in_flight = Some(in_flight);
        self
    }
}

impl Source {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Chunk> {
        match self {
            Source::Bytes(bytes) => Poll::Ready(next_piece(bytes).map(Ok)),
            Source::List(list) => Poll::Ready(list.next_chunk().map(Ok)),
            Source::Watch(watch) => watch.poll(cx),
            Source::Compressed(compressed) => compressed.poll(cx),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Source::Bytes(bytes) => bytes.is_none(),
            Source::List(list) => list.is_done(),
            Source::Watch(_) | Source::Compressed(_) => false,
        }
    }
}

/// The next chunk of a body that is held in memory.
pub(super) fn next_piece(bytes: &mut Option<Bytes>) -> Option<Bytes> {
    let rest = bytes.as_mut().filter(|rest| rest.len() > CHUNK);
    match rest {
        Some(rest) => Some(rest.split_to(CHUNK)),
        None => bytes.take(),
    }
}

impl Body for TestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        let (source, first) = (&mut this.source, &mut this.first);
        let mut next = |cx: &mut Context<'_>| match first.take() {
            Some(chunk) => Poll::Ready(chunk),
            None => source.poll(cx),
        };
        let polled = match &mut this.shaper {
            Some(shaper) => shaper.poll(cx, next),
            None => next(cx),
        };
        if let Poll::Ready(None | Some(Err(_))) = polled {
            // At the end nothing counts as open, even if the client keeps the body.
            this.source = Source::Bytes(None);
            this.in_flight = None;
        }
        polled.map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.shaper.is_none() && self.first.is_none() && self.source.is_done()
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.source, &self.shaper, &self.first) {
            (Source::Bytes(bytes), None, None) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            _ => SizeHint::default(),
        }
    }
}

/// A list, written chunk by chunk while the client reads.
#[derive(Debug)]
pub(crate) struct ListBody {
    writer: ListWriter,
    items: std::vec::IntoIter<Arc<Stored>>,
    encoder: Encoder,
}

impl ListBody {
    pub(crate) fn new(head: String, items: Vec<Arc<Stored>>, encoder: Encoder) -> ListBody {
        ListBody {
            writer: ListWriter::new(head),
            items: items.into_iter(),
            encoder,
        }
    }

    pub(super) fn next_chunk(&mut self) -> Option<Bytes> {
        let encoder = &self.encoder;
        self.writer
            .next_chunk(&mut self.items, |object, out| encoder.item(&object, out))
    }

    fn is_done(&self) -> bool {
        self.writer.is_done()
    }
}
