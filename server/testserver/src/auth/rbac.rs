//! The RBAC authorizer: which roles are bound to a user, and whether one of their rules allows an action.
//! Reads roles and bindings from the store, for every decision.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::fields::{list, selects, text};
use crate::storage::{Store, storage_key};
use crate::user::User;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// The collection of cluster roles.
pub(crate) const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

/// What a user wants to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action<'a> {
    Resource {
        verb: &'a str,
        group: &'a str,
        /// With its subresource: `pods/log`.
        resource: &'a str,
        namespace: Option<&'a str>,
        /// Empty for all objects.
        name: &'a str,
    },
    Path {
        verb: &'a str,
        path: &'a str,
    },
}

/// The answer, and the reason in the wording of the real authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Allowed(String),
    /// The reason is empty unless a binding refers to a role that does not exist.
    Denied(String),
}

/// Decides whether a user may do something.
pub(crate) fn decide(store: &Store, user: &User, action: &Action<'_>) -> Decision {
    if user.groups.iter().any(|group| group == "system:masters") {
        return Decision::Allowed(String::new());
    }
    let mut missing = Vec::new();
    let namespace = match action {
        Action::Resource { namespace, .. } => *namespace,
        Action::Path { .. } => None,
    };
    for grant in grants(store, user, namespace) {
        match &grant.rules {
            Some(rules) if rules.iter().any(|rule| allows(rule, action)) => {
                return Decision::Allowed(format!("RBAC: allowed by {}", grant.reason));
            }
            Some(_) => {}
            None => {
                let kind = grant.role.kind.to_lowercase();
                missing.push(format!("{kind}.{GROUP} {:?} not found", grant.role.name));
            }
        }
    }
    missing.dedup();
    Decision::Denied(match missing.as_slice() {
        [] => String::new(),
        [one] => format!("rbac: RBAC: {one}"),
        several => format!("rbac: RBAC: [{}]", several.join(", ")),
    })
}

/// The rules that apply to a user in a namespace.
pub(crate) fn rules_of(store: &Store, user: &User, namespace: &str) -> Vec<Value> {
    let grants = grants(store, user, Some(namespace));
    let mut rules: Vec<Value> = grants
        .into_iter()
        .flat_map(|grant| grant.rules.unwrap_or_default())
        .collect();
    if user.groups.iter().any(|group| group == "system:masters") {
        rules.extend_from_slice(everything());
    }
    rules
}

/// The rules that apply to a user, and the roles that bindings name although they do not exist.
pub(super) fn rules_and_missing_roles(
    store: &Store,
    user: &User,
    namespace: Option<&str>,
) -> (Vec<Value>, Vec<String>) {
    let (mut rules, mut missing) = (Vec::new(), Vec::new());
    for grant in grants(store, user, namespace) {
        match grant.rules {
            Some(own) => rules.extend(own),
            None => {
                let plural = format!("{}s", grant.role.kind.to_lowercase());
                missing.push(format!("{plural}.{GROUP} {:?} not found", grant.role.name));
            }
        }
    }
    (rules, missing)
}

/// The rules that allow everything.
pub(super) fn everything() -> &'static [Value] {
    static RULES: OnceLock<Vec<Value>> = OnceLock::new();
    RULES.get_or_init(|| {
        vec![
            json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }),
            json!({ "verbs": ["*"], "nonResourceURLs": ["*"] }),
        ]
    })
}

/// A binding of a role to a user.
struct Grant {
    /// The rules of the role; `None` if it does not exist.
    rules: Option<Vec<Value>>,
    role: RoleRef,
    reason: String,
}

/// The kind and name of a role.
struct RoleRef {
    kind: String,
    name: String,
}

fn grants(store: &Store, user: &User, namespace: Option<&str>) -> Vec<Grant> {
    let mut grants = Vec::new();
    let mut bindings: BTreeMap<String, Value> = bootstrap_of("ClusterRoleBinding")
        .map(|binding| (text(binding, "/metadata/name").to_owned(), binding.clone()))
        .collect();
    for binding in objects(store, "clusterrolebindings", None) {
        bindings.insert(text(&binding, "/metadata/name").to_owned(), binding);
    }
    for (name, binding) in &bindings {
        if let Some(subject) = subject_of(binding, user, None) {
            grants.push(grant(
                store,
                binding,
                None,
                &format!("ClusterRoleBinding {name:?}"),
                &subject,
            ));
        }
    }
    let Some(namespace) = namespace else { return grants };
    for binding in objects(store, "rolebindings", Some(namespace)) {
        if let Some(subject) = subject_of(&binding, user, Some(namespace)) {
            let name = text(&binding, "/metadata/name");
            let described = format!("RoleBinding \"{name}/{namespace}\"");
            grants.push(grant(store, &binding, Some(namespace), &described, &subject));
        }
    }
    grants
}

fn grant(store: &Store, binding: &Value, namespace: Option<&str>, described: &str, subject: &str) -> Grant {
    let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
    Grant {
        rules: role_rules(store, kind, namespace, name),
        role: RoleRef {
            kind: kind.to_owned(),
            name: name.to_owned(),
        },
        reason: format!("{described} of {kind} {name:?} to {subject}"),
    }
}

/// The subject of a binding that is this user, in words.
fn subject_of(binding: &Value, user: &User, namespace: Option<&str>) -> Option<String> {
    list(binding, "/subjects").iter().find_map(|subject| {
        let (kind, name) = (text(subject, "/kind"), text(subject, "/name"));
        match kind {
            "User" => (name == user.name).then(|| format!("User {name:?}")),
            "Group" => user
                .groups
                .iter()
                .any(|group| group == name)
                .then(|| format!("Group {name:?}")),
            "ServiceAccount" => {
                let own = text(subject, "/namespace");
                let namespace = if own.is_empty() {
                    namespace.unwrap_or_default()
                } else {
                    own
                };
                (user.name == format!("system:serviceaccount:{namespace}:{name}"))
                    .then(|| format!("ServiceAccount \"{name}/{namespace}\""))
            }
            _ => None,
        }
    })
}

/// The rules of a role; `None` if it does not exist. Those of aggregated roles are stored in them, see [`outdated_aggregate`].
pub(super) fn role_rules(
    store: &Store,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
) -> Option<Vec<Value>> {
    let (plural, namespace) = match kind {
        "Role" => ("roles", namespace),
        _ => ("clusterroles", None),
    };
    let stored = store
        .collection(&format!("{plural}.{GROUP}"))
        .and_then(|roles| roles.get(&storage_key(namespace, name)))
        .map(|role| role.value());
    let role = stored.or_else(|| {
        bootstrap_of(kind)
            .find(|role| text(role, "/metadata/name") == name)
            .cloned()
    })?;
    Some(list(&role, "/rules").to_vec())
}

/// The first aggregated role whose rules are not those of the roles that it selects, and these rules.
#[doc(alias = "ClusterRoleAggregationController")]
pub(crate) fn outdated_aggregate(store: &Store) -> Option<(String, Vec<Value>)> {
    // By name.
    let roles: Vec<_> = store.collection(CLUSTER_ROLES)?.objects().cloned().collect();
    for role in &roles {
        let value = role.value();
        if value.get("aggregationRule").is_none_or(Value::is_null) {
            continue;
        }
        let mut rules: Vec<Value> = Vec::new();
        for selector in list(&value, "/aggregationRule/clusterRoleSelectors") {
            let others = roles.iter().filter(|other| other.key != role.key);
            for other in others.filter(|other| selects(selector, &other.meta.labels)) {
                for rule in list(&other.value(), "/rules") {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
        if list(&value, "/rules") != rules.as_slice() {
            return Some((role.meta.name.clone(), rules));
        }
    }
    None
}

fn allows(rule: &Value, action: &Action<'_>) -> bool {
    let has = |field: &str, wanted: &str| {
        let values = list(rule, field).iter().filter_map(Value::as_str);
        values.into_iter().any(|value| value == "*" || value == wanted)
    };
    match action {
        Action::Path { verb, path } => {
            let urls = list(rule, "/nonResourceURLs").iter().filter_map(Value::as_str);
            let matches = |url: &str| match url.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => url == *path,
            };
            has("/verbs", verb) && urls.into_iter().any(matches)
        }
        Action::Resource {
            verb,
            group,
            resource,
            name,
            ..
        } => {
            let names = list(rule, "/resourceNames");
            let named = names.is_empty() || names.iter().any(|one| one.as_str() == Some(name));
            let any = resource
                .split_once('/')
                .is_some_and(|(_, subresource)| has("/resources", &format!("*/{subresource}")));
            has("/verbs", verb) && has("/apiGroups", group) && (has("/resources", resource) || any) && named
        }
    }
}

fn objects(store: &Store, plural: &str, namespace: Option<&str>) -> Vec<Value> {
    let prefix = namespace
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    store
        .collection(&format!("{plural}.{GROUP}"))
        .map(|objects| {
            objects
                .with_prefix(&prefix)
                .map(|object| object.value())
                .collect()
        })
        .unwrap_or_default()
}

/// The roles and bindings that a real server creates when it starts, as far as every user needs them. They apply even if they
/// are not stored.
pub(crate) fn bootstrap() -> &'static [Value] {
    static OBJECTS: OnceLock<Vec<Value>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let public = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
        let discovery = [
            "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version",
            "/version/",
        ];
        let own = |group: &str, resources: &[&str]| json!({ "verbs": ["create"], "apiGroups": [group], "resources": resources });
        let everything = json!(everything());
        let basic = json!([
            own("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
            own("authentication.k8s.io", &["selfsubjectreviews"]),
        ]);
        let paths = |paths: &[&str]| json!([{ "verbs": ["get"], "nonResourceURLs": paths }]);
        let roles: [(&str, Value, &[&str]); 4] = [
            ("cluster-admin", everything, &["system:masters"]),
            ("system:basic-user", basic, &["system:authenticated"]),
            ("system:discovery", paths(&discovery), &["system:authenticated"]),
            (
                "system:public-info-viewer",
                paths(&public),
                &["system:authenticated", "system:unauthenticated"],
            ),
        ];
        let mut objects = Vec::new();
        for (name, rules, groups) in roles {
            let metadata = json!({
                "name": name, "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
                "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
            });
            let subjects: Vec<Value> = groups
                .iter()
                .map(|group| json!({ "apiGroup": GROUP, "kind": "Group", "name": group }))
                .collect();
            objects.push(json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": rules,
            }));
            objects.push(json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
                "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": name }, "subjects": subjects,
            }));
        }
        objects
    })
}

fn bootstrap_of(kind: &str) -> impl Iterator<Item = &'static Value> {
    let kind = kind.to_owned();
    bootstrap()
        .iter()
        .filter(move |object| text(object, "/kind") == kind)
}
