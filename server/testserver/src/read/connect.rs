//! Subresources that a real server forwards to the kubelet: logs, exec, attach, port-forward, proxy.
//!
//! No containers run here. Logs are those that a test has set; everything else fails as on a real server, for a pod
//! without a node or with a kubelet that cannot be reached.

use http::{Response, StatusCode};
use kube_api_protocol::status::ApiError;
use serde_json::Value;

use super::Target;
use crate::response;
use crate::response::body::TestBody;
use crate::state::ServerState;
use crate::storage::storage_key;

/// The subresources that are handled here.
pub(crate) const CONNECT: &[&str] = &["attach", "exec", "log", "portforward", "proxy"];

/// Answers a request to a running container.
pub(crate) fn connect(
    state: &ServerState,
    target: &Target<'_>,
    subresource: &str,
) -> Result<Response<TestBody>, ApiError> {
    let name = target.name.unwrap_or_default();
    let key = storage_key(target.namespace, name);
    let pod = {
        let store = state.store.read();
        let pods = store.collection("pods");
        let found = pods.and_then(|pods| pods.get(&key).cloned());
        found
            .ok_or_else(|| ApiError::not_found("", "pods", name))?
            .value()
    };
    let node = pod
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if subresource == "proxy" {
        return Err(ApiError::bad_request("address not allowed"));
    }
    if subresource == "portforward" {
        return Err(unreachable_kubelet(name, node));
    }
    let container = choose_container(&pod, name, target.query.get("container").unwrap_or_default())?;
    if subresource != "log" {
        return Err(unreachable_kubelet(name, node));
    }
    match state.logs.get(&key, &container) {
        Some(text) => {
            let lines = target.query.get("tailLines").and_then(|lines| lines.parse().ok());
            Ok(plain(tail(&text, lines)))
        }
        // Nothing has run yet.
        None if node.is_empty() => Ok(plain("")),
        None => Err(unreachable_kubelet(name, node)),
    }
}

fn plain(text: &str) -> Response<TestBody> {
    response::reply(StatusCode::OK, "text/plain", TestBody::bytes(text.to_owned()))
}

/// The last lines of a text; all of it without a number.
fn tail(text: &str, lines: Option<usize>) -> &str {
    let Some(lines) = lines else { return text };
    let ends = text.trim_end_matches('\n').rmatch_indices('\n');
    match ends.map(|(at, _)| at).nth(lines.saturating_sub(1)) {
        _ if lines == 0 => "",
        Some(at) => &text[at + 1..],
        None => text,
    }
}

fn unreachable_kubelet(pod: &str, node: &str) -> ApiError {
    if node.is_empty() {
        ApiError::bad_request(format!("pod {pod} does not have a host assigned"))
    } else {
        ApiError::internal(format!(
            "error dialing backend: the test server runs no kubelet on node {node:?}; logs can be set with \
             `TestServer::set_log`"
        ))
    }
}

/// The container of the request, or the only one of the pod.
fn choose_container(pod: &Value, name: &str, asked: &str) -> Result<String, ApiError> {
    let names = |list: &str| -> Vec<String> {
        let containers = pod.pointer(&format!("/spec/{list}")).and_then(Value::as_array);
        let names = containers
            .into_iter()
            .flatten()
            .filter_map(|container| container["name"].as_str());
        names.map(str::to_owned).collect()
    };
    let containers = names("containers");
    if asked.is_empty() {
        return match containers.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {name}"
            ))),
            several => Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                several.join(" ")
            ))),
        };
    }
    let known = ["containers", "initContainers", "ephemeralContainers"];
    if known
        .iter()
        .any(|list| names(list).iter().any(|known| known == asked))
    {
        Ok(asked.to_owned())
    } else {
        Err(ApiError::bad_request(format!(
            "container {asked} is not valid for pod {name}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_counts_lines_from_the_end() {
        assert_eq!(tail("a\nb\nc\n", Some(2)), "b\nc\n");
        assert_eq!(tail("a\nb\n", Some(5)), "a\nb\n");
        assert_eq!(tail("a\nb\n", Some(0)), "");
        assert_eq!(tail("a\nb\n", None), "a\nb\n");
    }
}
