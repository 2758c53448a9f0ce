//! Shared code of both controllers: their objects, and the write that reconciles each change.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::pod::{self, NEVER, SENT};

/// The number of workers of a controller.
pub const WORKERS: usize = 8;
/// The label selector of the reconciled objects.
pub const SOURCES: &str = "role=source";

/// The name of an object by number; its namespace is that of the pod with the number.
#[must_use]
pub fn name(number: usize) -> String {
    format!("source-{number:06}")
}

/// An object to reconcile.
#[must_use]
pub fn source(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "namespace": pod::namespace(number), "name": name(number),
            "labels": {"role": "source", "app": format!("workload-{}", number % 600)},
            "annotations": {SENT: NEVER},
        },
        "data": {"settings.yaml": format!("replicas: {number}\nlevel: info\nupstream: http://upstream-{}.svc:8080\n", number % 600)},
    })
}

/// Copies a source to its target object.
///
/// # Errors
///
/// The server rejects the write.
pub async fn answer(client: &Client, source: &ConfigMap) -> Result<(), kube::Error> {
    let namespace = source.metadata.namespace.as_deref().unwrap_or_default();
    let name = format!("result-{}", source.metadata.name.as_deref().unwrap_or_default());
    let result = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name, "labels": {"role": "result"}},
        "data": source.data,
    });
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let options = PatchParams::apply("bench").force();
    api.patch_metadata(&name, &options, &Patch::Apply(result))
        .await
        .map(|_| ())
}

/// Counts finished runs, and reports once that every object was reconciled.
pub struct Progress {
    done: std::sync::atomic::AtomicUsize,
    objects: usize,
}

impl Progress {
    /// For this number of objects.
    #[must_use]
    pub fn new(objects: usize) -> Self {
        Self {
            done: 0.into(),
            objects,
        }
    }

    /// Counts a successful run.
    pub fn finished(&self) {
        if self.done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 == self.objects {
            crate::peer::synced(self.objects);
        }
    }
}

/// The cache of a controller is not measured.
pub struct NoCache;

impl crate::peer::Cache for NoCache {
    type Key = ();

    fn key(&self, _: &str, _: &str) {}

    fn get(&self, (): &()) -> bool {
        false
    }

    fn read(&self, (): &()) -> bool {
        false
    }

    fn get_by_name(&self, _: &str, _: &str) -> bool {
        false
    }

    fn on_node(&self, _: &str) -> Option<usize> {
        None
    }

    fn list(&self) -> usize {
        0
    }
}
