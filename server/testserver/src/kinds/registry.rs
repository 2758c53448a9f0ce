//! The kinds a server serves: looked up by path or name, added and removed while it runs.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::jsonpath::JsonPath;
use serde_json::Value;

use super::builtin::{BuiltinKind, VERSIONS, Version};
use super::crd::{self, TakenNames};
use super::{Kind, ScalePaths, StoredAs, Subresource};

/// Every kind that is served, by group, version and plural.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    kinds: BTreeMap<(String, String, String), Arc<Kind>>,
}

impl Registry {
    /// No kinds at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The stable kinds of Kubernetes 1.37: what a server serves by default.
    pub fn builtin() -> Self {
        Self::from_versions(Version::is_stable)
    }

    /// All kinds of Kubernetes 1.37, including alpha and beta versions.
    pub fn builtin_with_previews() -> Self {
        Self::from_versions(|_| true)
    }

    fn from_versions(wanted: impl Fn(&Version) -> bool) -> Self {
        let mut registry = Self::default();
        for version in VERSIONS.iter().filter(|version| wanted(version)) {
            for row in version.kinds {
                registry.insert(builtin_kind(version, row));
            }
        }
        registry
    }

    /// Adds a kind, or replaces the one with the same group, version and plural.
    pub fn insert(&mut self, kind: Kind) -> Arc<Kind> {
        let kind = Arc::new(kind);
        let key = (kind.group.clone(), kind.version.clone(), kind.plural.clone());
        self.kinds.insert(key, Arc::clone(&kind));
        kind
    }

    /// The kind served at `/apis/{group}/{version}/{plural}`.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.kinds
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
            .cloned()
    }

    /// The kind with the given group, version and name, such as `("apps", "v1", "Deployment")`.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Kind>> {
        self.iter()
            .find(|known| known.group == group && known.version == version && known.kind == kind)
            .cloned()
    }

    /// The kind of an object, by its `apiVersion` and `kind`.
    pub fn kind_of(&self, object: &Value) -> Option<Arc<Kind>> {
        let api_version = object.get("apiVersion")?.as_str()?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.kind(group, version, object.get("kind")?.as_str()?)
    }

    /// The same kind in its storage version. The storage version of a custom resource need not be served.
    pub fn stored(&self, kind: &Kind) -> Arc<Kind> {
        let StoredAs {
            group,
            version,
            plural,
        } = &kind.stored;
        self.resource(group, version, plural).unwrap_or_else(|| {
            Arc::new(Kind {
                version: version.clone(),
                // The schema of a version that is not served is not known.
                schema: None,
                ..kind.clone()
            })
        })
    }

    /// All kinds that share this collection.
    pub fn sharing(&self, stored: &StoredAs) -> Vec<Arc<Kind>> {
        self.iter()
            .filter(|kind| kind.stored.group == stored.group && kind.stored.plural == stored.plural)
            .cloned()
            .collect()
    }

    /// Whether the group has any kind.
    pub fn has_group(&self, group: &str) -> bool {
        self.iter().any(|kind| kind.group == group)
    }

    /// Every kind, sorted by group, version and plural.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.values()
    }

    /// The groups in discovery order without the core group: built-in groups first, then custom ones by name.
    pub fn groups(&self) -> Vec<String> {
        let mut groups: Vec<String> = Vec::new();
        for version in VERSIONS.iter().filter(|version| !version.group.is_empty()) {
            if self.has_group(version.group) && !groups.iter().any(|group| group == version.group) {
                groups.push(version.group.to_owned());
            }
        }
        for kind in self.iter().filter(|kind| !kind.group.is_empty()) {
            if !groups.contains(&kind.group) {
                groups.push(kind.group.clone());
            }
        }
        groups
    }

    /// The versions of a group, the preferred one first.
    pub fn versions(&self, group: &str) -> Vec<String> {
        let mut versions: Vec<String> = self
            .iter()
            .filter(|kind| kind.group == group)
            .map(|kind| kind.version.clone())
            .collect();
        versions.sort_by(|a, b| compare_versions(a, b));
        versions.dedup();
        versions
    }

    /// The kinds of one group version, by plural.
    pub fn kinds_in(&self, group: &str, version: &str) -> Vec<Arc<Kind>> {
        self.iter()
            .filter(|kind| kind.group == group && kind.version == version)
            .cloned()
            .collect()
    }

    /// Adds the kinds that a CustomResourceDefinition declares, one for each served version, replacing those it
    /// declared before. Fails if a real server would reject the definition.
    pub(crate) fn insert_crd(&mut self, definition: &Value) -> Result<Vec<Arc<Kind>>, Vec<FieldError>> {
        let mut definition = definition.clone();
        crd::set_crd_defaults(&mut definition);
        let errors = crd::validate_crd_form(&definition);
        if !errors.is_empty() {
            return Err(errors);
        }
        let kinds = crd::kinds(&definition);
        if let Some(kind) = kinds.first() {
            self.remove(&kind.group, &kind.plural);
        }
        Ok(kinds.into_iter().map(|kind| self.insert(kind)).collect())
    }

    /// Removes every version of a custom resource; built-in resources stay. Returns the removed kinds.
    pub fn remove(&mut self, group: &str, plural: &str) -> Vec<Arc<Kind>> {
        let gone: Vec<_> = self
            .kinds
            .iter()
            .filter(|(_, kind)| kind.custom && kind.group == group && kind.plural == plural)
            .map(|(key, _)| key.clone())
            .collect();
        gone.into_iter()
            .filter_map(|key| self.kinds.remove(&key))
            .collect()
    }

    /// The names that the resources of the group use, except those with a plural that is skipped.
    pub(crate) fn taken_names(&self, group: &str, skipped: impl Fn(&str) -> bool) -> TakenNames {
        let mut taken = TakenNames::default();
        for kind in self
            .iter()
            .filter(|kind| kind.group == group && !skipped(&kind.plural))
        {
            let names = [&kind.plural, &kind.singular]
                .into_iter()
                .chain(&kind.short_names);
            taken.resources.extend(names.cloned());
            taken.kinds.extend([kind.kind.clone(), kind.list_kind.clone()]);
        }
        taken
    }
}

fn builtin_kind(version: &Version, row: &BuiltinKind) -> Kind {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut kind = Kind::new(version.group, version.version, row.kind).plural(row.plural);
    kind.custom = false;
    kind.namespaced = row.namespaced;
    kind.short_names = words(row.short_names);
    kind.categories = words(row.categories);
    kind.verbs = row.verbs;
    kind.subresources = row
        .subresources
        .split_whitespace()
        .map(Subresource::new)
        .collect();
    if kind.subresource("scale").is_some() {
        kind.scale = Some(ScalePaths {
            spec_replicas: JsonPath::fields(["spec", "replicas"]),
            status_replicas: JsonPath::fields(["status", "replicas"]),
            label_selector: Some(JsonPath::fields(["spec", "selector"])),
        });
    }
    // Events of both groups share a collection; of several versions the first in the table is the storage version.
    let home = if version.group == "events.k8s.io" {
        ""
    } else {
        version.group
    };
    let first = VERSIONS
        .iter()
        .find(|other| other.group == home && other.kinds.iter().any(|other| other.plural == row.plural));
    kind.stored.group = home.to_owned();
    kind.stored.version = first.map_or(version.version, |first| first.version).to_owned();
    kind
}

/// The order of versions in discovery: stable before beta before alpha, newer before older, others last by name.
#[doc(alias = "CompareKubeAwareVersionStrings")]
fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parse_version(a), parse_version(b)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// `v2beta1` as (stability, major, minor); `None` for any other shape.
fn parse_version(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let number = |text: &str| -> Option<u64> {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        if plain { text.parse().ok() } else { None }
    };
    for (word, stability) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_kinds_are_found_by_path_and_by_name() {
        let registry = Registry::builtin();

        let pods = registry.resource("", "v1", "pods").unwrap();
        assert_eq!(
            (pods.kind.as_str(), pods.list_kind.as_str(), pods.namespaced),
            ("Pod", "PodList", true)
        );
        assert_eq!(pods.api_version(), "v1");
        let deployments = registry.kind("apps", "v1", "Deployment").unwrap();
        assert_eq!(deployments.group_resource(), "deployments.apps");
        assert!(deployments.has_status() && deployments.scale.is_some());
        assert!(
            registry
                .resource("", "v1", "nodes")
                .is_some_and(|nodes| !nodes.namespaced)
        );
        assert!(registry.resource("apps", "v1beta1", "deployments").is_none());
    }

    #[test]
    fn only_stable_versions_are_served_unless_previews_are_enabled() {
        assert!(
            Registry::builtin()
                .iter()
                .all(|kind| !kind.version.contains("alpha"))
        );
        assert!(
            Registry::builtin()
                .resource("resource.k8s.io", "v1beta2", "deviceclasses")
                .is_none()
        );
        assert!(
            Registry::builtin_with_previews()
                .resource("resource.k8s.io", "v1beta2", "deviceclasses")
                .is_some()
        );
        assert!(!Registry::builtin().has_group("lifecycle.k8s.io"));
    }

    #[test]
    fn every_kind_points_to_a_stored_version_that_exists() {
        for registry in [Registry::builtin(), Registry::builtin_with_previews()] {
            for kind in registry.iter() {
                let home = (
                    kind.stored.group.clone(),
                    kind.stored.version.clone(),
                    kind.stored.plural.clone(),
                );
                let stored = registry
                    .kinds
                    .get(&home)
                    .unwrap_or_else(|| panic!("{home:?} does not exist"));
                assert_eq!(stored.stored, kind.stored);
            }
        }
        let registry = Registry::builtin();
        let events = registry.resource("events.k8s.io", "v1", "events").unwrap();
        assert_eq!(registry.stored(&events).group, "");
        let scalers = registry
            .resource("autoscaling", "v1", "horizontalpodautoscalers")
            .unwrap();
        assert_eq!(registry.stored(&scalers).version, "v2");
        assert_eq!(registry.sharing(&scalers.stored).len(), 2);
    }

    #[test]
    fn custom_groups_follow_built_in_groups() {
        let mut registry = Registry::builtin();
        registry.insert(Kind::new("b.example.com", "v1", "Widget"));
        registry.insert(Kind::new("a.example.com", "v1", "Gadget"));

        let groups = registry.groups();
        assert_eq!(groups.first().map(String::as_str), Some("apiregistration.k8s.io"));
        assert_eq!(groups.get(1).map(String::as_str), Some("apps"));
        assert_eq!(&groups[groups.len() - 2..], ["a.example.com", "b.example.com"]);
    }

    #[test]
    fn versions_are_ordered_by_stability_and_number() {
        let mut versions = [
            "foo10",
            "v1alpha1",
            "v1",
            "v10",
            "v2beta3",
            "v11alpha2",
            "v2",
            "v12beta1",
            "foo1",
            "v01",
        ];
        versions.sort_by(|a, b| compare_versions(a, b));

        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v12beta1",
                "v2beta3",
                "v11alpha2",
                "v1alpha1",
                "foo1",
                "foo10",
                "v01"
            ]
        );
        assert_eq!(Registry::builtin().versions("autoscaling"), ["v2", "v1"]);
    }

    #[test]
    fn custom_resources_can_be_removed_and_built_in_ones_cannot() {
        let mut registry = Registry::builtin();
        registry.insert(Kind::new("example.com", "v1", "Widget"));
        registry.insert(Kind::new("example.com", "v2", "Widget"));

        assert_eq!(registry.remove("example.com", "widgets").len(), 2);
        assert!(!registry.has_group("example.com"));
        assert!(registry.remove("", "pods").is_empty());
        assert!(registry.resource("", "v1", "pods").is_some());
    }

    #[test]
    fn names_are_taken_by_the_other_resources_of_the_group() {
        let mut registry = Registry::builtin();
        registry.insert(Kind::new("example.com", "v1", "Widget").short_name("wd"));

        let taken = registry.taken_names("example.com", |plural| plural == "wands");
        assert_eq!(Vec::from_iter(taken.resources), ["wd", "widget", "widgets"]);
        assert_eq!(Vec::from_iter(taken.kinds), ["Widget", "WidgetList"]);
        assert!(
            registry
                .taken_names("example.com", |plural| plural == "widgets")
                .resources
                .is_empty()
        );
        assert!(
            registry
                .taken_names("other.example.com", |_| false)
                .kinds
                .is_empty()
        );
    }
}
