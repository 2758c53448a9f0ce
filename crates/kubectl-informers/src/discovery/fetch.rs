//! Asking the server what it serves: in two requests where it can, one per version where it cannot.

use http::header::ACCEPT;
use kube::Client;
use serde::de::DeserializeOwned;

use super::documents::{
    Aggregated, ApiGroup, Documents, GroupList, GroupVersion, ResourceList, group_version,
};
use crate::refusal::RequestError;

/// What we like best first. Servers before 1.27 know only the last.
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

/// The older way: a request for each version of each group.
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
    let request = http::Request::get(path)
        .header(ACCEPT, accept)
        .body(Vec::new())
        .map_err(|_| RequestError::malformed(path))?;
    let text = client.request_text(request).await.map_err(RequestError::from)?;
    serde_json::from_str(&text).map_err(|_| RequestError::malformed(path))
}
