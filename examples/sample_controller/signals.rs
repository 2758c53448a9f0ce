//! The signals that end a program: SIGINT and SIGTERM.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for signals, as often as it is asked.
pub struct Signals {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
}

impl Signals {
    /// From here on a signal does not end the program by itself.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next one.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// The next one.
    #[cfg(not(unix))]
    pub async fn next(&mut self) {
        tokio::signal::ctrl_c().await.ok();
    }
}
