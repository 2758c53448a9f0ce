//! `InformerTask`: what runs an informer.

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::time::Instant;
use tracing::{Instrument, Span, info_span};

use super::process::InformerInner;
use crate::object::Object;
use crate::task::{Spawner, TaskPanicError};

/// The task of an informer.
///
/// Returned by [`InformerBuilder::build`](super::InformerBuilder::build); dropping it without running it stops the
/// informer.
#[must_use = "an informer does nothing until its task is run"]
pub struct InformerTask<K: Object> {
    guard: StopOnDrop<K>,
}

impl<K: Object> fmt::Debug for InformerTask<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerTask")
            .field("informer", &self.guard.0.name)
            .finish_non_exhaustive()
    }
}

/// Stops the informer when it is dropped, also when the future of `run` is dropped.
struct StopOnDrop<K: Object>(Arc<InformerInner<K>>);

impl<K: Object> Drop for StopOnDrop<K> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

impl<K: Object> InformerTask<K> {
    pub(super) fn new(shared: Arc<InformerInner<K>>) -> Self {
        Self {
            guard: StopOnDrop(shared),
        }
    }

    /// Runs until the informer is shut down, its last handle is dropped, or the future is dropped.
    ///
    /// Must be polled on a tokio runtime with a timer; handlers run on it too.
    ///
    /// # Errors
    ///
    /// One of the library's own tasks panicked.
    #[doc(alias = "RunWithContext")]
    pub async fn run(self) -> Result<(), TaskPanicError> {
        let Self { guard } = self;
        let shared = guard.0.clone();
        if shared.stop.is_cancelled() {
            return Ok(());
        }
        let span = info_span!("informer", name = %shared.name);
        let spawner = shared
            .spawner
            .get_or_init(|| Spawner::new(Handle::current(), span.clone()))
            .clone();
        shared.core.lock().dispatcher.start(&spawner, Instant::now());
        shared.life.send_modify(|life| life.started = true);

        // Both are cancel-safe: dropping `process` stops it.
        let died = tokio::select! {
            biased;
            died = spawner.died() => Some(died),
            () = shared.process(&spawner).instrument(span) => None,
        };
        if died.is_none() && !shared.stop.is_cancelled() {
            // The queues are drained: deliver what was dispatched, until the informer is stopped.
            let leftovers = shared.core.lock().dispatcher.close(true);
            drop(leftovers);
            tokio::select! {
                biased;
                () = shared.stop.cancelled() => {}
                () = spawner.wait() => {}
            }
        }
        drop(guard);
        // Both only wait, so dropping them loses nothing.
        tokio::select! {
            biased;
            () = spawner.wait() => {}
            () = shared.unresponsive_handlers() => {}
        }
        died.map_or(Ok(()), Err)
    }

    /// Spawns the task on the current runtime.
    pub(super) fn spawn(self) {
        let shared = self.guard.0.clone();
        let name = shared.name.clone();
        let starter = shared
            .starter
            .get_or_init(|| Spawner::new(Handle::current(), Span::none()));
        starter.spawn(format!("informer {name}"), async move {
            if let Err(died) = self.run().await {
                tracing::error!(informer = %name, %died, "the informer stopped");
            }
        });
    }
}
