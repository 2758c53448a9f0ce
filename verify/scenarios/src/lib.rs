//! The servers of the end-to-end suites: the embedded test server on a socket, a real kube-apiserver with etcd started
//! by `verify/scenarios/cluster`, or an existing cluster.
//!
//! A suite requests a [`Server`], whose kind is hidden except for operations it does not support:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use kube_informers_e2e::{Server, Setup};
//!
//! let server = Server::embedded(&Setup::shared()).await?;
//! let proxy = server.proxy().await?;        // a connection that can be cut
//! let client = server.client_through(&proxy)?;
//! proxy.cut();
//! # drop(client);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod cluster;
pub mod controllers;
mod error;
mod proxy;
pub mod recorder;
mod server;
mod setup;
pub mod suites;

pub use cluster::Cluster;
pub use error::NoServer;
pub use proxy::Proxy;
pub use server::Server;
pub use setup::Setup;

/// The timeout for expected conditions. Generous, because the machine may be busy.
pub const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);
