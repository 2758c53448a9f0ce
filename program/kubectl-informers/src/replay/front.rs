//! The address of a replay. Reads pass on to the server with the recorded objects; writes are rejected, because a
//! recording cannot be changed.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use kube::Client;
use kube_informers_core::tasks::Task;
use kube_testserver::TestServer;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::limits::Timeout;
use crate::connections::{accept, refused};
use crate::process::failure::Failure;

/// Closes a connection whose client does not read its response for this long, as `serve` does.
const WRITE_TIMEOUT: Timeout = Timeout::from_secs(30);

/// The largest body of a request, in bytes.
const LARGEST: usize = 1 << 20;

/// Requests that ask what one may do. They are POSTs, but change nothing.
const QUESTIONS: [&str; 2] = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];

/// A listening front.
pub(super) struct Front {
    address: SocketAddr,
    stop: CancellationToken,
    accept: Task,
}

impl Front {
    /// Listens, and serves this server.
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    pub async fn start(wanted: SocketAddr, server: &TestServer) -> Result<Self, Failure> {
        let failed = |error| refused(wanted, &error);
        let listener = TcpListener::bind(wanted).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let router = Router::new().fallback(answer).with_state(server.client());
        let stop = CancellationToken::new();
        let accepting = accept(listener, router, WRITE_TIMEOUT, Arc::default(), stop.clone());
        Ok(Self {
            address,
            stop,
            accept: Task::spawn("accept", accepting),
        })
    }

    /// `http://127.0.0.1:41234`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig that leads here.
    pub fn kubeconfig(&self) -> Result<String, Failure> {
        let name = "replay";
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": name, "cluster": { "server": self.url() } }],
            "users": [{ "name": name, "user": {} }],
            "contexts": [{ "name": name, "context": { "cluster": name, "user": name, "namespace": "default" } }],
            "current-context": name,
        });
        serde_saphyr::to_string(&config)
            .map_err(|error| Failure::error(format!("the kubeconfig cannot be written: {error}")))
    }

    /// Closes all connections. Watches do not end by themselves.
    pub async fn stop(self, server: &TestServer) {
        self.stop.cancel();
        server.break_watches();
        self.accept.wait().await;
    }
}

async fn answer(State(client): State<Client>, request: Request<Body>) -> Response<Body> {
    if !is_read(request.method(), request.uri().path()) {
        let message = format!(
            "a replay is read-only: {} is rejected, because a recording cannot be changed",
            request.method()
        );
        return failure(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", &message);
    }
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LARGEST).await else {
        let message = "the body of the request is too large or incomplete";
        return failure(StatusCode::BAD_REQUEST, "BadRequest", message);
    };
    let body = kube::client::Body::from(body);
    match client.send(Request::from_parts(head, body)).await {
        Ok(response) => response.map(Body::new),
        Err(error) => failure(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            &error.to_string(),
        ),
    }
}

fn is_read(method: &Method, path: &str) -> bool {
    match *method {
        Method::GET | Method::HEAD | Method::OPTIONS => true,
        Method::POST => QUESTIONS.iter().any(|prefix| path.starts_with(prefix)),
        _ => false,
    }
}

/// An error as an API server reports it.
fn failure(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_writes_is_rejected() {
        for (method, path, read) in [
            (Method::GET, "/api/v1/pods", true),
            (Method::HEAD, "/api", true),
            (Method::POST, "/api/v1/namespaces/shop/pods", false),
            (
                Method::POST,
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                true,
            ),
            (Method::PUT, "/api/v1/namespaces/shop/pods/cart/status", false),
            (Method::PATCH, "/api/v1/namespaces/shop/pods/cart", false),
            (Method::DELETE, "/api/v1/namespaces/shop/pods", false),
        ] {
            assert_eq!(is_read(&method, path), read, "{method} {path}");
        }
    }
}
