//! Raw requests that no client library would send.

use bytes::Bytes;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// A response.
#[derive(Debug)]
pub struct RawResponse {
    pub code: u16,
    pub content_type: String,
    /// Empty unless the body is compressed.
    pub content_encoding: String,
    pub retry_after: Option<String>,
    pub bytes: Bytes,
    pub text: String,
    pub json: Value,
}

impl RawResponse {
    /// A text inside the body: `response.text_at("/metadata/resourceVersion")`.
    pub fn text_at(&self, pointer: &str) -> &str {
        self.json
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Code, reason and message of an error.
    pub fn status(&self) -> (u16, &str, &str) {
        (self.code, self.text_at("/reason"), self.text_at("/message"))
    }

    /// The names of the items of a list.
    pub fn names(&self) -> Vec<&str> {
        let items = self.json.pointer("/items").and_then(Value::as_array);
        items
            .into_iter()
            .flatten()
            .filter_map(|item| item.pointer("/metadata/name").and_then(Value::as_str))
            .collect()
    }
}

/// A GET that accepts JSON.
pub async fn get(client: &Client, path: &str) -> Result<RawResponse, kube::Error> {
    get_as(client, path, "application/json").await
}

/// A GET with this `Accept` header.
pub async fn get_as(client: &Client, path: &str, accept: &str) -> Result<RawResponse, kube::Error> {
    get_with(client, path, &[("accept", accept)]).await
}

/// A GET with these headers.
pub async fn get_with(
    client: &Client,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<RawResponse, kube::Error> {
    let mut request = http::Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).map_err(kube::Error::HttpError)?;
    fetch(client, request).await
}

/// A request with a body, unless it is null.
pub async fn send(
    client: &Client,
    method: http::Method,
    path: &str,
    body: &Value,
) -> Result<RawResponse, kube::Error> {
    let body = match body {
        Value::Null => Body::empty(),
        body => Body::from(body.to_string().into_bytes()),
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::ACCEPT, "application/json")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(kube::Error::HttpError)?;
    fetch(client, request).await
}

async fn fetch(client: &Client, request: http::Request<Body>) -> Result<RawResponse, kube::Error> {
    let (head, body) = client.send(request).await?.into_parts();
    let bytes = body.collect().await?.to_bytes();
    let header = |name: http::HeaderName| {
        let value = head.headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    Ok(RawResponse {
        code: head.status.as_u16(),
        content_type: header(http::header::CONTENT_TYPE).unwrap_or_default(),
        content_encoding: header(http::header::CONTENT_ENCODING).unwrap_or_default(),
        retry_after: header(http::header::RETRY_AFTER),
        text: String::from_utf8_lossy(&bytes).into_owned(),
        json: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        bytes,
    })
}

/// The frames of a watch that times out: set `timeoutSeconds`.
pub async fn frames(client: &Client, path: &str) -> Result<Vec<Value>, kube::Error> {
    let response = get(client, path).await?;
    assert_eq!(response.code, 200, "{path}: {}", response.text);
    Ok(response
        .text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}
