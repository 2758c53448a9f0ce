//! Shared code of the examples: a cluster to use.
//!
//! Uses the cluster of the kubeconfig (or the surrounding cluster) if there is one; otherwise, or with
//! `KUBE_INFORMERS_EMBEDDED` set, the embedded server. Examples that write always use the embedded server, except the
//! sample controller with a kubeconfig.

use kube::{Client, Config};
use kube_testserver::churn::{Churn, Population};
use kube_testserver::{Controllers, TestServer};

/// A client, and the embedded server if it is used.
pub struct Cluster {
    /// The client to use.
    pub client: Client,
    /// The embedded server; `None` when a real cluster is used.
    pub server: Option<TestServer>,
}

/// The cluster of the current context, or the embedded server.
pub async fn cluster() -> Result<Cluster, Box<dyn std::error::Error>> {
    if std::env::var_os("KUBE_INFORMERS_EMBEDDED").is_none()
        && let Ok(config) = Config::infer().await
    {
        println!("using the cluster at {}", config.cluster_url);
        return Ok(Cluster {
            client: kube::Client::try_from(config)?,
            server: None,
        });
    }
    println!("no cluster is configured: using the embedded server, with some changing pods");
    let server = TestServer::builder().controllers(Controllers::all()).build();
    let population = Population::new()
        .with("nodes", 5)
        .with("deployments", 4)
        .with("pods", 40);
    Churn::new(server.clone(), 1).fill(&population)?;
    Ok(Cluster {
        client: server.client(),
        server: Some(server),
    })
}

/// Creates clients of one cluster, each on the calling runtime.
#[derive(Clone)]
pub struct ClientMaker(Option<TestServer>);

impl ClientMaker {
    /// A new client.
    pub async fn client(&self) -> Result<Client, Box<dyn std::error::Error + Send + Sync>> {
        match &self.0 {
            Some(server) => Ok(server.client()),
            None => Ok(kube::Client::try_from(Config::infer().await?)?),
        }
    }
}

/// A cluster that the program may write to.
pub struct WritableCluster {
    /// A client of it.
    pub client: Client,
    /// More clients of it.
    pub clients: ClientMaker,
}

/// With the arguments `--cluster NAMESPACE` the cluster of the current context, to write into that namespace; otherwise
/// the embedded server.
pub async fn cluster_to_write_to()
-> Result<(WritableCluster, String), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (clients, namespace) = match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [] => (
            ClientMaker(Some(TestServer::builder().sharding().build())),
            "shop",
        ),
        ["--cluster", namespace] => (ClientMaker(None), *namespace),
        _ => return Err("usage: [--cluster NAMESPACE]".into()),
    };
    let cluster = WritableCluster {
        client: clients.client().await?,
        clients,
    };
    Ok((cluster, namespace.to_owned()))
}

/// The snippets of the README and the guides, compiled with the tests. They are included here, because a published
/// crate contains only its own files.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;

    #[doc = include_str!("../docs/guide/coming-from-go.md")]
    struct ComingFromGo;

    #[doc = include_str!("../docs/guide/coming-from-kube-runtime.md")]
    struct ComingFromKubeRuntime;
}
