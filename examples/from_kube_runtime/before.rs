//! Before: kube-runtime's controller with its own watches.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use kube_runtime::controller::Action;
use kube_runtime::{Controller, watcher};

use super::facts::write_facts;

pub async fn run(client: Client) {
    let deployments = Api::<Deployment>::all(client.clone());
    let maps = Api::<ConfigMap>::all(client.clone());
    Controller::new(deployments, watcher::Config::default())
        .owns(maps, watcher::Config::default())
        .run(reconcile, error_policy, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
}

pub async fn reconcile(deployment: Arc<Deployment>, client: Arc<Client>) -> Result<Action, kube::Error> {
    write_facts(&client, &deployment).await?;
    Ok(Action::requeue(Duration::from_secs(600)))
}

pub fn error_policy(_: Arc<Deployment>, _: &kube::Error, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_secs(1))
}
