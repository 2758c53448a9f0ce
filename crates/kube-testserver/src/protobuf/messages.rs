//! The protobuf messages of the built-in kinds: field numbers, names and types.
//!
//! The table is a text file: `= group/version.Kind`, followed by lines of number, name and type. A name `^` means that
//! the fields of the message are inlined into the parent. A type may be a list (`[]`) or a map from strings (`{}`); `*`
//! marks scalars that are significant even if zero or empty.

use std::collections::HashMap;
use std::sync::OnceLock;

const TABLE: &str = include_str!("messages.txt");

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub number: u32,
    /// The name in JSON; empty if the fields of the message are inlined into the parent.
    pub name: &'static str,
    pub shape: Shape,
    pub kind: Type,
    /// Whether zero or empty is significant.
    pub keeps_zero: bool,
}

/// The cardinality of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Single,
    List,
    Map,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Bytes,
    Flag,
    Integer,
    Double,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrText,
    /// A message that wraps JSON bytes.
    Raw,
    /// A message that wraps a list of strings.
    Texts,
    Message(&'static str),
}

/// The fields of a message, by its name such as `core/v1.Pod`.
pub(super) fn message(name: &str) -> Option<&'static [Field]> {
    static MESSAGES: OnceLock<HashMap<&'static str, Vec<Field>>> = OnceLock::new();
    MESSAGES.get_or_init(parse).get(name).map(Vec::as_slice)
}

fn parse() -> HashMap<&'static str, Vec<Field>> {
    let mut messages: HashMap<&'static str, Vec<Field>> = HashMap::new();
    let mut current = "";
    for line in TABLE.lines() {
        if let Some(name) = line.strip_prefix("= ") {
            current = name;
            messages.insert(name, Vec::new());
        } else if let (Some(fields), Some(field)) = (messages.get_mut(current), field(line)) {
            fields.push(field);
        }
    }
    messages
}

fn field(line: &'static str) -> Option<Field> {
    let mut words = line.split(' ');
    let number = words.next()?.parse().ok()?;
    let name = words.next()?;
    let kind = words.next()?;
    let (keeps_zero, kind) = match kind.strip_prefix('*') {
        Some(kind) => (true, kind),
        None => (false, kind),
    };
    let (shape, kind) = match (kind.strip_prefix("[]"), kind.strip_prefix("{}")) {
        (Some(kind), _) => (Shape::List, kind),
        (_, Some(kind)) => (Shape::Map, kind),
        _ => (Shape::Single, kind),
    };
    let kind = match kind {
        "string" => Type::Text,
        "bytes" => Type::Bytes,
        "bool" => Type::Flag,
        "int" => Type::Integer,
        "double" => Type::Double,
        "time" => Type::Time,
        "microtime" => Type::MicroTime,
        "duration" => Type::Duration,
        "quantity" => Type::Quantity,
        "intorstring" => Type::IntOrText,
        "raw" => Type::Raw,
        "items:string" => Type::Texts,
        message => Type::Message(message),
    };
    Some(Field {
        number,
        name: if name == "^" { "" } else { name },
        shape,
        kind,
        keeps_zero,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_parses_and_refers_to_known_messages() {
        let messages = parse();
        let lines = TABLE.lines().filter(|line| !line.starts_with("= ")).count();
        assert_eq!(messages.values().map(Vec::len).sum::<usize>(), lines);
        for (name, fields) in &messages {
            for field in fields {
                if let Type::Message(inner) = field.kind {
                    assert!(
                        messages.contains_key(inner),
                        "{name}.{} is a {inner}, which is missing",
                        field.name
                    );
                }
            }
        }
    }

    #[test]
    fn every_stored_built_in_kind_has_a_message() {
        for kind in crate::kinds::Registry::builtin()
            .iter()
            .filter(|kind| kind.group != "apiextensions.k8s.io")
        {
            let name = super::super::message_name(&kind.api_version(), &kind.kind);
            assert!(message(&name).is_some(), "{name}");
        }
    }
}
