//! Where a webhook runs, and how a review gets there. Admission and conversion share it.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use serde_json::Value;

type Review = dyn Fn(Value) -> BoxFuture<'static, Value> + Send + Sync;

/// Receives reviews and returns them with a response.
#[derive(Clone)]
pub(crate) enum Backend {
    /// A function in the test process.
    Reviews(Arc<Review>),
    Remote(Remote),
}

/// The endpoint of a stored object.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) target: Target,
    /// The certificate authorities in PEM, or why the bundle cannot be decoded.
    pub(crate) authorities: Result<Vec<u8>, String>,
    /// The versions of reviews that it accepts.
    pub(crate) versions: Vec<String>,
}

/// The address of an endpoint.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Url(String),
    Service {
        namespace: String,
        name: String,
        port: u16,
        path: String,
    },
    Missing,
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
    pub(crate) fn parse(config: &Value, versions: &Value) -> Remote {
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
