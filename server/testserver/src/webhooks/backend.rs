//! Where a webhook runs, and how a review gets there. Admission and conversion share it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::post::{self, Address};
use crate::server::state::ServerState;
use crate::storage::storage_key;

type Review = dyn Fn(Value) -> BoxFuture<'static, Value> + Send + Sync;

/// Receives reviews and returns them with a response.
#[derive(Clone)]
pub(super) enum Backend {
    /// A function in the test process.
    Reviews(Arc<Review>),
    Remote(Remote),
}

/// The endpoint of a stored object.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    target: Target,
    /// The certificate authorities in PEM, or why the bundle cannot be decoded.
    authorities: Result<Vec<u8>, String>,
    /// The versions of reviews that it accepts.
    pub(super) versions: Vec<String>,
}

/// The address of an endpoint.
#[derive(Clone, Debug)]
enum Target {
    Url(String),
    Service {
        namespace: String,
        name: String,
        port: u16,
        path: String,
    },
    Missing,
}

/// Why a review has no response.
#[derive(Debug)]
pub(super) enum Unsent {
    /// The configuration does not lead to an endpoint.
    NoClient(String),
    /// The endpoint cannot be reached, or does not respond with a review.
    Failed(String),
}

impl Backend {
    /// Sends a review and returns what comes back, which is not checked.
    pub(super) async fn send(
        &self,
        state: &ServerState,
        review: Value,
        timeout: Duration,
    ) -> Result<Value, Unsent> {
        match self {
            Backend::Reviews(respond) => tokio::time::timeout(timeout, respond(review))
                .await
                .map_err(|_| Unsent::Failed("context deadline exceeded".to_owned())),
            Backend::Remote(remote) => {
                let address = remote.address(state, timeout)?;
                let posted = tokio::time::timeout(timeout, post::post(&address, &review)).await;
                posted
                    .unwrap_or_else(|_| Err(address.failed("context deadline exceeded")))
                    .map_err(Unsent::Failed)
            }
        }
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Backend::Reviews(_) => f.write_str("Reviews"),
            Backend::Remote(remote) => remote.target.fmt(f),
        }
    }
}

impl Remote {
    /// The endpoint of a `clientConfig`. It may lack fields, because servers that are not conformant set no defaults.
    pub(super) fn parse(config: &Value, versions: &Value) -> Remote {
        let bundle = config["caBundle"].as_str().unwrap_or_default();
        let versions = versions.as_array().into_iter().flatten();
        Remote {
            target: Target::parse(config),
            authorities: STANDARD
                .decode(bundle)
                .map_err(|error| format!("clientConfig.caBundle is not base64: {error}")),
            versions: versions.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    /// Where to send the review.
    fn address(&self, state: &ServerState, timeout: Duration) -> Result<Address, Unsent> {
        let authorities = self.authorities.clone().map_err(Unsent::NoClient)?;
        let (namespace, name, port, path) = match &self.target {
            Target::Missing => {
                let why = "webhook configuration must have either service or URL";
                return Err(Unsent::NoClient(why.to_owned()));
            }
            Target::Url(url) => {
                return Address::of_url(url, authorities, timeout).map_err(Unsent::NoClient);
            }
            Target::Service {
                namespace,
                name,
                port,
                path,
            } => (namespace, name, port, path),
        };
        let host = format!("{name}.{namespace}.svc");
        let url = format!("https://{host}:{port}/{}", path.trim_start_matches('/'));
        let address = Address::of_url(&url, authorities, timeout).map_err(Unsent::NoClient)?;
        if let Some(mapped) = state.config.services.get(namespace, name) {
            return address.at(&mapped).map_err(Unsent::NoClient);
        }
        let exists = state
            .store
            .read()
            .collection("services")
            .is_some_and(|services| services.get(&storage_key(Some(namespace), name)).is_some());
        let why = if exists {
            format!(
                "service {name:?} runs nowhere: set its address with `TestServer::webhook_service(\"{namespace}/{name}\", ..)`"
            )
        } else {
            format!("service {name:?} not found")
        };
        Err(Unsent::Failed(address.failed(&why)))
    }
}

impl Target {
    fn parse(config: &Value) -> Target {
        if let Some(url) = config["url"].as_str() {
            return Target::Url(url.to_owned());
        }
        let Some(service) = config.get("service") else {
            return Target::Missing;
        };
        let text = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
        let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok());
        Target::Service {
            namespace: text("namespace"),
            name: text("name"),
            port: port.unwrap_or(443),
            path: text("path"),
        }
    }
}
