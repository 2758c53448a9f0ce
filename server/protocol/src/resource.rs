//! The resource that a response is about, as far as the way it is written depends on it.

use serde_json::{Map, Value, json};

use crate::jsonpath::JsonPath;

/// One version of one resource.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The version, such as `v1`.
    pub version: &'a str,
    /// The kind, such as `Pod`.
    pub kind: &'a str,
    /// The kind of a list, such as `PodList`.
    pub list_kind: &'a str,
    /// The name in URLs, such as `pods`.
    pub plural: &'a str,
    /// The columns of a custom resource; empty means name and age. `None` for a built-in one, whose columns are known.
    pub custom_columns: Option<&'a [Column]>,
}

/// One column of the table that `kubectl get` prints for a custom kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// A hint such as `int32`; often empty.
    pub format: String,
    /// A description.
    pub description: String,
    /// 0 for columns that are always shown; other columns are shown with `-o wide` only.
    pub priority: i64,
    /// The path of the value.
    pub path: JsonPath,
}

/// The annotation of a daemon set with the number of its templates. It belongs to a version that no longer exists, in which the number
/// was a field, as it still is in Go's internal type.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

impl Resource<'_> {
    /// `v1` or `apps/v1`: the value of an object's `apiVersion`.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Whether it is custom. Lists of built-in resources leave the type out of their items.
    pub fn is_custom(&self) -> bool {
        self.custom_columns.is_some()
    }

    fn is_daemon_set(&self) -> bool {
        self.group == "apps" && self.kind == "DaemonSet"
    }

    /// The annotations of a bookmark, which is converted from an empty object of the internal type.
    pub(crate) fn bookmark_annotations(&self) -> Map<String, Value> {
        let mut annotations = Map::new();
        if self.is_daemon_set() {
            annotations.insert(TEMPLATE_GENERATION.to_owned(), json!("0"));
        }
        annotations
    }

    /// Whether metadata that is shown alone differs from that of the whole object: it is taken from the internal type.
    pub fn has_internal_metadata(&self) -> bool {
        self.is_daemon_set()
    }
}

/// The metadata of a daemon set in the internal type.
pub fn internal_metadata(mut metadata: Value) -> Value {
    let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
    let emptied = annotations.is_some_and(|annotations| {
        annotations.remove(TEMPLATE_GENERATION);
        annotations.is_empty()
    });
    if let Some(metadata) = metadata.as_object_mut().filter(|_| emptied) {
        metadata.remove("annotations");
    }
    metadata
}
