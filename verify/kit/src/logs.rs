//! Captures logs in memory.

use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// All logs of a subscriber that writes to it.
#[derive(Clone, Default)]
pub struct CapturedLogs(Arc<Mutex<Vec<u8>>>);

/// Logs are captured while it lives.
pub struct Capture {
    _second: tracing::Dispatch,
    _default: DefaultGuard,
}

impl CapturedLogs {
    /// Captures the logs of this thread, up to this level.
    pub fn of_this_thread(level: tracing::Level) -> (Self, Capture) {
        let lines = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(lines.clone())
            .with_ansi(false)
            .finish();
        let capture = Capture {
            // With a single subscriber in the process, tracing caches the interest of whichever thread reaches a log line
            // first, which may have none. A second subscriber makes it check every time.
            _second: tracing::Dispatch::new(tracing_subscriber::fmt().finish()),
            _default: tracing::subscriber::set_default(subscriber),
        };
        (lines, capture)
    }

    /// Everything logged so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

impl Write for CapturedLogs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for CapturedLogs {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
