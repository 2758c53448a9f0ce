//! Standard output and standard error, written by a thread of their own.
//!
//! A pipe whose reader has stopped blocks the writing thread for an unlimited time. The command's event loop must not
//! block with it: it has to handle signals. So the loop hands one batch at a time to the thread and takes no further
//! changes until that batch is written. Changes that arrive meanwhile are coalesced by key in the
//! [queue](crate::session::queue), so blocked output costs bounded memory.

use std::io::{self, Write};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::process::failure::Failure;
use crate::text::safe::SafeText;

/// How long a batch that is being written may delay the exit of the program.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

/// Text for both streams, in order.
type Batch = Vec<(Stream, String)>;

/// Collects text, and writes one batch at a time in the background.
pub struct Output {
    batch: Batch,
    batches: std::sync::mpsc::Sender<Batch>,
    results: mpsc::UnboundedReceiver<io::Result<()>>,
    busy: bool,
}

impl Output {
    /// Starts the writing thread.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn start() -> Result<Self, Failure> {
        let (batches, incoming) = std::sync::mpsc::channel::<Batch>();
        let (done, results) = mpsc::unbounded_channel();
        kube_informers_core::tasks::spawn_thread("output", move || {
            while let Ok(batch) = incoming.recv() {
                if done.send(write(&batch)).is_err() {
                    return;
                }
            }
        })
        .map_err(|error| Failure::error(format!("cannot start the output thread: {error}")))?;
        Ok(Self {
            batch: Batch::new(),
            batches,
            results,
            busy: false,
        })
    }

    /// Adds a line for standard output to the batch.
    pub fn line(&mut self, text: &SafeText) {
        self.add(Stream::Stdout, text, "\n");
    }

    /// Adds a line for standard error to the batch.
    pub fn error_line(&mut self, text: &SafeText) {
        self.add(Stream::Stderr, text, "\n");
    }

    /// Adds text for standard error to the batch, without a line end.
    pub fn error_text(&mut self, text: &SafeText) {
        self.add(Stream::Stderr, text, "");
    }

    fn add(&mut self, stream: Stream, text: &SafeText, end: &'static str) {
        match self.batch.last_mut() {
            Some((last, buffer)) if *last == stream => {
                buffer.push_str(text.as_str());
                buffer.push_str(end);
            }
            _ => self.batch.push((stream, format!("{text}{end}"))),
        }
    }

    /// Whether a batch is being written.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Hands the batch to the writing thread, unless that is still busy or there is nothing to write.
    pub fn submit(&mut self) {
        if !self.busy && !self.batch.is_empty() {
            // The thread ends only with this handle or after an error, which `written` has reported.
            self.busy = self.batches.send(std::mem::take(&mut self.batch)).is_ok();
        }
    }

    /// Waits until the batch that is being written is written; never returns if there is none. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The stream cannot be written. A closed pipe is a silent failure with exit code 0.
    pub async fn written(&mut self) -> Result<(), Failure> {
        if !self.busy {
            return std::future::pending().await;
        }
        let result = self.results.recv().await;
        self.busy = false;
        match result {
            Some(result) => Ok(result?),
            None => Err(Failure::error("the output thread ended")),
        }
    }

    /// Writes what is left, but gives up after a short timeout: the reader may never read again.
    ///
    /// # Errors
    ///
    /// The stream cannot be written.
    pub async fn shutdown(mut self) -> Result<(), Failure> {
        let rest = async {
            while self.busy || !self.batch.is_empty() {
                self.submit();
                self.written().await?;
            }
            Ok(())
        };
        timeout(SHUTDOWN_TIMEOUT, rest).await.unwrap_or(Ok(()))
    }
}

fn write(batch: &Batch) -> io::Result<()> {
    for (stream, text) in batch {
        match stream {
            Stream::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())?;
                out.flush()?;
            }
            // Notes are best effort: a closed standard error does not end the program.
            Stream::Stderr => {
                let _ = io::stderr().lock().write_all(text.as_bytes());
            }
        }
    }
    Ok(())
}
