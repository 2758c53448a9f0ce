//! Connections to containers, which webhooks decide on by the options in their query.

use kube_api_protocol::request::Query;
use kube_api_protocol::status::ApiError;
use serde_json::{Value, json};

use super::dispatch::{Attributes, Incoming, Webhooks};
use crate::hooks::Operation;
use crate::state::ServerState;

/// Has webhooks decide on a connection; returns their warnings. Reading a log is not a connection.
pub(crate) async fn admit_connection(
    state: &ServerState,
    incoming: Incoming<'_>,
) -> Result<Vec<String>, ApiError> {
    if incoming.subresource == "log" {
        return Ok(Vec::new());
    }
    let Some(webhooks) = Webhooks::new(state, incoming) else {
        return Ok(Vec::new());
    };
    let attributes = Attributes {
        operation: Operation::Connect,
        name: incoming.seen.name.as_deref().unwrap_or_default(),
        old: None,
        options: Value::Null,
    };
    let options = options(incoming.subresource, &incoming.seen.query);
    webhooks.admit(&attributes, Some(options)).await?;
    Ok(webhooks.warnings())
}

/// The options of a connection as an object, such as `PodExecOptions`.
fn options(subresource: &str, query: &Query) -> Value {
    let mut options = json!({});
    match subresource {
        "exec" | "attach" => {
            for flag in ["stdin", "stdout", "stderr", "tty"] {
                if query.flag(flag) {
                    options[flag] = true.into();
                }
            }
            if let Some(container) = query.get("container") {
                options["container"] = container.into();
            }
            let words = query.pairs().iter().filter(|(key, _)| key == "command");
            let command: Vec<&str> = words.map(|(_, word)| word.as_str()).collect();
            if !command.is_empty() {
                options["command"] = json!(command);
            }
        }
        "portforward" => {
            let ports = query.pairs().iter().filter(|(key, _)| key == "ports");
            let ports: Vec<u16> = ports
                .flat_map(|(_, ports)| ports.split(','))
                .filter_map(|port| port.parse().ok())
                .collect();
            if !ports.is_empty() {
                options["ports"] = json!(ports);
            }
        }
        _ => {
            if let Some(path) = query.get("path") {
                options["path"] = path.into();
            }
        }
    }
    options
}
