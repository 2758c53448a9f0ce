//! Users cannot grant permissions that they do not have.
//!
//! To write a role, a user needs all permissions in it, or the verb `escalate`; to bind a role, all permissions in that role, or
//! the verb `bind`. The texts are those of a real server.

use std::collections::BTreeSet;

use kube_api_protocol::status::ApiError;
use serde_json::{Map, Value};

use super::rbac::{self, Action, Decision, GROUP};
use crate::admission::metadata::same;
use crate::fields::{list, text};
use crate::kinds::Kind;
use crate::storage::Store;
use crate::user::User;

/// A write of a role or binding.
#[derive(Debug)]
pub(crate) struct Grant<'a> {
    pub(crate) user: &'a User,
    pub(crate) kind: &'a Kind,
    pub(crate) namespace: Option<&'a str>,
    /// The name in the path; empty for a create.
    pub(crate) name: &'a str,
    pub(crate) new: &'a Map<String, Value>,
    pub(crate) old: Option<&'a Map<String, Value>>,
}

/// Whether writes of this kind grant permissions.
pub(crate) fn grants_permissions(kind: &Kind) -> bool {
    kind.group == GROUP
}

/// Rejects a write that grants more than the user has.
#[doc(alias = "ConfirmNoEscalation")]
pub(crate) fn check(store: &Store, grant: &Grant<'_>) -> Result<(), ApiError> {
    let Grant { user, new, old, .. } = grant;
    if user.groups.iter().any(|group| group == "system:masters") {
        return Ok(());
    }
    if old.is_some_and(|old| only_garbage_collection_differs(old, new)) {
        return Ok(());
    }
    let new = Value::Object((*new).clone());
    match grant.kind.kind.as_str() {
        "Role" | "ClusterRole" => check_role(store, grant, &new),
        "RoleBinding" | "ClusterRoleBinding" => check_binding(store, grant, &new),
        _ => Ok(()),
    }
}

fn check_role(store: &Store, grant: &Grant<'_>, role: &Value) -> Result<(), ApiError> {
    if is_allowed(store, grant, "escalate", &grant.kind.plural, grant.name) {
        return Ok(());
    }
    let forbidden =
        |why: &str| ApiError::forbidden_because(GROUP, &grant.kind.plural, text(role, "/metadata/name"), why);
    covered(store, grant, list(role, "/rules")).map_err(|why| forbidden(&why))?;
    let aggregates = |role: &Value| !list(role, "/aggregationRule/clusterRoleSelectors").is_empty();
    let did_aggregate = grant
        .old
        .is_some_and(|old| aggregates(&Value::Object(old.clone())));
    // Such a role can get any permission.
    if (aggregates(role) || did_aggregate) && covered(store, grant, rbac::everything()).is_err() {
        return Err(forbidden(
            "must have cluster-admin privileges to use the aggregationRule",
        ));
    }
    Ok(())
}

fn check_binding(store: &Store, grant: &Grant<'_>, binding: &Value) -> Result<(), ApiError> {
    let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
    let plural = match kind {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        other => {
            return Err(ApiError::unknown(format!(
                "unsupported role reference kind: {other:?}"
            )));
        }
    };
    if is_allowed(store, grant, "bind", plural, name) {
        return Ok(());
    }
    let rules = rbac::role_rules(store, kind, grant.namespace, name)
        // The error of a real server names the binding's resource and the role's name.
        .ok_or_else(|| ApiError::not_found(GROUP, &grant.kind.plural, name))?;
    covered(store, grant, &rules).map_err(|why| {
        ApiError::forbidden_because(GROUP, &grant.kind.plural, text(binding, "/metadata/name"), &why)
    })
}

fn is_allowed(store: &Store, grant: &Grant<'_>, verb: &str, resource: &str, name: &str) -> bool {
    let action = Action::Resource {
        verb,
        group: GROUP,
        resource,
        namespace: grant.namespace,
        name,
    };
    matches!(rbac::decide(store, grant.user, &action), Decision::Allowed(_))
}

/// Whether only what the garbage collector writes differs.
fn only_garbage_collection_differs(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    const COLLECTED: &[&str] = &["ownerReferences", "finalizers", "managedFields"];
    let empty = Map::new();
    let metadata = |object: &Map<String, Value>| object.get("metadata").and_then(Value::as_object).cloned();
    let (before, after) = (
        metadata(old).unwrap_or_else(|| empty.clone()),
        metadata(new).unwrap_or_else(|| empty.clone()),
    );
    let fields = before.keys().chain(after.keys());
    let mut counted = fields.filter(|field| !COLLECTED.contains(&field.as_str()));
    let mut others = old.keys().chain(new.keys()).filter(|field| *field != "metadata");
    counted.all(|field| same(before.get(field), after.get(field)))
        && others.all(|field| same(old.get(field), new.get(field)))
}

/// Whether the user has all permissions of these rules; the error lists those that are missing.
fn covered(store: &Store, grant: &Grant<'_>, wanted: &[Value]) -> Result<(), String> {
    let (owned, missing_roles) = rbac::rules_and_missing_roles(store, grant.user, grant.namespace);
    let missing: Vec<Permission<'_>> = wanted
        .iter()
        .flat_map(permissions)
        .filter(|permission| !owned.iter().any(|rule| permission.is_covered_by(rule)))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let shown: BTreeSet<String> = compacted(&missing).into_iter().collect();
    let shown: Vec<String> = shown.into_iter().collect();
    let groups = quoted(grant.user.groups.iter().map(String::as_str));
    let mut why = format!(
        "user {:?} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{}",
        grant.user.name,
        shown.join("\n")
    );
    match missing_roles.as_slice() {
        [] => {}
        [one] => why.push_str(&format!("; resolution errors: [{one}]")),
        several => why.push_str(&format!("; resolution errors: [[{}]]", several.join(", "))),
    }
    Err(why)
}

/// One verb on one resource or path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission<'r> {
    Resource {
        group: &'r str,
        resource: &'r str,
        verb: &'r str,
        name: Option<&'r str>,
    },
    Path {
        path: &'r str,
        verb: &'r str,
    },
}

fn texts<'r>(rule: &'r Value, pointer: &str) -> Vec<&'r str> {
    list(rule, pointer).iter().filter_map(Value::as_str).collect()
}

/// The permissions of a rule, one by one.
#[doc(alias = "BreakdownRule")]
fn permissions(rule: &Value) -> Vec<Permission<'_>> {
    let mut permissions = Vec::new();
    let names = texts(rule, "/resourceNames");
    let names: Vec<Option<&str>> = match names.is_empty() {
        true => vec![None],
        false => names.into_iter().map(Some).collect(),
    };
    for group in texts(rule, "/apiGroups") {
        for resource in texts(rule, "/resources") {
            for verb in texts(rule, "/verbs") {
                for name in &names {
                    permissions.push(Permission::Resource {
                        group,
                        resource,
                        verb,
                        name: *name,
                    });
                }
            }
        }
    }
    for path in texts(rule, "/nonResourceURLs") {
        for verb in texts(rule, "/verbs") {
            permissions.push(Permission::Path { path, verb });
        }
    }
    permissions
}

impl Permission<'_> {
    /// Whether a rule that the user has grants this permission.
    fn is_covered_by(&self, rule: &Value) -> bool {
        let has = |pointer: &str, wanted: &str| texts(rule, pointer).contains(&wanted);
        let any = |pointer: &str, wanted: &str| has(pointer, "*") || has(pointer, wanted);
        let names = texts(rule, "/resourceNames");
        match self {
            Permission::Path { path, verb } => {
                let covers = |own: &str| match own.strip_suffix('*') {
                    Some(prefix) => path.starts_with(prefix.trim_end_matches('*')),
                    None => own == *path,
                };
                any("/verbs", verb)
                    && names.is_empty()
                    && texts(rule, "/nonResourceURLs").into_iter().any(covers)
            }
            Permission::Resource {
                group,
                resource,
                verb,
                name,
            } => {
                let subresource = resource
                    .split_once('/')
                    .is_some_and(|(_, subresource)| has("/resources", &format!("*/{subresource}")));
                let named = names.is_empty() || name.is_some_and(|name| names.contains(&name));
                any("/verbs", verb)
                    && any("/apiGroups", group)
                    && (any("/resources", resource) || subresource)
                    && named
            }
        }
    }
}

/// Permissions as a real server lists them: the verbs on one resource together.
#[doc(alias = "CompactRules")]
fn compacted(permissions: &[Permission<'_>]) -> Vec<String> {
    let mut shown = Vec::new();
    let mut resources: Vec<(Permission<'_>, Vec<&str>)> = Vec::new();
    for permission in permissions {
        match permission {
            Permission::Path { path, verb } => {
                let (path, verb) = (quoted([*path].into_iter()), quoted([*verb].into_iter()));
                shown.push(format!("{{NonResourceURLs:{path}, Verbs:{verb}}}"));
            }
            Permission::Resource {
                group,
                resource,
                verb,
                name,
            } => {
                let without_verb = Permission::Resource {
                    group,
                    resource,
                    verb: "",
                    name: *name,
                };
                match resources.iter_mut().find(|(known, _)| *known == without_verb) {
                    Some((_, verbs)) => verbs.push(verb),
                    None => resources.push((without_verb, vec![verb])),
                }
            }
        }
    }
    for (permission, verbs) in resources {
        if let Permission::Resource {
            group,
            resource,
            name,
            ..
        } = permission
        {
            let one = |text: &str| quoted([text].into_iter());
            let name = name.map(|name| format!(", ResourceNames:{}", one(name)));
            shown.push(format!(
                "{{APIGroups:{}, Resources:{}{}, Verbs:{}}}",
                one(group),
                one(resource),
                name.unwrap_or_default(),
                quoted(verbs.into_iter())
            ));
        }
    }
    shown
}

/// Texts as Go prints a list of them.
fn quoted<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let texts: Vec<String> = texts.map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}
