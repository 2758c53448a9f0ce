//! Values of the wrong type and unknown fields, with the messages of Go's decoder, or of the converter of Kubernetes.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_api_protocol::go_json::{self, json_type};
use kube_protobuf::schema::{FieldSchema, Kind as Type, Message, Shape};
use serde_json::{Map, Value};

use super::quantity;
use crate::kinds::Kind;

/// What decoding an object finds, besides its value.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    /// Why the object cannot be decoded.
    pub(crate) error: Option<String>,
    /// The paths of fields that the type does not have.
    pub(crate) unknown: Vec<String>,
    /// Whether the errors are those of the converter.
    converts: bool,
}

/// Checks an object against the type of its kind. Objects of custom kinds have none and always pass.
pub(crate) fn decode(kind: &Kind, object: &Map<String, Value>) -> Decoded {
    let mut found = Decoded::default();
    found.object(kind, object);
    found
}

/// The same for a strategic merge patch, whose result is converted from a map, and never written as JSON.
#[doc(alias = "FromUnstructuredWithValidation")]
pub(crate) fn convert(kind: &Kind, object: &Map<String, Value>) -> Decoded {
    let mut found = Decoded {
        converts: true,
        ..Decoded::default()
    };
    found.object(kind, object);
    found
}

/// The way to a value: names for Go's message, names and positions for unknown fields.
#[derive(Default)]
struct Path {
    steps: Vec<Step>,
}

enum Step {
    Name(String),
    Position(usize),
}

impl Path {
    /// `spec.containers.ports`.
    fn names(&self) -> String {
        let names: Vec<&str> = self.steps.iter().filter_map(Step::name).collect();
        names.join(".")
    }
}

impl Step {
    fn name(&self) -> Option<&str> {
        match self {
            Step::Name(name) => Some(name),
            Step::Position(_) => None,
        }
    }
}

/// `spec.containers[0].ports`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            match step {
                Step::Name(name) if index == 0 => f.write_str(name)?,
                Step::Name(name) => write!(f, ".{name}")?,
                Step::Position(position) => write!(f, "[{position}]")?,
            }
        }
        Ok(())
    }
}

/// The field of a message with this name in JSON, also of the messages embedded in it.
pub(crate) fn field_of(
    message: &'static Message,
    name: &str,
) -> Option<(&'static Message, &'static FieldSchema)> {
    for (_, field) in message.fields() {
        match (field.shape(), field.message()) {
            (Shape::Embedded, Some(inner)) => {
                if let Some(found) = field_of(inner, name) {
                    return Some(found);
                }
            }
            _ if field.name() == name => return Some((message, field)),
            _ => {}
        }
    }
    None
}

impl Decoded {
    fn object(&mut self, kind: &Kind, object: &Map<String, Value>) {
        if let Some(message) = kind.message() {
            let mut path = Path::default();
            for (name, value) in object {
                if !matches!(name.as_str(), "apiVersion" | "kind") {
                    self.member(message, name, value, &mut path);
                }
            }
        }
    }

    fn member(&mut self, message: &'static Message, name: &str, value: &Value, path: &mut Path) {
        path.steps.push(Step::Name(name.to_owned()));
        match field_of(message, name) {
            // Objects inside objects, such as the claims of a stateful set, have a type, too.
            None if message.has_object_meta() && matches!(name, "apiVersion" | "kind") => {}
            None => self.unknown.push(path.to_string()),
            Some((owner, field)) => self.field(owner, field, value, path),
        }
        path.steps.pop();
    }

    fn field(
        &mut self,
        owner: &'static Message,
        field: &'static FieldSchema,
        value: &Value,
        path: &mut Path,
    ) {
        if value.is_null() {
            return;
        }
        match (field.shape(), value) {
            (Shape::List, Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    path.steps.push(Step::Position(index));
                    self.value(owner, field, item, path);
                    path.steps.pop();
                }
            }
            (Shape::Map, Value::Object(entries)) => {
                for (key, entry) in entries {
                    // Go's path of a map's value ends at the map.
                    let _ = key;
                    self.value(owner, field, entry, path);
                }
            }
            (Shape::List, other) => self.mismatch(owner, path, other, &format!("[]{}", go_type(field))),
            (Shape::Map, other) => {
                self.mismatch(owner, path, other, &format!("map[string]{}", go_type(field)))
            }
            _ => self.value(owner, field, value, path),
        }
    }

    fn value(
        &mut self,
        owner: &'static Message,
        field: &'static FieldSchema,
        value: &Value,
        path: &mut Path,
    ) {
        if value.is_null() {
            return;
        }
        let expected = go_type(field);
        match (field.kind(), value) {
            (Type::Message, Value::Object(members)) => {
                if let Some(message) = field.message() {
                    for (name, member) in members {
                        self.member(message, name, member, path);
                    }
                }
            }
            (Type::String, Value::String(_))
            | (Type::Bool, Value::Bool(_))
            | (Type::Double, Value::Number(_)) => {}
            (Type::Bytes, Value::String(text)) => {
                if let Err(error) = STANDARD.decode(text) {
                    let lead = if self.converts {
                        "error decoding from json: "
                    } else {
                        ""
                    };
                    let position = base64_position(text, &error);
                    self.fail(format!("{lead}illegal base64 data at input byte {position}"));
                }
            }
            (Type::Int32 | Type::Int64, Value::Number(number)) => {
                let fits = match field.kind() {
                    Type::Int32 => number
                        .as_i64()
                        .is_some_and(|number| i32::try_from(number).is_ok()),
                    _ => number.as_i64().is_some(),
                };
                if !fits && self.converts && number.is_f64() {
                    self.fail(format!("cannot convert float64 to {expected}"));
                } else if !fits {
                    self.mismatch_of(owner, path, &format!("number {number}"), &expected);
                }
            }
            (Type::Time | Type::MicroTime, Value::String(text)) => {
                if let Some(error) = time_error(text, field.kind() == Type::MicroTime) {
                    self.fail(error);
                }
            }
            (Type::Quantity, Value::String(text)) => {
                if let Some(error) = quantity::error(text) {
                    self.fail(error.to_owned());
                }
            }
            (Type::Quantity, Value::Number(_)) | (Type::Duration, Value::String(_)) => {}
            (Type::IntOrString, Value::String(_)) => {}
            (Type::IntOrString, Value::Number(number)) => {
                let integer = number.as_i64().and_then(|number| i32::try_from(number).ok());
                if integer.is_none() {
                    self.mismatch_of(owner, path, &format!("number {number}"), "int32");
                }
            }
            (Type::IntOrString, other) if self.converts => self.fail(go_json::mismatch(other, "int32")),
            (Type::IntOrString, other) => self.mismatch(owner, path, other, "int32"),
            (Type::Quantity, _) => {
                self.fail(quantity::error("").unwrap_or_default().to_owned());
            }
            (Type::Strings, Value::Array(_)) => {}
            (
                Type::RawExtension
                | Type::FieldsV1
                | Type::Json
                | Type::SchemaOrBool
                | Type::SchemaOrArray
                | Type::SchemaOrStrings,
                _,
            ) => {}
            (Type::Time | Type::MicroTime | Type::Duration, other) => {
                self.fail(go_json::mismatch(other, "string"));
            }
            (_, other) => self.mismatch(owner, path, other, &expected),
        }
    }

    fn mismatch(&mut self, owner: &'static Message, path: &Path, value: &Value, expected: &str) {
        if self.converts {
            return self.fail(unconvertible(value, expected));
        }
        self.mismatch_of(owner, path, json_type(value), expected);
    }

    fn mismatch_of(&mut self, owner: &'static Message, path: &Path, found: &str, expected: &str) {
        self.fail(format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {expected}",
            short_name(owner),
            path.names(),
        ));
    }

    /// Go reports the first error.
    fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }
}

/// Why the converter cannot make a value of this Go type.
#[doc(alias = "fromUnstructured")]
fn unconvertible(value: &Value, expected: &str) -> String {
    let found = match value {
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        other => json_type(other),
    };
    match expected {
        // Go can convert integers to texts of one character, which the converter notices.
        "string" if found == "int64" => "cannot convert int64 to string".to_owned(),
        "string" | "bool" | "int32" | "int64" | "float64" => format!("unrecognized type: {expected}"),
        list if list.starts_with("[]") => format!("cannot restore slice from {found}"),
        map if map.starts_with("map[") => format!("cannot restore map from {found}"),
        _ => format!("cannot restore struct from: {found}"),
    }
}

/// `DeploymentSpec` of `apps.v1.DeploymentSpec`.
fn short_name(message: &Message) -> &'static str {
    message.name().rsplit('.').next().unwrap_or_default()
}

/// The Go type of a value, as Go prints it. Named string types print as `string`: the table does not have their names.
fn go_type(field: &FieldSchema) -> String {
    let plain = match field.kind() {
        Type::Bytes => "[]uint8",
        Type::Bool => "bool",
        Type::Int32 => "int32",
        Type::Int64 => "int64",
        Type::Double => "float64",
        Type::Quantity => "resource.Quantity",
        Type::IntOrString => "intstr.IntOrString",
        Type::Message => {
            let mut parts = field.message().map(Message::name).unwrap_or_default().rsplit('.');
            let (name, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            return format!("{version}.{name}");
        }
        _ => "string",
    };
    plain.to_owned()
}

/// Why a text is not a time. Go requires six decimals in a `MicroTime`.
fn time_error(text: &str, micro: bool) -> Option<String> {
    let layout = if micro {
        "2006-01-02T15:04:05.000000Z07:00"
    } else {
        "2006-01-02T15:04:05Z07:00"
    };
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let decimals = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let (rest, wanted) = if text.parse::<jiff::Timestamp>().is_err() {
        (text, "2006")
    } else if micro && decimals != 6 {
        (text.get("2006-01-02T15:04:05".len()..)?, ".000000")
    } else {
        return None;
    };
    Some(format!(
        "parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {wanted:?}"
    ))
}

/// The offset at which a text stops being base64, as Go counts it.
fn base64_position(text: &str, error: &base64::DecodeError) -> usize {
    match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        _ => text.len() / 4 * 4,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;

    fn decoded(api_version: &str, name: &str, object: Value) -> Decoded {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = Registry::builtin()
            .kind(group, version, name)
            .expect("a built-in kind");
        decode(&kind, object.as_object().expect("an object"))
    }

    #[test]
    fn wrong_types_are_reported_as_by_go() {
        let error = |name: &str, api_version: &str, object: Value| decoded(api_version, name, object).error;
        assert_eq!(
            error("Deployment", "apps/v1", json!({ "spec": { "replicas": "3" } })).as_deref(),
            Some(
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
            )
        );
        assert_eq!(
            error(
                "Pod",
                "v1",
                json!({ "spec": { "containers": [{ "name": "a", "ports": {} }] } })
            )
            .as_deref(),
            Some(
                "json: cannot unmarshal object into Go struct field Container.spec.containers.ports of type \
                 []v1.ContainerPort"
            )
        );
        assert_eq!(
            error("Secret", "v1", json!({ "data": { "a": "not base64" } })).as_deref(),
            Some("illegal base64 data at input byte 3")
        );
        assert_eq!(error("ConfigMap", "v1", json!({ "data": { "a": "b" } })), None);
    }

    #[test]
    fn wrong_types_in_a_strategic_merge_patch_are_reported_as_by_the_converter() {
        let kind = Registry::builtin()
            .kind("", "v1", "Pod")
            .expect("a built-in kind");
        for (object, expected) in [
            (json!({ "spec": { "priority": "3" } }), "unrecognized type: int32"),
            (
                json!({ "spec": { "priority": 1.5 } }),
                "cannot convert float64 to int32",
            ),
            (
                json!({ "spec": { "nodeName": 1 } }),
                "cannot convert int64 to string",
            ),
            (
                json!({ "spec": { "nodeName": true } }),
                "unrecognized type: string",
            ),
            (
                json!({ "spec": { "containers": "a" } }),
                "cannot restore slice from string",
            ),
            (
                json!({ "spec": { "containers": ["a"] } }),
                "cannot restore struct from: string",
            ),
            (
                json!({ "metadata": { "labels": [] } }),
                "cannot restore map from slice",
            ),
        ] {
            let object = object.as_object().expect("an object");
            assert_eq!(convert(&kind, object).error.as_deref(), Some(expected));
        }
    }

    #[test]
    fn unknown_fields_are_reported_with_their_position() {
        let pod =
            json!({ "spec": { "containers": [{ "name": "a" }, { "name": "b", "imagee": "x" }], "x": 1 } });
        assert_eq!(
            decoded("v1", "Pod", pod).unknown,
            ["spec.containers[1].imagee", "spec.x"]
        );
    }
}
