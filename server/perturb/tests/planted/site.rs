//! Helpers for the planted controllers.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use kube_perturb::Scenario;
use serde_json::{Value, json};

pub const FINALIZER: &str = "example.com/site";

/// A manifest of a site.
pub fn manifest(name: &str, data: &[(&str, &str)]) -> String {
    let data: BTreeMap<&str, &str> = data.iter().copied().collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "shop", "name": name}, "data": data,
    })
    .to_string()
}

/// A scenario that creates one site.
pub fn scenario(name: &str, data: &[(&str, &str)]) -> Scenario {
    Scenario::new().apply(format!("create {name}"), manifest(name, data))
}

pub fn sites(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "shop")
}

pub fn accounts(client: &Client) -> Api<ServiceAccount> {
    Api::namespaced(client.clone(), "shop")
}

/// A value in the data of a site.
pub fn value<'a>(site: &'a ConfigMap, key: &str) -> Option<&'a str> {
    site.data.as_ref()?.get(key).map(String::as_str)
}

/// A child of a site, with an owner reference.
pub fn account(site: &ConfigMap, name: &str) -> ServiceAccount {
    ServiceAccount {
        metadata: ObjectMeta {
            namespace: site.namespace(),
            name: Some(name.to_owned()),
            owner_references: Some(Vec::from_iter(site.controller_owner_ref(&()))),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    }
}

pub async fn apply_account(client: &Client, account: &ServiceAccount) -> kube::Result<ServiceAccount> {
    let name = account.name_any();
    let params = PatchParams::apply("planted").force();
    accounts(client)
        .patch(&name, &params, &Patch::Apply(account))
        .await
}

/// Creates a child; one that exists is fine.
pub async fn ensure_account(client: &Client, account: &ServiceAccount) -> kube::Result<()> {
    match accounts(client).create(&PostParams::default(), account).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => other.map(drop),
    }
}

pub async fn merge(client: &Client, name: &str, patch: Value) -> kube::Result<ConfigMap> {
    let params = PatchParams::default();
    sites(client).patch(name, &params, &Patch::Merge(patch)).await
}

/// A broken controller that writes every second.
pub async fn write_forever(client: Client) -> kube::Result<()> {
    for turn in 0_u64.. {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let patch = json!({"data": {"turn": turn.to_string()}});
        if let Err(error) = merge(&client, "web", patch).await
            && !matches!(&error, kube::Error::Api(status) if status.code == 404)
        {
            return Err(error);
        }
    }
    Ok(())
}

pub fn is_missing<T>(result: &kube::Result<T>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.code == 404)
}
