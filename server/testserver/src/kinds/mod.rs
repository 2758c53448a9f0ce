//! The kinds of objects and their properties.
//!
//! A [`Kind`] is one version of one resource: its names, scope, verbs, subresources, columns and selectable fields.
//! The [`Registry`] finds kinds by path or by name. Independent of stored objects and of HTTP.

mod builtin;
pub(crate) mod client_config;
mod conversion;
mod convert;
mod crd;
mod fields;
mod registry;
mod scale;
pub(crate) mod structural;

use std::sync::{Arc, OnceLock};

use kube_api_protocol::resource::Resource;
use kube_protobuf::schema::{self, Message};
use serde_json::Value;

pub use kube_api_protocol::jsonpath::{JsonPath, JsonPathError};
pub use kube_api_protocol::resource::Column;

pub(crate) use conversion::Conversion;
pub(crate) use crd::{
    TakenNames, accepted_names, add_stored_version, initial_crd_status, is_established, next_crd_status,
    set_crd_defaults, validate_crd, validate_crd_update,
};
pub use registry::Registry;
pub(crate) use scale::ScaleError;

/// The verb sets of the built-in kinds.
pub mod verbs {
    /// All verbs of a stored resource.
    pub const STORED: &[&str] = &[
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    /// The same, in the order that discovery lists them for custom kinds.
    pub const CUSTOM: &[&str] = &[
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "create",
        "update",
        "watch",
    ];
    /// Namespaces cannot be deleted by collection.
    pub const NO_DELETECOLLECTION: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
    /// Requests such as access reviews: evaluated, not stored.
    pub const CREATE_ONLY: &[&str] = &["create"];
    /// Resources that clients cannot write.
    pub const READ_ONLY: &[&str] = &["get", "list"];
    /// The verbs of subresources that connect to a container.
    pub const CONNECT: &[&str] = &["create", "get"];
    /// The verbs of a proxy.
    pub const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];
    /// The verbs of most subresources.
    pub const SUBRESOURCE: &[&str] = &["get", "patch", "update"];
}

/// One version of one kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind, such as `Pod`.
    pub kind: String,
    /// The kind of a list, such as `PodList`.
    pub list_kind: String,
    /// The resource's name in URLs, such as `pods`.
    pub plural: String,
    /// The singular name, such as `pod`.
    pub singular: String,
    /// Short names, such as `po`.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Whether the kind is namespaced.
    pub namespaced: bool,
    /// The verbs of the resource.
    pub verbs: &'static [&'static str],
    /// Its subresources.
    pub subresources: Vec<Subresource>,
    /// The paths of the scale subresource; `None` if there is none.
    pub scale: Option<ScalePaths>,
    /// The collection and version in which objects are stored.
    pub stored: StoredAs,
    /// Whether the kind was added to the server rather than built in. Objects of such kinds contain `kind` and
    /// `apiVersion` also inside lists.
    pub custom: bool,
    /// Fields beyond name and namespace that a field selector may use, for custom kinds.
    pub selectable_fields: Vec<String>,
    /// The columns of a table, for custom kinds; empty means name and age.
    pub columns: Vec<Column>,
    /// The OpenAPI schema, for custom kinds.
    pub schema: Option<Arc<Value>>,
    /// The patterns of the schema, compiled by [`Kind::patterns`].
    compiled_patterns: OnceLock<structural::Patterns>,
    /// The rules of the schema, compiled by [`Kind::rules`].
    compiled_rules: OnceLock<Arc<structural::Rules>>,
    /// The text of the `Warning` header for deprecated versions of custom kinds.
    pub deprecation_warning: Option<String>,
    /// The webhook that converts objects between versions; `None` if they differ in their `apiVersion` only.
    pub(crate) conversion: Option<Arc<Conversion>>,
}

/// A path below one object, such as `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// The path segment.
    pub name: String,
    /// Group, version and kind of its body, where they differ from the parent's.
    pub body: Option<(&'static str, &'static str, &'static str)>,
    /// Its verbs.
    pub verbs: &'static [&'static str],
}

/// The paths that the scale subresource reads and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// The desired replicas, such as `.spec.replicas`.
    pub spec_replicas: JsonPath,
    /// The current replicas, such as `.status.replicas`.
    pub status_replicas: JsonPath,
    /// The selector as text or as an object, such as `.status.selector`.
    pub label_selector: Option<JsonPath>,
}

/// The collection and version in which objects are stored. Versions of one resource share a collection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredAs {
    /// The group of the collection.
    pub group: String,
    /// The storage version.
    pub version: String,
    /// The resource's name.
    pub plural: String,
}

impl Kind {
    /// A custom, namespaced kind without subresources, whose plural is the lower-case kind with an `s`.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        let (group, version, kind) = (group.into(), version.into(), kind.into());
        let singular = kind.to_lowercase();
        let plural = format!("{singular}s");
        Self {
            list_kind: format!("{kind}List"),
            stored: StoredAs {
                group: group.clone(),
                version: version.clone(),
                plural: plural.clone(),
            },
            group,
            version,
            kind,
            plural,
            singular,
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            verbs: verbs::CUSTOM,
            subresources: Vec::new(),
            scale: None,
            custom: true,
            selectable_fields: Vec::new(),
            columns: Vec::new(),
            schema: None,
            compiled_patterns: OnceLock::new(),
            compiled_rules: OnceLock::new(),
            deprecation_warning: None,
            conversion: None,
        }
    }

    /// Sets the resource's name in URLs.
    #[must_use]
    pub fn plural(mut self, plural: impl Into<String>) -> Self {
        self.plural = plural.into();
        self.stored.plural.clone_from(&self.plural);
        self
    }

    /// Makes the kind cluster-scoped.
    #[must_use]
    pub fn cluster_scoped(mut self) -> Self {
        self.namespaced = false;
        self
    }

    /// Adds a short name.
    #[must_use]
    pub fn short_name(mut self, short_name: impl Into<String>) -> Self {
        self.short_names.push(short_name.into());
        self
    }

    /// Adds a category.
    #[must_use]
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.categories.push(category.into());
        self
    }

    /// Adds the status subresource: writes to the object then ignore `status`, and writes to the status ignore the
    /// rest.
    #[must_use]
    pub fn with_status(mut self) -> Self {
        self.add_subresource("status");
        self
    }

    /// Adds the scale subresource over `.spec.replicas` and `.status.replicas`.
    #[must_use]
    pub fn with_scale(mut self) -> Self {
        self.scale = Some(ScalePaths {
            spec_replicas: JsonPath::fields(["spec", "replicas"]),
            status_replicas: JsonPath::fields(["status", "replicas"]),
            label_selector: Some(JsonPath::fields(["status", "selector"])),
        });
        self.add_subresource("scale");
        self
    }

    /// Allows a field in field selectors, such as `spec.color`.
    #[must_use]
    pub fn selectable_field(mut self, field: impl Into<String>) -> Self {
        self.selectable_fields
            .push(field.into().trim_start_matches('.').to_owned());
        self
    }

    /// Adds a column to the table of this kind.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, kind: impl Into<String>, path: JsonPath) -> Self {
        self.columns.push(Column {
            name: name.into(),
            kind: kind.into(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            path,
        });
        self
    }

    fn add_subresource(&mut self, name: &str) {
        if self.subresource(name).is_none() {
            self.subresources.push(Subresource::new(name));
        }
    }

    /// The kind as responses are written for it.
    pub(crate) fn resource(&self) -> Resource<'_> {
        Resource {
            group: &self.group,
            version: &self.version,
            kind: &self.kind,
            list_kind: &self.list_kind,
            plural: &self.plural,
            custom_columns: self.custom.then_some(self.columns.as_slice()),
        }
    }

    /// `v1` or `apps/v1`: the value of an object's `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The resource as messages name it: `pods` or `deployments.apps`.
    #[doc(alias = "GroupResource")]
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// The kind as messages name it: `Pod` or `Deployment.apps`.
    #[doc(alias = "GroupKind")]
    pub fn group_kind(&self) -> String {
        if self.group.is_empty() {
            self.kind.clone()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }

    /// Whether the resource supports a verb, such as `watch`.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Whether objects of the kind are stored; reviews and bindings are not.
    pub fn is_stored(&self) -> bool {
        self.allows("list") && self.allows("create")
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources
            .iter()
            .find(|subresource| subresource.name == name)
    }

    /// Whether there is a status subresource.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The regular expressions of the schema, compiled on first use. Do not call it while holding a lock of the server.
    pub(crate) fn patterns(&self) -> &structural::Patterns {
        self.compiled_patterns.get_or_init(|| {
            self.schema
                .as_deref()
                .map(structural::Patterns::compile)
                .unwrap_or_default()
        })
    }

    /// The rules of the schema, compiled on first use. Do not call it while holding a lock of the server.
    pub(crate) fn rules(&self) -> &structural::Rules {
        self.compiled_rules.get_or_init(|| {
            let rules = self
                .schema
                .as_deref()
                .map(|schema| structural::Rules::compile(schema, ""));
            Arc::new(rules.unwrap_or_default())
        })
    }

    /// The protobuf schema of the kind; custom kinds have none.
    pub(crate) fn message(&self) -> Option<&'static Message> {
        if self.custom {
            return None;
        }
        schema::lookup(&self.api_version(), &self.kind)
    }

    /// Whether list items contain `kind` and `apiVersion`: true for custom kinds, false for built-in ones.
    pub fn items_carry_type(&self) -> bool {
        self.custom
    }
}

impl Subresource {
    /// A subresource by name; well-known ones get their own body kind and verbs.
    pub fn new(name: &str) -> Self {
        let (body, verbs) = match name {
            "scale" => (Some(("autoscaling", "v1", "Scale")), verbs::SUBRESOURCE),
            "eviction" => (Some(("policy", "v1", "Eviction")), verbs::CREATE_ONLY),
            "binding" => (Some(("", "v1", "Binding")), verbs::CREATE_ONLY),
            "token" => (
                Some(("authentication.k8s.io", "v1", "TokenRequest")),
                verbs::CREATE_ONLY,
            ),
            "log" => (None, &["get"][..]),
            "attach" => (Some(("", "v1", "PodAttachOptions")), verbs::CONNECT),
            "exec" => (Some(("", "v1", "PodExecOptions")), verbs::CONNECT),
            "portforward" => (Some(("", "v1", "PodPortForwardOptions")), verbs::CONNECT),
            "proxy" => (Some(("", "v1", "PodProxyOptions")), verbs::PROXY),
            "finalize" => (None, &["update"][..]),
            _ => (None, verbs::SUBRESOURCE),
        };
        Self {
            name: name.to_owned(),
            body,
            verbs,
        }
    }
}
