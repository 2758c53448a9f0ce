//! Reviews (authentication and authorization): answered, never stored.

use serde_json::{Value, json};

use crate::auth::rbac::{self, Action, Decision};
use crate::auth::{issued, user_of_token};
use crate::fields::{list, text};
use crate::kinds::Kind;
use crate::state::ServerState;
use crate::user::User;

/// Responds to a review by a user. Without RBAC every user has all permissions.
pub(crate) fn review(state: &ServerState, kind: &Kind, user: &User, mut object: Value) -> Value {
    let status = match kind.kind.as_str() {
        "SelfSubjectReview" => json!({ "userInfo": info(user) }),
        "TokenReview" => token(state, user, &object),
        "SelfSubjectRulesReview" if state.config.rbac => rules(state, user, text(&object, "/spec/namespace")),
        "SelfSubjectRulesReview" => rules(state, &User::admin(), ""),
        _ if !state.config.rbac => json!({ "allowed": true }),
        "SelfSubjectAccessReview" => access(state, user, &object),
        _ => access(state, &subject(&object), &object),
    };
    object["kind"] = kind.kind.as_str().into();
    object["apiVersion"] = kind.api_version().into();
    if !object["metadata"].is_object() {
        object["metadata"] = json!({ "creationTimestamp": state.clock.timestamp() });
    }
    object["status"] = status;
    object
}

/// The audience of the server itself.
pub(super) const AUDIENCE: &str = "https://kubernetes.default.svc";

/// Whose token it is, and for which of the requested audiences. Without RBAC a server accepts any token: that of its administrator
/// or of the caller.
fn token(state: &ServerState, caller: &User, review: &Value) -> Value {
    let token = text(review, "/spec/token");
    if let Some(issued) = issued(state, token) {
        let requested = list(review, "/spec/audiences").iter().filter_map(Value::as_str);
        let mut requested: Vec<&str> = requested.collect();
        if requested.is_empty() {
            requested.push(AUDIENCE);
        }
        requested.retain(|audience| issued.audiences.iter().any(|known| known == audience));
        if !requested.is_empty() {
            return json!({ "authenticated": true, "user": info(&issued.user), "audiences": requested });
        }
    } else if let Some(user) = user_of_token(state, token) {
        return json!({ "authenticated": true, "user": info(&user) });
    } else if !state.config.rbac {
        return json!({ "authenticated": true, "user": info(caller) });
    }
    json!({ "authenticated": false, "user": {} })
}

fn info(user: &User) -> Value {
    json!({ "username": user.name, "groups": user.groups })
}

/// The user that a SubjectAccessReview is about: with the groups that it names, and no others.
fn subject(review: &Value) -> User {
    let groups = review.pointer("/spec/groups").and_then(Value::as_array);
    User {
        name: text(review, "/spec/user").to_owned(),
        groups: groups
            .into_iter()
            .flatten()
            .filter_map(|group| group.as_str().map(str::to_owned))
            .collect(),
    }
}

fn access(state: &ServerState, user: &User, review: &Value) -> Value {
    let at = |field: &str| text(review, &format!("/spec/resourceAttributes/{field}"));
    let resource = match at("subresource") {
        "" => at("resource").to_owned(),
        subresource => format!("{}/{subresource}", at("resource")),
    };
    let action = if review.pointer("/spec/resourceAttributes").is_some() {
        Action::Resource {
            verb: at("verb"),
            group: at("group"),
            resource: &resource,
            namespace: Some(at("namespace")).filter(|namespace| !namespace.is_empty()),
            name: at("name"),
        }
    } else {
        Action::Path {
            verb: text(review, "/spec/nonResourceAttributes/verb"),
            path: text(review, "/spec/nonResourceAttributes/path"),
        }
    };
    let (allowed, reason) = match rbac::decide(&state.store.read(), user, &action) {
        Decision::Allowed(reason) => (true, reason),
        Decision::Denied(reason) => (false, reason),
    };
    let mut status = json!({ "allowed": allowed });
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    status
}

fn rules(state: &ServerState, user: &User, namespace: &str) -> Value {
    let rules = rbac::rules_of(&state.store.read(), user, namespace);
    let (paths, resources): (Vec<Value>, Vec<Value>) = rules
        .into_iter()
        .partition(|rule| rule.get("nonResourceURLs").is_some_and(Value::is_array));
    json!({ "incomplete": false, "resourceRules": resources, "nonResourceRules": paths })
}
