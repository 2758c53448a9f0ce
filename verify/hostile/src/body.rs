//! Response bodies: bytes, pauses, silence, a broken connection.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::time::{Sleep, sleep};

/// One step of a body.
pub(crate) enum Step {
    Bytes(Bytes),
    Wait(Duration),
    /// Nothing more, and no end.
    Hang,
    /// The connection breaks.
    Break,
}

/// The steps of a body, which may be endless.
pub(crate) type Steps = Box<dyn Iterator<Item = Step> + Send>;

/// The body of a response. It is passive: nothing is produced before the client reads.
pub struct HostileBody {
    steps: Steps,
    waiting: Option<Pin<Box<Sleep>>>,
    sent: Arc<AtomicU64>,
}

impl HostileBody {
    pub(crate) fn new(steps: Steps, sent: Arc<AtomicU64>) -> Self {
        Self {
            steps,
            waiting: None,
            sent,
        }
    }
}

impl Body for HostileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                std::task::ready!(waiting.as_mut().poll(cx));
                self.waiting = None;
            }
            match self.steps.next() {
                None => return Poll::Ready(None),
                Some(Step::Bytes(bytes)) => {
                    self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Step::Wait(time)) => self.waiting = Some(Box::pin(sleep(time))),
                Some(Step::Hang) => self.waiting = Some(Box::pin(sleep(Duration::MAX))),
                Some(Step::Break) => {
                    let error = io::Error::from(io::ErrorKind::ConnectionReset);
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl fmt::Debug for HostileBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostileBody").finish_non_exhaustive()
    }
}
