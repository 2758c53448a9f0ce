//! The cluster that a story is played on.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::kubelet::Kubelet;
use super::picture::{Picture, RESOURCES};

/// The namespace of every story.
pub(super) const NAMESPACE: &str = "shop";
/// A cluster is at rest if nothing has changed for this long. The slowest reaction without a back-off is that of the endpoint slices,
/// which collect changes for a second.
const REST: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

/// A cluster with controllers, and the pictures taken so far.
pub struct World {
    client: Client,
    kubelet: Option<Kubelet>,
    timeout: Duration,
    /// The pictures, in the form to compare.
    pub pictures: BTreeMap<String, Vec<Value>>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("pictures", &self.pictures.keys())
            .finish_non_exhaustive()
    }
}

impl World {
    /// A cluster that has a scheduler and kubelets of its own.
    pub fn new(client: Client, timeout: Duration) -> World {
        World {
            client,
            kubelet: None,
            timeout,
            pictures: BTreeMap::new(),
        }
    }

    /// A cluster that has neither: the world schedules and runs its pods.
    pub fn without_kubelets(client: Client, timeout: Duration) -> World {
        World {
            kubelet: Some(Kubelet::default()),
            ..World::new(client, timeout)
        }
    }

    /// Creates the namespace and the nodes.
    ///
    /// # Errors
    ///
    /// The server refuses.
    pub async fn prepare(&self, nodes: &[&str]) -> Result<(), String> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
        self.send(Method::POST, "/api/v1/namespaces", &namespace).await?;
        for name in nodes {
            let zone = json!({ "kubernetes.io/hostname": name });
            let node =
                json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": zone } });
            self.send(Method::POST, "/api/v1/nodes", &node).await?;
            let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
            self.send(Method::PATCH, &format!("/api/v1/nodes/{name}/status"), &status)
                .await?;
        }
        Ok(())
    }

    /// Creates an object in the namespace.
    ///
    /// # Errors
    ///
    /// The server refuses.
    pub async fn create(&self, resource: &str, object: &Value) -> Result<Value, String> {
        self.send(Method::POST, &path(resource, ""), object).await
    }

    /// Changes an object by a merge patch.
    ///
    /// # Errors
    ///
    /// The server refuses.
    pub async fn patch(&self, resource: &str, name: &str, change: &Value) -> Result<Value, String> {
        self.send(Method::PATCH, &path(resource, name), change).await
    }

    /// Deletes an object with a propagation policy.
    ///
    /// # Errors
    ///
    /// The server refuses.
    pub async fn delete(&self, resource: &str, name: &str, policy: &str) -> Result<Value, String> {
        let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy });
        self.send(Method::DELETE, &path(resource, name), &options).await
    }

    /// Waits until a condition holds and the cluster is at rest, and takes a picture.
    ///
    /// # Errors
    ///
    /// The condition does not hold in time; the text has the objects.
    pub async fn picture(&mut self, name: &str, condition: impl Fn(&Picture) -> bool) -> Result<(), String> {
        let began = Instant::now();
        let mut last = Picture::default();
        let mut since = began;
        loop {
            if let Some(kubelet) = &mut self.kubelet {
                kubelet.step(&self.client).await?;
            }
            let now = self.objects().await?;
            if now != last {
                last = now;
                since = Instant::now();
            }
            let holds = condition(&last);
            if holds && since.elapsed() >= REST {
                self.pictures.insert(name.to_owned(), last.normal());
                return Ok(());
            }
            if began.elapsed() > self.timeout {
                let state = if holds {
                    "the cluster is not at rest"
                } else {
                    "the condition does not hold"
                };
                let objects = serde_json::to_string_pretty(&last.normal()).unwrap_or_default();
                return Err(format!("{name}: {state}: {objects}"));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn objects(&self) -> Result<Picture, String> {
        let mut picture = Picture::default();
        for resource in RESOURCES {
            picture.objects.insert(resource, self.list(resource).await?);
        }
        Ok(picture)
    }

    /// The objects of a resource in the namespace.
    ///
    /// # Errors
    ///
    /// The server refuses.
    pub async fn list(&self, resource: &str) -> Result<Vec<Value>, String> {
        let list = self.send(Method::GET, &path(resource, ""), &Value::Null).await?;
        Ok(items(&list))
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, String> {
        send(&self.client, method, path, body).await
    }
}

/// The objects of a list, with the kind that items lack.
pub(super) fn items(list: &Value) -> Vec<Value> {
    let kind = list["kind"].as_str().unwrap_or_default().trim_end_matches("List");
    let items = list["items"].as_array().into_iter().flatten();
    let named = items.map(|item| {
        let mut item = item.clone();
        item["kind"] = kind.into();
        item["apiVersion"] = list["apiVersion"].clone();
        item
    });
    named.collect()
}

pub(super) async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Result<Value, String> {
    let content = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let bytes = match body {
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    let what = format!("{method} {path}");
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content)
        .body(bytes)
        .map_err(|error| format!("{what}: {error}"))?;
    client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => format!("{what}: {} ({})", status.message, status.reason),
        error => format!("{what}: {error}"),
    })
}

/// The path of an object of the namespace, or of the collection.
pub(super) fn path(resource: &str, name: &str) -> String {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let root = match group {
        "" => "/api/v1".to_owned(),
        group => format!("/apis/{group}/v1"),
    };
    match name {
        "" => format!("{root}/namespaces/{NAMESPACE}/{plural}"),
        name => format!("{root}/namespaces/{NAMESPACE}/{plural}/{name}"),
    }
}
