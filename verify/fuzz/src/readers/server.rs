//! The embedded server: bodies of writes, patches, and the parameters of requests. Writes are dry runs, so that an execution
//! does not depend on the ones before it.

use std::rc::Rc;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use kube_protobuf::envelope::to_body;
use kube_protobuf::{MEDIA_TYPE, TypeMeta, schema, ser};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, config_map, deployment, pod};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower_service::Service;

use super::{MEGABYTE, Reader, WORDS};
use crate::outcome::Outcome;

pub fn readers() -> Vec<Reader> {
    let server = Rc::new(Server::new());
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "web", "image": "nginx", "ports": [{"containerPort": 80}]}]}});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "new"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer", "minimum": 1, "default": 3},
        "color": {"type": "string", "pattern": "^[a-z]+$", "enum": ["red"]}}}}}}}]}});
    let labelled =
        json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/a"], "ownerReferences": []}});
    let outdated = json!({"metadata": {"resourceVersion": "1"}});
    let mislabelled = json!({"metadata": {"labels": {"a": "-"}}});
    let bytes = |values: &[&Value]| {
        values
            .iter()
            .map(|value| value.to_string().into_bytes())
            .collect::<Vec<_>>()
    };
    let message = |value: &Value| {
        let encoded = ser::to_message(schema::lookup("v1", "Pod").expect("a schema"), value).expect("a pod");
        to_body(
            TypeMeta {
                api_version: "v1",
                kind: "Pod",
            },
            &encoded,
        )
    };
    let pods = "/api/v1/namespaces/shop/pods?dryRun=All";
    let deployments = "/apis/apps/v1/namespaces/shop/deployments?dryRun=All";
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
    let one = "/apis/apps/v1/namespaces/shop/deployments/web?dryRun=All&fieldManager=fuzz";
    // Only an apply can be forced.
    let applied = "/apis/apps/v1/namespaces/shop/deployments/web?dryRun=All&fieldManager=fuzz&force=true";
    vec![
        server.body("server-create-pod", Method::POST, pods, "application/json", bytes(&[&pod])),
        server.body("server-create-deployment", Method::POST, deployments, "application/json", bytes(&[&web])),
        server.body("server-create-definition", Method::POST, definitions, "application/json", bytes(&[&definition])),
        server.body("server-create-yaml", Method::POST, pods, "application/yaml",
            vec![b"apiVersion: v1\nkind: Pod\nmetadata: {name: new}\nspec: {containers: [{name: c, image: i}]}\n".to_vec()]),
        server.body("server-create-protobuf", Method::POST, pods, MEDIA_TYPE, vec![message(&pod)]),
        server.body("server-json-patch", Method::PATCH, one, "application/json-patch+json",
            bytes(&[&json!([{"op": "replace", "path": "/spec/replicas", "value": 3}, {"op": "test", "path": "/metadata/name", "value": "web"},
                {"op": "add", "path": "/metadata/labels/x", "value": "y"}, {"op": "move", "from": "/metadata/labels/x", "path": "/metadata/labels/z"},
                {"op": "remove", "path": "/spec/template/spec/containers/0"}])])),
        server.body("server-merge-patch", Method::PATCH, one, "application/merge-patch+json",
            bytes(&[&json!({"spec": {"replicas": 4, "template": {"metadata": {"annotations": null}}}}),
                &labelled, &outdated, &mislabelled])),
        server.body("server-strategic-patch", Method::PATCH, one, "application/strategic-merge-patch+json",
            bytes(&[&json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "main"}],
                "containers": [{"name": "main", "image": "b"}, {"$patch": "delete", "name": "c"}], "$retainKeys": ["containers"]}}}}),
                &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}), &labelled, &outdated, &mislabelled])),
        server.body("server-apply", Method::PATCH, applied, "application/apply-patch+yaml",
            bytes(&[&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"q": "r"}}, "spec": {"replicas": 5,
                "template": {"spec": {"containers": [{"name": "main", "image": "c"}]}}}})])),
        server.parameters(),
    ]
}

struct Server {
    server: TestServer,
    runtime: Runtime,
}

impl Server {
    fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            // What the server waits for takes no time.
            .start_paused(true)
            .build()
            .expect("a runtime");
        let server = runtime.block_on(async {
            let server = TestServer::new();
            server.create(deployment("shop", "web").label("app", "web"));
            for number in 0..4 {
                server.create(pod("shop", &format!("p{number}")));
                server.create(config_map("shop", &format!("c{number}")));
            }
            server
        });
        Self { server, runtime }
    }

    fn send(&self, request: Request<Full<Bytes>>, outcome: &mut Outcome) {
        let mut service = self.server.service();
        self.runtime.block_on(async {
            match service.call(request).await {
                Ok(response) => {
                    let status = response.status().as_u16();
                    let body = response.into_body().collect().await;
                    outcome.note(status);
                    let mut answer = Value::Null;
                    if let Ok(body) = body
                        && status >= 400
                    {
                        answer = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
                        outcome.error(&answer["message"].as_str().unwrap_or_default());
                    }
                    let is_expected = match status {
                        // As the real server reports an error of its storage, such as a resource version that is not a number.
                        500 => answer["reason"].is_null() && answer["message"].is_string(),
                        // 504: a version that does not exist yet was waited for.
                        501 | 504 => true,
                        _ => status < 500,
                    };
                    assert!(is_expected, "status {status}: {}", answer["message"]);
                }
                Err(error) => outcome.error(&error),
            }
        });
        // Otherwise the log of requests would grow for ever.
        self.server.clear_requests();
    }

    fn body(
        self: &Rc<Self>,
        name: &'static str,
        method: Method,
        path: &'static str,
        content_type: &'static str,
        seeds: Vec<Vec<u8>>,
    ) -> Reader {
        let server = self.clone();
        Reader {
            name,
            seeds,
            words: WORDS,
            memory_base: 4 * MEGABYTE,
            memory_per_byte: 4096,
            read: Box::new(move |input, outcome| {
                let request = Request::builder()
                    .method(method.clone())
                    .uri(path)
                    .header("content-type", content_type)
                    .body(Full::new(Bytes::copy_from_slice(input)))
                    .expect("a request");
                server.send(request, outcome);
            }),
        }
    }

    /// The parameters of lists: continue tokens, selectors, versions.
    fn parameters(self: &Rc<Self>) -> Reader {
        let server = self.clone();
        let first = server.first_page();
        Reader {
            name: "server-parameters",
            seeds: vec![
                format!("limit=2&continue={first}").into(),
                b"labelSelector=app%3Dweb%2Ctier+notin+%28a%2Cb%29&fieldSelector=metadata.name%21%3Dp1"
                    .to_vec(),
                b"resourceVersion=5&resourceVersionMatch=Exact&limit=1".to_vec(),
                b"resourceVersion=0&timeoutSeconds=1&pretty=true".to_vec(),
                b"shardSelector=shardRange(object.metadata.uid,'0x0','0x8000000000000000')".to_vec(),
            ],
            words: &[
                "limit=",
                "&",
                "continue=",
                "resourceVersion=",
                "resourceVersionMatch=NotOlderThan",
                "labelSelector=",
                "fieldSelector=",
                "timeoutSeconds=",
                "%",
                "%2C",
                "spec.nodeName",
                "-1",
                "18446744073709551616",
            ],
            memory_base: 4 * MEGABYTE,
            memory_per_byte: 4096,
            read: Box::new(move |input, outcome| {
                let text = String::from_utf8_lossy(input);
                let request =
                    Request::get(format!("/api/v1/namespaces/shop/pods?{text}")).body(Full::default());
                match request {
                    Ok(request) => server.send(request, outcome),
                    Err(_) => outcome.note("not a URI"),
                }
            }),
        }
    }

    /// A real continue token.
    fn first_page(&self) -> String {
        let request = Request::get("/api/v1/namespaces/shop/pods?limit=1")
            .body(Full::<Bytes>::default())
            .expect("a request");
        let mut service = self.server.service();
        self.runtime.block_on(async {
            let response = service.call(request).await.expect("a response");
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            let list: Value = serde_json::from_slice(&body).expect("JSON");
            list["metadata"]["continue"].as_str().expect("a token").to_owned()
        })
    }
}
