//! The work of the controller.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};

/// The reconciliation shared by all stages, unchanged by the migration.
pub async fn write_facts(client: &Client, deployment: &Deployment) -> Result<(), kube::Error> {
    let name = format!("{}-facts", deployment.name_any());
    let replicas = deployment.spec.replicas.unwrap_or(1);
    let facts = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: deployment.namespace(),
            owner_references: Some(Vec::from_iter(deployment.controller_owner_ref(&()))),
            ..ObjectMeta::default()
        },
        data: Some([("replicas".to_owned(), replicas.to_string())].into()),
        ..ConfigMap::default()
    };
    let api = Api::<ConfigMap>::namespaced(client.clone(), &deployment.namespace().unwrap_or_default());
    api.patch(&name, &PatchParams::apply("facts").force(), &Patch::Apply(&facts))
        .await?;
    Ok(())
}
