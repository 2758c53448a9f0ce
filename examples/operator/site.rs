//! What both versions of the operator share: the kind `Site`, its page, and the DNS outside the cluster.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use kube_leases::{Election, LeaseName};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub const OPERATOR: &str = "example.dev/site-operator";
pub const FINALIZER: &str = "example.dev/dns";

pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A page to publish. In your own project `#[derive(kube::CustomResource)]` generates most of this.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Site {
    pub metadata: ObjectMeta,
    pub spec: SiteSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SiteStatus>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SiteSpec {
    pub text: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SiteStatus {
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

impl Site {
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub fn conditions(&self) -> Vec<Condition> {
        self.status.clone().unwrap_or_default().conditions
    }

    /// The child: a ConfigMap with the text.
    pub fn page(&self) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(format!("{}-page", self.name())),
                namespace: self.metadata.namespace.clone(),
                owner_references: Some(Vec::from_iter(self.controller_owner_ref(&()))),
                ..ObjectMeta::default()
            },
            data: Some([("text".to_owned(), self.spec.text.clone())].into()),
            ..ConfigMap::default()
        }
    }
}

impl Resource for Site {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(&(): &()) -> Cow<'_, str> {
        "Site".into()
    }

    fn group(&(): &()) -> Cow<'_, str> {
        "example.dev".into()
    }

    fn version(&(): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(&(): &()) -> Cow<'_, str> {
        "sites".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The definition that makes a server serve Sites.
pub fn definition() -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.dev"},
        "spec": {
            "group": "example.dev",
            "scope": "Namespaced",
            "names": {"plural": "sites", "singular": "site", "kind": "Site"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": anything},
            }],
        },
    })
}

/// Records outside the cluster. Nothing but a finalizer can clean them up.
#[derive(Clone, Default)]
pub struct Dns(Arc<Mutex<BTreeSet<String>>>);

impl Dns {
    pub fn add(&self, site: &Site) {
        self.records().insert(Self::record(site));
    }

    pub fn remove(&self, site: &Site) {
        self.records().remove(&Self::record(site));
    }

    pub fn list(&self) -> Vec<String> {
        self.records().iter().cloned().collect()
    }

    fn record(site: &Site) -> String {
        format!("{}.{}", site.name(), site.namespace())
    }

    fn records(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// kube-runtime has no leader election, so both use this one.
pub fn election(client: kube::Client, stop: &CancellationToken) -> Election {
    Election::new(client, LeaseName::new("shop", "site-operator"), "replica-1").stop_on(stop.clone())
}
