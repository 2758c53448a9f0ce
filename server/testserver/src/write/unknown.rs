//! Fields that a kind does not have: warnings or errors, as the client requests, with a message for each kind of write. Applied
//! configurations must fit the types in every other respect, too.

use kube_api_protocol::field_error::{FieldError, quote};
use kube_api_protocol::status::ApiError;
use kube_protobuf::schema;
use serde_json::{Map, Value};

use super::request::Writing;
use crate::kinds::structural;
use crate::patch::{self, Misfits, PatchType, go_value};
use crate::typed;

impl Writing<'_> {
    /// Warnings about unknown fields of an object that a client sent; an error if the client requests strict validation.
    pub(super) fn unknown_fields(&self, object: &Value) -> Result<Vec<String>, ApiError> {
        let unknown = self.reported(object);
        if !unknown.is_empty() && self.is_strict() {
            return Err(ApiError::bad_request(format!(
                "{kind} in version {} cannot be handled as a {kind}: strict decoding error: {}",
                quote(&self.kind.version),
                unknown.join(", "),
                kind = self.kind.kind,
            )));
        }
        Ok(unknown)
    }

    /// The same for an object that was patched.
    #[doc(alias = "applyPatchToObject")]
    pub(super) fn unknown_fields_of_patch(
        &self,
        patch_type: PatchType,
        patched: &Value,
    ) -> Result<Vec<String>, ApiError> {
        let unknown = self.reported(patched);
        if unknown.is_empty() || !self.is_strict() {
            return Ok(unknown);
        }
        let value = match patch_type {
            // Go prints the patch as a map.
            PatchType::Strategic => go_value(&self.parse_body()?),
            _ => patched.to_string(),
        };
        let detail = format!("strict decoding error: {}", unknown.join(", "));
        let error = FieldError::invalid("patch", value, detail);
        Err(ApiError::invalid("", "", "", &[error]))
    }

    /// A patch must not yield values of the wrong type.
    pub(super) fn check_patched(
        &self,
        patch_type: PatchType,
        present: &Value,
        patched: &Value,
    ) -> Result<(), ApiError> {
        if !self.state.config.conformant || self.kind.custom {
            return Ok(());
        }
        let strategic = patch_type == PatchType::Strategic;
        let decode = if strategic { typed::convert } else { typed::decode };
        let decoded = patched.as_object().map(|patched| decode(self.kind, patched));
        let Some(error) = decoded.and_then(|decoded| decoded.error) else {
            return Ok(());
        };
        let value = if strategic {
            go_value(&self.parse_body()?)
        } else {
            typed::printed_patch(self.kind, present, patched)
        };
        let error = FieldError::invalid("patch", value, error);
        Err(ApiError::invalid("", "", "", &[error]))
    }

    /// An applied configuration must fit the types of its kind, whatever the client requests.
    pub(super) fn check_fit(&self, applied: &Value) -> Result<(), ApiError> {
        if self.kind.schema.is_none() && !self.state.config.conformant {
            return Ok(());
        }
        let kind = format!(
            "{}/{}, Kind={}",
            self.kind.group, self.kind.version, self.kind.kind
        );
        misfit(&patch::misfits(self.kind, applied), applied, &kind)
    }

    /// The same for an applied Scale.
    pub(super) fn check_scale_fits(&self, applied: &Value) -> Result<(), ApiError> {
        match schema::lookup("autoscaling/v1", "Scale") {
            Some(scale) if self.state.config.conformant => {
                let misfits = patch::misfits_of(self.kind, scale, applied);
                misfit(&misfits, applied, "autoscaling/v1, Kind=Scale")
            }
            _ => Ok(()),
        }
    }

    fn is_strict(&self) -> bool {
        self.seen.param("fieldValidation") == Some("Strict")
    }

    /// The unknown fields as a real server reports them, unless the client ignores them.
    fn reported(&self, object: &Value) -> Vec<String> {
        let ignored = self.seen.param("fieldValidation") == Some("Ignore");
        let unknown = match object.as_object() {
            Some(object) if !ignored => self.unknown_paths(object),
            _ => Vec::new(),
        };
        let report = |path: &String| format!("unknown field {}", quote(path));
        unknown.iter().map(report).collect()
    }

    fn unknown_paths(&self, object: &Map<String, Value>) -> Vec<String> {
        match self.kind.schema.as_deref() {
            Some(schema) => structural::unknown_fields(schema, object),
            None if self.state.config.conformant => typed::decode(self.kind, object).unknown,
            None => Vec::new(),
        }
    }
}

/// An error of Go without a status.
fn misfit(misfits: &Misfits, applied: &Value, kind: &str) -> Result<(), ApiError> {
    let text = |pointer| {
        applied
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let object = format!(
        "({}/{}; {kind})",
        text("/metadata/namespace"),
        text("/metadata/name")
    );
    let message = match (&misfits.errors[..], &misfits.unconvertible) {
        ([], None) => return Ok(()),
        ([], Some(error)) => format!(
            "failed to convert new object {object} to proper version: unable to convert unstructured object to {kind}: {error}"
        ),
        ([one], _) => format!("failed to create typed patch object {object}: {one}"),
        (several, _) => {
            let errors = several.join("\n  ");
            format!("failed to create typed patch object {object}: errors:\n  {errors}")
        }
    };
    Err(ApiError::new(500, "", message))
}
