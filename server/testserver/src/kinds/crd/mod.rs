//! CustomResourceDefinitions as JSON: sets defaults, validates, computes the status and the declared kinds.

mod status;
mod validate;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Column, Kind, ScalePaths, StoredAs};
use crate::kinds::Conversion;

pub(crate) use status::{
    TakenNames, accepted_names, add_stored_version, initial_crd_status, is_established, next_crd_status,
};
pub use validate::{validate_crd, validate_crd_form, validate_crd_update};

/// The names of a custom resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The resource's name in URLs (plural).
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// The kind.
    pub kind: String,
    /// The kind of a list.
    pub list_kind: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories.
    pub categories: Vec<String>,
}

impl Names {
    /// The names in `spec.names` of a definition; missing ones are empty.
    pub fn of(definition: &Value) -> Self {
        Self::at(definition, "/spec/names")
    }

    /// The names that were accepted so far.
    fn accepted(definition: &Value) -> Self {
        Self::at(definition, "/status/acceptedNames")
    }

    fn at(definition: &Value, pointer: &str) -> Self {
        Self::from_json(definition.pointer(pointer).unwrap_or(&Value::Null))
    }

    fn from_json(names: &Value) -> Self {
        Self {
            plural: text(names, "plural").to_owned(),
            singular: text(names, "singular").to_owned(),
            kind: text(names, "kind").to_owned(),
            list_kind: text(names, "listKind").to_owned(),
            short_names: texts(names, "shortNames"),
            categories: texts(names, "categories"),
        }
    }

    fn to_json(&self) -> Value {
        let mut names = json!({ "plural": self.plural, "kind": self.kind });
        if let Value::Object(fields) = &mut names {
            for (name, text) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
                if !text.is_empty() {
                    fields.insert(name.to_owned(), json!(text));
                }
            }
            for (name, list) in [
                ("shortNames", &self.short_names),
                ("categories", &self.categories),
            ] {
                if !list.is_empty() {
                    fields.insert(name.to_owned(), json!(list));
                }
            }
        }
        names
    }
}

/// Sets the defaults of a definition: singular, list kind and conversion strategy.
#[doc(alias = "SetDefaults_CustomResourceDefinition")]
pub fn set_crd_defaults(definition: &mut Value) {
    let Some(Value::Object(spec)) = definition.get_mut("spec") else {
        return;
    };
    spec.entry("conversion")
        .or_insert_with(|| json!({ "strategy": "None" }));
    if let Some(Value::Object(service)) = spec
        .get_mut("conversion")
        .and_then(|conversion| conversion.pointer_mut("/webhook/clientConfig/service"))
    {
        service.entry("port").or_insert_with(|| json!(443));
    }
    let Some(Value::Object(names)) = spec.get_mut("names") else {
        return;
    };
    let kind = names
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if kind.is_empty() {
        return;
    }
    for (name, value) in [
        ("singular", kind.to_lowercase()),
        ("listKind", format!("{kind}List")),
    ] {
        if names.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
            names.insert(name.to_owned(), Value::String(value));
        }
    }
}

/// The kinds of a valid definition: one for each served version.
pub(super) fn kinds(definition: &Value) -> Vec<Kind> {
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let names = Names::of(definition);
    let conversion = Conversion::of(definition).map(Arc::new);
    let served = items(spec, "versions")
        .iter()
        .filter(|version| flag(version, "served"));
    served
        .map(|version| {
            let mut kind = Kind::new(text(spec, "group"), text(version, "name"), names.kind.as_str());
            kind.plural.clone_from(&names.plural);
            kind.singular.clone_from(&names.singular);
            kind.list_kind.clone_from(&names.list_kind);
            kind.short_names.clone_from(&names.short_names);
            kind.categories.clone_from(&names.categories);
            kind.namespaced = text(spec, "scope") == "Namespaced";
            kind.stored = StoredAs {
                group: kind.group.clone(),
                version: storage_version(definition).unwrap_or_else(|| kind.version.clone()),
                plural: names.plural.clone(),
            };
            kind.conversion.clone_from(&conversion);
            kind.schema = version.pointer("/schema/openAPIV3Schema").cloned().map(Arc::new);
            kind.columns = items(version, "additionalPrinterColumns")
                .iter()
                .filter_map(column)
                .collect();
            kind.selectable_fields = items(version, "selectableFields")
                .iter()
                .map(|item| text(item, "jsonPath").trim_start_matches('.').to_owned())
                .collect();
            if version
                .pointer("/subresources/status")
                .is_some_and(|status| !status.is_null())
            {
                kind.add_subresource("status");
            }
            if let Some(scale) = version
                .pointer("/subresources/scale")
                .filter(|scale| !scale.is_null())
            {
                kind.scale = scale_paths(scale);
                kind.add_subresource("scale");
            }
            if flag(version, "deprecated") {
                let said = version.get("deprecationWarning").and_then(Value::as_str);
                let usual = || format!("{} {} is deprecated", kind.api_version(), kind.kind);
                kind.deprecation_warning = Some(said.map_or_else(usual, str::to_owned));
            }
            kind
        })
        .collect()
}

/// A column; `None` if its path is not supported. A real server leaves such a cell empty.
fn column(column: &Value) -> Option<Column> {
    Some(Column {
        name: text(column, "name").to_owned(),
        kind: text(column, "type").to_owned(),
        format: text(column, "format").to_owned(),
        description: text(column, "description").to_owned(),
        priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
        path: text(column, "jsonPath").parse().ok()?,
    })
}

fn scale_paths(scale: &Value) -> Option<ScalePaths> {
    Some(ScalePaths {
        spec_replicas: text(scale, "specReplicasPath").parse().ok()?,
        status_replicas: text(scale, "statusReplicasPath").parse().ok()?,
        label_selector: match text(scale, "labelSelectorPath") {
            "" => None,
            path => path.parse().ok(),
        },
    })
}

fn storage_version(definition: &Value) -> Option<String> {
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    versions
        .iter()
        .find(|version| flag(version, "storage"))
        .map(|version| text(version, "name").to_owned())
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or(false)
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value
        .get(field)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    items(value, field)
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Registry;
    use super::*;

    pub(super) fn widgets() -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "widgets.example.com" },
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": { "plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"] },
                "versions": [
                    {
                        "name": "v1", "served": true, "storage": true,
                        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                            "spec": { "type": "object", "properties": { "color": { "type": "string" } } },
                        } } },
                        "subresources": { "status": {}, "scale": {
                            "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
                        } },
                        "additionalPrinterColumns": [
                            { "name": "Color", "type": "string", "jsonPath": ".spec.color" },
                        ],
                        "selectableFields": [{ "jsonPath": ".spec.color" }],
                    },
                    {
                        "name": "v1beta1", "served": true, "storage": false, "deprecated": true,
                        "schema": { "openAPIV3Schema": { "type": "object" } },
                    },
                    {
                        "name": "v1alpha1", "served": false, "storage": false,
                        "schema": { "openAPIV3Schema": { "type": "object" } },
                    },
                ],
            },
        })
    }

    #[test]
    fn definition_declares_one_kind_per_served_version() {
        let mut registry = Registry::builtin();
        let kinds = registry.insert_crd(&widgets()).unwrap();

        assert_eq!(
            kinds.iter().map(|kind| kind.version.as_str()).collect::<Vec<_>>(),
            ["v1", "v1beta1"]
        );
        let v1 = registry.resource("example.com", "v1", "widgets").unwrap();
        assert_eq!(
            (v1.singular.as_str(), v1.list_kind.as_str()),
            ("widget", "WidgetList")
        );
        assert!(v1.custom && v1.namespaced && v1.has_status() && v1.items_carry_type());
        assert_eq!(v1.columns.len(), 1);
        assert_eq!(v1.selectable_fields, ["spec.color"]);
        let mut object = json!({});
        v1.write_scale(&mut object, &json!({ "spec": { "replicas": 3 } }))
            .unwrap();
        assert_eq!(object, json!({ "spec": { "size": 3 } }));

        let beta = registry.kind("example.com", "v1beta1", "Widget").unwrap();
        assert_eq!(beta.stored, v1.stored);
        assert_eq!(
            beta.deprecation_warning.as_deref(),
            Some("example.com/v1beta1 Widget is deprecated")
        );
        assert!(!beta.has_status());
    }

    #[test]
    fn changed_definition_replaces_its_versions() {
        let mut registry = Registry::builtin();
        registry.insert_crd(&widgets()).unwrap();
        let mut definition = widgets();
        definition["spec"]["versions"][1]["served"] = json!(false);
        registry.insert_crd(&definition).unwrap();

        assert!(registry.resource("example.com", "v1beta1", "widgets").is_none());
        assert!(registry.resource("example.com", "v1", "widgets").is_some());
    }

    #[test]
    fn arbitrary_json_is_rejected_without_a_panic() {
        for odd in [
            json!(null),
            json!([]),
            json!({ "spec": 3 }),
            json!({ "spec": { "versions": "x", "names": 1 } }),
        ] {
            assert!(Registry::builtin().insert_crd(&odd).is_err(), "{odd}");
        }
    }
}
