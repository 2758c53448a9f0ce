//! Looks up kinds by plural, singular, short name, `kind.group` or `resource.version.group`.
//!
//! The rules are kubectl's. Works on discovery results; makes no requests.

use kube::core::ApiResource;
use kube_informers::source::ResourceType;
use serde::{Deserialize, Serialize};

use crate::process::failure::Failure;

/// A kind that the server serves, in one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kind {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind: `Deployment`.
    pub kind: String,
    /// The plural: `deployments`.
    pub plural: String,
    /// The singular: `deployment`.
    pub singular: String,
    /// Short names: `deploy`.
    pub short_names: Vec<String>,
    /// Its categories: `all`.
    pub categories: Vec<String>,
    /// Whether it is namespaced.
    pub namespaced: bool,
    /// The supported verbs: `list`, `watch` …
    pub verbs: Vec<String>,
}

impl Kind {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// `pods`, `deployments.apps`.
    pub fn full_name(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// `pod`, `deployment.apps`: in front of the name of an object.
    pub fn label(&self) -> String {
        let singular = match self.singular.as_str() {
            "" => self.kind.to_lowercase(),
            singular => singular.to_owned(),
        };
        match self.group.as_str() {
            "" => singular,
            group => format!("{singular}.{group}"),
        }
    }

    /// Whether its values are redacted. Decided by name in any group: a copy of the API is equally secret.
    pub fn is_secret(&self) -> bool {
        self.kind == "Secret"
    }

    /// For the informer.
    pub fn resource_type(&self) -> ResourceType {
        ResourceType::from(&ApiResource {
            group: self.group.clone(),
            version: self.version.clone(),
            api_version: self.api_version(),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        })
        .namespaced(self.namespaced)
    }

    /// The path of its collection on the server.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let version = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match namespace {
            Some(namespace) => format!("{version}/namespaces/{namespace}/{}", self.plural),
            None => format!("{version}/{}", self.plural),
        }
    }

    /// Whether it can be listed and watched.
    pub fn is_watchable(&self) -> bool {
        ["list", "watch"]
            .iter()
            .all(|verb| self.verbs.iter().any(|known| known == verb))
    }

    /// Whether a name, in lower case, is one of its own.
    fn is_called(&self, name: &str) -> bool {
        self.plural == name || self.singular == name || self.kind.to_lowercase() == name
    }

    fn has_short_name(&self, name: &str) -> bool {
        self.short_names.iter().any(|short| short == name)
    }

    /// A kind for tests.
    #[cfg(test)]
    pub fn for_tests(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            namespaced: true,
            verbs: vec!["list".to_owned(), "watch".to_owned()],
            ..Self::default()
        }
    }
}

/// One group with its versions, the preferred one first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The name; empty for the core group.
    pub name: String,
    /// The versions, the preferred one first, and the kinds of each.
    pub versions: Vec<(String, Vec<Kind>)>,
}

/// Everything a server serves, in its own order of importance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// The groups, the core group first.
    pub groups: Vec<Group>,
}

impl Catalogue {
    /// The kinds that `pods,deploy` refers to, in the order given, without duplicates.
    ///
    /// # Errors
    ///
    /// One of them is unknown, or cannot be listed and watched.
    pub fn find_all(&self, names: &str) -> Result<Vec<Kind>, Failure> {
        let mut found: Vec<Kind> = Vec::new();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            for kind in self.find(name)? {
                if !found.contains(&kind) {
                    found.push(kind);
                }
            }
        }
        if found.is_empty() {
            return Err(Failure::error(
                "no kind was named: write one as in pods, deployments.apps or widgets.example.com",
            ));
        }
        Ok(found)
    }

    /// The kinds that a name refers to: one, or all of a category.
    fn find(&self, name: &str) -> Result<Vec<Kind>, Failure> {
        if let Some(kind) = self.lookup(name) {
            return match kind.is_watchable() {
                true => Ok(vec![kind.clone()]),
                false => Err(Failure::verbatim(
                    "Error from server (MethodNotAllowed): the server does not allow this method on the requested \
                     resource",
                )),
            };
        }
        let category: Vec<Kind> = self
            .preferred()
            .filter(|kind| kind.is_watchable() && kind.categories.iter().any(|category| category == name))
            .cloned()
            .collect();
        match category.is_empty() {
            false => Ok(category),
            true => Err(Failure::error(format!(
                "the server doesn't have a resource type \"{name}\""
            ))),
        }
    }

    /// As kubectl reads it: `resource.version.group` first, then `resource.group`, then the bare name.
    fn lookup(&self, name: &str) -> Option<&Kind> {
        let name = name.to_lowercase();
        let Some((resource, rest)) = name.split_once('.') else {
            return self.lookup_in(&name, |_| true);
        };
        if let Some((version, group)) = rest.split_once('.')
            && let Some(kind) = self
                .all()
                .find(|kind| kind.version == version && kind.group == group && kind.is_called(resource))
        {
            return Some(kind);
        }
        // `pods.v1.` and `pods.v1` mean the core group.
        if let Some(kind) = self.all().find(|kind| {
            kind.group.is_empty() && kind.version == rest.trim_end_matches('.') && kind.is_called(resource)
        }) {
            return Some(kind);
        }
        self.lookup_in(resource, |group| group == rest)
            // The beginning of a group is enough: `ingresses.networking`.
            .or_else(|| self.lookup_in(resource, |group| !rest.is_empty() && group.starts_with(rest)))
    }

    /// Names take precedence over short names, preferred versions over others.
    fn lookup_in(&self, name: &str, group: impl Fn(&str) -> bool) -> Option<&Kind> {
        let in_group = |kind: &&Kind| group(&kind.group);
        self.preferred()
            .filter(in_group)
            .find(|kind| kind.is_called(name))
            .or_else(|| self.all().filter(in_group).find(|kind| kind.is_called(name)))
            .or_else(|| {
                self.preferred()
                    .filter(in_group)
                    .find(|kind| kind.has_short_name(name))
            })
            .or_else(|| self.all().filter(in_group).find(|kind| kind.has_short_name(name)))
    }

    /// Every kind in every version.
    pub fn all(&self) -> impl Iterator<Item = &Kind> {
        self.groups
            .iter()
            .flat_map(|group| &group.versions)
            .flat_map(|(_, kinds)| kinds)
    }

    /// Every kind of the preferred version of its group.
    pub fn preferred(&self) -> impl Iterator<Item = &Kind> {
        self.groups
            .iter()
            .filter_map(|group| group.versions.first())
            .flat_map(|(_, kinds)| kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str, version: &str, kind: &str, plural: &str, short: &[&str]) -> Kind {
        Kind {
            short_names: short.iter().map(|name| (*name).to_owned()).collect(),
            categories: vec!["all".to_owned()],
            ..Kind::for_tests(group, version, kind, plural)
        }
    }

    fn catalogue() -> Catalogue {
        let group = |name: &str, versions: Vec<Vec<Kind>>| Group {
            name: name.to_owned(),
            versions: versions
                .into_iter()
                .map(|kinds| (kinds[0].version.clone(), kinds))
                .collect(),
        };
        let mut review = kind("", "v1", "Binding", "bindings", &[]);
        review.verbs = vec!["create".to_owned()];
        Catalogue {
            groups: vec![
                group(
                    "",
                    vec![vec![
                        kind("", "v1", "Pod", "pods", &["po"]),
                        kind("", "v1", "Event", "events", &["ev"]),
                        review,
                    ]],
                ),
                group(
                    "apps",
                    vec![vec![kind("apps", "v1", "Deployment", "deployments", &["deploy"])]],
                ),
                group(
                    "events.k8s.io",
                    vec![vec![kind("events.k8s.io", "v1", "Event", "events", &["ev"])]],
                ),
                group(
                    "example.com",
                    vec![
                        vec![kind("example.com", "v2", "Widget", "widgets", &["po"])],
                        vec![
                            kind("example.com", "v1", "Widget", "widgets", &[]),
                            kind("example.com", "v1", "Relic", "relics", &["rl"]),
                        ],
                    ],
                ),
            ],
        }
    }

    fn found(names: &str) -> String {
        match catalogue().find_all(names) {
            Ok(kinds) => kinds
                .iter()
                .map(|kind| format!("{} {}", kind.full_name(), kind.version))
                .collect::<Vec<_>>()
                .join(", "),
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn a_kind_is_found_by_each_of_its_names() {
        for name in ["pods", "pod", "po", "Pod", "pods.v1", "pods.v1."] {
            assert_eq!(found(name), "pods v1", "{name}");
        }
        for name in [
            "deploy",
            "deployments.apps",
            "deployment.apps",
            "deploy.apps",
            "deployments.v1.apps",
        ] {
            assert_eq!(found(name), "deployments.apps v1", "{name}");
        }
    }

    #[test]
    fn custom_kinds_are_found_in_the_requested_version() {
        assert_eq!(found("widgets"), "widgets.example.com v2");
        assert_eq!(found("widgets.example.com"), "widgets.example.com v2");
        assert_eq!(found("widget.v1.example.com"), "widgets.example.com v1");
        assert_eq!(found("widgets.example"), "widgets.example.com v2");
        assert_eq!(found("relics"), "relics.example.com v1");
        assert_eq!(found("rl"), "relics.example.com v1");
    }

    #[test]
    fn the_order_of_the_server_decides_between_equals() {
        assert_eq!(found("events"), "events v1");
        assert_eq!(found("events.events.k8s.io"), "events.events.k8s.io v1");
        assert_eq!(found("po"), "pods v1");
    }

    #[test]
    fn several_kinds_are_taken_in_order_and_once() {
        assert_eq!(found("deploy, po,pods,"), "deployments.apps v1, pods v1");
    }

    #[test]
    fn a_category_selects_all_of_its_kinds() {
        assert_eq!(
            found("all"),
            "pods v1, events v1, deployments.apps v1, events.events.k8s.io v1, widgets.example.com v2"
        );
    }

    #[test]
    fn missing_objects_are_reported_in_the_wording_of_kubectl() {
        assert_eq!(
            found("gadgets"),
            "error: the server doesn't have a resource type \"gadgets\""
        );
        assert_eq!(
            found("pods.v2.apps"),
            "error: the server doesn't have a resource type \"pods.v2.apps\""
        );
        assert!(found("bindings").starts_with("Error from server (MethodNotAllowed)"));
        assert!(found(" , ").starts_with("error: no kind was named"));
    }
}
