//! The body of a write: decoded, and checked to be an object of the requested kind, with the messages of a real server.

use std::fmt;

use kube_api_protocol::field_error::quote;
use kube_api_protocol::go_json::{self, Unreadable};
use kube_api_protocol::status::ApiError;
use kube_protobuf::{MEDIA_TYPE, Options, from_body, schema};
use serde_json::{Value, json};

use super::request::Writing;
use super::too_deep;
use crate::kinds::Kind;

/// The Go type in which a real server looks for the version and the kind of an object.
const TYPE_META: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
                         Kind string \"json:\\\"kind,omitempty\\\"\" }";

impl Writing<'_> {
    /// The body as an object of the kind.
    pub(super) fn object(&self) -> Result<Value, ApiError> {
        let object = match self.json()? {
            // Go decodes null as an empty object.
            Value::Null => json!({}),
            object => object,
        };
        if let Some(error) = type_error(&object) {
            return Err(self.untyped(&error));
        }
        check_type(self.kind, &object)?;
        Ok(object)
    }

    pub(super) fn optional_json(&self) -> Result<Value, ApiError> {
        if self.body.is_empty() {
            Ok(Value::Null)
        } else {
            self.json()
        }
    }

    pub(super) fn json(&self) -> Result<Value, ApiError> {
        const READ: &[&str] = &["application/json", "application/yaml", MEDIA_TYPE];
        let content_type = self.seen.content_type.as_deref().unwrap_or("application/json");
        match content_type.split(';').next().unwrap_or_default().trim() {
            "" | "application/json" | "application/yaml" | "*/*" => self.parse_body(),
            MEDIA_TYPE if !self.kind.custom => from_body(self.body, &Options::new()).map_err(|error| {
                let why = match &**self.body {
                    [] => "empty data".to_owned(),
                    b"k8s\0" => "empty body".to_owned(),
                    body if !body.starts_with(b"k8s\0") => {
                        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
                            .to_owned()
                    }
                    _ => error.to_string(),
                };
                self.unrecognized(&why)
            }),
            _ => Err(ApiError::unsupported_media_type(READ)),
        }
    }

    /// The body as JSON, or as YAML if it is not JSON.
    pub(super) fn parse_body(&self) -> Result<Value, ApiError> {
        let wants_yaml = self
            .seen
            .content_type
            .as_deref()
            .is_some_and(|content_type| content_type.contains("yaml"));
        match go_json::parse(self.body) {
            Ok(value) => Ok(value),
            Err(Unreadable::TooDeep) => Err(too_deep()),
            Err(Unreadable::Invalid(error)) if !wants_yaml => Err(self.untyped(&error)),
            Err(_) => {
                let text = std::str::from_utf8(self.body).map_err(|error| self.unrecognized(&error))?;
                crate::manifest::yaml(text).map_err(|error| self.unrecognized(&error))
            }
        }
    }

    /// The body of an apply, which is YAML, and the keys that it has twice.
    pub(super) fn applied(&self) -> Result<(Value, Vec<String>), ApiError> {
        if let Ok(value) = serde_json::from_slice(self.body) {
            let twice = go_json::has_duplicates(self.body);
            let text = std::str::from_utf8(self.body).ok().filter(|_| twice);
            return Ok((value, text.map(crate::manifest::duplicates).unwrap_or_default()));
        }
        if go_json::parse(self.body) == Err(Unreadable::TooDeep) {
            return Err(too_deep());
        }
        let refused =
            |why: &dyn fmt::Display| ApiError::bad_request(format!("error encoding patch: yaml: {why}"));
        let text = std::str::from_utf8(self.body).map_err(|error| refused(&error))?;
        crate::manifest::lenient_yaml(text).map_err(|error| refused(&error))
    }

    /// A body without version and kind.
    fn untyped(&self, why: &str) -> ApiError {
        self.unrecognized(&format_args!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    }

    fn unrecognized(&self, why: &dyn fmt::Display) -> ApiError {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({})",
            self.kind.kind,
            summary(self.body)
        ))
    }
}

/// The start of a body, as a real server quotes what it cannot read: as text if it may be JSON, or else in hexadecimal digits.
#[doc(alias = "summarizeData")]
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let start = body.get(..SHOWN).unwrap_or(body);
    let shown = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let more = if body.len() > SHOWN { " ..." } else { "" };
    shown + more
}

/// Why the version and the kind of a body cannot be read.
fn type_error(body: &Value) -> Option<String> {
    let Some(fields) = body.as_object() else {
        return Some(go_json::mismatch(body, TYPE_META));
    };
    ["apiVersion", "kind"].into_iter().find_map(|name| {
        let value = fields.get(name)?;
        let fits = value.is_string() || value.is_null();
        (!fits).then(|| {
            let found = go_json::json_type(value);
            format!("json: cannot unmarshal {found} into Go struct field .{name} of type string")
        })
    })
}

/// Checks the apiVersion and kind of a client's object.
#[doc(alias = "transformDecodeError")]
fn check_type(kind: &Kind, object: &Value) -> Result<(), ApiError> {
    let text = |key: &str, default: &str| {
        let text = object.get(key).and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() {
            default.to_owned()
        } else {
            text.to_owned()
        }
    };
    let expected = kind.api_version();
    let (sent_version, sent_kind) = (text("apiVersion", &expected), text("kind", &kind.kind));
    if (&sent_version, &sent_kind) == (&expected, &kind.kind) {
        return Ok(());
    }
    let (group, version) = sent_version.split_once('/').unwrap_or(("", &sent_version));
    let unhandled = |why: String| {
        Err(ApiError::bad_request(format!(
            "{sent_kind} in version {} cannot be handled as a {}: {why}",
            quote(version),
            kind.kind
        )))
    };
    if kind.custom && sent_kind != kind.kind {
        return unhandled("the kinds differ".to_owned());
    }
    let known = kind.custom
        || scheme(group) == scheme(&kind.group) && schema::lookup(&sent_version, &sent_kind).is_some();
    if !known {
        return unhandled(format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            quote(&sent_kind),
            quote(&sent_version)
        ));
    }
    if !kind.custom
        && (internal_package(group, &sent_kind), &*sent_kind)
            != (internal_package(&kind.group, &kind.kind), &*kind.kind)
    {
        return unhandled(format!(
            "converting ({version}.{sent_kind}) to ({}.{}): unknown conversion",
            internal_package(&kind.group, &kind.kind),
            kind.kind
        ));
    }
    Err(ApiError::bad_request(format!(
        "the API version in the data ({sent_version}) does not match the expected API version ({expected})"
    )))
}

/// The parts of a real server have types of their own.
fn scheme(group: &str) -> &str {
    match group {
        "apiextensions.k8s.io" | "apiregistration.k8s.io" => group,
        _ => "",
    }
}

/// The Go package of the type that all versions of a kind are converted to.
fn internal_package<'a>(group: &'a str, kind: &str) -> &'a str {
    match (group, kind) {
        ("", _) | ("events.k8s.io", "Event") => "core",
        (group, _) => group.split('.').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Registry;

    #[test]
    fn objects_of_another_kind_or_version_are_rejected_as_by_a_real_server() {
        let registry = Registry::builtin();
        let check = |group: &str, kind: &str, sent: Value| {
            let kind = registry.kind(group, "v1", kind).unwrap();
            check_type(&kind, &sent).map_err(|error| error.message().to_owned())
        };
        let sent = |api_version: &str, kind: &str| json!({ "apiVersion": api_version, "kind": kind });

        assert_eq!(check("", "Pod", json!({})), Ok(()));
        assert_eq!(check("apps", "Deployment", sent("", "Deployment")), Ok(()));
        assert_eq!(
            check("apps", "Deployment", sent("v1", "Pod")).unwrap_err(),
            "Pod in version \"v1\" cannot be handled as a Deployment: converting (v1.Pod) to (apps.Deployment): unknown \
             conversion"
        );
        assert_eq!(
            check("apps", "Deployment", sent("apps/v1beta9", "Deployment")).unwrap_err(),
            "Deployment in version \"v1beta9\" cannot be handled as a Deployment: no kind \"Deployment\" is registered for \
             version \"apps/v1beta9\" in scheme \"pkg/runtime/scheme.go:111\""
        );
        assert_eq!(
            check("", "Event", sent("events.k8s.io/v1", "Event")).unwrap_err(),
            "the API version in the data (events.k8s.io/v1) does not match the expected API version (v1)"
        );
        assert_eq!(
            type_error(&json!({ "kind": 1 })).unwrap(),
            "json: cannot unmarshal number into Go struct field .kind of type string"
        );
    }
}
