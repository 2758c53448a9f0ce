//! Test objects: unique namespaces, config maps with a label.

use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace as NamespaceObject};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::wait_for;

/// A unique name, also across runs on the same cluster.
pub fn unique(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = now.map_or(0, |now| now.as_millis() % 100_000_000);
    format!("{prefix}-{}-{millis}-{count}", std::process::id())
}

/// A namespace for one scenario.
pub struct Namespace {
    pub name: String,
    client: Client,
}

/// Creates one.
pub async fn namespace(client: &Client) -> Result<Namespace, kube::Error> {
    let name = unique("e2e");
    let object: NamespaceObject = from_json(json!({ "metadata": { "name": name } }));
    Api::<NamespaceObject>::all(client.clone())
        .create(&PostParams::default(), &object)
        .await?;
    Ok(Namespace {
        name,
        client: client.clone(),
    })
}

impl Namespace {
    /// The config maps in it.
    pub fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Marks it for deletion. Without controllers its contents stay.
    pub async fn delete(self) -> Result<(), kube::Error> {
        Api::<NamespaceObject>::all(self.client.clone())
            .delete(&self.name, &DeleteParams::default())
            .await
            .map(drop)
    }
}

/// A config map with a label and a value.
pub fn config_map(name: &str, value: usize) -> ConfigMap {
    labelled(
        name,
        "even",
        if value.is_multiple_of(2) { "yes" } else { "no" },
        value,
    )
}

/// A config map with this label.
pub fn labelled(name: &str, label: &str, set: &str, value: usize) -> ConfigMap {
    from_json(json!({
        "metadata": { "name": name, "labels": { label: set } },
        "data": { "value": value.to_string() },
    }))
}

fn from_json<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap_or_else(|error| panic!("invalid test object: {error}"))
}

/// Merges a patch into an object; returns the new version.
pub async fn merge<K>(api: &Api<K>, name: &str, patch: Value) -> Result<String, kube::Error>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let patched = api
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(patched.meta().resource_version.clone().unwrap_or_default())
}

/// Completes the deletion of a namespace. A cluster with controllers does that itself; otherwise the config maps are
/// deleted and the finalizer is removed here.
pub async fn finish_deletion(client: &Client, name: &str) -> Result<(), kube::Error> {
    let spaces: Api<NamespaceObject> = Api::all(client.clone());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), name);
    wait_for("the namespace is removed", async || {
        let space = match spaces.get_opt(name).await {
            Ok(None) => return Some(Ok(())),
            Ok(Some(space)) => space,
            Err(error) => return Some(Err(error)),
        };
        let emptied = maps
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await;
        if let Err(error) = emptied {
            return Some(Err(error));
        }
        let mut finalized = space;
        finalized.spec.get_or_insert_default().finalizers = Some(Vec::new());
        // If another client was faster, the next attempt sees it.
        let _ = spaces
            .replace_subresource("finalize", name, &PostParams::default(), &finalized)
            .await;
        None
    })
    .await
}
