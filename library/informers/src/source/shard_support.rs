//! Whether a server accepts a shard selector. After a rejection the selector is omitted for a while.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::SourceError;

/// How long a rejection is remembered: as long as that of a watch-list.
const RETRY_AFTER: Duration = Duration::from_secs(600);

/// Whether the server of a source accepts the parameter `shardSelector`. Clones share the state.
#[derive(Clone, Debug, Default)]
pub(super) struct ShardSelector {
    rejected_until: Arc<Mutex<Option<Instant>>>,
}

impl ShardSelector {
    pub(super) fn may_be_sent(&self) -> bool {
        let rejected_until = *self.rejected_until.lock();
        rejected_until.is_none_or(|until| until <= Instant::now())
    }

    /// Inspects the error of a request. If the server rejected the selector, the next requests omit it: the client
    /// filters objects anyway.
    pub(super) fn judge(&self, error: SourceError) -> SourceError {
        let SourceError::Api(mut error) = error else {
            return error;
        };
        let names_it = ["shard selector", "shardSelector"]
            .iter()
            .any(|name| error.message.contains(name));
        if names_it && (error.is_invalid() || error.is_internal()) {
            *self.rejected_until.lock() = Some(Instant::now() + RETRY_AFTER);
            error.message.push_str(
                " (the server rejects the shard selector: it is omitted from now on, and objects outside the shard \
                 are filtered by the client)",
            );
        }
        SourceError::Api(error)
    }
}
