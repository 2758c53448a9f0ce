//! Server settings.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::{Mutex, RwLock};
use tokio::net::ToSocketAddrs;

use crate::clock::Clock;
use crate::controllers::{Controller, Controllers, Running};
use crate::fault::Faults;
use crate::hooks::{ConversionWebhook, Phase, Services, Webhook};
use crate::hub::Hub;
use crate::journal::Journal;
use crate::kinds::{Kind, Registry};
use crate::logs::Logs;
use crate::reconcile;
use crate::server::{Snapshot, TestServer};
use crate::state::{Config, ServerState, Timing};
use crate::storage::Store;
use crate::storage::page_counts::PageCounts;
use crate::storage::replica::Replicas;
use crate::transport::socket::Listening;
use crate::user::{Secret, User, UserWithoutPermissions};

/// Settings of a [`TestServer`]; every one has a default.
#[derive(Clone, Debug)]
#[must_use = "no server is created before `build`"]
pub struct TestServerBuilder {
    config: Config,
    kinds: Vec<Kind>,
    remote: bool,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Tls>,
    registry: Option<Registry>,
    snapshot: Option<Snapshot>,
}

impl TestServerBuilder {
    pub(crate) fn new() -> TestServerBuilder {
        TestServerBuilder {
            config: Config {
                token: None,
                user_without_permissions: None,
                users: Vec::new(),
                rbac: false,
                field_managers: false,
                seed: 0,
                first_version: None,
                bookmark_interval: Duration::from_secs(60),
                // The largest window of a real server's watch cache.
                watch_window: 102_400,
                slow_watch: None,
                // The limit of a real server.
                body_limit: 3 * 1024 * 1024,
                garbage: Timing::Never,
                namespaces: Timing::AtOnce,
                controllers: Controllers::none(),
                conformant: false,
                require_namespaces: false,
                graceful_pods: false,
                sharding: false,
                replicas: 1,
                default_namespace: "default".to_owned(),
                webhooks: Vec::new(),
                conversions: Vec::new(),
                services: Services::default(),
            },
            kinds: Vec::new(),
            remote: false,
            #[cfg(feature = "tls")]
            tls: None,
            registry: None,
            snapshot: None,
        }
    }

    /// The settings and kinds of an existing server.
    pub(super) fn from_config(config: Config, registry: Registry) -> TestServerBuilder {
        TestServerBuilder {
            config,
            registry: Some(registry),
            ..TestServerBuilder::new()
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

    /// Adds a user, identified by another token. What it may do is decided by [`rbac`](Self::rbac); without it, everything.
    pub fn user(mut self, token: impl Into<String>, name: impl Into<String>, groups: &[&str]) -> Self {
        self.config
            .users
            .push((Secret::new(token), User::new(name, groups)));
        self
    }

    /// Switches RBAC on: Roles, ClusterRoles and their bindings decide what clients may do, and refused requests get status 403 in
    /// the wording of a real server.
    ///
    /// Users are those of [`user`](Self::user), service accounts by the tokens that `serviceaccounts/token` issues, and those that a
    /// client impersonates; see also [`TestServer::client_as`]. [`TestServer::client`] and clients with the
    /// [token](Self::token) may do everything, clients without credentials almost nothing. Access reviews
    /// (`kubectl auth can-i`) are answered by the same rules. Aggregated ClusterRoles get the rules of the roles that they
    /// select, in the same step as the write that changes them. Users cannot write roles and bindings that grant permissions
    /// which they do not have, unless they have the verb `escalate` or `bind`.
    ///
    /// Of the default roles there are `cluster-admin`, `system:basic-user`, `system:discovery` and `system:public-info-viewer`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube::{Api, api::ListParams};
    /// use kube_testserver::TestServer;
    /// use serde_json::json;
    ///
    /// let server = TestServer::builder().rbac().build();
    /// server.create(json!({
    ///     "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "namespace": "shop", "name": "reader" },
    ///     "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] }],
    /// }));
    /// server.create(json!({
    ///     "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "namespace": "shop", "name": "read" },
    ///     "roleRef": { "kind": "Role", "name": "reader" }, "subjects": [{ "kind": "ServiceAccount", "name": "operator" }],
    /// }));
    ///
    /// let operator = server.client_as("system:serviceaccount:shop:operator", &[]);
    /// let pods: Api<Pod> = Api::namespaced(operator.clone(), "shop");
    /// pods.list(&ListParams::default()).await?;
    /// let error = pods.delete("cart", &Default::default()).await.unwrap_err();
    /// assert!(error.to_string().contains(r#"cannot delete resource "pods" in API group """#));
    /// # Ok(())
    /// # }
    /// ```
    pub fn rbac(mut self) -> Self {
        self.config.rbac = true;
        self
    }

    /// The writes of [`controllers`](Self::controllers) and of [`Churn`](crate::churn::Churn) have field managers, as in a real cluster:
    /// `kubelet`, `kube-scheduler`, `kube-controller-manager`, `kubectl-set`, … Those of tests have none. Off by default, since
    /// `managedFields` take time and make objects larger.
    pub fn field_managers(mut self) -> Self {
        self.config.field_managers = true;
        self
    }

    /// Adds a mutating admission webhook: a function that can change or refuse the writes of clients. Webhooks are called in
    /// the order in which they are added, before those of stored `MutatingWebhookConfiguration`s.
    pub fn mutating_webhook(mut self, webhook: Webhook) -> Self {
        self.config.webhooks.push((Phase::Mutating, webhook));
        self
    }

    /// Adds a validating admission webhook: a function that can refuse the writes of clients. It sees the object as it will be
    /// stored, after all mutating webhooks.
    pub fn validating_webhook(mut self, webhook: Webhook) -> Self {
        self.config.webhooks.push((Phase::Validating, webhook));
        self
    }

    /// Adds a conversion webhook: a function that converts the objects of a custom resource between its versions, in place of the
    /// endpoint in its definition. Of several for one definition the last one is called.
    pub fn conversion_webhook(mut self, webhook: ConversionWebhook) -> Self {
        self.config.conversions.push(webhook);
        self
    }

    /// The random seed of uids, generated names and faults with a probability. Two servers with the same seed and the
    /// same requests behave alike.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// The resource version before the first write.
    ///
    /// By default a server on a socket derives it from the time of its start, so that versions of an earlier server on the
    /// same address are older than any of its own: watches from them are refused with 410, and clients list again. A
    /// server without a socket starts at 1, because no client outlives it. Set a version to make a restarted server reuse
    /// the versions of the earlier one, a fault that informers must survive.
    pub fn first_version(mut self, version: u64) -> Self {
        self.config.first_version = Some(version.max(1));
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

    /// Deletes objects whose owners are gone by the rules of a cluster's garbage collector, but at once: as part of the write
    /// that removes the owner. See [`controllers`](Self::controllers) for one that takes its time.
    pub fn garbage_collection(mut self) -> Self {
        self.config.garbage = Timing::AtOnce;
        self
    }

    /// Runs controllers of a cluster, which act some time after the write that they react to. None by default.
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        if controllers.has(Controller::Garbage) {
            self.config.garbage = Timing::Later;
        }
        if controllers.has(Controller::Namespaces) {
            self.config.namespaces = Timing::Later;
        }
        self.config.controllers = controllers;
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

    /// Starts with the objects of a snapshot, and continues after its resource version.
    pub fn restore(mut self, snapshot: Snapshot) -> Self {
        self.config.first_version = Some(snapshot.revision);
        self.snapshot = Some(snapshot);
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

    /// Serves HTTPS on the socket, with an authority and certificates generated now. `addresses` are those that clients
    /// use besides loopback. [`TestServer::kubeconfig`] contains the authority and the certificate of an administrator;
    /// clients may also send a [token](Self::token). A client with neither is refused.
    ///
    /// # Errors
    ///
    /// The certificates cannot be generated.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, addresses: &[std::net::IpAddr]) -> io::Result<Self> {
        self.tls = Some(crate::tls::Tls::generate(addresses)?);
        Ok(self)
    }

    /// Serves HTTPS with these certificates, in PEM: the server's, its key, and the authority of clients.
    #[cfg(feature = "cli")]
    pub(crate) fn tls_with(mut self, certificate: &[u8], key: &[u8], clients: &[u8]) -> io::Result<Self> {
        self.tls = Some(crate::tls::Tls::read(certificate, key, clients)?);
        Ok(self)
    }

    /// Allows [`listen`](Self::listen) on addresses that other machines can reach. Consider a token as well: without
    /// one, every client that reaches the server has full access, and can make it call any address by a webhook configuration.
    pub fn allow_remote(mut self) -> Self {
        self.remote = true;
        self
    }

    /// Builds the server and listens on a socket: `"127.0.0.1:0"` for any free port. Only loopback addresses are
    /// accepted, unless [`allow_remote`](Self::allow_remote) is set.
    pub async fn listen(mut self, address: impl ToSocketAddrs) -> io::Result<TestServer> {
        let remote = self.remote;
        let now = jiff::Timestamp::now().as_microsecond();
        // In microseconds, because a server never writes faster than that.
        self.config
            .first_version
            .get_or_insert(u64::try_from(now).unwrap_or(1));
        let state = self.into_state();
        let listening = Listening::start(state.clone(), address, remote).await?;
        Ok(TestServer::from_state(state, Some(Arc::new(listening))))
    }

    /// Builds the server without a socket.
    pub fn build(self) -> TestServer {
        TestServer::from_state(self.into_state(), None)
    }

    fn into_state(self) -> Arc<ServerState> {
        let mut registry = self.registry.unwrap_or_else(builtin_kinds);
        for kind in self.kinds {
            registry.insert(kind);
        }
        let mut store = Store::new(
            self.config.watch_window,
            self.config.garbage != Timing::Never || self.config.controllers.need_changes(),
            self.config.first_version.unwrap_or(1),
        );
        for (collection, object) in self.snapshot.iter().flat_map(|snapshot| &snapshot.objects) {
            if &**collection == "customresourcedefinitions.apiextensions.k8s.io" {
                // Definitions were valid when they were stored; one that is not serves no kind.
                let served = registry.insert_crd(&object.value());
                debug_assert!(served.is_ok(), "{served:?}");
            }
            store.adopt(collection, object.clone());
        }
        if self.config.controllers.need_changes() {
            store.report_changes();
        }
        if !self.config.controllers.is_empty() {
            store.defer_all();
        }
        Arc::new_cyclic(|this| ServerState {
            store: RwLock::new(store),
            registry: RwLock::new(registry),
            hub: Arc::new(Hub::default()),
            journal: Journal::default(),
            faults: Faults::new(self.config.seed ^ 0xfa17),
            poisons: Arc::default(),
            replicas: Replicas::new(self.config.replicas),
            page_counts: PageCounts::default(),
            logs: Logs::default(),
            clock: Arc::new(Clock::new()),
            rng: Mutex::new(fastrand::Rng::with_seed(self.config.seed)),
            audit: Mutex::new(fastrand::Rng::with_seed(self.config.seed ^ 0xa0d17)),
            refusing: AtomicBool::new(false),
            controllers: Running::default(),
            reconcile: |state, wake| reconcile::run(state, wake).boxed(),
            this: this.clone(),
            #[cfg(feature = "tls")]
            tls: self.tls,
            config: self.config,
        })
    }
}

/// The built-in kinds, built once for all servers of the process.
fn builtin_kinds() -> Registry {
    static KINDS: OnceLock<Registry> = OnceLock::new();
    KINDS.get_or_init(Registry::builtin).clone()
}
