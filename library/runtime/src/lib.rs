//! Lets a kube-runtime [`Controller`](kube_runtime::Controller) be fed from informers, so that a program can move over
//! one watch at a time.
//!
//! The controller, its reconciler and its error policy stay as they are. Only where its objects come from changes: from
//! an [`Informer`](kube_informers::Informer), which may be shared with whatever has moved already.
//!
//! ```
//! # use futures_util as futures;
//! use futures::StreamExt;
//! use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
//! use kube_informers::SharedInformerFactory;
//! use kube_runtime::Controller;
//! use kube_runtime_informers::ControllerExt;
//! # use kube_runtime::controller::Action;
//! # use std::sync::Arc;
//! # async fn reconcile(_: Arc<Deployment>, _: Arc<()>) -> Result<Action, kube::Error> { Ok(Action::await_change()) }
//! # fn error_policy(_: Arc<Deployment>, _: &kube::Error, _: Arc<()>) -> Action { Action::await_change() }
//!
//! # async fn example(client: kube::Client, context: Arc<()>) -> Result<(), Box<dyn std::error::Error>> {
//! let factory = SharedInformerFactory::new(client);
//! let deployments = factory.informer::<Deployment>();
//! let pods = factory.informer::<Pod>();
//!
//! // Was: Controller::new(Api::all(client), Config::default()).owns(Api::all(client), Config::default())
//! let controller = Controller::for_informer(&deployments).owns_informer(&pods);
//! factory.start();
//! controller
//!     .run(reconcile, error_policy, context)
//!     .for_each(|_| std::future::ready(()))
//!     .await;
//! # Ok(())
//! # }
//! ```
//!
//! # What changes
//!
//! - One watch per kind for all consumers, resumed after a broken connection; missed deletes are delivered.
//! - **An object that moves from one owner to another wakes both.** kube's own `owns` sees the new state only.
//! - Objects that cannot be decoded are in the [quarantine](kube_informers::Informer::quarantine) of the informer; the
//!   stream of the controller carries no errors of watches any more. See [`state`](kube_informers::Informer::state).
//! - A controller ends, gracefully, when one of its informers stops. With `select_all` alone it would go on and
//!   never hear of that kind again.
//!
//! What does not change: a deletion of the main kind starts no run, because kube-runtime's reconciler is given an object.
//! Use finalizers, as before.
//!
//! # What it costs
//!
//! - **A second copy of the main kind.** kube-runtime's [`Store`](kube_runtime::reflector::Store) can be filled only
//!   through its writer, which clones. So every object of the main kind is held twice and cloned twice per change: once to
//!   be handed over, once by the writer. Informers of owned and watched kinds cost nothing: they hand over the very
//!   `Arc`s that their cache holds.
//! - **kube's feature `unstable-runtime-subscribe`**, whose functions may change in any release of kube. This crate
//!   therefore follows kube-runtime's versions, and nothing else of ours depends on it.
//!
//! # What it does not cover
//!
//! The controller is kube-runtime's, so `graceful_shutdown_on`, `shutdown_on_signal`, `reconcile_all_on`, `with_config` and the
//! rest of its methods work as before. Not covered:
//!
//! - predicates for the main kind: filter in the reconciler, or use `Controller::for_shared_stream` with [`reflected`] and a
//!   filter of your own;
//! - owned kinds known only at run time (`owns_with`): use [`ControllerExt::reconcile_on_informer`];
//! - kube-runtime's `Config` of a watch (page size, list semantics): the informer has its own configuration;
//! - the errors of watches in the stream of results: they are in [`Informer::state`](kube_informers::Informer::state);
//! - objects that left the scope of the informer: they wake nobody;
//! - `finalizer`, `events::Recorder`, `wait` and the other helpers of kube-runtime take an `Api`, not a watch, and stay as they
//!   are.
//!
//! # When to leave it
//!
//! When the controller's reconciler is moved too: `kube_controller::Controller` hands out keys, runs on
//! deletions, and reads the one cache. What held you here is then only the signature of a function. A reader of the
//! store alone can move earlier: [`Reader`] has the methods of kube-runtime's `Store` and no copy behind it.

mod controller;
mod main_stream;
mod reader;
mod touched;

pub use controller::ControllerExt;
pub use main_stream::{reflected, reflected_with};
pub use reader::Reader;
pub use touched::{touched, touched_lazy, touched_when};

/// The snippets of the guide and of the README are compiled with the tests.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../README.md")]
    struct Readme;
}
