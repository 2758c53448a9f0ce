//! Discovery documents: the served groups, versions and kinds.
//!
//! Builds the JSON of each document from the registry.

use serde_json::{Map, Value, json};

use super::storage_hash::storage_version_hash;
use crate::kinds::{Kind, Registry, Subresource};

/// The version that the server reports.
pub const GIT_VERSION: &str = "v1.37.1";

/// The media type of aggregated discovery.
pub const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `GET /version`
pub fn version() -> Value {
    json!({
        "major": "1",
        "minor": "37",
        "emulationMajor": "1",
        "emulationMinor": "37",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "36",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// Whether an `Accept` header prefers aggregated discovery, in the supported version, to plain JSON.
///
/// Clients list media types in order of preference: newer kubectl lists the aggregated form first, older versions do
/// not list it.
pub fn wants_aggregated(accept: &str) -> bool {
    for choice in accept.split(',') {
        let mut parts = choice.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters: Vec<&str> = parts.collect();
        let has = |name: &str, value: &str| {
            parameters
                .iter()
                .any(|parameter| parameter.split_once('=') == Some((name, value)))
        };
        let aggregated = has("as", "APIGroupDiscoveryList");
        match media_type {
            "application/json" if aggregated && has("g", "apidiscovery.k8s.io") && has("v", "v2") => {
                return true;
            }
            "application/json" | "application/*" | "*/*" if !aggregated => return false,
            _ => {}
        }
    }
    false
}

/// `GET /api`: the versions of the core group.
#[doc(alias = "APIVersions")]
pub fn core_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": server_address }],
    })
}

/// `GET /apis`: every group but the core one.
#[doc(alias = "APIGroupList")]
pub fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .iter()
        .map(|name| Value::Object(group_fields(registry, name)))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `GET /apis/{group}`; `None` if there is no such group.
#[doc(alias = "APIGroup")]
pub fn group(registry: &Registry, name: &str) -> Option<Value> {
    if name.is_empty() || !registry.has_group(name) {
        return None;
    }
    let mut document = json!({ "kind": "APIGroup", "apiVersion": "v1" });
    if let Value::Object(fields) = &mut document {
        fields.extend(group_fields(registry, name));
    }
    Some(document)
}

fn group_fields(registry: &Registry, name: &str) -> Map<String, Value> {
    let versions: Vec<Value> = registry
        .versions(name)
        .iter()
        .map(|version| json!({ "groupVersion": format!("{name}/{version}"), "version": version }))
        .collect();
    let mut fields = Map::new();
    fields.insert("name".to_owned(), json!(name));
    fields.insert(
        "preferredVersion".to_owned(),
        versions.first().cloned().unwrap_or(Value::Null),
    );
    fields.insert("versions".to_owned(), Value::Array(versions));
    fields
}

/// `GET /api/v1` or `GET /apis/{group}/{version}`: the kinds of one version; `None` if it has none.
#[doc(alias = "APIResourceList")]
pub fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let kinds = registry.kinds_in(group, version);
    let mut resources = Vec::new();
    for kind in &kinds {
        resources.push(resource(kind));
        resources.extend(
            kind.subresources
                .iter()
                .map(|subresource| subresource_entry(kind, subresource)),
        );
    }
    let group_version = kinds.first()?.api_version();
    Some(if group.is_empty() {
        json!({ "kind": "APIResourceList", "groupVersion": group_version, "resources": resources })
    } else {
        json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources,
        })
    })
}

fn resource(kind: &Kind) -> Value {
    let mut entry = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.verbs,
    });
    add_lists(&mut entry, kind);
    if kind.is_stored() {
        entry["storageVersionHash"] = storage_version_hash(kind).into();
    }
    entry
}

fn subresource_entry(kind: &Kind, subresource: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", kind.plural, subresource.name),
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": subresource.body.map_or(kind.kind.as_str(), |(_, _, body)| body),
        "verbs": subresource.verbs,
    });
    if let (Some((group, version, _)), Value::Object(fields)) = (subresource.body, &mut entry)
        && !group.is_empty()
    {
        fields.insert("group".to_owned(), json!(group));
        fields.insert("version".to_owned(), json!(version));
    }
    entry
}

/// Short names and categories are omitted if empty.
fn add_lists(entry: &mut Value, kind: &Kind) {
    if let Value::Object(fields) = entry {
        for (name, list) in [
            ("shortNames", &kind.short_names),
            ("categories", &kind.categories),
        ] {
            if !list.is_empty() {
                fields.insert(name.to_owned(), json!(list));
            }
        }
    }
}

/// `GET /api` in aggregated form: the core group.
pub fn aggregated_core(registry: &Registry) -> Value {
    // The core group has no name here.
    let group = json!({ "metadata": {}, "versions": aggregated_versions(registry, "") });
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": [group],
    })
}

/// `GET /apis` in aggregated form: all other groups.
pub fn aggregated_groups(registry: &Registry) -> Value {
    let items: Vec<Value> = registry
        .groups()
        .iter()
        .map(|name| json!({ "metadata": { "name": name }, "versions": aggregated_versions(registry, name) }))
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    })
}

fn aggregated_versions(registry: &Registry, group: &str) -> Vec<Value> {
    registry
        .versions(group)
        .iter()
        .map(|version| {
            let kinds = registry.kinds_in(group, version);
            let resources: Vec<Value> = kinds.iter().map(|kind| aggregated_resource(kind)).collect();
            json!({ "version": version, "resources": resources, "freshness": "Current" })
        })
        .collect()
}

fn aggregated_resource(kind: &Kind) -> Value {
    // A real server leaves group and version empty here for built-in kinds, and sets them for custom kinds.
    let own = if kind.custom {
        json!({ "group": kind.group, "version": kind.version, "kind": kind.kind })
    } else {
        json!({ "group": "", "version": "", "kind": kind.kind })
    };
    let subresources: Vec<Value> = kind
        .subresources
        .iter()
        .map(|subresource| {
            let response = subresource.body.map_or_else(
                || own.clone(),
                |(group, version, body)| json!({ "group": group, "version": version, "kind": body }),
            );
            json!({ "subresource": subresource.name, "responseKind": response, "verbs": subresource.verbs })
        })
        .collect();
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": own,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    });
    add_lists(&mut entry, kind);
    if let Value::Object(fields) = &mut entry
        && !subresources.is_empty()
    {
        fields.insert("subresources".to_owned(), Value::Array(subresources));
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_header_of_kubectl_selects_aggregated_discovery() {
        let kubectl = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=\
                       apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert!(wants_aggregated(kubectl));
        assert!(wants_aggregated(AGGREGATED));
        assert!(!wants_aggregated("application/json"));
        assert!(!wants_aggregated("*/*"));
        assert!(!wants_aggregated(""));
        assert!(!wants_aggregated(
            "application/json, application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        ));
        assert!(!wants_aggregated(
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
        ));
    }

    #[test]
    fn groups_name_their_preferred_version() {
        let registry = Registry::builtin();

        let autoscaling = group(&registry, "autoscaling").unwrap();
        assert_eq!(autoscaling["preferredVersion"]["groupVersion"], "autoscaling/v2");
        assert_eq!(autoscaling["versions"].as_array().map(Vec::len), Some(2));
        assert_eq!(group(&registry, "example.com"), None);
        assert_eq!(group(&registry, ""), None);
        assert!(groups(&registry)["groups"].as_array().unwrap().contains(&json!({
            "name": "apps",
            "preferredVersion": { "groupVersion": "apps/v1", "version": "v1" },
            "versions": [{ "groupVersion": "apps/v1", "version": "v1" }],
        })));
    }

    #[test]
    fn resources_list_kinds_and_their_subresources() {
        let registry = Registry::builtin();
        let apps = resources(&registry, "apps", "v1").unwrap();
        let entries = apps["resources"].as_array().unwrap();

        assert!(entries.contains(&json!({
            "name": "deployments", "singularName": "deployment", "namespaced": true, "kind": "Deployment",
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "shortNames": ["deploy"], "categories": ["all"], "storageVersionHash": "8aSe+NMegvE=",
        })));
        assert!(entries.contains(&json!({
            "name": "deployments/scale", "singularName": "", "namespaced": true, "kind": "Scale",
            "group": "autoscaling", "version": "v1", "verbs": ["get", "patch", "update"],
        })));
        assert_eq!(apps["groupVersion"], "apps/v1");
        assert!(resources(&registry, "apps", "v2").is_none());
        assert!(
            resources(&registry, "", "v1")
                .unwrap()
                .get("apiVersion")
                .is_none()
        );
    }

    #[test]
    fn aggregated_discovery_matches_plain_discovery() {
        let mut registry = Registry::builtin();
        registry.insert(Kind::new("example.com", "v1", "Widget").with_status());
        let document = aggregated_groups(&registry);

        let mut listed = 0;
        for group in document["items"].as_array().unwrap() {
            for version in group["versions"].as_array().unwrap() {
                let name = group["metadata"]["name"].as_str().unwrap();
                let plain = resources(&registry, name, version["version"].as_str().unwrap()).unwrap();
                let aggregated = version["resources"].as_array().unwrap();
                let subresources: usize = aggregated
                    .iter()
                    .map(|entry| entry["subresources"].as_array().map_or(0, Vec::len))
                    .sum();
                assert_eq!(
                    plain["resources"].as_array().unwrap().len(),
                    aggregated.len() + subresources
                );
                listed += aggregated.len();
            }
        }
        let core = registry.kinds_in("", "v1").len();
        assert_eq!(listed + core, registry.iter().count());
        assert_eq!(
            aggregated_core(&registry)["items"][0]["versions"][0]["resources"]
                .as_array()
                .unwrap()
                .len(),
            core
        );
    }
}
