//! Whether a server can be asked for a shard. One that refuses the selector is asked for everything for a while.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::SourceError;

/// For how long a refusal is remembered: as long as that of a watch-list.
const REMEMBERED: Duration = Duration::from_secs(600);

/// What a source knows of its server's ways with the parameter `shardSelector`. Clones know the same.
#[derive(Clone, Debug, Default)]
pub(super) struct ShardSelector {
    refused_until: Arc<Mutex<Option<Instant>>>,
}

impl ShardSelector {
    pub(super) fn may_be_sent(&self) -> bool {
        let refused_until = *self.refused_until.lock();
        refused_until.is_none_or(|until| until <= Instant::now())
    }

    /// Looks at the answer to a request. A refusal of the selector is no reason to fail for ever: the objects are
    /// chosen on our side, too, so the next attempt does without.
    pub(super) fn judge(&self, error: SourceError) -> SourceError {
        let SourceError::Api(mut error) = error else {
            return error;
        };
        let names_it = ["shard selector", "shardSelector"]
            .iter()
            .any(|name| error.message.contains(name));
        if names_it && (error.is_invalid() || error.is_internal()) {
            *self.refused_until.lock() = Some(Instant::now() + REMEMBERED);
            error.message.push_str(
                " (the server does not take our shard selector: from now on it is asked for everything, and what is \
                 outside the shard is left out here)",
            );
        }
        SourceError::Api(error)
    }
}
