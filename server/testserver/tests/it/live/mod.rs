//! The controllers that make a live cluster: workloads, services, scheduler and kubelets.

mod deployments;
mod jobs;
mod pods;
mod sets;

use http::Method;
use kube_testserver::builders::{namespace, node};
use kube_testserver::{Controllers, TestServer};
use serde_json::{Value, json};

use crate::common::send;

/// A server with all controllers, these nodes, and the namespace `shop`.
fn cluster(nodes: &[&str]) -> TestServer {
    let server = TestServer::builder()
        .conformant()
        .controllers(Controllers::all())
        .build();
    for name in ["default", "shop"] {
        server.create(namespace(name));
    }
    for name in nodes {
        server.create(node(name));
    }
    server
}

/// Waits until the controllers have acted on everything.
async fn idle(server: &TestServer) {
    server
        .wait_for("the controllers are idle", TestServer::controllers_are_idle)
        .await;
}

/// Creates an object as a client, in the namespace `shop`.
async fn post(server: &TestServer, resource: &str, object: &Value) -> Value {
    let response = send(server, Method::POST, &path(resource, ""), object).await;
    assert_eq!(response.status, 201, "{}", response.text);
    response.json()
}

/// Changes an object as a client, by a merge patch.
async fn patch(server: &TestServer, resource: &str, name: &str, change: &Value) -> Value {
    let request = http::Request::builder()
        .method(Method::PATCH)
        .uri(path(resource, name))
        .header("content-type", "application/merge-patch+json")
        .body(change.to_string().into())
        .expect("a request");
    let response = crate::common::call(&server.service(), request)
        .await
        .expect("an answer");
    assert_eq!(response.status(), 200);
    object(server, resource, name)
}

async fn delete(server: &TestServer, resource: &str, name: &str) {
    let response = send(server, Method::DELETE, &path(resource, name), &Value::Null).await;
    assert!((200..300).contains(&response.status), "{}", response.text);
}

fn path(resource: &str, name: &str) -> String {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let root = match group {
        "" => "/api/v1".to_owned(),
        group => format!("/apis/{group}/v1"),
    };
    let path = match plural {
        "nodes" => format!("{root}/{plural}"),
        _ => format!("{root}/namespaces/shop/{plural}"),
    };
    match name {
        "" => path,
        name => format!("{path}/{name}"),
    }
}

fn object(server: &TestServer, resource: &str, name: &str) -> Value {
    let key = match resource {
        "nodes" => name.to_owned(),
        _ => format!("shop/{name}"),
    };
    server
        .object(resource, &key)
        .unwrap_or_else(|| panic!("no {resource} {key}"))
}

fn status(server: &TestServer, resource: &str, name: &str) -> Value {
    object(server, resource, name)["status"].clone()
}

/// The names of all objects of a resource in the namespace `shop`.
fn names(server: &TestServer, resource: &str) -> Vec<String> {
    server
        .objects(resource)
        .iter()
        .filter(|object| object["metadata"]["namespace"] == "shop")
        .map(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Status and reason of a condition: `True NewReplicaSetAvailable`.
fn condition(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|one| one["type"] == kind);
    match found {
        Some(found) => format!(
            "{} {}",
            found["status"].as_str().unwrap_or_default(),
            found["reason"].as_str().unwrap_or_default()
        ),
        None => "none".to_owned(),
    }
}

/// A workload of the group apps with the label `app=<name>`.
fn workload(kind: &str, name: &str, replicas: Option<i64>) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "main:1" }] },
            },
        },
    });
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = replicas.into();
    }
    object
}

/// A change of the image of all pods.
fn image(image: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": image }] } } } })
}

/// The images of all pods, sorted.
fn images(server: &TestServer) -> Vec<String> {
    let mut images: Vec<String> = server
        .objects("pods")
        .iter()
        .map(|pod| {
            pod["spec"]["containers"][0]["image"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    images.sort();
    images
}
