//! The public handle of a server: build it, fill it, observe it, disrupt it.

pub(crate) mod builder;
mod disrupt;
mod manifests;
mod mirror;
mod objects;
mod observe;
mod replica;
pub(crate) mod snapshot;
mod system;

use std::io;
use std::sync::Arc;

use kube::{Client, Config};
use serde_json::json;
use tokio::net::ToSocketAddrs;

use crate::server::builder::TestServerBuilder;
use crate::state::ServerState;
use crate::transport::service::TestService;
use crate::transport::socket::Listening;
use crate::user::User;

pub use replica::ReplicaHandle;
pub use snapshot::Snapshot;

/// An in-memory API server. Clones share it; it is dropped with the last clone and client.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), kube::Error> {
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::{Api, api::ListParams};
/// use kube_testserver::{TestServer, builders::pod};
///
/// let server = TestServer::new();
/// server.create(pod("shop", "cart"));
///
/// let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
/// assert_eq!(pods.list(&ListParams::default()).await?.items.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TestServer {
    state: Arc<ServerState>,
    listening: Option<Arc<Listening>>,
}

impl Default for TestServer {
    fn default() -> TestServer {
        TestServer::new()
    }
}

/// Constructors, clients and addresses.
impl TestServer {
    /// A server without a socket: no task, no port; runs on a paused clock.
    pub fn new() -> TestServer {
        TestServer::builder().build()
    }

    /// A server with other settings.
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder::new()
    }

    #[cfg(test)]
    pub(crate) fn state(&self) -> &ServerState {
        &self.state
    }

    pub(crate) fn from_state(state: Arc<ServerState>, listening: Option<Arc<Listening>>) -> TestServer {
        TestServer { state, listening }
    }

    /// A server on a free port of the loopback interface.
    pub async fn start() -> io::Result<TestServer> {
        TestServer::builder().listen("127.0.0.1:0").await
    }

    /// A client of this server: in process, or over the socket if the server listens without TLS. It does not retry, so it reports
    /// exactly what the server responded. Must be called within a tokio runtime.
    ///
    /// # Panics
    ///
    /// If the client cannot be built, which no setting of the server can cause.
    pub fn client(&self) -> Client {
        // Over TLS a client would need a TLS stack of its own, which this crate does not choose.
        if let Some(config) = self.config().filter(|_| !self.speaks_tls()) {
            return match Client::try_from(config) {
                Ok(client) => client,
                Err(error) => panic!("cannot build a client: {error}"),
            };
        }
        Client::new(
            self.service().authenticated(),
            self.state.config.default_namespace.clone(),
        )
    }

    /// A client of this server in process that acts as a user, without credentials: `jane`, or
    /// `system:serviceaccount:shop:operator`, which is in the groups of service accounts. For servers with
    /// [RBAC](TestServerBuilder::rbac). Must be called within a tokio runtime.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        Client::new(
            self.service().acting_as(User::new(user, groups)),
            self.state.config.default_namespace.clone(),
        )
    }

    /// The address it listens on, such as `http://127.0.0.1:41234`; `None` without a socket.
    pub fn url(&self) -> Option<String> {
        self.listening.as_ref().map(|listening| {
            let scheme = if self.speaks_tls() { "https" } else { "http" };
            format!("{scheme}://{}", listening.address())
        })
    }

    #[cfg(feature = "tls")]
    fn speaks_tls(&self) -> bool {
        self.state.tls.is_some()
    }

    #[cfg(not(feature = "tls"))]
    #[expect(
        clippy::unused_self,
        reason = "the same signature with and without the feature"
    )]
    fn speaks_tls(&self) -> bool {
        false
    }

    /// The certificate authority of a server that speaks TLS, in PEM.
    #[cfg(feature = "tls")]
    pub fn certificate_authority(&self) -> Option<&str> {
        self.state.tls.as_ref().map(crate::tls::Tls::authority)
    }

    /// The configuration of a client over the socket; `None` without one. Retries are off.
    pub fn config(&self) -> Option<Config> {
        let mut config = Config::new(self.url()?.parse().ok()?);
        config
            .default_namespace
            .clone_from(&self.state.config.default_namespace);
        config.default_retry = false;
        config.auth_info.token = self
            .state
            .config
            .token
            .as_ref()
            .map(|token| token.expose().to_owned().into());
        Some(config)
    }

    /// A kubeconfig as YAML; `None` without a socket.
    pub fn kubeconfig(&self) -> Option<String> {
        #[allow(unused_mut, reason = "certificates are added with the feature `tls`")]
        let mut user = match &self.state.config.token {
            Some(token) => json!({ "token": token.expose() }),
            None => json!({}),
        };
        #[allow(unused_mut, reason = "the authority is added with the feature `tls`")]
        let mut cluster = json!({ "server": self.url()? });
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.state.tls {
            cluster["certificate-authority-data"] = tls.authority_data().into();
            if self.state.config.token.is_none() {
                user = tls.user();
            }
        }
        let namespace = &self.state.config.default_namespace;
        let name = "kube-testserver";
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": name, "cluster": cluster }],
            "users": [{ "name": name, "user": user }],
            "contexts": [{ "name": name, "context": { "cluster": name, "user": name, "namespace": namespace } }],
            "current-context": name,
        });
        serde_saphyr::to_string(&kubeconfig).ok()
    }

    /// Listens on a loopback address and returns another handle of the same server, with the same objects. After
    /// [`shutdown`](Self::shutdown) the old address can be bound again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube_testserver::{TestServer, builders::pod};
    ///
    /// let server = TestServer::start().await?;
    /// server.create(pod("shop", "cart"));
    /// let address = server.url().unwrap().replace("http://", "");
    ///
    /// server.shutdown().await; // clients cannot reach it, the objects stay
    /// let again = server.listen(&address).await?;
    ///
    /// assert_eq!(again.url(), server.url());
    /// assert!(again.get::<Pod>("shop", "cart").is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The address cannot be bound, or is not a loopback address.
    pub async fn listen(&self, address: impl ToSocketAddrs) -> io::Result<TestServer> {
        let listening = Listening::start(self.state.clone(), address, false).await?;
        Ok(TestServer::from_state(
            self.state.clone(),
            Some(Arc::new(listening)),
        ))
    }

    /// Closes the socket and every connection, and waits until both are closed. Does nothing without a socket.
    pub async fn shutdown(&self) {
        if let Some(listening) = &self.listening {
            listening.stop().await;
        }
    }

    /// The server as a tower service, for clients with custom layers.
    pub fn service(&self) -> TestService {
        TestService::new(self.state.clone(), None)
    }
}
