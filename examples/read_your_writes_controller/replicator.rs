//! The reconciler.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, Resource};
use kube_controller::{Action, OwnWrites, Reconcile};
use kube_informers::{Informer, Object, ObjectKey, Store};
use kube_testserver::builders::pod;

use super::Error;

/// Keeps the number of pods that each ConfigMap requests.
pub struct Replicator {
    pub client: Client,
    pub sets: Store<ConfigMap>,
    pub pods: Informer<Pod>,
    pub writes: OwnWrites,
}

impl Reconcile<ObjectKey> for Replicator {
    type Error = Error;

    async fn reconcile(&self, key: ObjectKey) -> Result<Action, Error> {
        let Some(set) = self.sets.get(&key) else {
            return Ok(Action::Done);
        };
        let data = set.data.as_ref().and_then(|data| data.get("replicas"));
        let wanted: usize = data.ok_or("a set without replicas")?.parse()?;

        let api = Api::<Pod>::namespaced(self.client.clone(), key.namespace().unwrap_or_default());
        // Remembers what is written for this key.
        let api = self.writes.api(&key, api, &self.pods);
        let children = self.pods.lister().controlled_by(&*set);
        for _ in children.len()..wanted {
            api.create(&PostParams::default(), &pod_of(&set)).await?;
        }
        for surplus in children.iter().skip(wanted) {
            api.delete(surplus.object_name(), &DeleteParams::default())
                .await?;
        }
        Ok(Action::Done)
    }
}

fn pod_of(set: &ConfigMap) -> Pod {
    let mut pod = pod(set.object_namespace().unwrap_or_default(), "");
    pod.metadata.name = None;
    pod.metadata.generate_name = Some(format!("{}-", set.object_name()));
    pod.metadata.owner_references = Some(Vec::from_iter(set.controller_owner_ref(&())));
    pod
}
