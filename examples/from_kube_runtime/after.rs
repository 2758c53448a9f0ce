//! The reconciler takes a key: it hears of deletions, failures wait longer each time, and there is one copy of everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube_controller::{Action, Controller, RunError, Watch};
use kube_informers::{ObjectKey, SharedInformerFactory};

use crate::write_facts;

/// Runs until `signal`; tells how many runs found that their object is gone.
pub async fn run(client: Client, signal: impl Future<Output = ()>) -> Result<usize, RunError> {
    let factory = SharedInformerFactory::new(client.clone());
    let deployments = factory.informer::<Deployment>();
    let maps = factory.informer::<ConfigMap>();
    let store = deployments.store();
    let deletions = Arc::new(AtomicUsize::new(0));
    let counter = deletions.clone();

    let controller = Controller::new("facts")
        .watches(Watch::itself(&deployments))
        .watches(Watch::owner::<Deployment>(&maps))
        // kube-runtime sets no limit of its own.
        .workers(16);
    factory.start();
    controller
        .run_until(signal, move |key: ObjectKey| {
            let (deployment, client, counter) = (store.get(&key), client.clone(), counter.clone());
            async move {
                let Some(deployment) = deployment else {
                    counter.fetch_add(1, Ordering::Relaxed);
                    return Ok(Action::Done);
                };
                write_facts(&client, &deployment).await?;
                Ok::<_, kube::Error>(Action::RequeueAfter(Duration::from_secs(600)))
            }
        })
        .await?;
    factory.shutdown().await;
    Ok(deletions.load(Ordering::Relaxed))
}
