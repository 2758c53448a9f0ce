//! A webhook server on loopback. The end-to-end suite uses it, too, with a real API server.

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube_informers_core::tasks::{Task, TaskSet};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A request that the endpoint has received: path with query, content type, body.
pub type Received = (String, String, Value);

/// A webhook server.
pub struct Endpoint {
    pub port: u16,
    pub received: Arc<Mutex<Vec<Received>>>,
    #[allow(dead_code, reason = "the end-to-end suite does not use it")]
    pub called: Arc<Notify>,
    /// The authority of its certificate, as configurations have it.
    pub authority: String,
    /// The certificate itself, in the same form.
    #[allow(dead_code, reason = "the end-to-end suite does not use it")]
    pub certificate: String,
    _serving: Task,
}

/// What an endpoint responds.
pub enum Reply {
    Review(Value),
    Text(u16, &'static str),
    Never,
}

/// A certificate for these names, its authority in base64, and itself in base64.
fn certificate(names: &[&str]) -> (TlsAcceptor, String, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(names)
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    let own = STANDARD.encode(certificate.pem());
    (TlsAcceptor::from(Arc::new(config)), STANDARD.encode(pem), own)
}

impl Endpoint {
    /// Serves HTTPS for these names, or HTTP without any. `respond` receives the path and the request of the review.
    pub async fn start(
        names: &[&str],
        respond: impl Fn(&str, &Value) -> Reply + Send + Sync + Clone + 'static,
    ) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("it listens");
        let port = listener.local_addr().expect("an address").port();
        let (acceptor, authority, certificate) = match names {
            [] => (None, String::new(), String::new()),
            names => {
                let (acceptor, authority, certificate) = certificate(names);
                (Some(acceptor), authority, certificate)
            }
        };
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let called = Arc::new(Notify::new());
        let log = (received.clone(), called.clone());
        let serving = Task::spawn("webhook", async move {
            let mut connections = TaskSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (respond, log, acceptor) = (respond.clone(), log.clone(), acceptor.clone());
                let service = service_fn(move |request| answer(request, respond.clone(), log.clone()));
                connections.spawn("connection", async move {
                    // A client that rejects the certificate ends the connection.
                    let _ = match acceptor {
                        Some(acceptor) => match acceptor.accept(stream).await {
                            Ok(stream) => {
                                http1::Builder::new()
                                    .serve_connection(TokioIo::new(stream), service)
                                    .await
                            }
                            Err(_) => Ok(()),
                        },
                        None => {
                            http1::Builder::new()
                                .serve_connection(TokioIo::new(stream), service)
                                .await
                        }
                    };
                });
            }
        });
        Endpoint {
            port,
            received,
            called,
            authority,
            certificate,
            _serving: serving,
        }
    }

    /// A webhook at this endpoint that reviews ConfigMaps.
    pub fn webhook(&self, name: &str, change: Value) -> Value {
        let mut webhook = json!({
            "name": name,
            "clientConfig": { "url": format!("https://127.0.0.1:{}/review", self.port), "caBundle": self.authority },
            "rules": [{
                "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            }],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        });
        for (field, value) in change.as_object().into_iter().flatten() {
            webhook[field] = value.clone();
        }
        webhook
    }
}

async fn answer(
    request: Request<Incoming>,
    respond: impl Fn(&str, &Value) -> Reply,
    (received, called): (Arc<Mutex<Vec<Received>>>, Arc<Notify>),
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().to_string();
    let content_type = request.headers().get("content-type");
    let content_type = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let review: Value = serde_json::from_slice(&body).expect("a review");
    received.lock().push((path.clone(), content_type, review.clone()));
    called.notify_one();
    let reply = respond(&path, &review["request"]);
    let (status, content_type, body) = match reply {
        Reply::Review(mut response) => {
            if response.get("uid").is_none() {
                response["uid"] = review["request"]["uid"].clone();
            }
            let review = json!({
                "kind": review["kind"], "apiVersion": review["apiVersion"], "response": response,
            });
            (200, "application/json", review.to_string())
        }
        Reply::Text(status, text) => (status, "text/plain", text.to_owned()),
        Reply::Never => std::future::pending().await,
    };
    let response = Response::builder()
        .status(status)
        .header("content-type", content_type);
    Ok(response.body(Full::from(body)).expect("a response"))
}

/// Allows a request and patches its object.
pub fn patch(operations: &Value) -> Reply {
    let patch = STANDARD.encode(operations.to_string());
    Reply::Review(json!({ "allowed": true, "patchType": "JSONPatch", "patch": patch }))
}

/// A configuration: `Mutating` or `Validating`, its name and its webhooks.
pub fn configuration(kind: &str, name: &str, webhooks: Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": { "name": name }, "webhooks": webhooks,
    })
}
