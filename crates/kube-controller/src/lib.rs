//! From events to finished work: informers tell what changed, keys of what has to be looked into are queued, and workers
//! look into them, again and again until it works.
//!
//! ```
//! use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
//! use kube_controller::{Action, Controller, Watch, predicates};
//! use kube_informers::{Informer, ObjectKey};
//! use kube_testserver::{TestServer, builders::deployment};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! let server = TestServer::new();
//! server.create(deployment("shop", "cart"));
//! let deployments = Informer::<Deployment>::all(server.client()).start();
//! let maps = Informer::<ConfigMap>::all(server.client()).start();
//! # let (seen, mut keys) = tokio::sync::mpsc::unbounded_channel();
//!
//! let store = deployments.store();
//! let controller = Controller::new("rollout")
//!     // The object itself, but not when only its status changed …
//!     .watches(Watch::object(&deployments).when(predicates::generation_changed))
//!     // … the one that owns the object …
//!     .watches(Watch::owner::<Deployment>(&maps))
//!     // … or whatever an object has to do with.
//!     .watches(Watch::mapped(&maps, |map: &ConfigMap| {
//!         let name = map.metadata.labels.as_ref()?.get("rollout")?;
//!         Some(ObjectKey::new(map.metadata.namespace.as_deref(), name))
//!     }))
//!     .workers(4)
//!     .start(move |key: ObjectKey| {
//!         let deployment = store.get(&key);
//!         # let seen = seen.clone();
//!         async move {
//!             match deployment {
//!                 Some(deployment) => println!("{key} is at generation {:?}", deployment.metadata.generation),
//!                 None => println!("{key} is gone"),
//!             }
//!             # seen.send(key).ok();
//!             Ok::<_, kube::Error>(Action::Done)
//!         }
//!     })?;
//!
//! # assert_eq!(keys.recv().await.unwrap().to_string(), "shop/cart");
//! controller.shutdown().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # What it promises
//!
//! - **One run per key at a time**, on as many workers as it was given. A key that is asked for while it is worked on
//!   is worked on once more afterwards.
//! - **Nothing is looked into before everything is known**: the first run begins when every informer is synced and all
//!   that was there has been mapped to keys.
//! - **Failures come back.** An error or a panic is reported and the key is tried again, later each time; see
//!   [`Controller::max_retries`] for an end to that. A mapping or predicate that panics costs the event it was
//!   asked about, which is reported by the informer.
//! - **Both ends of a move are told.** Of an update both states are mapped, so that an object that changed its owner
//!   wakes the old one, too. Deletions are mapped like everything else.
//! - **Fresh changes go first.** What was there at the start and what a resync repeats is queued at
//!   [`Priority::LOW`](kube_workqueue::Priority::LOW).
//! - **An end with manners.** A shutdown drops what is queued (the next start finds it again) and finishes what runs, for
//!   as long as [it may](Controller::grace).
//! - **No silent end.** An informer that stops underneath ends the controller with an error.
//!
//! # What it is made of
//!
//! Handlers of [`kube_informers`] that add keys to a [`kube_workqueue::WorkQueue`], and its workers. There is nothing
//! here that could not be written by hand from these, and what is not offered here can be: the queue is
//! [public](Controller::queue), for keys that come from elsewhere and for its [numbers](kube_workqueue::Stats).
//!
//! A key says what to look into, not what happened. So the reconciler reads the present state, from a
//! [`Store`](kube_informers::Store) or [`Lister`](kube_informers::Lister), and makes the world equal to it. A key whose object is not in the cache stands
//! for a deletion.
//!
//! Not so with an informer whose [shard](kube_informers::Informer::set_shard) moves: a key that was queued before the move finds
//! the same gap, and the object lives on with another replica. Such a reconciler asks for a permit of its shard group first,
//! does nothing about an object that is not in the cache, and cleans up by finalizers, which it sees while the object is there.

mod action;
mod controller;
mod error;
mod handle;
mod life;
mod owner;
pub mod predicates;
mod watch;
mod work;

pub use action::{Action, Reconcile};
pub use controller::Controller;
pub use error::RunError;
pub use handle::ControllerHandle;
pub use owner::OwnerKeys;
pub use watch::Watch;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
