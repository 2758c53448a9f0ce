//! The objects of clients: they are followed up at once, and left alone on servers with controllers.

use super::Churn;
use super::model::Work;
use super::pods::Life;

/// The number of follow-ups on objects of clients between two ticks.
const CLIENT_WORK: usize = 1000;

impl Churn {
    /// Follows up on the objects of clients, all at once and regardless of the rate: a deployment of a user never waits for the
    /// churn.
    pub(super) async fn serve_clients(&mut self) {
        let before = self.server.resource_version();
        if before != self.seen {
            self.adopt_changes();
        }
        self.writes = 0;
        // A deployment that can never be satisfied must not stop the churn.
        for _ in 0..CLIENT_WORK {
            let Some(work) = self.due.pop_urgent() else { break };
            self.work(work);
            tokio::task::yield_now().await;
        }
        self.seen = before + u64::try_from(self.writes).unwrap_or(0);
    }

    /// Queues work; that on objects of clients is urgent.
    pub(super) fn push(&mut self, work: Work) {
        let of_client = |deployment: &Option<String>| {
            let known = deployment.as_ref().and_then(|key| self.deployments.get(key));
            known.is_none_or(|known| known.base.is_none())
        };
        let urgent = match &work {
            Work::Deployment(key) => of_client(&Some(key.clone())),
            Work::Pod(key) => self.pods.get(key).is_some_and(|pod| of_client(&pod.deployment)),
            Work::Node(_) => false,
        };
        if urgent {
            self.due.push_urgent(work);
        } else {
            self.due.push(work);
        }
    }

    /// A random running pod of a deployment that `fill` created, on a server with controllers. Only some pods are looked at,
    /// because reading all of them is slow.
    pub(super) fn any_live_pod(&mut self) -> Option<String> {
        let keys = self.server.keys("pods");
        for _ in 0..16 {
            let key = self.rng.choice(&keys)?;
            let running = self.server.object("pods", key).is_some_and(|pod| {
                let set = self.replica_set_of(&pod);
                let deployment = set.as_deref().and_then(|set| set.rsplit_once('-'));
                let known = deployment.and_then(|(key, _)| self.deployments.get(key));
                Life::of(&pod) == Life::Running && known.is_some_and(|known| known.base.is_some())
            });
            if running {
                return Some(key.to_string());
            }
        }
        None
    }
}
