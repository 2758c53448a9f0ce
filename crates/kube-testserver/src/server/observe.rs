//! What clients did, what is still open, and waiting for either.

use std::time::Duration;

use super::TestServer;
use crate::transport::journal::SeenRequest;
use crate::transport::request::Verb;

/// How long [`TestServer::wait_for`] waits for its condition, on tokio's clock.
const PATIENCE: Duration = Duration::from_secs(30);

/// What clients did and what is still open.
impl TestServer {
    /// The requests so far, oldest first.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.state.journal.requests()
    }

    /// How many requests of a kind there were: `server.count_requests(Verb::List, "pods")`.
    pub fn count_requests(&self, verb: Verb, resource: &str) -> usize {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        self.state.journal.count(|request| {
            request.verb == verb && request.resource == plural && (group.is_empty() || request.group == group)
        })
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.state.journal.clear();
    }

    /// How many watches are open.
    pub fn open_watches(&self) -> usize {
        self.state.hub.count(None)
    }

    /// How many watches of a resource (`pods`, `deployments.apps`) are open.
    pub fn open_watches_of(&self, resource: &str) -> usize {
        self.state.hub.count(Some(resource))
    }

    /// How many requests have no answer yet, or one that is neither read to its end nor dropped.
    pub fn open_requests(&self) -> usize {
        self.state.hub.in_flight()
    }

    /// Checks that no watch and no request is open.
    ///
    /// # Panics
    ///
    /// If something is; the message lists the watches.
    #[track_caller]
    pub fn assert_nothing_open(&self) {
        let (watches, requests) = (self.state.hub.describe(), self.open_requests());
        assert!(
            watches.is_empty() && requests == 0,
            "{} watches and {requests} requests are still open: {}",
            watches.len(),
            watches.join("; ")
        );
    }

    /// Waits until a condition on the server holds. It is looked at after each write, request, answer and end of a
    /// watch.
    ///
    /// # Panics
    ///
    /// If it does not hold within 30 seconds of tokio's clock; `what` names it in the message.
    pub async fn wait_for(&self, what: &str, condition: impl Fn(&TestServer) -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            // Listening starts before looking, so that no change can fall in between.
            let changed = self.state.hub.changed().notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if condition(self) {
                return;
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                let open = self.state.hub.describe().join("; ");
                panic!("{what}: not so after {PATIENCE:?}; open watches: [{open}]");
            }
        }
    }
}
