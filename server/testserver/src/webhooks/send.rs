//! How a review gets to a webhook. Admission and conversion share it.

use std::time::Duration;

use serde_json::Value;

use super::post::{self, Address};
use crate::hooks::backend::{Backend, Remote, Target};
use crate::state::ServerState;
use crate::storage::storage_key;

/// Why a review has no response.
#[derive(Debug)]
pub(super) enum Unsent {
    /// The configuration does not lead to an endpoint.
    NoClient(String),
    /// The endpoint cannot be reached, or does not respond with a review.
    Failed(String),
}

/// Sends a review and returns what comes back, which is not checked.
pub(super) async fn send(
    backend: &Backend,
    state: &ServerState,
    review: Value,
    timeout: Duration,
) -> Result<Value, Unsent> {
    match backend {
        Backend::Reviews(respond) => tokio::time::timeout(timeout, respond(review))
            .await
            .map_err(|_| Unsent::Failed("context deadline exceeded".to_owned())),
        Backend::Remote(remote) => {
            let address = address(remote, state, timeout)?;
            let posted = tokio::time::timeout(timeout, post::post(&address, &review)).await;
            posted
                .unwrap_or_else(|_| Err(address.failed("context deadline exceeded")))
                .map_err(Unsent::Failed)
        }
    }
}

/// Where to send the review.
fn address(remote: &Remote, state: &ServerState, timeout: Duration) -> Result<Address, Unsent> {
    let authorities = remote.authorities.clone().map_err(Unsent::NoClient)?;
    let (namespace, name, port, path) = match &remote.target {
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
