//! Whether an applied configuration fits the types of its kind. No manager could own a field that has none.
//!
//! The types of built-in kinds are those of the protobuf schema, the types of custom kinds are in their definition. The errors are
//! those of structured-merge-diff, which real servers use: it prints values as Go does, and skips what follows an unknown field.

use kube_api_protocol::field_error::quote;
use kube_protobuf::schema::{self, FieldSchema, Kind as Scalar, Message, Shape};
use serde_json::{Map, Value};

use super::fieldset::shown_key;
use super::shape::{ListShape, key_default, list_shape};
use crate::kinds::Kind;
use crate::typed;

/// What does not fit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Misfits {
    /// Values of the wrong type, unknown fields and items without identity, with their paths.
    pub(crate) errors: Vec<String>,
    /// A number that its type cannot hold. Reported only if there are no other errors.
    pub(crate) unconvertible: Option<String>,
}

/// Compares a configuration with the types of its kind. Kinds without types accept everything.
pub(crate) fn misfits(kind: &Kind, applied: &Value) -> Misfits {
    let root = match (kind.message(), kind.schema.as_deref()) {
        (Some(message), _) => Type::Message(message),
        (None, Some(Value::Object(schema))) => Type::Resource(schema),
        (None, _) => Type::Any,
    };
    walk(kind, root, applied)
}

/// The same for a subresource that has a type of its own.
pub(crate) fn misfits_of(kind: &Kind, message: &'static Message, applied: &Value) -> Misfits {
    walk(kind, Type::Message(message), applied)
}

fn walk(kind: &Kind, root: Type<'_>, applied: &Value) -> Misfits {
    let mut walk = Walk {
        kind,
        names: Vec::new(),
        path: String::new(),
        found: Misfits::default(),
    };
    walk.value(root, applied);
    walk.found
}

/// The type of a value.
#[derive(Clone, Copy)]
enum Type<'a> {
    /// An object of a built-in type.
    Message(&'static Message),
    /// A field of a built-in type, with its list or map.
    Field(&'static FieldSchema),
    /// An item of such a list, or a value of such a map.
    Element(&'static FieldSchema),
    /// A part of the schema of a custom kind.
    Schema(&'a Map<String, Value>),
    /// A whole object of a custom kind, or one embedded in it: it has metadata.
    Resource(&'a Map<String, Value>),
    Text,
    Any,
}

/// What a type accepts.
enum Form<'a> {
    Struct,
    Map(Type<'a>),
    List(Type<'a>),
    Text,
    /// With the Go type, if it is an integer.
    Number(Option<&'static str>),
    Truth,
    Any,
}

impl<'a> Type<'a> {
    fn form(self) -> Form<'a> {
        match self {
            Type::Message(_) | Type::Resource(_) => Form::Struct,
            Type::Field(field) => match field.shape() {
                Shape::List => Form::List(Type::Element(field)),
                Shape::Map => Form::Map(Type::Element(field)),
                _ => Type::Element(field).form(),
            },
            Type::Element(field) => match field.kind() {
                Scalar::Message if field.message().is_some() => Form::Struct,
                Scalar::String | Scalar::Bytes | Scalar::Time | Scalar::MicroTime | Scalar::Duration => {
                    Form::Text
                }
                Scalar::Bool => Form::Truth,
                Scalar::Int32 => Form::Number(Some("int32")),
                Scalar::Int64 => Form::Number(Some("int64")),
                Scalar::Double => Form::Number(None),
                Scalar::Strings => Form::List(Type::Text),
                _ => Form::Any,
            },
            Type::Schema(schema) => schema_form(schema),
            Type::Text => Form::Text,
            Type::Any => Form::Any,
        }
    }

    /// The type of a field of a struct; `None` if the struct has no such field.
    fn field(self, name: &str) -> Option<Type<'a>> {
        let of_resource = |name: &str| match name {
            "apiVersion" | "kind" => Some(Type::Text),
            "metadata" => {
                let metadata = schema::lookup("meta.k8s.io/v1", "PartialObjectMetadata")?;
                Some(Type::Field(typed::field_of(metadata, "metadata")?.1))
            }
            _ => None,
        };
        let of_message = |message: &'static Message| match typed::field_of(message, name) {
            Some((_, field)) => Some(Type::Field(field)),
            None if message.has_object_meta() => of_resource(name),
            None => None,
        };
        match self {
            Type::Message(message) => of_message(message),
            Type::Field(field) | Type::Element(field) => of_message(field.message()?),
            Type::Resource(schema) => of_resource(name).or_else(|| property(schema, name)),
            Type::Schema(schema) if is_set(schema, "x-kubernetes-embedded-resource") => {
                of_resource(name).or_else(|| property(schema, name))
            }
            Type::Schema(schema) => property(schema, name),
            Type::Text | Type::Any => Some(Type::Any),
        }
    }

    /// The default of a field that identifies an item. Required fields of built-in types have the zero of Go.
    fn default_of(self, key: &str) -> Option<Value> {
        match self {
            Type::Schema(schema) => {
                let property = schema.get("properties")?.get(key)?;
                property.get("default").cloned()
            }
            _ => key_default(key).or_else(|| match self.field(key)?.form() {
                Form::Number(_) => Some(0.into()),
                Form::Text => Some("".into()),
                _ => None,
            }),
        }
    }
}

fn is_set(schema: &Map<String, Value>, flag: &str) -> bool {
    schema.get(flag) == Some(&Value::Bool(true))
}

fn schema_form(schema: &Map<String, Value>) -> Form<'_> {
    if is_set(schema, "x-kubernetes-int-or-string") {
        return Form::Any;
    }
    let inner = |name: &str| {
        let inner = schema.get(name).and_then(Value::as_object);
        inner.map_or(Type::Any, Type::Schema)
    };
    match schema.get("type").and_then(Value::as_str) {
        Some("object") if schema.contains_key("additionalProperties") => {
            Form::Map(inner("additionalProperties"))
        }
        Some("object") => Form::Struct,
        Some("array") => Form::List(inner("items")),
        Some("string") => Form::Text,
        Some("integer" | "number") => Form::Number(None),
        Some("boolean") => Form::Truth,
        _ => Form::Any,
    }
}

fn property<'a>(schema: &'a Map<String, Value>, name: &str) -> Option<Type<'a>> {
    let properties = schema.get("properties").and_then(Value::as_object);
    match properties.and_then(|properties| properties.get(name)) {
        Some(Value::Object(property)) => Some(Type::Schema(property)),
        Some(_) => Some(Type::Any),
        None if is_set(schema, "x-kubernetes-preserve-unknown-fields") => Some(Type::Any),
        None => None,
    }
}

struct Walk<'a> {
    kind: &'a Kind,
    /// The names of the fields on the way, which decide how a list is merged.
    names: Vec<&'a str>,
    /// The same with items, for messages.
    path: String,
    found: Misfits,
}

impl<'a> Walk<'a> {
    fn value(&mut self, of: Type<'a>, value: &'a Value) {
        match (of.form(), value) {
            (_, Value::Null)
            | (Form::Any, _)
            | (Form::Text, Value::String(_))
            | (Form::Truth, Value::Bool(_)) => {}
            (Form::Struct, Value::Object(members)) => self.members(members, |name| of.field(name)),
            (Form::Map(element), Value::Object(members)) => self.members(members, |_| Some(element)),
            (Form::List(element), Value::Array(items)) => self.items(element, items),
            (Form::Number(integer), Value::Number(number)) => {
                if let Some(integer) = integer.filter(|_| number.is_f64()) {
                    let error = format!("cannot convert float64 to {integer}");
                    self.found.unconvertible.get_or_insert(error);
                }
            }
            (Form::Struct | Form::Map(_), other) => {
                self.error(format!("expected map, got &{{{}}}", go_value(other)))
            }
            (Form::List(_), other) => self.error(format!("expected list, got &{{{}}}", go_value(other))),
            (Form::Truth, other) => self.error(format!("expected boolean, got &{{{}}}", go_value(other))),
            (Form::Number(_), other) => {
                self.error(format!("expected numeric (int or float), got {}", go_type(other)));
            }
            (Form::Text, other) => {
                let value = go_syntax(other);
                self.error(format!(
                    "expected string, got &value.valueUnstructured{{Value:{value}}}"
                ));
            }
        }
    }

    fn members(&mut self, members: &'a Map<String, Value>, field: impl Fn(&str) -> Option<Type<'a>>) {
        for (name, member) in members {
            let length = self.path.len();
            self.path.push('.');
            self.path.push_str(name);
            self.names.push(name);
            let known = field(name);
            match known {
                Some(of) => self.value(of, member),
                None => self.error("field not declared in schema".to_owned()),
            }
            self.names.pop();
            self.path.truncate(length);
            if known.is_none() {
                return;
            }
        }
    }

    fn items(&mut self, of: Type<'a>, items: &'a [Value]) {
        let shape = list_shape(self.kind, &self.names);
        let mut seen = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let step = match identity(of, &shape, item) {
                Ok(Some(step)) => {
                    if seen.contains(&step) {
                        self.error(format!("duplicate entries for key {step}"));
                    }
                    seen.push(step.clone());
                    step
                }
                Ok(None) => format!("[{index}]"),
                Err(error) => {
                    self.error(format!("element {index}: {error}"));
                    return;
                }
            };
            let length = self.path.len();
            self.path.push_str(&step);
            self.value(of, item);
            self.path.truncate(length);
        }
    }

    fn error(&mut self, error: String) {
        let path = &self.path;
        self.found.errors.push(format!("{path}: {error}"));
    }
}

/// How a path names an item: by its key fields or its value. `None` in a list that is one value.
#[doc(alias = "listItemToPathElement")]
fn identity(of: Type<'_>, shape: &ListShape, item: &Value) -> Result<Option<String>, String> {
    match (shape, item) {
        (ListShape::Atomic, _) => Ok(None),
        (ListShape::Set, Value::Object(_)) => {
            Err("associative list without keys has an element that's a map type".to_owned())
        }
        (ListShape::Set, Value::Array(_)) => {
            Err("not supported: associative list with lists as elements".to_owned())
        }
        (ListShape::Set, item) => Ok(Some(format!("[={item}]"))),
        (ListShape::Map(keys), Value::Object(members)) => {
            let value = |key: &String| members.get(key).cloned().or_else(|| of.default_of(key));
            let present: Vec<(&String, Value)> =
                keys.iter().filter_map(|key| Some((key, value(key)?))).collect();
            if present.is_empty() {
                let keys: Vec<String> = keys.iter().map(|key| quote(key)).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have \
                     default values for any key fields)",
                    keys.join(" ")
                ));
            }
            Ok(Some(shown_key(present)))
        }
        (ListShape::Map(_), Value::Null) => {
            Err("associative list with keys may not have a null element".to_owned())
        }
        (ListShape::Map(_), _) => Err("associative list with keys may not have non-map elements".to_owned()),
    }
}

/// A value as Go prints it with `%v`: `map[spec:map[replica:3]]`.
pub(crate) fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let entry = |(name, value): (&String, &Value)| format!("{name}:{}", go_value(value));
            format!(
                "map[{}]",
                sorted(members).map(entry).collect::<Vec<_>>().join(" ")
            )
        }
        other => other.to_string(),
    }
}

/// The same with `%#v`: `map[string]interface {}{"replica":3}`.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let entry = |(name, value): (&String, &Value)| format!("{}:{}", quote(name), go_syntax(value));
            let members: Vec<String> = sorted(members).map(entry).collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}

/// The type of a value, as Go prints it with `%T`.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Go prints maps in the order of their keys.
fn sorted(members: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(name, _)| *name);
    members.into_iter()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;

    fn pod(spec: Value) -> Vec<String> {
        let pods = Registry::builtin().resource("", "v1", "pods").unwrap();
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" }, "spec": spec });
        misfits(&pods, &pod).errors
    }

    #[test]
    fn unknown_fields_are_named_by_the_keys_of_their_items() {
        let web = |more: Value| {
            let mut container = json!({ "name": "web", "image": "shop:1" });
            container
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            json!({ "containers": [container] })
        };
        assert!(
            pod(web(
                json!({ "ports": [{ "containerPort": 80 }], "env": [{ "name": "A", "value": "" }] })
            ))
            .is_empty()
        );
        assert_eq!(
            pod(web(json!({ "imge": 1 }))),
            [".spec.containers[name=\"web\"].imge: field not declared in schema"]
        );
        assert_eq!(
            pod(web(json!({ "ports": [{ "containerPort": 80, "x": 1 }] }))),
            [
                ".spec.containers[name=\"web\"].ports[containerPort=80,protocol=\"TCP\"].x: field not declared in schema"
            ]
        );
        assert_eq!(
            pod(json!({ "tolerations": [{}, { "x": 1 }] })),
            [".spec.tolerations[1].x: field not declared in schema"]
        );
        assert_eq!(
            pod(json!({ "containers": [{ "x": 1 }] })),
            [".spec.containers[name=\"\"].x: field not declared in schema"]
        );
    }

    #[test]
    fn wrong_types_are_printed_as_by_go() {
        assert_eq!(
            pod(json!({ "containers": { "name": "a" } })),
            [".spec.containers: expected list, got &{map[name:a]}"]
        );
        assert_eq!(
            pod(json!({ "priority": [1] })),
            [".spec.priority: expected numeric (int or float), got []interface {}"]
        );
        assert_eq!(
            pod(json!({ "nodeName": { "a": ["b"] } })),
            [
                ".spec.nodeName: expected string, got &value.valueUnstructured{Value:map[string]interface {}{\"a\":[]interface {}{\"b\"}}}"
            ]
        );
        assert_eq!(
            pod(json!({ "containers": ["a"] })),
            [".spec.containers: element 0: associative list with keys may not have non-map elements"]
        );
        let pods = Registry::builtin().resource("", "v1", "pods").unwrap();
        let found = misfits(&pods, &json!({ "spec": { "priority": 1.5 } }));
        assert_eq!(
            found.unconvertible.as_deref(),
            Some("cannot convert float64 to int32")
        );
    }

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let value = json!({ "spec": { "b": [1, "x y", null], "a": true } });
        assert_eq!(go_value(&value), "map[spec:map[a:true b:[1 x y <nil>]]]");
    }

    #[test]
    fn custom_kinds_have_the_types_of_their_schema() {
        let mut kind = Kind::new("example.com", "v1", "Widget");
        kind.schema = Some(Arc::new(json!({ "type": "object", "properties": {
            "parts": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id", "zone"],
                "items": { "type": "object", "properties": { "id": { "type": "string" }, "zone": { "type": "string" } } } },
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            "size": { "x-kubernetes-int-or-string": true },
        } })));
        let found = |object: Value| misfits(&kind, &object).errors;
        let metadata = json!({ "name": "a", "labels": { "a": "b" } });
        let fits = json!({ "metadata": metadata, "parts": [{ "id": "a" }, { "zone": "b" }], "free": { "x": [1] }, "size": "10%" });
        assert!(found(fits.clone()).is_empty(), "{:?}", found(fits));
        assert_eq!(
            found(json!({ "parts": [{}] })),
            [
                ".parts: element 0: associative list with keys has an element that omits all key fields [\"id\" \"zone\"] (and \
              doesn't have default values for any key fields)"
            ]
        );
        assert_eq!(
            found(json!({ "metadata": { "label": {} } })),
            [".metadata.label: field not declared in schema"]
        );
    }
}
