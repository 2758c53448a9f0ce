//! Stopping an informer: deadlines, and a report about the handlers that did not return.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use super::Informer;
use super::process::InformerInner;
use crate::object::Object;
use crate::time::FAR;

/// How long a stop waits for calls of handlers in flight.
const GRACE: Duration = Duration::from_millis(100);
/// How long a stop waits for other user code: transforms, index functions, hooks.
const UNRESPONSIVE: Duration = Duration::from_secs(2);
/// How often it is checked whether only calls in flight are left.
const CHECK: Duration = Duration::from_millis(10);

/// What was still running when a shutdown returned.
///
/// A handler that is left behind receives no further event. Its call continues, because safe code cannot abort it: a
/// blocking handler on its own thread, any other on a worker thread of the runtime.
///
/// A synchronous handler that never returns costs a multi-thread runtime one worker thread. Everything else keeps
/// running: other handlers, other informers, timers, and the shutdown. When the runtime is dropped, it waits for the
/// call; to avoid that, end it with [`shutdown_background`](tokio::runtime::Runtime::shutdown_background) or
/// [`shutdown_timeout`](tokio::runtime::Runtime::shutdown_timeout). On a current-thread runtime, or with a single
/// worker thread, nothing else runs during the call, not even the shutdown. Wrap a handler that may block in
/// [`blocking`](crate::handler::blocking), which gives it a thread of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The names of the handlers whose call had not returned.
    pub left_behind: Vec<Arc<str>>,
}

impl ShutdownReport {
    /// Whether everything has ended.
    pub fn is_clean(&self) -> bool {
        self.left_behind.is_empty()
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.left_behind.extend(other.left_behind);
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left_behind.as_slice() {
            [] => f.write_str("everything has ended"),
            names => write!(f, "these handlers have not returned: {}", names.join(", ")),
        }
    }
}

impl<K: Object> Informer<K> {
    /// Stops the informer and waits until it has no running task, no open request and no handler in flight. Undelivered
    /// events are dropped, and asynchronous handlers are cancelled at their next await.
    ///
    /// It waits at most 100 ms for handlers whose call does not return; the report names them. A transform, index
    /// function or hook that does not return delays it by at most 2 s.
    #[doc(alias = "Shutdown")]
    pub async fn shutdown(&self) -> ShutdownReport {
        self.shared.shutdown().await
    }

    /// Graceful shutdown: closes the watches, delivers the events received so far, and stops. A handler that does not
    /// return delays it without limit.
    pub async fn drain(&self) -> ShutdownReport {
        self.drain_within(FAR).await
    }

    /// The same for at most `timeout`. The last 100 ms of it, or half of a shorter timeout, are used to [stop](Self::shutdown) whatever is
    /// still running.
    pub async fn drain_within(&self, timeout: Duration) -> ShutdownReport {
        let timeout = timeout.min(FAR);
        let grace = GRACE.min(timeout / 2);
        self.shared.drain.cancel();
        match tokio::time::timeout(timeout - grace, self.shared.ended(grace)).await {
            Ok(report) => report,
            Err(_) => {
                self.shared.stop.cancel();
                self.shared.ended(grace).await
            }
        }
    }
}

impl<K: Object> InformerInner<K> {
    pub(super) async fn shutdown(&self) -> ShutdownReport {
        self.stop.cancel();
        self.ended(GRACE).await
    }

    /// Waits until all tasks of the informer have ended, except those of handlers that do not return within `grace` after
    /// the stop.
    pub(super) async fn ended(&self, grace: Duration) -> ShutdownReport {
        if !self.life.borrow().started {
            // It was never run; a task that is run later finds the token cancelled.
            self.finish();
        }
        let all = async {
            let mut life = self.life.subscribe();
            let _ = life.wait_for(|life| life.stopped).await;
            // The informer's own task first: if it was spawned but never polled, it still holds the reflectors and their
            // sources.
            for spawner in self.spawners() {
                spawner.wait().await;
            }
        };
        // Both only wait, so dropping them loses nothing.
        tokio::select! {
            biased;
            () = all => {}
            () = self.unresponsive(grace) => {}
        }
        let report = ShutdownReport {
            left_behind: self.left_behind(),
        };
        if !report.is_clean() {
            warn!(informer = %self.name, "the informer has stopped, but {report}");
        }
        report
    }

    /// Ready `grace` after the stop, as soon as only handlers are left that do not return; in any case after 2 s.
    pub(super) async fn unresponsive(&self, grace: Duration) {
        self.stop.cancelled().await;
        let stopped = Instant::now();
        sleep(grace).await;
        loop {
            let stuck = self.stuck();
            // Tasks that are not stuck are about to end: a busy runtime may need longer than `grace` to run them.
            let is_all = stuck > 0 && self.running_tasks() <= stuck;
            if is_all || stopped.elapsed() >= UNRESPONSIVE {
                return;
            }
            sleep(CHECK).await;
        }
    }

    /// The same, for the informer's own task.
    pub(super) async fn unresponsive_handlers(&self) {
        self.unresponsive(GRACE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_the_handlers() {
        let mut report = ShutdownReport::default();
        assert!(report.is_clean());
        assert_eq!(report.to_string(), "everything has ended");

        report.merge(ShutdownReport {
            left_behind: vec!["audit".into(), "mail".into()],
        });
        assert!(!report.is_clean());
        assert_eq!(
            report.to_string(),
            "these handlers have not returned: audit, mail"
        );
    }
}
