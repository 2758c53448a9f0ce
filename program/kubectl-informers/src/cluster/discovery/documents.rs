//! The discovery documents: as servers send them, and as kubectl keeps them on disk.

use serde::{Deserialize, Serialize};

use crate::objects::kinds::{Catalogue, Group, Kind};

/// All discovery documents, in the form kubectl caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Documents {
    /// The groups, the core group first.
    pub groups: GroupList,
    /// One for each version of each group that answered.
    pub resources: Vec<ResourceList>,
}

/// `APIGroupList`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupList {
    #[serde(default)]
    pub kind: String,
    #[serde(default, rename = "apiVersion")]
    pub api_version: String,
    #[serde(default)]
    pub groups: Vec<ApiGroup>,
}

/// `APIGroup`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiGroup {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub versions: Vec<GroupVersion>,
    #[serde(default)]
    pub preferred_version: Option<GroupVersion>,
}

/// `GroupVersionForDiscovery`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupVersion {
    #[serde(default)]
    pub group_version: String,
    #[serde(default)]
    pub version: String,
}

/// `APIResourceList`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceList {
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub group_version: String,
    #[serde(default)]
    pub resources: Vec<ApiResource>,
}

/// `APIResource`, a subresource if its name has a slash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiResource {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub singular_name: String,
    #[serde(default)]
    pub namespaced: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub verbs: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub short_names: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub storage_version_hash: String,
}

/// `APIGroupDiscoveryList`: everything in one response.
#[derive(Deserialize)]
pub struct Aggregated {
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub items: Vec<AggregatedGroup>,
}

#[derive(Deserialize)]
pub struct AggregatedGroup {
    #[serde(default)]
    metadata: AggregatedMetadata,
    #[serde(default)]
    versions: Vec<AggregatedVersion>,
}

#[derive(Default, Deserialize)]
struct AggregatedMetadata {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct AggregatedVersion {
    version: String,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    #[serde(default)]
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    subresources: Vec<AggregatedSubresource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedSubresource {
    subresource: String,
    #[serde(default)]
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Default, Deserialize)]
struct ResponseKind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
}

impl GroupList {
    /// With `kind` and `apiVersion`.
    pub fn new(groups: Vec<ApiGroup>) -> Self {
        Self {
            kind: "APIGroupList".to_owned(),
            api_version: "v1".to_owned(),
            groups,
        }
    }
}

impl ResourceList {
    /// With `kind` and `apiVersion`.
    pub fn new(group_version: String, resources: Vec<ApiResource>) -> Self {
        Self {
            kind: "APIResourceList".to_owned(),
            api_version: "v1".to_owned(),
            group_version,
            resources,
        }
    }
}

/// `v1`, `apps/v1`.
pub fn group_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

impl AggregatedGroup {
    /// The same in the older format.
    pub fn split(self) -> (ApiGroup, Vec<ResourceList>) {
        let name = self.metadata.name;
        let versions: Vec<GroupVersion> = self
            .versions
            .iter()
            .map(|version| GroupVersion {
                group_version: group_version(&name, &version.version),
                version: version.version.clone(),
            })
            .collect();
        let resources = self
            .versions
            .into_iter()
            .map(|version| {
                let group_version = group_version(&name, &version.version);
                let resources = version.resources.into_iter();
                ResourceList::new(
                    group_version,
                    resources.flat_map(AggregatedResource::split).collect(),
                )
            })
            .collect();
        let group = ApiGroup {
            name,
            preferred_version: versions.first().cloned(),
            versions,
        };
        (group, resources)
    }
}

impl AggregatedResource {
    /// The resource, then its subresources.
    fn split(self) -> Vec<ApiResource> {
        let namespaced = self.scope == "Namespaced";
        let own = self.response_kind.unwrap_or_default();
        let subresources: Vec<ApiResource> = self
            .subresources
            .into_iter()
            .map(|sub| {
                let body = sub.response_kind.unwrap_or_default();
                ApiResource {
                    name: format!("{}/{}", self.resource, sub.subresource),
                    namespaced,
                    group: body.group,
                    version: body.version,
                    kind: body.kind,
                    verbs: sub.verbs,
                    ..ApiResource::default()
                }
            })
            .collect();
        let resource = ApiResource {
            name: self.resource,
            singular_name: self.singular_resource,
            namespaced,
            kind: own.kind,
            verbs: self.verbs,
            short_names: self.short_names,
            categories: self.categories,
            ..ApiResource::default()
        };
        std::iter::once(resource).chain(subresources).collect()
    }
}

impl Documents {
    /// The kinds, in the server's order. Group versions that failed are omitted.
    pub fn catalogue(&self) -> Catalogue {
        let groups = self.groups.groups.iter().map(|group| {
            let mut versions: Vec<&GroupVersion> = group.versions.iter().collect();
            // The preferred one first; the sort is stable.
            versions.sort_by_key(|version| Some(*version) != group.preferred_version.as_ref());
            Group {
                name: group.name.clone(),
                versions: versions
                    .into_iter()
                    .filter_map(|version| {
                        let list = self
                            .resources
                            .iter()
                            .find(|list| list.group_version == version.group_version)?;
                        let kinds = list
                            .resources
                            .iter()
                            .filter(|resource| !resource.name.contains('/'));
                        Some((
                            version.version.clone(),
                            kinds
                                .map(|resource| kind(&group.name, &version.version, resource))
                                .collect(),
                        ))
                    })
                    .collect(),
            }
        });
        Catalogue {
            groups: groups.collect(),
        }
    }
}

fn kind(group: &str, version: &str, resource: &ApiResource) -> Kind {
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: resource.kind.clone(),
        plural: resource.name.clone(),
        // Older servers leave it empty for built-in kinds.
        singular: match resource.singular_name.as_str() {
            "" => resource.kind.to_lowercase(),
            singular => singular.to_owned(),
        },
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        namespaced: resource.namespaced,
        verbs: resource.verbs.clone(),
    }
}
