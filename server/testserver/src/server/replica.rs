//! The public handle of one replica.

use kube::Client;

use super::TestServer;
use crate::hub::Order;
use crate::transport::service::TestService;

/// One replica of a server built with [`replicas`](crate::TestServerBuilder::replicas): its own view of one storage.
///
/// Reads and watches see only the versions that have reached the replica; consistent reads wait up to three seconds and
/// then bypass its cache. Writes reach the storage at once.
#[derive(Clone, Debug)]
pub struct ReplicaHandle {
    server: TestServer,
    number: usize,
}

impl TestServer {
    /// One of the replicas, counted from 0.
    ///
    /// # Panics
    ///
    /// If the server has fewer.
    #[track_caller]
    pub fn replica(&self, number: usize) -> ReplicaHandle {
        let count = self.state.replicas.count();
        assert!(
            number < count,
            "there is no replica {number}: the server was built with {count}"
        );
        ReplicaHandle {
            server: self.clone(),
            number,
        }
    }

    /// Routes new requests to another replica, as a load balancer would, except those of clients for a single replica.
    /// Open watches stay where they are.
    ///
    /// # Panics
    ///
    /// If the server has fewer replicas.
    #[track_caller]
    pub fn switch_to_replica(&self, number: usize) {
        let replica = self.replica(number);
        self.state.replicas.choose(replica.number);
    }
}

impl ReplicaHandle {
    /// A client of this replica only.
    pub fn client(&self) -> Client {
        let namespace = self.server.state.config.default_namespace.clone();
        Client::new(self.service().authenticated(), namespace)
    }

    /// This replica as a tower service.
    pub fn service(&self) -> TestService {
        TestService::new(self.server.state.clone(), Some(self.number))
    }

    /// Keeps the replica this number of versions behind the storage.
    pub fn lag(&self, versions: u64) {
        self.server.state.replicas.stay_behind(self.number, versions);
        self.server.state.hub.wake_all();
    }

    /// Freezes the replica at its current version.
    pub fn freeze(&self) {
        let state = &self.server.state;
        let seen = state.visible(self.number, &state.store.read());
        state.replicas.stop_at(self.number, seen);
    }

    /// Freezes the replica at a version, which may be in the past, as if it had not received anything since. Open watches of it
    /// keep what they have delivered.
    pub fn freeze_at(&self, resource_version: u64) {
        self.server
            .state
            .replicas
            .stop_at(self.number, resource_version.max(1));
    }

    /// Lets the replica catch up with the storage, and keep up.
    pub fn catch_up(&self) {
        self.server.state.replicas.catch_up(self.number);
        self.server.state.hub.wake_all();
    }

    /// Makes the replica refuse lists and watches with 429 and this `Retry-After`, and closes its watches, as while its
    /// cache initializes.
    pub fn unready(&self, retry_after_seconds: u64) {
        let state = &self.server.state;
        state.replicas.set_unready(self.number, Some(retry_after_seconds));
        state.hub.end(Order::Close, |_, replica| replica == self.number);
    }

    /// Makes the replica serve lists and watches again.
    pub fn ready(&self) {
        self.server.state.replicas.set_unready(self.number, None);
    }

    /// Drops the next change of an object (`pods`, `shop/cart`) from this replica's cache: its watches never deliver it,
    /// and its cached reads return the stale object until the next change.
    pub fn lose_next(&self, resource: &str, key: &str) {
        let state = &self.server.state;
        state.write(|store| store.lose_next(self.number, resource, key));
    }
}
