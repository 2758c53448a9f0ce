//! Caching less: a transform that drops fields, metadata only, and a custom struct.

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::core::{ApiResource, PartialObjectMeta};
use kube_informers::source::SourceOptions;
use kube_informers::{Informer, Object, Scope};
use kube_testserver::TestServer;
use kube_testserver::builders::{pod, secret};

/// A pod, reduced to its node.
#[derive(serde::Deserialize)]
struct PodNode {
    metadata: Meta,
    spec: Spec,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

impl Object for PodNode {
    fn object_name(&self) -> &str {
        &self.metadata.name
    }
    fn object_namespace(&self) -> Option<&str> {
        self.metadata.namespace.as_deref()
    }
    fn object_uid(&self) -> Option<&str> {
        self.metadata.uid.as_deref()
    }
    fn object_version(&self) -> Option<&str> {
        self.metadata.resource_version.as_deref()
    }
}

pub async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    let mut cart = pod("shop", "cart");
    cart.spec.get_or_insert_default().node_name = Some("worker-1".to_owned());
    server.create(cart);
    server.create(secret("shop", "password"));

    // managedFields are cut from the bytes before they are decoded; the transform runs once per version.
    let pods = Informer::<Pod>::all(server.client())
        .source(SourceOptions {
            drop_managed_fields: Some(true),
            ..Default::default()
        })?
        .transform(|pod| pod.status = None)
        .start();

    // The server sends metadata only: no Secret value is ever in this process.
    let secrets = Informer::<PartialObjectMeta<Secret>>::all(server.client()).start();

    // Only the fields of the struct are kept.
    let resource = ApiResource::erase::<Pod>(&());
    let nodes = Informer::<PodNode>::projected(server.client(), &resource, Scope::namespace("shop")).start();

    pods.synced().await?;
    secrets.synced().await?;
    nodes.synced().await?;

    let cart = pods.store().get(("shop", "cart")).ok_or("no pod")?;
    assert!(cart.status.is_none() && cart.metadata.managed_fields.is_none());
    assert_eq!(secrets.store().len(), 1);
    let place = nodes.store().get(("shop", "cart")).ok_or("no pod")?;
    println!(
        "cart runs on {}",
        place.spec.node_name.as_deref().unwrap_or("nothing yet")
    );
    assert_eq!(place.spec.node_name.as_deref(), Some("worker-1"));
    Ok(())
}
