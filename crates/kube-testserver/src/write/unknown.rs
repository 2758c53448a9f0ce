//! Fields that a kind does not have: warnings or errors, as the client requests, with a message for each kind of write.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::Place;
use super::request::Writing;
use crate::admission::field_error::{FieldError, quote};
use crate::kinds::structural;
use crate::patch::{PatchType, declared_path};
use crate::transport::status::ApiError;
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

    /// An applied configuration must not have unknown fields, whatever the client requests: no manager could own them.
    pub(super) fn only_declared_fields(&self, place: &Place<'_>, applied: &Value) -> Result<(), ApiError> {
        let Some(object) = applied.as_object() else {
            return Ok(()); // reported when it is applied
        };
        let errors: Vec<String> = self
            .unknown_paths(object)
            .iter()
            .map(|path| declared_path(self.kind, applied, path))
            .map(|path| format!("{path}: field not declared in schema"))
            .collect();
        let errors = match &errors[..] {
            [] => return Ok(()),
            [one] => one.clone(),
            several => format!("errors:\n  {}", several.join("\n  ")),
        };
        // An error of Go without a status.
        Err(ApiError::new(
            500,
            "",
            format!(
                "failed to create typed patch object ({}/{}; {}/{}, Kind={}): {errors}",
                place.namespace.unwrap_or_default(),
                place.name,
                self.kind.group,
                self.kind.version,
                self.kind.kind
            ),
        ))
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

/// A value as Go prints it with `%+v`: `map[spec:map[replica:3]]`.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            // Go sorts the keys.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(name, _)| *name);
            let mut text = String::from("map[");
            for (index, (name, value)) in entries.into_iter().enumerate() {
                let separator = if index == 0 { "" } else { " " };
                let _ = write!(text, "{separator}{name}:{}", go_value(value));
            }
            text + "]"
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let value = json!({"spec": {"b": [1, "x y", null], "a": true}});
        assert_eq!(go_value(&value), "map[spec:map[a:true b:[1 x y <nil>]]]");
    }
}
