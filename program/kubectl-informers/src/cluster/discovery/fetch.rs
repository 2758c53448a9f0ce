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
use crate::cli::limits::Limits;
use crate::cluster::refusal::RequestError;

/// The time for one discovery request, from sending it to the end of the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for all of them: an old server is sent one request per group and version.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(120);
/// The size of all documents together.
const MAX_TOTAL_BYTES: usize = 128 << 20;
/// The largest discovery document. Clusters with thousands of CRDs need a few MiB.
const MAX_DOCUMENT_BYTES: usize = 32 << 20;

/// In order of preference. Servers before 1.27 know only the last.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                          application/json";

/// Everything the server serves.
pub async fn documents(client: &Client, limits: &Limits) -> Result<Documents, RequestError> {
    let mut fetch = Fetch {
        client,
        timeout: limits.at_most(REQUEST_TIMEOUT),
        budget: MAX_TOTAL_BYTES,
    };
    match timeout(TOTAL_TIMEOUT, fetch.documents()).await {
        Ok(result) => result,
        Err(_) => Err(RequestError::Unreachable(format!(
            "discovery did not finish within {} s",
            TOTAL_TIMEOUT.as_secs()
        ))),
    }
}

/// Requests with a common budget.
struct Fetch<'a> {
    client: &'a Client,
    timeout: Duration,
    budget: usize,
}

impl Fetch<'_> {
    async fn documents(&mut self) -> Result<Documents, RequestError> {
        let core: serde_json::Value = self.get("/api", AGGREGATED).await?;
        if core.get("kind").and_then(|kind| kind.as_str()) == Some("APIGroupDiscoveryList") {
            let core: Aggregated =
                serde_json::from_value(core).map_err(|_| RequestError::malformed("/api"))?;
            let rest: Aggregated = self.get("/apis", AGGREGATED).await?;
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
        self.one_by_one().await
    }

    /// The older way: a request for each version of each group.
    async fn one_by_one(&mut self) -> Result<Documents, RequestError> {
        #[derive(serde::Deserialize)]
        struct Versions {
            #[serde(default)]
            versions: Vec<String>,
        }
        let core: Versions = self.get("/api", "application/json").await?;
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
        let rest: GroupList = self.get("/apis", "application/json").await?;
        groups.extend(rest.groups);

        let mut resources = Vec::new();
        for group in &groups {
            for version in &group.versions {
                let path = match group.name.as_str() {
                    "" => format!("/api/{}", version.group_version),
                    _ => format!("/apis/{}", version.group_version),
                };
                // One broken extension server must not hide all the others.
                match self.get::<ResourceList>(&path, "application/json").await {
                    Ok(mut list) => {
                        list.group_version.clone_from(&version.group_version);
                        resources.push(list);
                    }
                    Err(error @ RequestError::TooLarge(_)) => return Err(error),
                    Err(error) => tracing::warn!(path, %error, "a version could not be discovered"),
                }
            }
        }
        Ok(Documents {
            groups: GroupList::new(groups),
            resources,
        })
    }

    async fn get<T: DeserializeOwned>(&mut self, path: &str, accept: &str) -> Result<T, RequestError> {
        let after = self.timeout;
        match timeout(after, self.fetch(path, accept)).await {
            Ok(result) => result,
            Err(_) => Err(RequestError::Unreachable(format!(
                "no complete response to {path} within {} s",
                after.as_secs_f64()
            ))),
        }
    }

    async fn fetch<T: DeserializeOwned>(&mut self, path: &str, accept: &str) -> Result<T, RequestError> {
        let request = http::Request::get(path)
            .header(ACCEPT, accept)
            .body(Vec::new())
            .map_err(|_| RequestError::malformed(path))?;
        let response = self
            .client
            .send(request.map(Body::from))
            .await
            .map_err(RequestError::from)?;
        let status = response.status();
        let limit = MAX_DOCUMENT_BYTES.min(self.budget);
        // The limit also holds for the body of a refusal.
        let body = Limited::new(response.into_body(), limit).collect().await;
        let text = body.map_err(|error| match error.is::<LengthLimitError>() {
            true if limit < MAX_DOCUMENT_BYTES => RequestError::TooLarge(format!(
                "the discovery documents are larger than {} MiB",
                MAX_TOTAL_BYTES >> 20
            )),
            true => RequestError::TooLarge(format!(
                "the response to {path} is larger than {} MiB",
                MAX_DOCUMENT_BYTES >> 20
            )),
            false => RequestError::unreachable(error),
        })?;
        let text = text.to_bytes();
        self.budget -= text.len();
        if !status.is_success() {
            return Err(RequestError::from_body(status.as_u16(), &text));
        }
        serde_json::from_slice(&text).map_err(|_| RequestError::malformed(path))
    }
}

#[cfg(test)]
mod tests {
    use kube_testserver::{Fault, RequestMatcher, TestServer};
    use tokio::time::Instant;

    use super::*;

    async fn failure(server: &TestServer) -> (String, Duration) {
        let began = Instant::now();
        let error = documents(&server.client(), &Limits::default()).await.unwrap_err();
        (error.to_string(), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_is_given_up() {
        let server = TestServer::new();
        server.fault(RequestMatcher::any().forever(), Fault::hang());
        let (text, elapsed) = failure(&server).await;
        assert_eq!(text, "no complete response to /api within 30 s");
        assert_eq!(elapsed.as_secs(), REQUEST_TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_never_ends_is_given_up() {
        let server = TestServer::new();
        let trickle = Fault::trickle(1, Duration::from_secs(1));
        server.fault(RequestMatcher::any().forever(), trickle);
        let (text, elapsed) = failure(&server).await;
        assert_eq!(text, "no complete response to /api within 30 s");
        assert!(elapsed <= REQUEST_TIMEOUT + Duration::from_secs(1), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn many_slow_versions_end_at_the_total_timeout() {
        let server = TestServer::new();
        let core = serde_json::json!({ "kind": "APIVersions", "versions": ["v1"] }).to_string();
        let versions: Vec<_> = (0..100)
            .map(|number| serde_json::json!({ "groupVersion": format!("slow.example/v{number}"), "version": format!("v{number}") }))
            .collect();
        let groups =
            serde_json::json!({ "groups": [{ "name": "slow.example", "versions": versions }] }).to_string();
        server.fault(
            RequestMatcher::path("/apis/slow.example").forever(),
            Fault::hang(),
        );
        server.fault(
            RequestMatcher::path("/apis").nth(1),
            Fault::status(200).body("application/json", groups),
        );
        server.fault(
            RequestMatcher::path("/api").nth(1),
            Fault::status(200).body("application/json", core),
        );
        let (text, elapsed) = failure(&server).await;
        assert_eq!(text, "discovery did not finish within 120 s");
        assert_eq!(elapsed.as_secs(), TOTAL_TIMEOUT.as_secs());
    }
}
