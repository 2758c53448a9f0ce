//! Resyncs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::time::Instant;
use tracing::warn;

use super::Driver;
use crate::delta::Delta;
use crate::object::Object;
use crate::reflector::machine::Input;
use crate::time::after;
use crate::wire::SourceError;

impl<K: Object> Driver<K> {
    /// The resync period has passed.
    pub(super) async fn resync(&mut self) {
        self.flush();
        self.resync_at = self
            .parts
            .config
            .resync
            .map(|period| after(Instant::now(), period));
        if !self.should_resync() {
            return;
        }
        if let Err(error) = self.parts.target.accept(Delta::SyncAll) {
            self.status.count(|stats| stats.target_errors += 1);
            let error = SourceError::Malformed(format!("the target rejected a resync: {error}"));
            self.step(Input::ResyncRejected, Some(error)).await;
        }
    }

    fn should_resync(&self) -> bool {
        let Some(should_resync) = &self.parts.should_resync else {
            return true;
        };
        catch_unwind(AssertUnwindSafe(should_resync)).unwrap_or_else(|_| {
            warn!(resource = %self.resource, "should_resync panicked; this resync is skipped");
            false
        })
    }
}
