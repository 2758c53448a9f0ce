//! Faults on the bytes of a body: cut, stalled, split, merged, trickled, followed by garbage.
//! Knows nothing of what the bytes mean.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::Sleep;

/// The faults on the bytes of a body. The default is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) cut: Option<u64>,
    pub(crate) clean_cut: bool,
    pub(crate) stall: Option<(u64, Option<Duration>)>,
    pub(crate) split: Vec<usize>,
    pub(crate) glue: usize,
    pub(crate) pause: Option<Duration>,
    pub(crate) append: Bytes,
}

impl Shape {
    pub(crate) fn is_nothing(&self) -> bool {
        self.cut.is_none()
            && self.stall.is_none()
            && self.split.is_empty()
            && self.glue == 0
            && self.pause.is_none()
            && self.append.is_empty()
    }

    pub(super) fn and(self, other: Shape) -> Shape {
        Shape {
            clean_cut: if self.cut.is_some() {
                self.clean_cut
            } else {
                other.clean_cut
            },
            cut: self.cut.or(other.cut),
            stall: self.stall.or(other.stall),
            split: if self.split.is_empty() {
                other.split
            } else {
                self.split
            },
            glue: self.glue.max(other.glue),
            pause: self.pause.or(other.pause),
            append: if self.append.is_empty() {
                other.append
            } else {
                self.append
            },
        }
    }
}

type Chunk = Option<Result<Bytes, io::Error>>;

/// Applies a [`Shape`] to the chunks of a body.
#[derive(Debug)]
pub(crate) struct Shaper {
    shape: Shape,
    /// Bytes returned so far.
    sent: u64,
    waiting: BytesMut,
    ready: VecDeque<Bytes>,
    next_size: usize,
    pausing: Option<Pin<Box<Sleep>>>,
    flushed: bool,
    stalled: bool,
    source_ended: bool,
    ended: bool,
}

impl Shaper {
    pub(crate) fn new(shape: Shape) -> Shaper {
        Shaper {
            shape,
            sent: 0,
            waiting: BytesMut::new(),
            ready: VecDeque::new(),
            next_size: 0,
            pausing: None,
            flushed: false,
            stalled: false,
            source_ended: false,
            ended: false,
        }
    }

    /// The next chunk, drawn from `source` as needed.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut source: impl FnMut(&mut Context<'_>) -> Poll<Chunk>,
    ) -> Poll<Chunk> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            if self.shape.cut.is_some_and(|cut| self.sent >= cut) {
                if !std::mem::replace(&mut self.flushed, true) {
                    // Yields once, so that the socket can flush its buffer: an error would discard it.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                self.ended = true;
                return Poll::Ready(if self.shape.clean_cut {
                    None
                } else {
                    Some(Err(broken()))
                });
            }
            if let Some(pausing) = self.pausing.as_mut() {
                ready!(pausing.as_mut().poll(cx));
                self.pausing = None;
            }
            if let Some((at, length)) = self.shape.stall
                && !self.stalled
                && self.sent >= at
            {
                match length {
                    Some(length) => self.pausing = Some(Box::pin(tokio::time::sleep(length))),
                    // Stalled forever: this body is never woken again, only dropped.
                    None => return Poll::Pending,
                }
                self.stalled = true;
                continue;
            }
            if let Some(chunk) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(self.give(chunk))));
            }
            if self.source_ended {
                self.ended = true;
                continue;
            }
            match ready!(source(cx)) {
                Some(Ok(chunk)) => self.take(chunk),
                Some(Err(error)) => {
                    self.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    self.source_ended = true;
                    let append = std::mem::take(&mut self.shape.append);
                    self.waiting.extend_from_slice(&append);
                    let rest = self.waiting.split().freeze();
                    self.cut_up(rest, true);
                }
            }
        }
    }

    fn take(&mut self, chunk: Bytes) {
        if self.shape.glue > 0 {
            self.waiting.extend_from_slice(&chunk);
            if self.waiting.len() >= self.shape.glue {
                let glued = self.waiting.split().freeze();
                self.cut_up(glued, false);
            }
        } else {
            self.cut_up(chunk, false);
        }
    }

    /// Queues a chunk in pieces of the configured sizes.
    fn cut_up(&mut self, mut chunk: Bytes, last: bool) {
        while !chunk.is_empty() {
            let size = match self.shape.split.get(self.next_size) {
                Some(&size) => size.clamp(1, chunk.len()),
                None => chunk.len(),
            };
            if !self.shape.split.is_empty() {
                self.next_size = (self.next_size + 1) % self.shape.split.len();
            }
            self.ready.push_back(chunk.split_to(size));
        }
        debug_assert!(!last || self.waiting.is_empty(), "nothing is kept behind the end");
    }

    /// Counts a chunk, shortened where the cut or the stall falls into it.
    fn give(&mut self, mut chunk: Bytes) -> Bytes {
        let stall = self.shape.stall.filter(|_| !self.stalled).map(|(at, _)| at);
        for border in [self.shape.cut, stall].into_iter().flatten() {
            let room = usize::try_from(border.saturating_sub(self.sent)).unwrap_or(usize::MAX);
            if room < chunk.len() {
                self.ready.push_front(chunk.split_off(room));
            }
        }
        self.sent += chunk.len() as u64;
        if let Some(pause) = self.shape.pause {
            self.pausing = Some(Box::pin(tokio::time::sleep(pause)));
        }
        chunk
    }
}

/// The error of a body whose connection breaks.
pub(crate) fn broken() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionReset,
        "connection reset by the test server, as asked for",
    )
}
