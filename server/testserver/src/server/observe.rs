//! Observing the server: requests so far, open watches and requests, waiting for a condition.

use std::time::Duration;

use kube_api_protocol::request::Verb;

use super::TestServer;
use crate::journal::SeenRequest;

/// Timeout of [`TestServer::wait_for`], on tokio's clock.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Requests so far, and what is still open.
impl TestServer {
    /// The requests so far, oldest first.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.state.journal.requests()
    }

    /// The number of requests so far with a verb and resource: `server.count_requests(Verb::List, "pods")`.
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

    /// The number of open watches.
    pub fn open_watches(&self) -> usize {
        self.state.hub.count(None)
    }

    /// The number of open watches of a resource (`pods`, `deployments.apps`).
    pub fn open_watches_of(&self, resource: &str) -> usize {
        self.state.hub.count(Some(resource))
    }

    /// The number of requests in flight: without a response, or with one whose body is neither read to its end nor
    /// dropped.
    pub fn open_requests(&self) -> usize {
        self.state.hub.in_flight()
    }

    /// Whether the server's [controllers](crate::TestServerBuilder::controllers) have acted on all writes so far. Work for a
    /// later time, such as a pod that becomes ready after a minute, does not count.
    pub fn controllers_are_idle(&self) -> bool {
        let deferred = self.state.store.read().count_deferred();
        deferred == 0 && !self.state.controllers.is_busy()
    }

    /// Checks that no watch and no request is open.
    ///
    /// # Panics
    ///
    /// If one is open; the message lists the watches.
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

    /// Waits until a condition on the server holds. The condition is checked after each write, request, response and end
    /// of a watch.
    ///
    /// # Panics
    ///
    /// If it does not hold within 30 seconds of tokio's clock; `what` names it in the message.
    pub async fn wait_for(&self, what: &str, condition: impl Fn(&TestServer) -> bool) {
        self.wait_for_within(TIMEOUT, what, condition).await;
    }

    /// Like [`wait_for`](Self::wait_for), with another timeout.
    ///
    /// # Panics
    ///
    /// If the condition does not hold within `timeout` of tokio's clock; `what` names it in the message.
    pub async fn wait_for_within(
        &self,
        timeout: Duration,
        what: &str,
        condition: impl Fn(&TestServer) -> bool,
    ) {
        let holds = async {
            loop {
                // Registered before the check, so that no change is lost in between.
                let changed = self.state.hub.changed().notified();
                let mut changed = std::pin::pin!(changed);
                changed.as_mut().enable();
                if condition(self) {
                    return;
                }
                changed.await;
            }
        };
        // Accepts any duration: an overflowing deadline waits as long as tokio's clock can.
        if tokio::time::timeout(timeout, holds).await.is_err() {
            let open = self.state.hub.describe().join("; ");
            panic!("{what}: still not true after {timeout:?}; open watches: [{open}]");
        }
    }
}
