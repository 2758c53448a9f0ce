//! The exchange between a reflector and the audit of its informer: the reflector reports doubts about the cache, the audit
//! requests a new list.

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::report::RelistReason;
use crate::wire::SourceError;

/// Why the cache may differ from the collection although the watch looks healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// The watch was interrupted and continues at a version that the server accepted. The server may be another one, or
    /// its history may have been replaced meanwhile.
    Reconnected,
    /// The server sends events or bookmarks older than the cache.
    OlderEvents,
}

/// Written by one side and awaited by the other. At most one doubt and one request are pending; a later one replaces an
/// earlier one.
#[derive(Default)]
pub(super) struct Oversight {
    doubt: Mutex<Option<Doubt>>,
    doubted: Notify,
    relist: Mutex<Option<(RelistReason, SourceError)>>,
    requested: Notify,
}

impl Oversight {
    pub(super) fn doubt(&self, doubt: Doubt) {
        *self.doubt.lock() = Some(doubt);
        self.doubted.notify_one();
    }

    /// Waits for a doubt. Cancel-safe.
    pub(super) async fn doubted(&self) -> Doubt {
        loop {
            if let Some(doubt) = self.doubt.lock().take() {
                return doubt;
            }
            self.doubted.notified().await;
        }
    }

    pub(super) fn request_relist(&self, reason: RelistReason, error: SourceError) {
        *self.relist.lock() = Some((reason, error));
        self.requested.notify_one();
    }

    /// Waits for the request of a new list. Cancel-safe.
    pub(super) async fn relist_requested(&self) -> (RelistReason, SourceError) {
        loop {
            if let Some(request) = self.relist.lock().take() {
                return request;
            }
            self.requested.notified().await;
        }
    }

    /// The collection was fetched again: earlier doubts and requests are settled.
    pub(super) fn settle(&self) {
        *self.doubt.lock() = None;
        *self.relist.lock() = None;
    }
}
