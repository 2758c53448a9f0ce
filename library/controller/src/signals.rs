//! The signals that end a program.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT and SIGTERM; on other systems Ctrl-C.
///
/// Kubernetes ends a container with SIGTERM and kills it 30 s later by default, so the grace period of a
/// [controller](crate::Controller::grace) should be shorter. A second signal should end the program at once:
///
/// ```no_run
/// use kube_controller::Signals;
/// # use kube_controller::{Controller, RunError};
/// # use kube_informers::ObjectKey;
///
/// # async fn example(controller: Controller) -> Result<(), Box<dyn std::error::Error>> {
/// let mut signals = Signals::listen()?;
/// let mut again = Signals::listen()?;
/// let run = controller.run_until(signals.next(), async |_key: ObjectKey| Ok::<(), kube::Error>(()));
/// tokio::select! {
///     ended = run => ended?,
///     () = async { again.next().await; again.next().await } => std::process::exit(1),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[doc(alias = "SetupSignalHandler")]
pub struct Signals {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
}

impl Signals {
    /// Listens from now on: a signal no longer ends the program by itself.
    ///
    /// # Errors
    ///
    /// The system does not allow it.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O enabled.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal. Cancel-safe.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Waits for the next signal. Cancel-safe.
    #[cfg(not(unix))]
    pub async fn next(&mut self) {
        tokio::signal::ctrl_c().await.ok();
    }
}
