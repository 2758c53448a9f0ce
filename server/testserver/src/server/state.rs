//! The state of a server, shared by its clients, connections and watches.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::auth::User;
use crate::controllers::{Controllers, Running};
use crate::fault::{Faults, Poisons};
use crate::kinds::{Kind, Registry};
use crate::read::connect::Logs;
use crate::read::list::PageCounts;
use crate::server::clock::Clock;
use crate::storage::Store;
use crate::storage::replica::Replicas;
use crate::transport::journal::Journal;
use crate::watch::hub::Hub;
use crate::webhooks::{ConversionWebhook, Phase, Services, Webhook};

/// The settings of a server.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) token: Option<Secret>,
    pub(crate) user_without_permissions: Option<UserWithoutPermissions>,
    /// Further users, by token.
    pub(crate) users: Vec<(Secret, User)>,
    /// Whether roles and bindings decide what users may do.
    pub(crate) rbac: bool,
    /// Whether writes of controllers and of the churn have a field manager.
    pub(crate) field_managers: bool,
    pub(crate) seed: u64,
    /// The version before the first write; chosen when the server is built if there is none.
    pub(crate) first_version: Option<u64>,
    pub(crate) bookmark_interval: Duration,
    pub(crate) watch_window: usize,
    /// A watch that falls further behind than this is closed; `None`: only when the window has passed it.
    pub(crate) slow_watch: Option<usize>,
    pub(crate) body_limit: usize,
    pub(crate) garbage: Timing,
    pub(crate) namespaces: Timing,
    pub(crate) controllers: Controllers,
    /// Whether built-in objects of clients are checked and completed by their types.
    pub(crate) conformant: bool,
    pub(crate) require_namespaces: bool,
    pub(crate) graceful_pods: bool,
    pub(crate) sharding: bool,
    pub(crate) replicas: usize,
    pub(crate) default_namespace: String,
    /// The webhooks of the test, in the order in which they were added.
    pub(crate) webhooks: Vec<(Phase, Webhook)>,
    /// The conversion webhooks of the test.
    pub(crate) conversions: Vec<ConversionWebhook>,
    pub(crate) services: Services,
}

/// When the consequences of a deletion are performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    Never,
    /// As part of the write that causes them.
    AtOnce,
    /// By the controllers, some time after the write.
    Later,
}

/// An authenticated user whose requests for objects are all forbidden.
#[derive(Clone, Debug)]
pub(crate) struct UserWithoutPermissions {
    pub(crate) token: Secret,
    pub(crate) user: String,
}

/// A token: compared, sent and written into kubeconfigs, but never printed.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(secret: impl Into<String>) -> Secret {
        Secret(secret.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// The state behind every handle of a server.
pub(crate) struct ServerState {
    pub(crate) config: Config,
    pub(crate) store: RwLock<Store>,
    pub(crate) registry: RwLock<Registry>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) journal: Journal,
    pub(crate) faults: Faults,
    pub(crate) poisons: Arc<Poisons>,
    pub(crate) replicas: Replicas,
    pub(crate) page_counts: PageCounts,
    pub(crate) logs: Logs,
    pub(crate) clock: Arc<Clock>,
    /// The source of uids, generated names and watch durations.
    pub(crate) rng: Mutex<fastrand::Rng>,
    /// The source of audit ids; separate, so that a read does not change the next uid.
    pub(crate) audit: Mutex<fastrand::Rng>,
    pub(crate) refusing: AtomicBool,
    pub(crate) controllers: Running,
    /// For tasks, which must not keep the server alive.
    pub(crate) this: Weak<ServerState>,
    /// The certificates, if the server speaks TLS on its socket.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<crate::transport::tls::Tls>,
}

/// Never prints objects: some of them are secrets.
impl fmt::Debug for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerState")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Timeout for a requested version that the server has not reached yet.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

impl ServerState {
    /// Changes the store, applies the consequences, then wakes the waiting watches and requests.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let (result, touched, revision) = {
            let mut store = self.store.write();
            let result = change(&mut store);
            crate::write::settle(self, &mut store);
            (result, store.take_touched(), store.revision())
        };
        if !touched.is_empty() {
            self.hub.wake(&touched, revision, self.config.watch_window);
        }
        self.run_controllers();
        result
    }

    /// The newest revision that a replica can see.
    pub(crate) fn visible(&self, replica: usize, store: &Store) -> u64 {
        self.replicas.visible(replica, store.revision())
    }

    /// Whether new connections are refused.
    pub(crate) fn refuses_connections(&self) -> bool {
        self.refusing.load(Ordering::Acquire)
    }

    /// Waits until a replica has reached `revision`; returns the revision it has reached.
    pub(crate) async fn wait_for(&self, replica: usize, revision: u64) -> Result<u64, u64> {
        let deadline = tokio::time::Instant::now() + FRESHNESS_WAIT;
        loop {
            // Registered before the check, so that no write is lost in between.
            let changed = self.hub.changed().notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let now = self.visible(replica, &self.store.read());
            if now >= revision {
                return Ok(now);
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return Err(now);
            }
        }
    }

    /// A new uid, drawn from the server's seed.
    pub(crate) fn new_uid(&self) -> String {
        random_uuid(&mut self.rng.lock())
    }

    /// A new audit id for a response.
    pub(crate) fn new_audit_id(&self) -> String {
        random_uuid(&mut self.audit.lock())
    }

    /// The collection of a kind's objects: `deployments.apps`. All versions of a resource share it.
    pub(crate) fn collection_of(kind: &Kind) -> Arc<str> {
        match kind.stored.group.as_str() {
            "" => kind.stored.plural.as_str().into(),
            group => format!("{}.{group}", kind.stored.plural).into(),
        }
    }
}

/// An identifier in the form of a version 4 UUID.
fn random_uuid(rng: &mut fastrand::Rng) -> String {
    let random = rng.u128(..);
    let bits = (random & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    let (a, rest) = hex.split_at(8);
    let (b, rest) = rest.split_at(4);
    let (c, rest) = rest.split_at(4);
    let (d, e) = rest.split_at(4);
    format!("{a}-{b}-{c}-{d}-{e}")
}
