//! Values as Go prints its internal structs: some messages of a real server quote them, or a diff of two of them.

use std::collections::HashMap;
use std::sync::OnceLock;

use kube_protobuf::schema::{Kind as Type, Message, Shape};
use serde_json::{Map, Value, json};

use super::{diff, field_of, table};

/// One field of a struct.
#[derive(Debug)]
enum Field {
    /// The fields of the metadata that are set.
    Metadata,
    Named {
        name: &'static str,
        json: String,
        /// What is printed if it is missing.
        empty: Empty,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Empty {
    Null,
    Text,
    False,
    Zero,
    Struct,
}

impl Field {
    fn parse(word: &'static str) -> Option<Field> {
        if word == "*" {
            return Some(Field::Metadata);
        }
        let (names, kind) = word.split_once(':').unwrap_or((word, ""));
        let (name, json) = match names.split_once('=') {
            Some((name, json)) => (name, json.to_owned()),
            None => {
                let first = names.get(..1)?.to_ascii_lowercase();
                (names, format!("{first}{}", names.get(1..)?))
            }
        };
        let empty = match kind {
            "" => Empty::Null,
            "s" => Empty::Text,
            "b" => Empty::False,
            "n" => Empty::Zero,
            "o" => Empty::Struct,
            _ => return None,
        };
        Some(Field::Named { name, json, empty })
    }
}

fn rows() -> &'static HashMap<&'static str, Vec<Vec<Field>>> {
    static ROWS: OnceLock<HashMap<&'static str, Vec<Vec<Field>>>> = OnceLock::new();
    ROWS.get_or_init(|| {
        table::parse(include_str!("internal.txt"), |line| {
            line.split(' ').map(Field::parse).collect()
        })
    })
}

/// The names in JSON of the fields of a type, in the order of its struct; `None` if the table does not have it.
pub(super) fn struct_order(message: &Message) -> Option<Vec<&'static str>> {
    let fields = rows().get(message.name())?;
    let name = |field: &'static Field| match field {
        Field::Metadata => "metadata",
        Field::Named { json, .. } => json.as_str(),
    };
    Some(fields.iter().flatten().map(name).collect())
}

/// A value as Go prints it. Maps of JSON are sorted, structs are not.
enum Node {
    Scalar(Value),
    List(Vec<Node>),
    Struct(Vec<(String, Node)>),
}

/// The value of a field below this type, as Go prints its internal struct on one line. `path` leads to the field, without positions.
pub(crate) fn quoted(message: Option<&'static Message>, path: &str, value: &Value) -> String {
    let mut out = String::new();
    node(message_at(message, path), value).write(&mut out, None);
    out
}

/// The difference of two values of such a field.
pub(crate) fn difference(message: Option<&'static Message>, path: &str, old: &Value, new: &Value) -> String {
    let lines = |value: &Value| {
        let mut out = String::new();
        node(message_at(message, path), value).write(&mut out, Some(0));
        out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    diff::unified(&lines(old), &lines(new))
}

fn message_at(message: Option<&'static Message>, path: &str) -> Option<&'static Message> {
    path.split('.').try_fold(message?, inner)
}

/// The type of a field, or of its items.
fn inner(message: &'static Message, name: &str) -> Option<&'static Message> {
    let (_, field) = field_of(message, name)?;
    field
        .message()
        .filter(|_| field.kind() == Type::Message && field.shape() != Shape::Map)
}

fn node(message: Option<&'static Message>, value: &Value) -> Node {
    match value {
        Value::Array(items) => Node::List(items.iter().map(|item| node(message, item)).collect()),
        Value::Object(fields) => {
            match message.and_then(|message| Some((message, rows().get(message.name())?))) {
                Some((message, row)) => {
                    let fields = row
                        .iter()
                        .flatten()
                        .flat_map(|field| members(message, field, fields));
                    Node::Struct(fields.collect())
                }
                None => Node::Struct(plain(message, fields)),
            }
        }
        scalar => Node::Scalar(scalar.clone()),
    }
}

fn members(message: &'static Message, field: &Field, fields: &Map<String, Value>) -> Vec<(String, Node)> {
    let (name, json, empty) = match field {
        Field::Metadata => {
            let metadata = fields.get("metadata").and_then(Value::as_object);
            return metadata
                .map(|metadata| plain(inner(message, "metadata"), metadata))
                .unwrap_or_default();
        }
        Field::Named { name, json, empty } => (name, json, empty),
    };
    let missing = match empty {
        Empty::Null => Value::Null,
        Empty::Text => json!(""),
        Empty::False => json!(false),
        Empty::Zero => json!(0),
        Empty::Struct => json!({}),
    };
    let value = fields
        .get(json)
        .filter(|value| !value.is_null())
        .unwrap_or(&missing);
    vec![((*name).to_owned(), node(inner(message, json), value))]
}

/// A type that is printed with its names in JSON, such as a label selector: only the fields that are set.
fn plain(message: Option<&'static Message>, fields: &Map<String, Value>) -> Vec<(String, Node)> {
    let mut names: Vec<&String> = fields.keys().collect();
    if let Some(message) = message {
        let position = |name: &str| message.fields().position(|(_, field)| field.name() == name);
        names.sort_by_key(|name| position(name).unwrap_or(usize::MAX));
    }
    let printed = |name: &String| {
        let below = message.and_then(|message| inner(message, name));
        let value = fields.get(name).unwrap_or(&Value::Null);
        (name.clone(), node(below, value))
    };
    names.into_iter().map(printed).collect()
}

impl Node {
    /// Writes the value on one line, or indented by spaces from this depth.
    fn write(&self, out: &mut String, depth: Option<usize>) {
        let line = |out: &mut String, depth: Option<usize>| {
            if let Some(depth) = depth {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', depth));
            }
        };
        let below = depth.map(|depth| depth + 1);
        match self {
            Node::Scalar(value) => out.push_str(&value.to_string()),
            Node::List(items) if items.is_empty() => out.push_str("[]"),
            Node::Struct(fields) if fields.is_empty() => out.push_str("{}"),
            Node::List(items) => {
                for (position, item) in items.iter().enumerate() {
                    out.push(if position == 0 { '[' } else { ',' });
                    line(out, below);
                    item.write(out, below);
                }
                line(out, depth);
                out.push(']');
            }
            Node::Struct(fields) => {
                for (position, (name, value)) in fields.iter().enumerate() {
                    out.push(if position == 0 { '{' } else { ',' });
                    line(out, below);
                    out.push_str(&Value::from(name.as_str()).to_string());
                    out.push_str(if depth.is_some() { ": " } else { ":" });
                    value.write(out, below);
                }
                line(out, depth);
                out.push('}');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_protobuf::schema;

    use super::*;
    use crate::kinds::Registry;

    #[test]
    fn every_row_names_a_type_and_fields_that_exist() {
        let mut known = HashMap::new();
        fn collect(message: &'static Message, known: &mut HashMap<&'static str, &'static Message>) {
            if known.insert(message.name(), message).is_none() {
                for (_, field) in message.fields() {
                    if let Some(inner) = field.message() {
                        collect(inner, known);
                    }
                }
            }
        }
        for (_, _, message) in schema::kinds() {
            collect(message, &mut known);
        }
        for (name, fields) in rows() {
            let message = known.get(name).unwrap_or_else(|| panic!("no type {name}"));
            for field in fields.iter().flatten() {
                if let Field::Named { json, .. } = field {
                    assert!(field_of(message, json).is_some(), "{name}.{json}");
                }
            }
        }
        assert!(rows().len() > 100);
    }

    #[test]
    fn missing_fields_are_printed_with_their_zero_values() {
        let kind = Registry::builtin().kind("apps", "v1", "Deployment").unwrap();
        assert_eq!(
            quoted(kind.message(), "spec.strategy", &json!({ "type": "Blue" })),
            r#"{"Type":"Blue","RollingUpdate":null}"#
        );
        let selector =
            json!({ "matchLabels": { "a": "b" }, "matchExpressions": [{ "operator": "In", "key": "a" }] });
        assert_eq!(
            quoted(kind.message(), "spec.selector", &selector),
            r#"{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"In"}]}"#
        );
        let pod = Registry::builtin().kind("", "v1", "Pod").unwrap();
        let container = quoted(
            pod.message(),
            "spec.containers",
            &json!({ "name": "a", "tty": true }),
        );
        assert!(
            container.starts_with(r#"{"Name":"a","Image":"","Command":null"#),
            "{container}"
        );
        assert!(container.contains(r#""Resources":{"Limits":null,"Requests":null,"Claims":null}"#));
        assert!(
            container.ends_with(r#""Stdin":false,"StdinOnce":false,"TTY":true}"#),
            "{container}"
        );
    }
}
