//! Raw requests and watches, so that tests check the wire format and not a client's view of it.

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kube_testserver::{TestBody, TestServer, TestService};
use serde_json::Value;
use tower_service::Service;

/// A complete response.
#[derive(Debug)]
pub struct FullResponse {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub text: String,
}

impl FullResponse {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect("the response is JSON")
    }

    /// Code, reason and message of a `Status`.
    pub fn error(&self) -> (u16, String, String) {
        let status = self.json();
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["code"], self.status);
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        (self.status, text("reason"), text("message"))
    }

    /// `namespace/name@version` of each item of a list.
    pub fn items(&self) -> Vec<String> {
        assert_eq!(self.status, 200, "{}", self.text);
        self.json()["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(name_at)
            .collect()
    }

    /// `namespace/name` of each item of a list.
    pub fn names(&self) -> Vec<String> {
        self.items()
            .iter()
            .map(|item| item.split('@').next().unwrap_or_default().to_owned())
            .collect()
    }

    pub fn version(&self) -> u64 {
        version(&self.json())
    }

    pub fn continue_token(&self) -> Option<String> {
        self.json()["metadata"]["continue"].as_str().map(str::to_owned)
    }
}

pub fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a version")
}

fn name_at(object: &Value) -> String {
    let metadata = &object["metadata"];
    let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
    let namespace = text("namespace");
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{namespace}{slash}{}@{}", text("name"), text("resourceVersion"))
}

pub async fn call(
    service: &TestService,
    request: Request<Full<Bytes>>,
) -> std::io::Result<Response<TestBody>> {
    service.clone().call(request).await
}

pub async fn finish(response: Response<TestBody>) -> FullResponse {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("the body is complete").to_bytes();
    FullResponse {
        status: parts.status.as_u16(),
        headers: parts.headers,
        text: String::from_utf8(bytes.to_vec()).expect("the body is text"),
    }
}

pub async fn get(server: &TestServer, path: &str) -> FullResponse {
    get_as(server, path, "").await
}

pub async fn get_as(server: &TestServer, path: &str, accept: &str) -> FullResponse {
    let mut request = Request::get(path);
    if !accept.is_empty() {
        request = request.header("accept", accept);
    }
    let request = request.body(Full::default()).expect("a request");
    finish(call(&server.service(), request).await.expect("a response")).await
}

pub async fn send(server: &TestServer, method: Method, path: &str, body: &Value) -> FullResponse {
    send_as(server, method, path, "application/json", body.to_string()).await
}

pub async fn send_as(
    server: &TestServer,
    method: Method,
    path: &str,
    content_type: &str,
    body: impl Into<Bytes>,
) -> FullResponse {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(Full::new(body.into()))
        .expect("a request");
    finish(call(&server.service(), request).await.expect("a response")).await
}

/// An open watch, read frame by frame.
pub struct Watch {
    body: TestBody,
    buffer: BytesMut,
}

impl Watch {
    pub async fn open(server: &TestServer, path: &str) -> Watch {
        Watch::open_as(&server.service(), path, "").await
    }

    pub async fn open_as(service: &TestService, path: &str, accept: &str) -> Watch {
        let mut request = Request::get(path);
        if !accept.is_empty() {
            request = request.header("accept", accept);
        }
        let response = call(service, request.body(Full::default()).expect("a request"))
            .await
            .expect("a response");
        assert_eq!(response.status(), 200);
        Watch {
            body: response.into_body(),
            buffer: BytesMut::new(),
        }
    }

    /// The next frame; `None` at the end.
    pub async fn frame(&mut self) -> std::io::Result<Option<Value>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return Ok(Some(serde_json::from_slice(&line).expect("a frame is JSON")));
            }
            match self.body.frame().await {
                Some(chunk) => self.buffer.extend_from_slice(&chunk?.into_data().expect("data")),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// The next event as text: `ADDED shop/cart@5`, `BOOKMARK @7`, `BOOKMARK end @7`, `ERROR 410 …`, `end`.
    pub async fn next(&mut self) -> String {
        match self.frame().await {
            Ok(Some(frame)) => describe(&frame),
            Ok(None) => "end".to_owned(),
            Err(error) => format!("broken: {:?}", error.kind()),
        }
    }

    /// The next events, until nothing more can be read without waiting.
    pub async fn ready(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        // On the paused clock this elapses only if no other task can make progress.
        while let Ok(event) = tokio::time::timeout(std::time::Duration::from_millis(1), self.next()).await {
            let end = event == "end" || event.starts_with("broken");
            events.push(event);
            if end {
                break;
            }
        }
        events
    }
}

pub fn describe(frame: &Value) -> String {
    let (event, object) = (frame["type"].as_str().expect("a type"), &frame["object"]);
    match event {
        "ERROR" => format!(
            "ERROR {} {}",
            object["code"],
            object["message"].as_str().unwrap_or_default()
        ),
        "BOOKMARK" if object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true" => {
            format!("BOOKMARK end {}", name_at(object))
        }
        _ => format!("{event} {}", name_at(object)),
    }
}
