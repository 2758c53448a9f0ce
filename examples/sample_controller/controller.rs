//! The reconciliation of a Foo.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use kube_informers::{Lister, Object, ObjectKey};
use serde_json::json;
use tracing::{info, warn};

use super::Error;
use super::foo::{Foo, FooStatus};
use super::recorder::{Recorder, Severity};

const MANAGER: &str = "sample-controller";

pub struct SampleController {
    pub client: Client,
    pub foos: Lister<Foo>,
    pub deployments: Lister<Deployment>,
    pub recorder: Recorder,
}

impl SampleController {
    /// Makes the Deployment of a Foo match its spec, and the status of the Foo match the Deployment.
    pub async fn sync(&self, key: &ObjectKey) -> Result<(), Error> {
        let Some(foo) = self.foos.get(key) else {
            // Its Deployment is garbage collected, because the Foo owns it.
            info!(foo = %key, "is gone");
            return Ok(());
        };
        let namespace = key.namespace().unwrap_or_default();
        let name = foo.spec.deployment_name.as_str();
        if name.is_empty() {
            // Retrying would not help; a change of the Foo will.
            warn!(foo = %key, "has no deployment name");
            return Ok(());
        }

        let api = Api::<Deployment>::namespaced(self.client.clone(), namespace);
        let mut deployment = match self.deployments.namespace(namespace).get(name) {
            Some(cached) => (*cached).clone(),
            None => {
                let created = api.create(&self.post(), &self.deployment_of(&foo)).await?;
                info!(foo = %key, deployment = name, "created");
                created
            }
        };

        if !is_controlled_by(&deployment, &foo) {
            let message = format!("Resource {name:?} already exists and is not managed by Foo");
            self.recorder
                .event(&*foo, Severity::Warning, "ErrResourceExists", &message);
            return Err(message.into());
        }

        if foo.spec.replicas.is_some() && foo.spec.replicas != deployment.spec.replicas {
            info!(foo = %key, from = deployment.spec.replicas, to = foo.spec.replicas, "scales");
            // Carries the version that was read, so that concurrent changes are not lost.
            deployment.spec.replicas = foo.spec.replicas;
            deployment = api.replace(name, &self.post(), &deployment).await?;
        }

        if self.update_status(&foo, &deployment).await? {
            self.recorder
                .event(&*foo, Severity::Normal, "Synced", "Foo synced successfully");
        }
        Ok(())
    }

    /// Writes the available replicas into the status; false if it is up to date.
    async fn update_status(&self, foo: &Foo, deployment: &Deployment) -> Result<bool, Error> {
        let available = deployment
            .status
            .as_ref()
            .and_then(|status| status.available_replicas);
        let status = FooStatus {
            available_replicas: available.unwrap_or_default(),
        };
        // Differs from the Go version, which writes each time: a no-op write is still a request.
        if foo.status.as_ref() == Some(&status) {
            return Ok(false);
        }
        let foos = Api::<Foo>::namespaced(self.client.clone(), foo.object_namespace().unwrap_or_default());
        let patch = json!({
            "metadata": {"resourceVersion": foo.metadata.resource_version},
            "status": status,
        });
        let manager = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        foos.patch_status(foo.object_name(), &manager, &Patch::Merge(patch))
            .await?;
        Ok(true)
    }

    fn post(&self) -> PostParams {
        PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        }
    }

    /// The desired Deployment of a Foo.
    fn deployment_of(&self, foo: &Foo) -> Deployment {
        let labels = BTreeMap::from([
            ("app".to_owned(), "nginx".to_owned()),
            ("controller".to_owned(), foo.object_name().to_owned()),
        ]);
        let container = Container {
            name: "nginx".to_owned(),
            image: Some("nginx:latest".to_owned()),
            ..Container::default()
        };
        Deployment {
            metadata: ObjectMeta {
                name: Some(foo.spec.deployment_name.clone()),
                namespace: foo.metadata.namespace.clone(),
                // The owner: events of the Deployment map to the Foo by this, and it is garbage collected with the Foo.
                owner_references: Some(Vec::from_iter(foo.controller_owner_ref(&()))),
                ..ObjectMeta::default()
            },
            spec: DeploymentSpec {
                replicas: foo.spec.replicas,
                selector: LabelSelector {
                    match_labels: Some(labels.clone()),
                    ..LabelSelector::default()
                },
                template: PodTemplateSpec {
                    metadata: Some(ObjectMeta {
                        labels: Some(labels),
                        ..ObjectMeta::default()
                    }),
                    spec: Some(PodSpec {
                        containers: vec![container],
                        ..PodSpec::default()
                    }),
                },
                ..DeploymentSpec::default()
            },
            status: None,
        }
    }
}

/// By UID: a recreated Foo is another object.
fn is_controlled_by(deployment: &Deployment, foo: &Foo) -> bool {
    let mut owners = deployment.object_owners();
    owners.any(|owner| owner.controller && Some(owner.uid) == foo.object_uid())
}
