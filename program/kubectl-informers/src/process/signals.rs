//! Signals that stop the program: SIGINT, and on Unix also SIGTERM and SIGHUP.

use kube_informers_core::tasks::Task;

use crate::process::failure::Exit;

/// Waits for the first signal; returns the exit code of a program ended by it: 130 after SIGINT, 143 after SIGTERM,
/// 129 after SIGHUP.
/// Listens from the call on, not only from the first poll. A second signal exits at once, without the graceful
/// shutdown that the first one requests.
#[cfg(unix)]
pub fn stopped() -> impl Future<Output = Exit> {
    use tokio::signal::unix::{SignalKind, signal};
    let listening = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    );
    async move {
        let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = listening else {
            // Without signal handlers the program runs until it is killed.
            return std::future::pending().await;
        };
        // All are cancel-safe.
        let first = tokio::select! {
            _ = interrupt.recv() => Exit::Code(130),
            _ = terminate.recv() => Exit::Code(143),
            _ = hangup.recv() => Exit::Code(129),
        };
        Task::spawn("second signal", async move {
            let second = tokio::select! {
                _ = interrupt.recv() => 130,
                _ = terminate.recv() => 143,
            };
            std::process::exit(second);
        })
        .detach();
        first
    }
}

/// Waits for Ctrl-C. A second one exits at once.
#[cfg(not(unix))]
pub async fn stopped() -> Exit {
    if tokio::signal::ctrl_c().await.is_err() {
        return std::future::pending().await;
    }
    Task::spawn("second signal", async {
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(130);
        }
    })
    .detach();
    Exit::Code(130)
}
