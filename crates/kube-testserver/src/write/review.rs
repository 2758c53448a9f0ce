//! Reviews (authentication and authorization): answered, never stored.

use serde_json::{Value, json};

use crate::kinds::Kind;

/// The user name of every client.
const USER: &str = "kube-testserver:admin";

/// Responds to a review: every client is the same user with all permissions.
pub(crate) fn review(kind: &Kind, mut object: Value, now: &str) -> Value {
    let user = json!({ "username": USER, "groups": ["system:masters", "system:authenticated"] });
    let status = match kind.kind.as_str() {
        "SelfSubjectReview" => json!({ "userInfo": user }),
        "TokenReview" => json!({ "authenticated": true, "user": user }),
        "SelfSubjectRulesReview" => json!({
            "incomplete": false,
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
        }),
        _ => json!({ "allowed": true }),
    };
    object["kind"] = kind.kind.as_str().into();
    object["apiVersion"] = kind.api_version().into();
    if !object["metadata"].is_object() {
        object["metadata"] = json!({ "creationTimestamp": now });
    }
    object["status"] = status;
    object
}
