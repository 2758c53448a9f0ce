//! Discovery requests: two if the server supports aggregated discovery, otherwise one per group version.

use std::time::Duration;

use http::header::ACCEPT;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::Client;
use kube::client::Body;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::documents::{
    Aggregated, ApiGroup, Documents, GroupList, GroupVersion, ResourceList, group_version,
};
use crate::failure::chain;
use crate::refusal::RequestError;

/// The time for one discovery request, from sending it to the end of the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest discovery document. Clusters with thousands of CRDs need a few MiB.
const MAX_DOCUMENT_BYTES: usize = 32 << 20;

/// In order of preference. Servers before 1.27 know only the last.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                          application/json";

/// Everything the server serves.
pub async fn documents(client: &Client) -> Result<Documents, RequestError> {
    let core: serde_json::Value = get(client, "/api", AGGREGATED).await?;
    if core.get("kind").and_then(|kind| kind.as_str()) == Some("APIGroupDiscoveryList") {
        let core: Aggregated = serde_json::from_value(core).map_err(|_| RequestError::malformed("/api"))?;
        let rest: Aggregated = get(client, "/apis", AGGREGATED).await?;
        if rest.kind == "APIGroupDiscoveryList" {
            let (groups, resources): (Vec<_>, Vec<_>) = core
                .items
                .into_iter()
                .chain(rest.items)
                .map(|group| group.split())
                .unzip();
            return Ok(Documents {
                groups: GroupList::new(groups),
                resources: resources.into_iter().flatten().collect(),
            });
        }
    }
    one_by_one(client).await
}

/// The older protocol: one request per group version.
async fn one_by_one(client: &Client) -> Result<Documents, RequestError> {
    #[derive(serde::Deserialize)]
    struct Versions {
        #[serde(default)]
        versions: Vec<String>,
    }
    let core: Versions = get(client, "/api", "application/json").await?;
    let versions: Vec<GroupVersion> = core
        .versions
        .into_iter()
        .map(|version| GroupVersion {
            group_version: group_version("", &version),
            version,
        })
        .collect();
    let mut groups = vec![ApiGroup {
        name: String::new(),
        preferred_version: versions.first().cloned(),
        versions,
    }];
    let rest: GroupList = get(client, "/apis", "application/json").await?;
    groups.extend(rest.groups);

    let mut resources = Vec::new();
    for group in &groups {
        for version in &group.versions {
            let path = match group.name.as_str() {
                "" => format!("/api/{}", version.group_version),
                _ => format!("/apis/{}", version.group_version),
            };
            // One broken extension server must not hide all the others.
            match get::<ResourceList>(client, &path, "application/json").await {
                Ok(mut list) => {
                    list.group_version.clone_from(&version.group_version);
                    resources.push(list);
                }
                Err(error) => tracing::warn!(path, %error, "a version could not be discovered"),
            }
        }
    }
    Ok(Documents {
        groups: GroupList::new(groups),
        resources,
    })
}

async fn get<T: DeserializeOwned>(client: &Client, path: &str, accept: &str) -> Result<T, RequestError> {
    match timeout(REQUEST_TIMEOUT, fetch(client, path, accept)).await {
        Ok(result) => result,
        Err(_) => Err(RequestError::Unreachable(format!(
            "no complete response to {path} within {} s",
            REQUEST_TIMEOUT.as_secs()
        ))),
    }
}

async fn fetch<T: DeserializeOwned>(client: &Client, path: &str, accept: &str) -> Result<T, RequestError> {
    let request = http::Request::get(path)
        .header(ACCEPT, accept)
        .body(Vec::new())
        .map_err(|_| RequestError::malformed(path))?;
    let response = client
        .send(request.map(Body::from))
        .await
        .map_err(RequestError::from)?;
    let status = response.status();
    // The limit also holds for the body of a refusal.
    let body = Limited::new(response.into_body(), MAX_DOCUMENT_BYTES)
        .collect()
        .await;
    let text = body.map_err(|error| match error.is::<LengthLimitError>() {
        true => RequestError::Malformed(format!(
            "the response to {path} is larger than {} MiB",
            MAX_DOCUMENT_BYTES >> 20
        )),
        false => RequestError::Unreachable(chain(&*error)),
    })?;
    let text = text.to_bytes();
    if !status.is_success() {
        return Err(RequestError::from_body(status.as_u16(), &text));
    }
    serde_json::from_slice(&text).map_err(|_| RequestError::malformed(path))
}
