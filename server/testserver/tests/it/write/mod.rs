//! Create, update and delete, with the rules and error messages of a real server.

mod body;
mod create;
mod delete;
mod malformed;
mod update;

use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/shop/pods";

fn cart() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart"}, "spec": {"containers": []}})
}
