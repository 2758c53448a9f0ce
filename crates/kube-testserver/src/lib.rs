//! An embedded Kubernetes API server for tests: the real HTTP protocol, in memory, with faults on request.
//!
//! A test gets a cluster of its own in microseconds: no binary, no container, no port. It works on tokio's paused
//! clock, so a watch that times out after an hour takes no time at all. Clients cannot tell it from a real server:
//! `kube::Api`, kube-runtime and kubectl work with it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), kube::Error> {
//! use k8s_openapi::api::core::v1::Pod;
//! use kube::{Api, api::ListParams};
//! use kube_testserver::builders::{Build, pod};
//! use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};
//!
//! let server = TestServer::new();
//! server.create(pod("shop", "cart").label("app", "cart"));
//!
//! // A client sees what the test has made, through the protocol.
//! let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
//! assert_eq!(pods.list(&ListParams::default().labels("app=cart")).await?.items.len(), 1);
//!
//! // Things go wrong when the test says so, as often as it says.
//! server.fault(RequestMatcher::list("pods"), Fault::status(503).retry_after(5));
//! assert!(pods.list(&ListParams::default()).await.is_err());
//!
//! // Afterwards the test sees what was asked, and that nothing was left open.
//! assert_eq!(server.count_requests(Verb::List, "pods"), 2);
//! server.assert_nothing_open();
//! # Ok(())
//! # }
//! ```
//!
//! - **Objects.** Every built-in kind; custom ones by [`TestServerBuilder::kind`] or a posted definition. Created,
//!   changed and deleted by clients, or directly: [`TestServer::create`], [`TestServer::modify`], [`builders`].
//!   Subresources, patches of all types, server-side apply, finalizers, preconditions and conflicts behave as in a
//!   cluster; owned objects are collected if [wished](TestServerBuilder::garbage_collection).
//! - **Lists and watches.** Pages that expire, every combination of resource version and match, selectors, bookmarks,
//!   initial events with their end marker, 410 in both forms, metadata only, tables.
//! - **Trouble.** [`TestServer::fault`] strikes chosen requests; [`TestServer::compact`], [`TestServer::rewind`],
//!   [`TestServer::close_watches`], [`TestServer::poison`] and [`TestServer::replica`] trouble the server itself.
//!   Everything random comes from one [seed](TestServerBuilder::seed).
//! - **Sight.** [`TestServer::requests`], [`TestServer::open_watches`], [`TestServer::wait_for`].
//! - **Socket.** [`TestServer::start`] listens on loopback; [`TestServer::kubeconfig`] leads kubectl there.
//!
//! What it is not: it runs no controllers beyond deletion, validates metadata but not the inside of built-in specs,
//! answers in JSON and YAML but not in protobuf (which it reads), and has no roles: whoever has the token may do
//! everything, and a [stranger](TestServerBuilder::stranger) nothing.

mod accept;
mod answer;
mod authorize;
mod body;
mod builder;
pub mod builders;
mod change;
pub mod churn;
mod clock;
mod discovery;
mod documents;
mod encode;
mod fault;
mod field_error;
mod hub;
mod journal;
mod jsonpath;
pub mod kinds;
mod list;
pub mod manifest;
mod names;
mod nesting;
mod openapi;
mod patch;
pub mod program;
mod protobuf;
mod read;
mod replica;
mod request;
mod select;
mod selector;
mod server;
mod service;
mod shard;
mod socket;
mod state;
mod status;
mod storage;
mod table;
mod watch;
mod write;

pub use body::TestBody;
pub use builder::TestServerBuilder;
pub use discovery::GIT_VERSION as KUBERNETES_VERSION;
pub use fault::{Fault, FaultHandle, Poison, RequestMatcher, Which};
pub use journal::SeenRequest;
pub use request::{Query, Verb};
pub use server::{ReplicaHandle, TestServer};
pub use service::TestService;
pub use status::ApiError;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
