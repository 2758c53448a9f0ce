//! `Server`: what a scenario runs against. It hides which server that is, except for what cannot be done with it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use kube_testserver::TestServer;
use parking_lot::Mutex;
use tokio::net::lookup_host;

use crate::cluster::Cluster;
use crate::error::NoServer;
use crate::proxy::Proxy;
use crate::setup::{NOBODY_TOKEN, Setup};
use crate::temporary::Temporary;

/// Set by `e2e/cluster with`: the directory of a cluster that all may use.
const LENT: &str = "KUBE_INFORMERS_E2E_DIR";
/// Set by `e2e/run --existing`: the kubeconfig of a cluster that was there before.
const EXISTING: &str = "KUBE_INFORMERS_E2E_KUBECONFIG";

/// An API server to test against. What was started for it ends with it, also in a panic.
#[derive(Debug)]
pub struct Server {
    behind: Behind,
    config: Config,
    kubeconfig: PathBuf,
    flags: Vec<String>,
}

#[derive(Debug)]
enum Behind {
    Embedded {
        /// The handle changes at each restart; what it holds does not.
        server: Mutex<TestServer>,
        _directory: Temporary,
    },
    Cluster(Cluster),
    Existing,
}

/// Getting one.
impl Server {
    /// The embedded server, on a socket.
    ///
    /// # Errors
    ///
    /// There is no port or directory for it.
    pub async fn embedded(setup: &Setup) -> Result<Server, NoServer> {
        let fail = |error: std::io::Error| NoServer::failed("the embedded server", error);
        let server = setup.embedded().listen("127.0.0.1:0").await.map_err(fail)?;
        let directory = Temporary::new().map_err(fail)?;
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig().unwrap_or_default()).map_err(fail)?;
        let behind = Behind::Embedded {
            server: Mutex::new(server),
            _directory: directory,
        };
        Server::new(behind, kubeconfig, setup).await
    }

    /// The real server: the one that the environment lends, or one of its own if the setup needs that.
    ///
    /// # Errors
    ///
    /// Skipped if nobody asked for it, or if the setup cannot be had here.
    pub async fn real(setup: &Setup) -> Result<Server, NoServer> {
        if let Some(kubeconfig) = std::env::var_os(EXISTING) {
            if setup.is_own() {
                return Err(NoServer::Skipped(
                    "it needs a server of its own to restart, compact or configure, and the cluster is somebody's".to_owned(),
                ));
            }
            return Server::new(Behind::Existing, kubeconfig.into(), setup).await;
        }
        let Some(directory) = std::env::var_os(LENT) else {
            return Err(NoServer::Skipped(
                "the real server runs only when it is asked for: run e2e/run".to_owned(),
            ));
        };
        if setup.is_own() {
            return Server::own(setup).await;
        }
        let cluster = Cluster::lent(directory);
        let kubeconfig = cluster.kubeconfig();
        Server::new(Behind::Cluster(cluster), kubeconfig, setup).await
    }

    /// A real server for nobody else, whatever the environment says.
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
        })
    }
}

/// Reaching it.
impl Server {
    /// `embedded`, `real` or `existing`.
    pub fn name(&self) -> &'static str {
        match &self.behind {
            Behind::Embedded { .. } => "embedded",
            Behind::Cluster(_) => "real",
            Behind::Existing => "existing",
        }
    }

    /// The embedded server itself, where it is that: for faults.
    pub fn as_embedded(&self) -> Option<TestServer> {
        match &self.behind {
            Behind::Embedded { server, .. } => Some(server.lock().clone()),
            _ => None,
        }
    }

    /// The cluster, where it is one.
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

    /// A client as the library makes them.
    ///
    /// # Errors
    ///
    /// The configuration cannot be used.
    pub fn client(&self) -> Result<Client, kube::Error> {
        kube_informers::client(self.config())
    }

    /// A client of a user called `nobody`, who may do nothing.
    ///
    /// # Errors
    ///
    /// Skipped where there is no such user; failed if the configuration cannot be used.
    pub async fn nobody(&self) -> Result<Client, NoServer> {
        let config = match &self.behind {
            Behind::Embedded { .. } => self.with_token(NOBODY_TOKEN),
            Behind::Cluster(cluster) => config(&cluster.nobody_kubeconfig()).await?,
            Behind::Existing => {
                return Err(NoServer::Skipped(
                    "there is no user without permissions on a cluster of somebody's".to_owned(),
                ));
            }
        };
        kube_informers::client(config).map_err(|error| NoServer::failed("a client of nobody", error))
    }

    /// A client of a user called `user`, whom a scenario may give permissions. Other than the administrator, this user is
    /// subject to the limits on requests. On the embedded server everybody may do everything.
    ///
    /// # Errors
    ///
    /// Skipped where there is no such user; failed if the configuration cannot be used.
    pub async fn user(&self) -> Result<Client, NoServer> {
        let config = match &self.behind {
            Behind::Embedded { .. } => self.config(),
            Behind::Cluster(cluster) => config(&cluster.user_kubeconfig()).await?,
            Behind::Existing => {
                return Err(NoServer::Skipped(
                    "there is no plain user on a cluster of somebody's".to_owned(),
                ));
            }
        };
        kube_informers::client(config).map_err(|error| NoServer::failed("a client of a user", error))
    }

    fn with_token(&self, token: &str) -> Config {
        let mut config = self.config();
        config.auth_info.token = Some(token.to_owned().into());
        config
    }

    /// A proxy before the server, for [`client_through`](Self::client_through).
    ///
    /// # Errors
    ///
    /// The server's address cannot be found, or there is no port.
    pub async fn proxy(&self) -> Result<Proxy, NoServer> {
        let fail = |error: std::io::Error| NoServer::failed("the proxy", error);
        Proxy::start(self.address().await?).await.map_err(fail)
    }

    /// A client whose requests go through a proxy. The certificate is still checked against the server's own name.
    ///
    /// # Errors
    ///
    /// The configuration cannot be used.
    pub fn client_through(&self, proxy: &Proxy) -> Result<Client, kube::Error> {
        kube_informers::client(through(self.config(), proxy)?)
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

/// Troubling it.
impl Server {
    /// Kills the server: connections break, clients are refused.
    ///
    /// # Errors
    ///
    /// Skipped if it may not be harmed.
    pub async fn kill(&self) -> Result<(), NoServer> {
        match &self.behind {
            Behind::Embedded { server, .. } => {
                let server = server.lock().clone();
                server.shutdown().await;
                Ok(())
            }
            Behind::Cluster(cluster) if cluster.is_own() => cluster.kill_apiserver().await,
            _ => Err(harmless("killed")),
        }
    }

    /// Stops the server in order: it ends its watches, finishes what it is at, and is gone.
    ///
    /// # Errors
    ///
    /// Skipped if it may not be harmed.
    pub async fn shutdown(&self) -> Result<(), NoServer> {
        match &self.behind {
            Behind::Embedded { server, .. } => {
                let server = server.lock().clone();
                server.close_watches();
                server.shutdown().await;
                Ok(())
            }
            Behind::Cluster(cluster) if cluster.is_own() => cluster.stop_apiserver().await,
            _ => Err(harmless("stopped")),
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
            _ => Err(harmless("started again")),
        }
    }

    /// Both, one after the other.
    ///
    /// # Errors
    ///
    /// As of [`kill`](Self::kill) and [`start_again`](Self::start_again).
    pub async fn kill_and_restart(&self) -> Result<(), NoServer> {
        self.kill().await?;
        self.start_again().await
    }

    /// Makes the storage forget all history up to now.
    ///
    /// # Errors
    ///
    /// Skipped if it may not be harmed.
    pub async fn compact(&self) -> Result<(), NoServer> {
        match &self.behind {
            Behind::Embedded { server, .. } => {
                server.lock().compact();
                Ok(())
            }
            Behind::Cluster(cluster) if cluster.is_own() => cluster.compact().await,
            _ => Err(harmless("compacted")),
        }
    }
}

fn harmless(what: &str) -> NoServer {
    NoServer::Skipped(format!("a server that others use cannot be {what}"))
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

/// The same configuration, by way of a proxy.
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
