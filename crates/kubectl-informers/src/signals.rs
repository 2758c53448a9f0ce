//! Being told to stop: Ctrl-C, and on Unix also `kill`.

use crate::failure::Exit;

/// Waits for the wish to stop, and says with which code the program then ends: 130 after Ctrl-C, 143 after `kill`,
/// as if the signal had ended it.
#[cfg(unix)]
pub async fn stopped() -> Exit {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without a way to be told, the program runs until it is killed.
        return std::future::pending().await;
    };
    // Both are cancel-safe: a signal that is not received here is not needed any more.
    tokio::select! {
        _ = interrupt.recv() => Exit::Code(130),
        _ = terminate.recv() => Exit::Code(143),
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
