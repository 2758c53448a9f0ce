//! Being told to stop: Ctrl-C, and on Unix also `kill`.

use crate::failure::Exit;

/// Waits for the wish to stop, and says with which code the program then ends: 130 after Ctrl-C, 143 after `kill`,
/// as if the signal had ended it. Listens from the call on, not only from the first look at the result: what was begun
/// after the call is also ended properly.
#[cfg(unix)]
pub fn stopped() -> impl Future<Output = Exit> {
    use tokio::signal::unix::{SignalKind, signal};
    let listening = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = listening else {
            // Without a way to be told, the program runs until it is killed.
            return std::future::pending().await;
        };
        // Both are cancel-safe: a signal that is not received here is not needed any more.
        tokio::select! {
            _ = interrupt.recv() => Exit::Code(130),
            _ = terminate.recv() => Exit::Code(143),
        }
    }
}

/// Waits for Ctrl-C.
#[cfg(not(unix))]
pub async fn stopped() -> Exit {
    if tokio::signal::ctrl_c().await.is_err() {
        return std::future::pending().await;
    }
    Exit::Code(130)
}
