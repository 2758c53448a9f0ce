//! Disruptions: faults, closed watches, compacted history, restored backups.

use std::sync::atomic::Ordering;

use serde_json::Value;

use super::TestServer;
use super::objects::expect;
use crate::fault::{Fault, FaultHandle, Poison, RequestMatcher};
use crate::hub::Order;
use crate::write::{self, DeleteOptions, NewObject, Place};

/// Disruptions.
impl TestServer {
    /// Adds a fault: the requests it applies to, and its effect on them.
    pub fn fault(&self, on: RequestMatcher, fault: Fault) -> FaultHandle {
        self.state.faults.add(on, fault)
    }

    /// Corrupts an object (`pods`, `shop/cart`) in every response from now on, including open watches.
    pub fn poison(&self, resource: &str, key: &str, poison: Poison) {
        self.state.poisons.insert(resource, key, poison);
    }

    /// Stops corrupting an object; returns whether it was corrupted.
    pub fn cure(&self, resource: &str, key: &str) -> bool {
        self.state.poisons.remove(resource, key)
    }

    /// Removes all faults and corruptions. Responses in flight keep theirs.
    pub fn clear_faults(&self) {
        self.state.faults.clear();
        self.state.poisons.clear();
    }

    /// Refuses new connections, or accepts them again. Open ones stay open.
    ///
    /// Without a socket each request counts as a new connection.
    pub fn refuse_connections(&self, refuse: bool) {
        self.state.refusing.store(refuse, Ordering::Release);
    }

    /// Closes all watches normally, after their pending events; returns their number.
    pub fn close_watches(&self) -> usize {
        self.state.hub.end(Order::Finish, |_, _| true)
    }

    /// Closes all watches of a resource (`pods`, `deployments.apps`) normally, after their pending events; returns their
    /// number.
    pub fn close_watches_of(&self, resource: &str) -> usize {
        self.state
            .hub
            .end(Order::Finish, |watched, _| watched == resource)
    }

    /// Closes all watches normally, but at once: unread events are lost; returns their number.
    pub fn cut_watches(&self) -> usize {
        self.state.hub.end(Order::Close, |_, _| true)
    }

    /// Breaks the connections of all watches; returns their number.
    pub fn break_watches(&self) -> usize {
        self.state.hub.end(Order::Break, |_, _| true)
    }

    /// Simulates a restart of the server process: watches break, and because the watch cache starts empty, watches from
    /// any version before the current one are refused with 410. Objects and the history of the storage remain: exact
    /// lists and continue tokens still work.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube::api::{Api, WatchParams};
    /// use futures_util::TryStreamExt;
    /// use kube_testserver::{TestServer, builders::pod};
    ///
    /// let server = TestServer::new();
    /// server.create(pod("shop", "cart"));
    /// server.restart();
    ///
    /// let pods: Api<Pod> = Api::all(server.client());
    /// let mut events = Box::pin(pods.watch(&WatchParams::default(), "1").await.unwrap());
    /// let first = events.try_next().await.unwrap();
    /// assert!(matches!(first, Some(kube::api::WatchEvent::Error(status)) if status.code == 410));
    /// # }
    /// ```
    pub fn restart(&self) {
        let head = self.state.store.read().revision();
        self.state.replicas.begin_anew(head);
        self.state.hub.end(Order::Break, |_, _| true);
    }

    /// Compacts all history: watches and exact lists from any version before the current one are refused with 410.
    pub fn compact(&self) {
        self.state.write(|store| {
            let revision = store.revision();
            store.compact(revision);
        });
    }

    /// Compacts the history up to and including a version.
    pub fn compact_to(&self, resource_version: u64) {
        self.state.write(|store| store.compact(resource_version));
    }

    /// Sets the number of changes kept for a resource; a smaller window is applied at once.
    pub fn set_watch_window(&self, resource: &str, changes: usize) {
        self.state
            .write(|store| store.set_window(&resource.into(), changes));
    }

    /// Deletes an object (`pods`, `shop/cart`) and creates it again with another uid, in one step.
    ///
    /// # Panics
    ///
    /// If there is no such object.
    #[track_caller]
    pub fn recreate(&self, resource: &str, key: &str) -> Value {
        let kind = expect("recreate", self.resource(resource));
        let (namespace, name) = match key.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, key),
        };
        let recreated = self.write(&kind, namespace, name, |store, place| {
            let mut object = place.show_now(&*place.current(store)?);
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                for field in ["uid", "creationTimestamp", "generation", "finalizers"] {
                    metadata.remove(field);
                }
            }
            write::delete(&self.state, store, place, &DeleteOptions::default())?;
            let place = Place {
                name: "",
                ..place.clone()
            };
            let new = NewObject::check(&place, object)?;
            write::create(&self.state, store, &place, new)
        });
        expect("recreate", recreated).value()
    }

    /// Restores all objects as of a version, like a restored backup: later versions are reused for other changes. Open
    /// watches stay open and deliver nothing until their version is passed again.
    ///
    /// # Panics
    ///
    /// If the history has been compacted beyond that version.
    #[track_caller]
    pub fn rewind(&self, resource_version: u64) {
        if let Err(too_old) = self.state.write(|store| store.rewind(resource_version)) {
            panic!(
                "cannot go back to version {resource_version}: the history begins at {}",
                too_old.oldest
            );
        }
        self.state.hub.wake_all();
    }

    /// Raises the resource version without a write, as writes to other resources do.
    pub fn skip_versions(&self, count: u64) {
        self.state.write(|store| store.skip_revisions(count));
        self.state.hub.wake_all();
    }
}
