//! Validates CustomResourceDefinitions.
//!
//! The rules and messages are those of `apiextensions.k8s.io/v1`. Of the schema its root, its patterns and its rules
//! (`x-kubernetes-validations`) are checked.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::jsonpath::JsonPath;
use kube_api_protocol::names;
use serde_json::{Value, json};

use super::{Names, flag, is_established, items, text};
use crate::kinds::client_config;
use crate::kinds::structural;

const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] = &[
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];
const MAX_SELECTABLE_FIELDS: usize = 8;

/// The validation errors of a definition whose defaults are set. Compiles patterns and rules, so do not call it while
/// holding a lock of the server.
#[doc(alias = "ValidateCustomResourceDefinition")]
pub fn validate_crd(definition: &Value) -> Vec<FieldError> {
    validate(definition, Some(&Value::Null))
}

/// The same without compiling anything, for a definition that was validated when it was written.
pub fn validate_crd_form(definition: &Value) -> Vec<FieldError> {
    validate(definition, None)
}

/// Patterns and rules are compiled if `old` is given: the definition before a change, or null.
fn validate(definition: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let (group, names) = (text(spec, "group"), Names::of(definition));

    let name = definition
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        let mut broken = names::dns_1123_subdomain(name);
        if name != format!("{}.{group}", names.plural) {
            broken.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        errors.extend(
            broken
                .into_iter()
                .map(|rule| FieldError::invalid("metadata.name", name, rule)),
        );
    }

    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if let broken = names::dns_1123_subdomain(group)
        && !broken.is_empty()
    {
        errors.push(FieldError::invalid("spec.group", group, broken.join(",")));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", group, detail));
    }
    match text(spec, "scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported(
            "spec.scope",
            other,
            &["Cluster", "Namespaced"],
        )),
    }
    validate_versions(spec, old, &mut errors);
    validate_names(&names, &mut errors);
    let conversion = spec.get("conversion").unwrap_or(&Value::Null);
    validate_conversion(conversion, &mut errors);
    if old.is_some_and(requires_valid_bundle) && !has_valid_bundle(conversion) {
        errors.push(FieldError::invalid(
            "spec.conversion.webhookClientConfig.caBundle",
            conversion["webhook"]["clientConfig"]["caBundle"].clone(),
            "unable to load root certificates: unable to parse bytes as PEM block",
        ));
    }
    if (group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io"))
        && definition
            .pointer("/metadata/annotations/api-approved.kubernetes.io")
            .is_none()
    {
        errors.push(FieldError::required(
            "metadata.annotations[api-approved.kubernetes.io]",
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
             https://github.com/kubernetes/enhancements/pull/1111",
        ));
    }
    errors
}

/// The strategy, and the endpoint if it is a webhook. The fields of errors are those of the internal version, as on a real server.
fn validate_conversion(conversion: &Value, errors: &mut Vec<FieldError>) {
    const AT: &str = "spec.conversion";
    let strategy = text(conversion, "strategy");
    match strategy {
        "None" | "Webhook" => {}
        "" => errors.push(FieldError::required(format!("{AT}.strategy"), "")),
        other => {
            let field = format!("{AT}.strategy");
            errors.push(FieldError::not_supported(field, other, &["None", "Webhook"]));
        }
    }
    let webhook = conversion.get("webhook").unwrap_or(&Value::Null);
    let client = webhook.get("clientConfig").filter(|client| !client.is_null());
    let versions = items(webhook, "conversionReviewVersions");
    let (at_client, at_versions) = (
        format!("{AT}.webhookClientConfig"),
        format!("{AT}.conversionReviewVersions"),
    );
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.push(FieldError::forbidden(at_client, detail));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(at_versions, detail));
        }
        return;
    }
    match client {
        Some(client) => client_config::check_client(client, &at_client, errors),
        None => errors.push(FieldError::required(
            at_client,
            "required when strategy is set to Webhook",
        )),
    }
    let versions: Vec<&str> = versions.iter().filter_map(Value::as_str).collect();
    client_config::check_review_versions(&versions, "", &at_versions, errors);
}

/// Whether the bundle of a webhook is empty or has a certificate in PEM.
fn has_valid_bundle(conversion: &Value) -> bool {
    let bundle = conversion.pointer("/webhook/clientConfig/caBundle");
    let bundle = bundle.and_then(Value::as_str).unwrap_or_default();
    let decoded = STANDARD.decode(bundle).unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded);
    bundle.is_empty() || text.contains("-----BEGIN CERTIFICATE-----")
}

/// Whether a changed definition must have a valid bundle: one that is served, unless its bundle was invalid before.
fn requires_valid_bundle(old: &Value) -> bool {
    let conditions = old.get("status").map(|status| items(status, "conditions"));
    let mut conditions = conditions.unwrap_or_default().iter();
    let is_served = conditions
        .any(|condition| text(condition, "type") == "Established" && text(condition, "status") == "True");
    is_served && has_valid_bundle(old.pointer("/spec/conversion").unwrap_or(&Value::Null))
}

/// The validation errors of replacing `old` by `new`: the rules for a new definition, plus immutable fields.
#[doc(alias = "ValidateCustomResourceDefinitionUpdate")]
pub fn validate_crd_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate(new, Some(old));
    // Nothing is stored before the definition is established.
    let established = is_established(old);
    for (pointer, immutable) in [
        ("/spec/scope", established),
        ("/spec/names/kind", established),
        ("/spec/group", true),
        ("/spec/names/plural", true),
    ] {
        let (after, before) = (new.pointer(pointer), old.pointer(pointer));
        if immutable && after != before {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            let value = after.cloned().unwrap_or(Value::Null);
            errors.push(FieldError::invalid(field, value, "field is immutable"));
        }
    }
    errors
}

fn validate_names(names: &Names, errors: &mut Vec<FieldError>) {
    let mut check = |field: &str, value: &str, required: bool, mixed_case: bool| {
        let field = format!("spec.names.{field}");
        if value.is_empty() && required {
            errors.push(FieldError::required(field, ""));
            return;
        }
        let broken = if mixed_case {
            names::dns_1035_label(&value.to_lowercase())
        } else {
            names::dns_1035_label(value)
        };
        if !broken.is_empty() {
            let lead = if mixed_case {
                "may have mixed case, but should otherwise match: "
            } else {
                ""
            };
            errors.push(FieldError::invalid(
                field,
                value,
                format!("{lead}{}", broken.join(",")),
            ));
        }
    };
    check("plural", &names.plural, true, false);
    check("singular", &names.singular, true, false);
    check("kind", &names.kind, true, true);
    check("listKind", &names.list_kind, true, true);
    for (index, short) in names.short_names.iter().enumerate() {
        check(&format!("shortNames[{index}]"), short, false, false);
    }
    for (index, category) in names.categories.iter().enumerate() {
        check(&format!("categories[{index}]"), category, false, false);
    }
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(
            "spec.names.listKind",
            names.list_kind.as_str(),
            detail,
        ));
    }
}

fn validate_versions(spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let versions = spec
        .get("versions")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut seen: Vec<&str> = Vec::new();
    let mut unique = true;
    // A real server validates a schema that all versions share once, as the schema of the definition.
    let mut schemas = versions.iter().map(schema_of);
    let is_shared = schemas
        .next()
        .is_some_and(|first| !first.is_null() && schemas.all(|schema| schema == first));
    for (index, version) in versions.iter().enumerate() {
        let field = format!("spec.versions[{index}]");
        let name = text(version, "name");
        let broken = names::dns_1035_label(name);
        if !broken.is_empty() {
            errors.push(FieldError::invalid(
                format!("{field}.name"),
                name,
                broken.join(","),
            ));
        }
        unique &= !seen.contains(&name);
        seen.push(name);
        match is_shared {
            true if index == 0 => validate_schema(version, "spec.validation.openAPIV3Schema", old, errors),
            true => {}
            false => validate_schema(version, &format!("{field}.schema.openAPIV3Schema"), old, errors),
        }
        validate_version(version, &field, errors);
    }
    if !unique {
        let detail = "must contain unique version names";
        errors.push(FieldError::invalid("spec.versions", json!(versions), detail));
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", json!(versions), detail));
    }
}

fn schema_of(version: &Value) -> &Value {
    version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null)
}

fn validate_schema(version: &Value, field: &str, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let schema = schema_of(version);
    if schema.is_null() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    if let Some(old) = old {
        let before = old
            .get("spec")
            .map(|spec| items(spec, "versions"))
            .unwrap_or_default();
        let is_unchanged = before
            .iter()
            .any(|before| text(before, "name") == text(version, "name") && schema_of(before) == schema);
        errors.extend(structural::invalid_patterns(schema, field));
        errors.extend(structural::invalid_rules(schema, field, is_unchanged));
    }
    match text(schema, "type") {
        "object" => {}
        "" => {
            let detail = "must not be empty at the root";
            errors.push(FieldError::required(format!("{field}.type"), detail));
        }
        other => {
            let detail = "must be object at the root";
            errors.push(FieldError::invalid(format!("{field}.type"), other, detail));
        }
    }
}

fn validate_version(version: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let schema = version.pointer("/schema/openAPIV3Schema");
    for (index, column) in items(version, "additionalPrinterColumns").iter().enumerate() {
        validate_column(
            column,
            &format!("{field}.additionalPrinterColumns[{index}]"),
            errors,
        );
    }
    if let Some(scale) = version
        .pointer("/subresources/scale")
        .filter(|scale| !scale.is_null())
    {
        let field = format!("{field}.subresources.scale");
        for (name, root, required) in [
            ("specReplicasPath", &[".spec."][..], true),
            ("statusReplicasPath", &[".status."], true),
            ("labelSelectorPath", &[".spec.", ".status."], false),
        ] {
            validate_scale_path(
                text(scale, name),
                &format!("{field}.{name}"),
                root,
                required,
                errors,
            );
        }
    }
    let selectable = items(version, "selectableFields");
    for (index, item) in selectable.iter().enumerate() {
        let field = format!("{field}.selectableFields[{index}].jsonPath");
        let path = text(item, "jsonPath");
        let repeated = selectable
            .iter()
            .take(index)
            .any(|earlier| text(earlier, "jsonPath") == path);
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if !path.starts_with('.') || path.contains('[') || path.parse::<JsonPath>().is_err() {
            errors.push(FieldError::invalid(field, path, "is an invalid path"));
        } else if path == ".metadata" || path.starts_with(".metadata.") {
            errors.push(FieldError::invalid(
                field,
                path,
                "must not point to fields in metadata",
            ));
        } else if !schema.is_some_and(|schema| is_scalar(schema, path)) {
            errors.push(FieldError::invalid(
                field,
                path,
                "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                 formats are allowed.",
            ));
        } else if repeated {
            errors.push(FieldError::duplicate(field, path));
        }
    }
    if selectable.len() > MAX_SELECTABLE_FIELDS {
        let field = format!("{field}.selectableFields");
        errors.push(FieldError::too_many(
            field,
            selectable.len(),
            MAX_SELECTABLE_FIELDS,
        ));
    }
}

fn validate_column(column: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let (kind, format, path) = (
        text(column, "type"),
        text(column, "format"),
        text(column, "jsonPath"),
    );
    if text(column, "name").is_empty() {
        errors.push(FieldError::required(format!("{field}.name"), ""));
    }
    let one_of = |allowed: &[&str]| format!("must be one of {}", allowed.join(","));
    if kind.is_empty() {
        errors.push(FieldError::required(
            format!("{field}.type"),
            one_of(COLUMN_TYPES),
        ));
    } else if !COLUMN_TYPES.contains(&kind) {
        errors.push(FieldError::invalid(
            format!("{field}.type"),
            kind,
            one_of(COLUMN_TYPES),
        ));
    }
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        errors.push(FieldError::invalid(
            format!("{field}.format"),
            format,
            one_of(COLUMN_FORMATS),
        ));
    }
    let field = format!("{field}.JSONPath");
    if path.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !path.starts_with('.') {
        errors.push(FieldError::invalid(
            field,
            path,
            "must be a simple json path starting with .",
        ));
    }
}

fn validate_scale_path(
    path: &str,
    field: &str,
    roots: &[&str],
    required: bool,
    errors: &mut Vec<FieldError>,
) {
    if path.is_empty() {
        if required {
            errors.push(FieldError::required(field, ""));
        }
    } else if !path.starts_with('.') {
        errors.push(FieldError::invalid(
            field,
            path,
            "must be a simple json path starting with .",
        ));
    } else if !roots.iter().any(|root| path.starts_with(root)) {
        let detail = match roots {
            [root] => format!("should be a json path under {}", root.trim_end_matches('.')),
            _ => "should be a json path under either .spec or .status".to_owned(),
        };
        errors.push(FieldError::invalid(field, path, detail));
    }
}

/// Whether a dotted path points to a string, boolean or integer of the schema.
fn is_scalar(schema: &Value, path: &str) -> bool {
    let mut place = Some(schema);
    for name in path.split('.').skip(1) {
        place = place
            .and_then(|place| place.get("properties"))
            .and_then(|properties| properties.get(name));
    }
    place.is_some_and(|place| matches!(text(place, "type"), "string" | "boolean" | "integer"))
}

#[cfg(test)]
mod tests {
    use super::super::set_crd_defaults;
    use super::super::tests::widgets;
    use super::*;

    fn broken(pointer: &str, value: Value) -> Vec<String> {
        let mut definition = widgets();
        set_crd_defaults(&mut definition);
        *definition.pointer_mut(pointer).unwrap() = value;
        validate_crd(&definition)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn validation_errors_match_a_real_server() {
        assert_eq!(broken("/spec/group", json!("example.com")), Vec::<String>::new());
        assert_eq!(
            broken("/metadata/name", json!("gadgets.example.com")),
            [
                "metadata.name: Invalid value: \"gadgets.example.com\": must be spec.names.plural+\".\"+spec.group"
            ]
        );
        assert_eq!(
            broken("/spec/scope", json!("Moon")),
            ["spec.scope: Unsupported value: \"Moon\": supported values: \"Cluster\", \"Namespaced\""]
        );
        assert_eq!(
            broken("/spec/names/kind", json!("")),
            ["spec.names.kind: Required value"]
        );
        assert_eq!(
            broken("/spec/versions/0/schema", json!({})),
            [
                "spec.versions[0].schema.openAPIV3Schema: Required value",
                "spec.versions[0].selectableFields[0].jsonPath: Invalid value: \".spec.color\": must point to a \
                 field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            ]
        );
        assert_eq!(
            broken("/spec/versions/0/additionalPrinterColumns/0/type", json!("text")),
            [
                "spec.versions[0].additionalPrinterColumns[0].type: Invalid value: \"text\": must be one of \
              boolean,date,integer,number,string"
            ]
        );
        assert_eq!(
            broken(
                "/spec/versions/0/subresources/scale/specReplicasPath",
                json!(".status.size")
            ),
            [
                "spec.versions[0].subresources.scale.specReplicasPath: Invalid value: \".status.size\": should be a \
              json path under .spec"
            ]
        );
        let storage = broken("/spec/versions/0/storage", json!(false));
        assert!(
            storage[0].ends_with("must have exactly one version marked as storage version"),
            "{storage:?}"
        );
        let twice = broken("/spec/versions/1/name", json!("v1"));
        assert!(
            twice[0].ends_with("must contain unique version names"),
            "{twice:?}"
        );
    }

    #[test]
    fn scope_and_names_are_immutable() {
        let mut new = widgets();
        set_crd_defaults(&mut new);
        let mut old = new.clone();
        assert!(validate_crd_update(&new, &old).is_empty());

        old["spec"]["scope"] = json!("Cluster");
        old["spec"]["names"]["kind"] = json!("Wand");
        assert!(validate_crd_update(&new, &old).is_empty());
        old["status"] = json!({ "conditions": [{ "type": "Established", "status": "True" }] });
        assert_eq!(validate_crd_update(&new, &old).len(), 2);
        assert_eq!(
            validate_crd_update(&new, &old)[0].to_string(),
            "spec.scope: Invalid value: \"Namespaced\": field is immutable"
        );
    }
}
