//! `Server`: the API server that a scenario runs against. Hides which server it is, except for unsupported operations.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use http::header::ACCEPT;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use kube_testserver::TestServer;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::lookup_host;
use tower::service_fn;

use crate::cluster::Cluster;
use crate::error::NoServer;
use crate::proxy::Proxy;
use crate::setup::{NOBODY_TOKEN, Setup};

/// Set by `verify/scenarios/cluster with`: the directory of a shared cluster.
const SHARED: &str = "KUBE_INFORMERS_E2E_DIR";
/// Set by `verify/scenarios/run --existing`: the kubeconfig of an existing cluster.
const EXISTING: &str = "KUBE_INFORMERS_E2E_KUBECONFIG";

/// An API server to test against. Its processes are stopped on drop, even after a panic.
#[derive(Debug)]
pub struct Server {
    behind: Behind,
    config: Config,
    kubeconfig: PathBuf,
    flags: Vec<String>,
    /// Whether clients never offer protobuf next to JSON.
    json: bool,
}

#[derive(Debug)]
enum Behind {
    Embedded {
        /// The handle changes at each restart; the objects stay.
        server: Mutex<TestServer>,
        _directory: TempDir,
    },
    Cluster(Cluster),
    Existing,
}

/// Constructors.
impl Server {
    /// The embedded server, on a socket.
    ///
    /// # Errors
    ///
    /// No port or directory is available.
    pub async fn embedded(setup: &Setup) -> Result<Server, NoServer> {
        let fail = |error: std::io::Error| NoServer::failed("the embedded server", error);
        let server = setup.embedded().listen("127.0.0.1:0").await.map_err(fail)?;
        let directory = TempDir::new().map_err(fail)?;
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig().unwrap_or_default()).map_err(fail)?;
        let behind = Behind::Embedded {
            server: Mutex::new(server),
            _directory: directory,
        };
        Server::new(behind, kubeconfig, setup).await
    }

    /// The real server: the shared one of the environment, or a separate one if the setup requires it.
    ///
    /// # Errors
    ///
    /// Skipped if no real server is enabled, or if the setup is not available.
    pub async fn real(setup: &Setup) -> Result<Server, NoServer> {
        if let Some(kubeconfig) = std::env::var_os(EXISTING) {
            if setup.is_own() {
                return Err(NoServer::Skipped(
                    "it would restart, compact or reconfigure the server, and the cluster is shared"
                        .to_owned(),
                ));
            }
            return Server::new(Behind::Existing, kubeconfig.into(), setup).await;
        }
        let Some(directory) = std::env::var_os(SHARED) else {
            return Err(NoServer::Skipped(
                "no real server is enabled: use verify/scenarios/run".to_owned(),
            ));
        };
        if setup.is_own() {
            return Server::own(setup).await;
        }
        let cluster = Cluster::lent(directory);
        let kubeconfig = cluster.kubeconfig();
        Server::new(Behind::Cluster(cluster), kubeconfig, setup).await
    }

    /// A separate real server, independent of the environment.
    ///
    /// # Errors
    ///
    /// Skipped without a Go toolchain; failed if it does not start.
    pub async fn own(setup: &Setup) -> Result<Server, NoServer> {
        let cluster = Cluster::start(setup.flags()).await?;
        let kubeconfig = cluster.kubeconfig();
        Server::new(Behind::Cluster(cluster), kubeconfig, setup).await
    }

    async fn new(behind: Behind, kubeconfig: PathBuf, setup: &Setup) -> Result<Server, NoServer> {
        Ok(Server {
            behind,
            config: config(&kubeconfig).await?,
            kubeconfig,
            flags: setup.flags().to_vec(),
            json: setup.is_json(),
        })
    }
}

/// Clients and addresses.
impl Server {
    /// `embedded`, `real` or `existing`.
    pub fn name(&self) -> &'static str {
        match &self.behind {
            Behind::Embedded { .. } => "embedded",
            Behind::Cluster(_) => "real",
            Behind::Existing => "existing",
        }
    }

    /// The embedded server, for faults; `None` for other servers.
    pub fn as_embedded(&self) -> Option<TestServer> {
        match &self.behind {
            Behind::Embedded { server, .. } => Some(server.lock().clone()),
            _ => None,
        }
    }

    /// The cluster, if it is one.
    pub fn as_cluster(&self) -> Option<&Cluster> {
        match &self.behind {
            Behind::Cluster(cluster) => Some(cluster),
            _ => None,
        }
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// The configuration of a client.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// A client with the library's defaults.
    ///
    /// # Errors
    ///
    /// The configuration cannot be used.
    pub fn client(&self) -> Result<Client, kube::Error> {
        self.client_of(self.config())
    }

    /// A client of the user `nobody`, who has no permissions.
    ///
    /// # Errors
    ///
    /// Skipped if there is no such user; failed if the configuration is invalid.
    pub async fn nobody(&self) -> Result<Client, NoServer> {
        let config = match &self.behind {
            Behind::Embedded { .. } => self.with_token(NOBODY_TOKEN),
            Behind::Cluster(cluster) => config(&cluster.nobody_kubeconfig()).await?,
            Behind::Existing => {
                return Err(NoServer::Skipped(
                    "there is no user without permissions on an existing cluster".to_owned(),
                ));
            }
        };
        self.client_of(config)
            .map_err(|error| NoServer::failed("a client without permissions", error))
    }

    /// A client of the user `user`, to whom a scenario can grant permissions. Unlike the administrator, this user is
    /// subject to request limits. On the embedded server every user has all permissions.
    ///
    /// # Errors
    ///
    /// Skipped if there is no such user; failed if the configuration is invalid.
    pub async fn user(&self) -> Result<Client, NoServer> {
        let config = match &self.behind {
            Behind::Embedded { .. } => self.config(),
            Behind::Cluster(cluster) => config(&cluster.user_kubeconfig()).await?,
            Behind::Existing => {
                return Err(NoServer::Skipped(
                    "there is no plain user on an existing cluster".to_owned(),
                ));
            }
        };
        self.client_of(config)
            .map_err(|error| NoServer::failed("a client of a user", error))
    }

    fn with_token(&self, token: &str) -> Config {
        let mut config = self.config();
        config.auth_info.token = Some(token.to_owned().into());
        config
    }

    /// A proxy for the server, to be used with [`client_through`](Self::client_through).
    ///
    /// # Errors
    ///
    /// The server's address cannot be resolved, or no port is available.
    pub async fn proxy(&self) -> Result<Proxy, NoServer> {
        let fail = |error: std::io::Error| NoServer::failed("the proxy", error);
        Proxy::start(self.address().await?).await.map_err(fail)
    }

    /// A client that connects through a proxy. The certificate is still checked against the server's name.
    ///
    /// # Errors
    ///
    /// The configuration cannot be used.
    pub fn client_through(&self, proxy: &Proxy) -> Result<Client, kube::Error> {
        self.client_of(through(self.config(), proxy)?)
    }

    /// A client that reports every response: the suites check responses that kube would retry.
    fn client_of(&self, mut config: Config) -> Result<Client, kube::Error> {
        config.default_retry = false;
        let namespace = config.default_namespace.clone();
        let client = kube::Client::try_from(config)?;
        if !self.json {
            return Ok(client);
        }
        let json = service_fn(move |request| {
            let client = client.clone();
            async move { client.send(accept_json(request)).await }
        });
        Ok(Client::new(json, namespace))
    }

    async fn address(&self) -> Result<SocketAddr, NoServer> {
        let url = &self.config.cluster_url;
        let port = url.port_u16().unwrap_or(match url.scheme_str() {
            Some("https") => 443,
            _ => 80,
        });
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
        let unknown = || NoServer::Failed(format!("the address of {url} is unknown"));
        lookup_host((host, port))
            .await
            .map_err(|_| unknown())?
            .next()
            .ok_or_else(unknown)
    }
}

/// Disruptions.
impl Server {
    /// Kills the server: connections break and new ones are refused.
    ///
    /// # Errors
    ///
    /// Skipped if the server is shared.
    pub async fn kill(&self) -> Result<(), NoServer> {
        match &self.behind {
            Behind::Embedded { server, .. } => {
                let server = server.lock().clone();
                server.shutdown().await;
                Ok(())
            }
            Behind::Cluster(cluster) if cluster.is_own() => cluster.kill_apiserver().await,
            _ => Err(shared("killed")),
        }
    }

    /// Stops the server gracefully: it ends its watches, finishes requests in flight, and exits.
    ///
    /// # Errors
    ///
    /// Skipped if the server is shared.
    pub async fn shutdown(&self) -> Result<(), NoServer> {
        match &self.behind {
            Behind::Embedded { server, .. } => {
                let server = server.lock().clone();
                server.close_watches();
                server.shutdown().await;
                Ok(())
            }
            Behind::Cluster(cluster) if cluster.is_own() => cluster.stop_apiserver().await,
            _ => Err(shared("stopped")),
        }
    }

    /// Starts the killed or stopped server again, at the same address, with the same objects and flags.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub async fn start_again(&self) -> Result<(), NoServer> {
        match &self.behind {
            Behind::Embedded { server, .. } => {
                let old = server.lock().clone();
                old.restart();
                let new = old
                    .listen(self.address().await?)
                    .await
                    .map_err(|error| NoServer::failed("the embedded server", error))?;
                *server.lock() = new;
                Ok(())
            }
            Behind::Cluster(cluster) if cluster.is_own() => cluster.start_apiserver(&self.flags).await,
            _ => Err(shared("started again")),
        }
    }

    /// Kills and restarts the server.
    ///
    /// # Errors
    ///
    /// As of [`kill`](Self::kill) and [`start_again`](Self::start_again).
    pub async fn kill_and_restart(&self) -> Result<(), NoServer> {
        self.kill().await?;
        self.start_again().await
    }

    /// Compacts all history of the storage.
    ///
    /// # Errors
    ///
    /// Skipped if the server is shared.
    pub async fn compact(&self) -> Result<(), NoServer> {
        match &self.behind {
            Behind::Embedded { server, .. } => {
                server.lock().compact();
                Ok(())
            }
            Behind::Cluster(cluster) if cluster.is_own() => cluster.compact().await,
            _ => Err(shared("compacted")),
        }
    }
}

fn shared(what: &str) -> NoServer {
    NoServer::Skipped(format!("a shared server cannot be {what}"))
}

pub(crate) async fn config(kubeconfig: &Path) -> Result<Config, NoServer> {
    let fail = |error: kube::config::KubeconfigError| {
        NoServer::failed(&format!("the kubeconfig {}", kubeconfig.display()), error)
    };
    let read = Kubeconfig::read_from(kubeconfig).map_err(fail)?;
    Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .map_err(fail)
}

/// The same configuration with the address of a proxy.
fn through(mut config: Config, proxy: &Proxy) -> Result<Config, kube::Error> {
    let host = config.cluster_url.host().map(str::to_owned);
    let mut parts = config.cluster_url.into_parts();
    parts.authority = Some(
        http::uri::Authority::try_from(proxy.address().to_string())
            .map_err(|error| kube::Error::HttpError(error.into()))?,
    );
    config.cluster_url =
        http::Uri::from_parts(parts).map_err(|error| kube::Error::HttpError(error.into()))?;
    if config.tls_server_name.is_none() {
        config.tls_server_name = host;
    }
    Ok(config)
}

/// Makes a client request JSON alone where it offers protobuf and JSON.
fn accept_json(mut request: http::Request<Body>) -> http::Request<Body> {
    let accept = request
        .headers()
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    if let Some(accept) = accept {
        let json: Vec<&str> = accept
            .split(',')
            .filter(|clause| clause.contains("json"))
            .collect();
        if let Ok(json) = json.join(",").parse()
            && accept.contains("protobuf")
            && accept.contains("json")
        {
            request.headers_mut().insert(ACCEPT, json);
        }
    }
    request
}
