//! The reconciler receives a key: it sees deletions, failures back off, and there is one copy of every object.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube_controller::{Action, Controller, RunError, Watch};
use kube_informers::{ObjectKey, SharedInformerFactory};
use tokio::sync::Notify;

use super::facts::write_facts;

/// Whether a run has found that its object was deleted.
#[derive(Clone, Default)]
pub struct Deletions(Arc<Notify>);

impl Deletions {
    /// Waits for the first run.
    pub async fn first(&self) {
        self.0.notified().await;
    }
}

/// Runs until `signal`.
pub async fn run(
    client: Client,
    deletions: &Deletions,
    signal: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let factory = SharedInformerFactory::new(client.clone());
    let deployments = factory.informer::<Deployment>();
    let maps = factory.informer::<ConfigMap>();
    let store = deployments.store();
    let deletions = deletions.clone();

    let controller = Controller::new("facts")
        .watches(Watch::object(&deployments))
        .watches(Watch::owner::<Deployment>(&maps))
        // kube-runtime has no limit by default.
        .workers(16);
    factory.start();
    controller
        .run_until(signal, move |key: ObjectKey| {
            let (deployment, client, deletions) = (store.get(&key), client.clone(), deletions.clone());
            async move {
                let Some(deployment) = deployment else {
                    deletions.0.notify_one();
                    return Ok(Action::Done);
                };
                write_facts(&client, &deployment).await?;
                Ok::<_, kube::Error>(Action::RequeueAfter(Duration::from_secs(600)))
            }
        })
        .await?;
    factory.shutdown().await;
    Ok(())
}
