//! Logs on standard error, as text or JSON. Silent unless `RUST_LOG` is set.
//!
//! Lines are written by a thread of their own: a pipe that nobody reads would otherwise block the threads of the runtime, and
//! with them the handling of signals. While it is blocked, a bounded number of lines waits and the others are dropped and
//! counted.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

/// The number of lines that wait for standard error.
const PENDING: usize = 1024;
/// Longer lines are cut.
const MAX_LINE: usize = 16 << 10;
/// How long lines that are still pending may delay the exit of the program.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts logging. A program that draws on the terminal logs only when standard error goes elsewhere.
pub fn init(format: LogFormat, draws_on_terminal: bool) -> Logging {
    let filter = match std::env::var("RUST_LOG") {
        // The filter itself reports errors on standard error.
        Ok(directives) if !directives.is_empty() => EnvFilter::builder().parse_lossy(directives),
        // What matters to the user is printed as notes; a log line would duplicate it.
        _ => return Logging(None),
    };
    if draws_on_terminal && io::stderr().is_terminal() {
        return Logging(None);
    }
    let Some(writer) = LogWriter::start(io::stderr()) else {
        return Logging(None);
    };
    let lines = writer.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || lines.clone())
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    // Set once, at the start: it cannot have been set before.
    let _ = match format {
        LogFormat::Text => subscriber.try_init(),
        LogFormat::Json => subscriber.json().try_init(),
    };
    Logging(Some(writer))
}

/// The logs of the program. Dropping it writes what is pending, but does not wait long for a blocked reader.
pub struct Logging(Option<LogWriter>);

impl Drop for Logging {
    fn drop(&mut self) {
        let (done, written) = channel();
        if let Some(writer) = &self.0
            && writer.messages.try_send(Message::Flush(done)).is_ok()
        {
            let _ = written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

enum Message {
    Line(Vec<u8>),
    Flush(Sender<()>),
}

/// Passes lines to the writing thread. Never blocks.
#[derive(Clone)]
struct LogWriter {
    messages: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl LogWriter {
    fn start(out: impl Write + Send + 'static) -> Option<Self> {
        let (messages, incoming) = sync_channel(PENDING);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = dropped.clone();
        kube_informers_core::tasks::spawn_thread("log", move || write_all(out, &incoming, &counted)).ok()?;
        Some(Self { messages, dropped })
    }
}

/// Each call is one line.
impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut kept = line.get(..MAX_LINE).unwrap_or(line).to_vec();
        if kept.len() < line.len() {
            kept.extend(b" ...\n");
        }
        if self.messages.try_send(Message::Line(kept)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Logs are best effort: standard error may be closed.
fn write_all(mut out: impl Write, incoming: &Receiver<Message>, dropped: &AtomicU64) {
    while let Ok(message) = incoming.recv() {
        match message {
            Message::Line(line) => {
                let _ = out.write_all(&line);
                let dropped = dropped.swap(0, Ordering::Relaxed);
                if dropped > 0 {
                    let _ = writeln!(
                        out,
                        "{dropped} log lines were dropped: standard error was blocked"
                    );
                }
            }
            Message::Flush(done) => {
                let _ = out.flush();
                let _ = done.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports its first line, blocks until it is released, then collects.
    struct Blocked {
        first: Sender<()>,
        released: Option<Receiver<()>>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(released) = self.released.take() {
                let _ = self.first.send(());
                let _ = released.recv();
            }
            let _ = self.written.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_for_a_blocked_reader_are_bounded_dropped_and_counted() {
        let ((release, released), (written, lines)) = (channel(), channel());
        let (first, is_blocked) = channel();
        let blocked = Blocked {
            first,
            released: Some(released),
            written,
        };
        let mut writer = LogWriter::start(blocked).unwrap();
        let sent = PENDING * 3;
        writer.write_all(b"0\n").unwrap();
        // Otherwise the thread could take that line later, and make room for one more in between.
        is_blocked.recv().unwrap();
        for number in 1..sent {
            writer.write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        writer.write_all(&vec![b'x'; MAX_LINE * 2]).unwrap();
        drop((release, writer));

        let written: Vec<String> = lines
            .iter()
            .map(|line| String::from_utf8(line).unwrap())
            .collect();
        assert_eq!(written[0], "0\n");
        let text = written.concat();
        let dropped = text.lines().find(|line| line.contains("were dropped")).unwrap();
        let dropped: usize = dropped.split(' ').next().unwrap().parse().unwrap();
        let kept = text.lines().filter(|line| line.parse::<usize>().is_ok()).count();
        assert_eq!(kept + dropped, sent + 1, "the long line was dropped too");
        assert_eq!(kept, PENDING + 1);
    }
}
