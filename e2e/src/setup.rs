//! What a scenario needs of its server, said once for both: as flags of kube-apiserver and as settings of the embedded
//! server.

use std::time::Duration;

use kube_testserver::{TestServer, TestServerBuilder};

/// The token by which the embedded server knows the user without permissions, as a cluster of `e2e/cluster` does.
pub(crate) const NOBODY_TOKEN: &str = "nobody-token";

/// What a scenario needs of its server.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    own: bool,
    sharding: bool,
    flags: Vec<String>,
}

impl Setup {
    /// A server like any other, which others may use at the same time. It must not be harmed.
    pub fn shared() -> Setup {
        Setup::default()
    }

    /// A server that nobody else uses: it can be killed, and its history forgotten.
    pub fn own() -> Setup {
        Setup {
            own: true,
            ..Setup::default()
        }
    }

    /// A server of its own that understands `shardSelector`, which is off unless asked for.
    pub fn sharding() -> Setup {
        Setup {
            sharding: true,
            ..Setup::own()
        }
        .flag("--feature-gates=ShardedListAndWatch=true")
    }

    /// A server of its own that keeps no history but the storage's, so that [`compact`](crate::Server::compact) makes it
    /// forget. (The cache of a real server would still know.)
    pub fn without_watch_cache() -> Setup {
        Setup::own().flag("--watch-cache=false")
    }

    /// A server of its own that answers one request at a time, watches and those of administrators not counted. The
    /// embedded server has no such limit: use a fault.
    pub fn one_request_at_a_time() -> Setup {
        Setup::own()
            .flag("--enable-priority-and-fairness=false")
            .flag("--max-requests-inflight=1")
    }

    /// A flag for kube-apiserver. It says nothing to the embedded server.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Setup {
        self.own = true;
        self.flags.push(flag.to_owned());
        self
    }

    pub(crate) fn is_own(&self) -> bool {
        self.own
    }

    pub(crate) fn flags(&self) -> &[String] {
        &self.flags
    }

    /// The embedded server, as strict as a real one.
    pub(crate) fn embedded(&self) -> TestServerBuilder {
        let builder = TestServer::builder()
            .require_namespaces()
            .graceful_pods()
            .user_without_permissions(NOBODY_TOKEN, "nobody")
            // A real server takes a minute; the suite need not wait for that twice.
            .bookmark_interval(Duration::from_secs(5));
        if self.sharding {
            builder.sharding()
        } else {
            builder
        }
    }
}
