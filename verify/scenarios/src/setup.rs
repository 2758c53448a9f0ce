//! The server settings of a scenario, as flags of kube-apiserver and as settings of the embedded server.

use std::time::Duration;

use kube_testserver::{TestServer, TestServerBuilder};

/// The embedded server's token for the user without permissions; the same as in `verify/scenarios/cluster`.
pub(crate) const NOBODY_TOKEN: &str = "nobody-token";

/// The server settings of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    own: bool,
    sharding: bool,
    json: bool,
    flags: Vec<String>,
}

impl Setup {
    /// A server shared with other scenarios. It must not be disrupted.
    pub fn shared() -> Setup {
        Setup::default()
    }

    /// A separate server, which can be killed and compacted.
    pub fn own() -> Setup {
        Setup {
            own: true,
            ..Setup::default()
        }
    }

    /// A separate server that supports `shardSelector`, which is off by default.
    pub fn sharding() -> Setup {
        Setup {
            sharding: true,
            ..Setup::own()
        }
        .flag("--feature-gates=ShardedListAndWatch=true")
    }

    /// A separate server without watch cache, so that [`compact`](crate::Server::compact) removes all history. (The
    /// cache of a real server would still have it.)
    pub fn without_watch_cache() -> Setup {
        Setup::own().flag("--watch-cache=false")
    }

    /// A separate server that handles one request at a time, not counting watches and requests of administrators. The
    /// embedded server has no such limit: use a fault.
    pub fn one_request_at_a_time() -> Setup {
        Setup::own()
            .flag("--enable-priority-and-fairness=false")
            .flag("--max-requests-inflight=1")
    }

    /// A flag for kube-apiserver. The embedded server ignores it.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Setup {
        self.own = true;
        self.flags.push(flag.to_owned());
        self
    }

    /// Informers read JSON even where they would choose protobuf: clients do not offer protobuf next to JSON.
    #[must_use]
    pub fn json(mut self) -> Setup {
        self.json = true;
        self
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
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
            // A real server sends bookmarks every minute; the suite need not wait that long twice.
            .bookmark_interval(Duration::from_secs(5));
        if self.sharding {
            builder.sharding()
        } else {
            builder
        }
    }
}
