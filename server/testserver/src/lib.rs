//! An in-memory Kubernetes API server for tests: the real HTTP protocol, with faults on request.
//!
//! A test gets its own cluster in microseconds: no binary, no container, no port. The server runs on tokio's paused
//! clock, so a watch that times out after an hour takes no time at all. `kube::Api`, kube-runtime, client-go and kubectl
//! work with it as with a real server.
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
//! // Clients see the objects of the test through the real protocol.
//! let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
//! assert_eq!(pods.list(&ListParams::default().labels("app=cart")).await?.items.len(), 1);
//!
//! // The next list fails.
//! server.fault(RequestMatcher::list("pods"), Fault::status(503).retry_after(5));
//! assert!(pods.list(&ListParams::default()).await.is_err());
//!
//! // The test can inspect all requests, and check that nothing is left open.
//! assert_eq!(server.count_requests(Verb::List, "pods"), 2);
//! server.assert_nothing_open();
//! # Ok(())
//! # }
//! ```
//!
//! - **Objects.** Every built-in kind; custom kinds by [`TestServerBuilder::kind`] or a posted definition. Created,
//!   changed and deleted by clients, or directly: [`TestServer::create`], [`TestServer::modify`], [`builders`].
//!   Subresources, patches of all types, server-side apply, finalizers, preconditions and conflicts behave as in a
//!   cluster.
//! - **Controllers.** Garbage collection [at once](TestServerBuilder::garbage_collection), or
//!   [controllers](TestServerBuilder::controllers) that take their time: garbage collection, namespace deletion, deployments and
//!   the other workloads, EndpointSlices, a scheduler and kubelets whose [rules](TestServer::pod_rule) a test sets.
//! - **Lists and watches.** Pages that expire, every combination of resource version and match, selectors, bookmarks,
//!   initial events with their end marker, 410 in both forms, metadata only, tables.
//! - **Faults.** [`TestServer::fault`] makes chosen requests fail; [`TestServer::compact`], [`TestServer::rewind`],
//!   [`TestServer::close_watches`], [`TestServer::poison`] and [`TestServer::replica`] disrupt the server itself.
//!   All randomness comes from one [seed](TestServerBuilder::seed).
//! - **Observation.** [`TestServer::requests`], [`TestServer::open_watches`], [`TestServer::wait_for`].
//! - **Socket.** [`TestServer::start`] listens on loopback; [`TestServer::kubeconfig`] configures kubectl for it.
//! - **Conformance.** [`TestServerBuilder::conformant`] decodes, completes and validates built-in objects as a real server
//!   does.
//! - **State.** [`TestServer::snapshot`], [`TestServerBuilder::restore`], [`TestServer::fork`].
//! - **Access.** [`TestServerBuilder::rbac`] makes roles decide; [`TestServer::client_as`] acts as any user. Otherwise every client
//!   with the token may do everything, and a [user without permissions](TestServerBuilder::user_without_permissions) nothing.
//! - **Webhooks.** Functions of the test ([`Webhook`]) and stored webhook configurations decide on the writes of clients.
//!
//! Limitations: not every controller of a cluster ([the differences](Controllers#differences-from-a-real-cluster)).
//!
//! The feature `cli` adds the `kube-testserver` program and the module `program`, which depend on clap.

#![warn(missing_debug_implementations)]

mod admission;
mod auth;
pub mod builders;
pub mod churn;
mod clock;
mod controllers;
mod documents;
mod encode;
mod fault;
mod fields;
mod hooks;
mod hub;
mod journal;
pub mod kinds;
mod logs;
pub mod manifest;
mod patch;
#[cfg(feature = "cli")]
pub mod program;
mod read;
mod reconcile;
mod response;
mod select;
mod server;
mod state;
mod storage;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod typed;
mod user;
mod watch;
mod webhooks;
mod write;

pub use controllers::{Controllers, PodRule};
pub use documents::discovery::GIT_VERSION as KUBERNETES_VERSION;
pub use fault::{Fault, FaultHandle, Poison, RequestMatcher, Which};
pub use hooks::{Admission, AdmissionRequest, ConversionWebhook, Operation, Webhook, WebhookRule};
pub use journal::SeenRequest;
pub use kube_api_protocol::request::{Query, Verb};
pub use kube_api_protocol::selector::SelectorError;
pub use kube_api_protocol::status::ApiError;
pub use response::body::TestBody;
pub use server::builder::TestServerBuilder;
pub use server::{ReplicaHandle, Snapshot, TestServer};
pub use transport::service::TestService;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
