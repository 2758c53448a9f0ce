//! The same reconciler and error policy; the objects come from informers, which can be shared.

use std::sync::Arc;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube_informers::SharedInformerFactory;
use kube_runtime::Controller;
use kube_runtime_informers::ControllerExt;

use super::before::{error_policy, reconcile};

pub async fn run(client: Client) {
    let factory = SharedInformerFactory::new(client.clone());
    let deployments = factory.informer::<Deployment>();
    let maps = factory.informer::<ConfigMap>();
    let controller = Controller::for_informer(&deployments).owns_informer(&maps);
    factory.start();
    controller
        .run(reconcile, error_policy, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
}
