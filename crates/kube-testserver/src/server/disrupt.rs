//! Trouble on request: faults, ended watches, forgotten history, restored backups.

use std::sync::atomic::Ordering;

use serde_json::Value;

use super::TestServer;
use super::objects::expect;
use crate::fault::{Fault, FaultHandle, Poison, RequestMatcher};
use crate::watch::hub::Order;
use crate::write::{self, DeleteOptions, Place};

/// Making trouble.
impl TestServer {
    /// Sets a fault in force: which requests it strikes, and what it does to them.
    pub fn fault(&self, on: RequestMatcher, fault: Fault) -> FaultHandle {
        self.state.faults.add(on, fault)
    }

    /// Spoils an object (`pods`, `shop/cart`) wherever it appears from now on, in open watches too.
    pub fn poison(&self, resource: &str, key: &str, poison: Poison) {
        self.state.poisons.insert(resource, key, poison);
    }

    /// Shows a spoiled object as it is again; gives whether it was spoiled.
    pub fn cure(&self, resource: &str, key: &str) -> bool {
        self.state.poisons.remove(resource, key)
    }

    /// Takes all faults away, spoiled objects included. Answers already under way keep theirs.
    pub fn clear_faults(&self) {
        self.state.faults.clear();
        self.state.poisons.clear();
    }

    /// Refuses new connections, or takes them again. Open ones stay.
    ///
    /// Without a socket each request counts as a new connection.
    pub fn refuse_connections(&self, refuse: bool) {
        self.state.refusing.store(refuse, Ordering::Release);
    }

    /// Ends all watches as finished ones end, after what they still have to say; gives their number.
    pub fn close_watches(&self) -> usize {
        self.state.hub.end(Order::Finish, |_, _| true)
    }

    /// Ends all watches of a resource (`pods`, `deployments.apps`) as finished ones end, after what they still have to
    /// say; gives their number.
    pub fn close_watches_of(&self, resource: &str) -> usize {
        self.state
            .hub
            .end(Order::Finish, |watched, _| watched == resource)
    }

    /// Ends all watches as finished ones end, but at once: what was not read yet is lost; gives their number.
    pub fn cut_watches(&self) -> usize {
        self.state.hub.end(Order::Close, |_, _| true)
    }

    /// Breaks the connections of all watches; gives their number.
    pub fn break_watches(&self) -> usize {
        self.state.hub.end(Order::Break, |_, _| true)
    }

    /// Restarts the server's process, as far as clients notice: watches break, and as its cache begins anew, watches from
    /// any version before the present one get a 410. The objects stay, and so does the storage's history: exact lists
    /// and continue tokens still work.
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

    /// Forgets all history: watches and exact lists from any version before the present one get a 410.
    pub fn compact(&self) {
        self.state.write(|store| {
            let revision = store.revision();
            store.compact(revision);
        });
    }

    /// Forgets the history up to and including a version.
    pub fn compact_to(&self, resource_version: u64) {
        self.state.write(|store| store.compact(resource_version));
    }

    /// Changes how many changes of a resource are remembered; a smaller window forgets at once.
    pub fn set_watch_window(&self, resource: &str, changes: usize) {
        self.state
            .write(|store| store.set_window(&resource.into(), changes));
    }

    /// Deletes an object (`pods`, `shop/cart`) and creates it anew, with another uid, in one step.
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
            let mut object = place.show(&*place.current(store)?);
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
            write::create(&self.state, store, &place, object)
        });
        expect("recreate", recreated).value()
    }

    /// Takes all objects back to what they were at a version, as a restored backup does: later versions are given
    /// out again, for other changes. Open watches stay open and silent until their version is passed again.
    ///
    /// # Panics
    ///
    /// If the history no longer reaches that far.
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
