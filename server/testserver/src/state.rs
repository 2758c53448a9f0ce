//! The state of a server, shared by its clients, connections and watches: what they read and write, and the settings.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use kube_informers_core::tasks::Task;
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::controllers::queue::Request;
use crate::controllers::{Controller, Controllers, PodRule, Running};
use crate::fault::{Faults, Poisons};
use crate::hooks::{ConversionWebhook, Phase, Services, Webhook};
use crate::hub::Hub;
use crate::journal::Journal;
use crate::kinds::{Kind, Registry};
use crate::logs::Logs;
use crate::storage::Store;
use crate::storage::page_counts::PageCounts;
use crate::storage::replica::Replicas;
use crate::user::{Secret, User, UserWithoutPermissions};

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

/// Performs the work of the controllers until none is left.
pub(crate) type Reconcile = fn(Weak<ServerState>, Arc<Notify>) -> BoxFuture<'static, ()>;

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
    /// The task of the controllers. They are built on the state and act through writes, so it does not name them.
    pub(crate) reconcile: Reconcile,
    /// For tasks, which must not keep the server alive.
    pub(crate) this: Weak<ServerState>,
    /// The certificates, if the server speaks TLS on its socket.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<crate::tls::Tls>,
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

/// The controllers.
impl ServerState {
    /// Whether there is work to do now. The locks are taken one after the other: they have no common order.
    pub(crate) fn has_work(&self) -> bool {
        let deferred = self.store.read().count_deferred();
        deferred > 0 || self.controllers.queue.lock().len() > 0
    }

    /// Adds a rule for pods, which precedes the earlier ones. Pods that it matches are looked at again.
    pub(crate) fn add_pod_rule(&self, rule: PodRule) {
        if self.config.controllers.has(Controller::Kubelet) {
            let store = self.store.read();
            let pods: Vec<String> = store
                .collection("pods")
                .into_iter()
                .flat_map(|pods| pods.objects().map(|pod| pod.key.to_string()))
                .collect();
            drop(store);
            let mut queue = self.controllers.queue.lock();
            for key in pods {
                queue.push(Request::new(Controller::Kubelet, key));
            }
        }
        self.controllers.rules.lock().push(rule);
        self.run_controllers();
    }

    /// Starts the controllers if they have something to do and do not run yet.
    pub(crate) fn run_controllers(&self) {
        if self.config.controllers.is_empty() {
            return;
        }
        let running = &self.controllers;
        // The task ends under the same lock, so no event is left between its last look and its end.
        let mut task = running.task.lock();
        if !self.has_work() {
            let lost = task.as_ref().is_none_or(Task::is_finished);
            if !lost || running.queue.lock().next_timer().is_none() {
                return;
            }
        }
        if task.as_ref().is_some_and(|task| !task.is_finished()) {
            running.wake.notify_one();
        } else if Handle::try_current().is_ok() {
            running.waits.store(false, Ordering::Release);
            let work = (self.reconcile)(self.this.clone(), running.wake.clone());
            *task = Some(Task::spawn("controllers", work));
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
