//! Reads the body of a response: chunks in, items out, in the order of the body.

use tokio::task::coop;

use super::response::ResponseBody;
use crate::codec::Decoder;
use crate::wire::SourceError;

/// The body of one response while it is read.
pub(super) struct Reading<T> {
    response: ResponseBody,
    decoder: Box<dyn Decoder<T>>,
    progress: fn(usize) -> T,
    finished: bool,
}

impl<T> Reading<T> {
    pub(super) fn new(
        response: ResponseBody,
        decoder: Box<dyn Decoder<T>>,
        progress: fn(usize) -> T,
    ) -> Self {
        Self {
            response,
            decoder,
            progress,
            finished: false,
        }
    }

    /// The next item; `None` after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<T>, SourceError> {
        // A large chunk is decoded without waiting for I/O: yield to other tasks from time to time.
        coop::consume_budget().await;
        if self.finished {
            return Ok(None);
        }
        let next = self.decoder.next();
        if let Some(item) = next.map_err(|error| self.response.add_context(error))? {
            return Ok(Some(item));
        }
        while let Some(chunk) = self.response.chunk().await? {
            let bytes = chunk.len();
            self.decoder.push(chunk);
            if bytes > 0 {
                return Ok(Some((self.progress)(bytes)));
            }
        }
        self.finished = true;
        let last = self.decoder.finish();
        last.map_err(|error| self.response.add_context(error))
    }
}
