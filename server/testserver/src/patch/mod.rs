//! Applies patches to objects.
//!
//! Pure functions over JSON. They validate the patch, not the result: the caller validates names, versions and
//! everything else that a write must satisfy.

mod apply;
mod compare;
mod fieldset;
mod fit;
mod json;
mod managed;
mod shape;
mod strategic;

use std::fmt;

use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::go_json;
use kube_api_protocol::status::ApiError;
use serde_json::{Map, Value};

use crate::kinds::Kind;

pub use apply::apply;
pub(crate) use apply::check_applied;
pub(crate) use fit::{Misfits, go_value, misfits, misfits_of};
pub use json::json_patch;
pub use managed::{Manager, manager_name, track_update};
pub use strategic::strategic_merge_patch;

/// The patch type, from the content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json`: a list of operations.
    Json,
    /// `application/merge-patch+json`: fields to set, null to remove.
    Merge,
    /// `application/strategic-merge-patch+json`: as merge, with lists merged by key. Built-in kinds only.
    Strategic,
    /// `application/apply-patch+yaml`: server-side apply.
    Apply,
}

impl PatchType {
    const JSON: &str = "application/json-patch+json";
    const MERGE: &str = "application/merge-patch+json";
    const STRATEGIC: &str = "application/strategic-merge-patch+json";
    const APPLY: &str = "application/apply-patch+yaml";

    /// The type named by a `Content-Type` header, if the kind supports it.
    pub fn of(content_type: &str, kind: &Kind) -> Result<Self, PatchError> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        match media_type {
            Self::JSON => Ok(Self::Json),
            Self::MERGE => Ok(Self::Merge),
            Self::STRATEGIC if !kind.custom => Ok(Self::Strategic),
            Self::APPLY => Ok(Self::Apply),
            _ if kind.custom => Err(PatchError::UnsupportedMediaType(&[
                Self::JSON,
                Self::MERGE,
                Self::APPLY,
            ])),
            _ => Err(PatchError::UnsupportedMediaType(&[
                Self::JSON,
                Self::MERGE,
                Self::STRATEGIC,
                Self::APPLY,
            ])),
        }
    }

    /// Validates the query parameters of a patch of this type.
    #[doc(alias = "ValidatePatchOptions")]
    pub fn check_options(self, field_manager: Option<&str>, force: Option<bool>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self == Self::Apply {
            if field_manager.is_none_or(str::is_empty) {
                errors.push(FieldError::required(
                    "fieldManager",
                    "is required for apply patch",
                ));
            }
        } else if force.is_some() {
            errors.push(FieldError::forbidden(
                "force",
                "may not be specified for non-apply patch",
            ));
        }
        errors
    }
}

/// One field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager, as messages name it: `"kubectl" using apps/v1`.
    pub manager: String,
    /// The field, such as `.spec.replicas`.
    pub field: String,
}

/// Why a patch was rejected.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PatchError {
    /// 415: unsupported content type.
    UnsupportedMediaType(&'static [&'static str]),
    /// 400: the patch is malformed.
    BadRequest(String),
    /// 413: the patch has too many operations.
    TooLarge(String),
    /// 422: the patch is well-formed but cannot be applied to the object. A real server does not send the reason; it is
    /// kept for logs and tests.
    Unprocessable(String),
    /// 409: another manager owns fields that the applied configuration changes.
    Conflicts(Vec<Conflict>),
}

impl PatchError {
    /// The response to a request with such a patch.
    pub(crate) fn into_status(self) -> ApiError {
        let status = ApiError::new(self.code(), self.reason(), self.message());
        let status = if self.code() == 422 {
            status.generic()
        } else {
            status
        };
        match self.causes() {
            causes if causes.is_empty() => status,
            causes => status.causes(causes),
        }
    }

    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::UnsupportedMediaType(_) => 415,
            Self::BadRequest(_) => 400,
            Self::TooLarge(_) => 413,
            Self::Unprocessable(_) => 422,
            Self::Conflicts(_) => 409,
        }
    }

    /// The reason of the status object.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnsupportedMediaType(_) => "UnsupportedMediaType",
            Self::BadRequest(_) => "BadRequest",
            Self::TooLarge(_) => "RequestEntityTooLarge",
            Self::Unprocessable(_) => "Invalid",
            Self::Conflicts(_) => "Conflict",
        }
    }

    /// The message of the status object.
    pub fn message(&self) -> String {
        match self {
            Self::UnsupportedMediaType(types) => format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                types.join(", ")
            ),
            Self::BadRequest(message) => message.clone(),
            Self::TooLarge(message) => format!("Request entity is too large: {message}"),
            Self::Unprocessable(_) => {
                "the server rejected our request due to an error in our request".to_owned()
            }
            Self::Conflicts(conflicts) => conflict_message(conflicts),
        }
    }

    /// The entries of `details.causes`.
    pub fn causes(&self) -> Vec<Value> {
        let Self::Conflicts(conflicts) = self else {
            return Vec::new();
        };
        let cause = |conflict: &Conflict| {
            serde_json::json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {}", conflict.manager),
                "field": conflict.field,
            })
        };
        conflicts.iter().map(cause).collect()
    }
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            one.manager, one.field
        );
    }
    let mut managers: Vec<&str> = conflicts
        .iter()
        .map(|conflict| conflict.manager.as_str())
        .collect();
    managers.sort_unstable();
    managers.dedup();
    let mut lines = Vec::new();
    for manager in managers {
        lines.push(format!("conflicts with {manager}:"));
        let fields = conflicts.iter().filter(|conflict| conflict.manager == manager);
        lines.extend(fields.map(|conflict| format!("- {}", conflict.field)));
    }
    format!(
        "Apply failed with {} conflicts: {}",
        conflicts.len(),
        lines.join("\n")
    )
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unprocessable(detail) => write!(f, "the patch cannot be applied to the object: {detail}"),
            other => f.write_str(&other.message()),
        }
    }
}

impl std::error::Error for PatchError {}

/// Applies a merge patch (RFC 7386). The patch must be an object.
pub fn merge_patch(object: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let patch = match parse(patch)? {
        Value::Object(fields) => fields,
        Value::Null => return Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
        other => return Err(undecodable(not_a_map(&other))),
    };
    let mut result = object.clone();
    merge(&mut result, Value::Object(patch));
    Ok(result)
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(&name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// A patch that is JSON.
pub(crate) fn parse(patch: &[u8]) -> Result<Value, PatchError> {
    go_json::parse(patch).map_err(|_| PatchError::BadRequest("invalid JSON patch".to_owned()))
}

/// The error of Go for a patch that is not an object.
fn not_a_map(patch: &Value) -> String {
    go_json::mismatch(patch, "map[string]interface {}")
}

fn undecodable(error: impl fmt::Display) -> PatchError {
    PatchError::BadRequest(format!("error decoding patch: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;

    #[test]
    fn json_patch_is_atomic() {
        let pod = json!({ "metadata": { "labels": { "a": "1" } }, "spec": { "list": [1, 2] } });

        let patched = json_patch(
            &pod,
            br#"[{"op":"test","path":"/metadata/labels/a","value":"1"},
                 {"op":"replace","path":"/metadata/labels/a","value":"2"},
                 {"op":"add","path":"/spec/list/-","value":3},
                 {"op":"test","path":"/spec/none","value":null}]"#,
        );
        assert_eq!(
            patched.unwrap(),
            json!({ "metadata": { "labels": { "a": "2" } }, "spec": { "list": [1, 2, 3] } })
        );

        for patch in [
            r#"[{"op":"test","path":"/metadata/labels/a","value":"other"}]"#,
            r#"[{"op":"remove","path":"/metadata/annotations/x"}]"#,
            r#"[{"op":"add","path":"/no/such/parent","value":1}]"#,
        ] {
            let error = json_patch(&pod, patch.as_bytes()).unwrap_err();
            assert_eq!((error.code(), error.reason()), (422, "Invalid"), "{patch}");
            assert_eq!(
                error.message(),
                "the server rejected our request due to an error in our request"
            );
        }
        let error = json_patch(&pod, b"{}").unwrap_err();
        assert!(error.message().starts_with("error decoding patch: "), "{error}");
        assert_eq!(error.code(), 400);
    }

    #[test]
    fn json_patch_with_too_many_operations_is_rejected() {
        let one = r#"{"op":"test","path":"","value":{}}"#;
        let patch = format!("[{}]", vec![one; json::MAX_OPERATIONS + 1].join(","));

        let error = json_patch(&json!({}), patch.as_bytes()).unwrap_err();

        assert_eq!(error.code(), 413);
        assert!(
            error
                .message()
                .ends_with("The allowed maximum operations in a JSON patch is 10000, got 10001")
        );
    }

    #[test]
    fn merge_patch_sets_fields_replaces_lists_and_removes_nulls() {
        let object = json!({ "a": { "b": 1, "c": [1, 2] }, "d": "x" });
        let patched = merge_patch(
            &object,
            br#"{"a":{"b":null,"c":[3],"e":{"f":null,"g":1}},"d":{"h":2}}"#,
        );

        assert_eq!(
            patched.unwrap(),
            json!({ "a": { "c": [3], "e": { "g": 1 } }, "d": { "h": 2 } })
        );
        assert_eq!(merge_patch(&object, b"[]").unwrap_err().code(), 400);
        assert_eq!(
            merge_patch(&object, b"null").unwrap_err(),
            PatchError::BadRequest("Invalid JSON Patch".to_owned())
        );
        assert_eq!(merge_patch(&object, b"{").unwrap_err().code(), 400);
    }

    #[test]
    fn content_type_selects_the_patch_type_and_custom_kinds_reject_strategic_merge() {
        let pods = Registry::builtin().resource("", "v1", "pods").unwrap();
        let widgets = Kind::new("example.com", "v1", "Widget");
        let strategic = "application/strategic-merge-patch+json";

        assert_eq!(
            PatchType::of(&format!("{strategic}; charset=utf-8"), &pods),
            Ok(PatchType::Strategic)
        );
        assert_eq!(
            PatchType::of("application/apply-patch+yaml", &widgets),
            Ok(PatchType::Apply)
        );
        let error = PatchType::of(strategic, &widgets).unwrap_err();
        assert_eq!(
            (error.code(), error.message().as_str()),
            (
                415,
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
            )
        );
        assert!(PatchType::of("application/json", &pods).is_err());
    }

    #[test]
    fn options_are_validated_against_the_patch_type() {
        let texts = |errors: Vec<FieldError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();

        assert_eq!(
            texts(PatchType::Apply.check_options(None, Some(true))),
            ["fieldManager: Required value: is required for apply patch"]
        );
        assert_eq!(
            texts(PatchType::Merge.check_options(None, Some(false))),
            ["force: Forbidden: may not be specified for non-apply patch"]
        );
        assert!(PatchType::Apply.check_options(Some("me"), None).is_empty());
    }

    #[test]
    fn conflict_messages_match_a_real_server() {
        let conflict = |manager: &str, field: &str| Conflict {
            manager: manager.into(),
            field: field.into(),
        };
        let one = PatchError::Conflicts(vec![conflict("\"a\" using v1", ".data.x")]);
        assert_eq!(
            one.message(),
            "Apply failed with 1 conflict: conflict with \"a\" using v1: .data.x"
        );
        assert_eq!(one.causes()[0]["reason"], "FieldManagerConflict");

        let two = PatchError::Conflicts(vec![
            conflict("\"b\"", ".data.y"),
            conflict("\"a\" using v1", ".data.x"),
        ]);
        assert_eq!(
            two.message(),
            "Apply failed with 2 conflicts: conflicts with \"a\" using v1:\n- .data.x\nconflicts with \"b\":\n- .data.y"
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_applied_or_rejected_without_a_panic(patch in "[\\[\\]{}\":,a-e0-9/~-]{0,40}") {
            let object = json!({ "a": { "b": [1, { "c": null }] } });
            let _ = json_patch(&object, patch.as_bytes());
            let _ = merge_patch(&object, patch.as_bytes());
        }
    }
}
