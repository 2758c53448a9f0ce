//! The servers that the end-to-end suites run against: the embedded test server on a socket, a real kube-apiserver with
//! etcd started by `e2e/cluster`, or a cluster that is there already.
//!
//! A suite asks for a [`Server`] and cannot tell which one it got, except by what cannot be done with it:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use kube_informers_e2e::{Server, Setup};
//!
//! let server = Server::embedded(&Setup::shared()).await?;
//! let proxy = server.proxy().await?;        // a way to the server that can be cut
//! let client = server.client_through(&proxy)?;
//! proxy.cut();
//! # drop(client);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod cluster;
pub mod differential;
mod error;
mod proxy;
mod server;
mod setup;
mod temporary;

pub use cluster::Cluster;
pub use error::NoServer;
pub use proxy::Proxy;
pub use server::Server;
pub use setup::Setup;

/// How long the suites wait for something that must happen. Generous: the machine may be busy with other things.
pub const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);
