//! What the controller under test is given.

use std::fmt;
use std::sync::Arc;

use kube::Client;
use kube_testserver::TestServer;

use crate::gate::{Gate, RunState};

/// The cluster of one run, as the controller under test sees it.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<RunState>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    pub(crate) fn new(shared: Arc<RunState>) -> Cluster {
        Cluster { shared }
    }

    /// A client for the controller. Only requests of these clients are recorded and perturbed.
    pub fn client(&self) -> Client {
        Client::new(Gate::new(self.shared.clone()), "default")
    }

    /// The server, to observe it or to play other parts of the cluster. What is done with it is not perturbed.
    pub fn server(&self) -> &TestServer {
        &self.shared.server
    }

    /// How often the controller has been started in this run: 1 at first, more after a crash.
    pub fn starts(&self) -> usize {
        self.shared.record(|record| record.starts)
    }
}

/// The cluster at the end of a run.
#[derive(Debug)]
pub struct End<'a> {
    server: &'a TestServer,
}

impl<'a> End<'a> {
    pub(crate) fn new(server: &'a TestServer) -> End<'a> {
        End { server }
    }

    /// The server: `end.server().get::<ConfigMap>("shop", "web")`, `end.server().count("pods")`.
    pub fn server(&self) -> &TestServer {
        self.server
    }
}
