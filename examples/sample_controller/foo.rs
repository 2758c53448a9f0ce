//! The kind `Foo`. In your own project `#[derive(kube::CustomResource)]` generates most of this.

use std::borrow::Cow;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub const GROUP: &str = "samplecontroller.k8s.io";
pub const VERSION: &str = "v1alpha1";

/// A Deployment that should exist.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Foo {
    pub metadata: ObjectMeta,
    pub spec: FooSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<FooStatus>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    #[serde(default)]
    pub deployment_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    #[serde(default)]
    pub available_replicas: i32,
}

impl Resource for Foo {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(&(): &()) -> Cow<'_, str> {
        "Foo".into()
    }

    fn group(&(): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version(&(): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural(&(): &()) -> Cow<'_, str> {
        "foos".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The definition that makes a server serve Foos.
pub fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("foos.{GROUP}"),
            // The group belongs to Kubernetes; a server requires a note that the API is unapproved.
            "annotations": {"api-approved.kubernetes.io": "unapproved, experimental-only"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo"},
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {
                            "deploymentName": {"type": "string"},
                            "replicas": {"type": "integer", "minimum": 1, "maximum": 10},
                        }},
                        "status": {"type": "object", "properties": {
                            "availableReplicas": {"type": "integer"},
                        }},
                    },
                }},
            }],
        },
    })
}

/// Creates the definition if it is missing.
pub async fn install(client: &Client) -> Result<(), super::Error> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let definition = serde_json::from_value(definition())?;
    match definitions.create(&PostParams::default(), &definition).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        outcome => Ok(outcome.map(drop)?),
    }
}
