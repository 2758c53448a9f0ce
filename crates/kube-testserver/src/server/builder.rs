//! Server settings.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::net::ToSocketAddrs;

use crate::fault::Faults;
use crate::kinds::{Kind, Registry};
use crate::read::list::PageCounts;
use crate::server::TestServer;
use crate::server::clock::Clock;
use crate::server::state::{Config, Secret, ServerState, UserWithoutPermissions};
use crate::storage::Store;
use crate::storage::replica::Replicas;
use crate::transport::journal::Journal;
use crate::transport::socket::Listening;
use crate::watch::hub::Hub;

/// Settings of a [`TestServer`]; every one has a default.
#[derive(Clone, Debug)]
#[must_use = "no server is created before `build`"]
pub struct TestServerBuilder {
    config: Config,
    kinds: Vec<Kind>,
    remote: bool,
}

impl TestServerBuilder {
    pub(crate) fn new() -> TestServerBuilder {
        TestServerBuilder {
            config: Config {
                token: None,
                user_without_permissions: None,
                seed: 0,
                bookmark_interval: Duration::from_secs(60),
                // The largest window of a real server's watch cache.
                watch_window: 102_400,
                slow_watch: None,
                // The limit of a real server.
                body_limit: 3 * 1024 * 1024,
                collect_garbage: false,
                conformant: false,
                require_namespaces: false,
                graceful_pods: false,
                sharding: false,
                replicas: 1,
                default_namespace: "default".to_owned(),
            },
            kinds: Vec::new(),
            remote: false,
        }
    }

    /// Requires a bearer token. The server's own clients send it.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.config.token = Some(Secret::new(token));
        self
    }

    /// Adds a user, identified by another token, without any permissions: every request for a resource is refused with
    /// status 403 in the wording of a real server.
    pub fn user_without_permissions(mut self, token: impl Into<String>, user: impl Into<String>) -> Self {
        self.config.user_without_permissions = Some(UserWithoutPermissions {
            token: Secret::new(token),
            user: user.into(),
        });
        self
    }

    /// The random seed of uids, generated names and faults with a probability. Two servers with the same seed and the
    /// same requests behave alike.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// The interval between the bookmarks of a watch; 60 seconds by default.
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.config.bookmark_interval = interval;
        self
    }

    /// The number of changes kept per resource; 102 400 by default. Older watches and exact lists are refused with 410.
    pub fn watch_window(mut self, changes: usize) -> Self {
        self.config.watch_window = changes;
        self
    }

    /// Closes a watch whose client is more than this number of changes behind, as a real server does with slow
    /// readers. By default only the watch window limits it.
    pub fn slow_watch_limit(mut self, changes: usize) -> Self {
        self.config.slow_watch = Some(changes);
        self
    }

    /// The size limit of a request body; 3 MiB by default.
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.config.body_limit = bytes;
        self
    }

    /// Deletes objects whose owners are gone, as the garbage collector of a cluster does.
    pub fn garbage_collection(mut self) -> Self {
        self.config.collect_garbage = true;
        self
    }

    /// Treats the objects that clients send as a real server does: built-in objects are decoded by their types, with
    /// warnings or errors for unknown fields, get the defaults and allocated values of a real server, and are validated;
    /// namespaces must exist, and pods are deleted gracefully. The program does this.
    ///
    /// By default built-in objects are stored as they are sent, because tests often leave out what they do not need.
    /// Objects that the test stores itself, with [`TestServer::create`] and the like, are never checked.
    pub fn conformant(mut self) -> Self {
        self.config.conformant = true;
        self.require_namespaces().graceful_pods()
    }

    /// Rejects objects in namespaces that do not exist, as a real server does. By default namespaces need not exist.
    pub fn require_namespaces(mut self) -> Self {
        self.config.require_namespaces = true;
        self
    }

    /// Deletes pods on a node gracefully, as a real server does: a deletion marks them, and they are removed when they
    /// are deleted again with `gracePeriodSeconds=0`, which a kubelet would do. By default they are removed at once.
    pub fn graceful_pods(mut self) -> Self {
        self.config.graceful_pods = true;
        self
    }

    /// Supports `shardSelector` on lists and watches, which is alpha in Kubernetes 1.36. By default the parameter is
    /// ignored silently, as by any server without support for it.
    pub fn sharding(mut self) -> Self {
        self.config.sharding = true;
        self
    }

    /// Serves a custom kind, as if its definition had been posted.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// The number of replicas over one storage; see [`TestServer::replica`]. One by default.
    pub fn replicas(mut self, count: usize) -> Self {
        self.config.replicas = count;
        self
    }

    /// The default namespace of the server's clients; `default` by default.
    pub fn default_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.config.default_namespace = namespace.into();
        self
    }

    /// Allows [`listen`](Self::listen) on addresses that other machines can reach. Consider a token as well: without
    /// one, every client that reaches the server has full access.
    pub fn allow_remote(mut self) -> Self {
        self.remote = true;
        self
    }

    /// Builds the server and listens on a socket: `"127.0.0.1:0"` for any free port. Only loopback addresses are
    /// accepted, unless [`allow_remote`](Self::allow_remote) is set.
    pub async fn listen(self, address: impl ToSocketAddrs) -> io::Result<TestServer> {
        let remote = self.remote;
        let state = self.into_state();
        let listening = Listening::start(state.clone(), address, remote).await?;
        Ok(TestServer::from_state(state, Some(Arc::new(listening))))
    }

    /// Builds the server without a socket.
    pub fn build(self) -> TestServer {
        TestServer::from_state(self.into_state(), None)
    }

    fn into_state(self) -> Arc<ServerState> {
        let mut registry = builtin_kinds();
        for kind in self.kinds {
            registry.insert(kind);
        }
        Arc::new(ServerState {
            store: RwLock::new(Store::new(self.config.watch_window, self.config.collect_garbage)),
            registry: RwLock::new(registry),
            hub: Arc::new(Hub::default()),
            journal: Journal::default(),
            faults: Faults::new(self.config.seed ^ 0xfa17),
            poisons: Arc::default(),
            replicas: Replicas::new(self.config.replicas),
            page_counts: PageCounts::default(),
            clock: Arc::new(Clock::new()),
            rng: Mutex::new(fastrand::Rng::with_seed(self.config.seed)),
            audit: Mutex::new(fastrand::Rng::with_seed(self.config.seed ^ 0xa0d17)),
            refusing: AtomicBool::new(false),
            config: self.config,
        })
    }
}

/// The built-in kinds, built once for all servers of the process.
fn builtin_kinds() -> Registry {
    static KINDS: OnceLock<Registry> = OnceLock::new();
    KINDS.get_or_init(Registry::builtin).clone()
}
