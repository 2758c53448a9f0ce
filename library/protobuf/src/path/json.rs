//! Reading a path from JSON: from a tree, or from the bytes of a document.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::FieldStep;

/// One step through JSON.
#[derive(Clone, Debug)]
pub(crate) enum JsonStep {
    /// A member of an object.
    Name(Box<str>),
    /// A member of an object, or an element of an array by its identity: its member `key`, or the usual ones.
    Selector {
        text: Box<str>,
        key: Option<&'static str>,
    },
    Index(usize),
}

impl From<&FieldStep> for JsonStep {
    fn from(step: &FieldStep) -> Self {
        match step {
            FieldStep::Name(name) => Self::Name(name.clone()),
            FieldStep::Selector(text) => Self::Selector {
                text: text.clone(),
                key: None,
            },
            FieldStep::Index(index) => Self::Index(*index),
        }
    }
}

impl JsonStep {
    /// The name of the member it selects from an object.
    fn member(&self) -> Option<&str> {
        match self {
            Self::Name(name) | Self::Selector { text: name, .. } => Some(name),
            Self::Index(_) => None,
        }
    }

    /// The part of a value.
    pub(crate) fn select<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match value {
            Value::Object(members) => members.get(self.member()?),
            Value::Array(elements) => match self {
                Self::Name(_) => None,
                Self::Index(index) => elements.get(*index),
                Self::Selector { text, key } => {
                    elements.iter().find(|element| is_identified(element, *key, text))
                }
            },
            _ => None,
        }
    }
}

/// The members that identify an element if nothing else is known.
const IDENTITIES: [&str; 3] = ["name", "type", "key"];

fn is_identified(element: &Value, key: Option<&str>, text: &str) -> bool {
    match (element, key) {
        (Value::Object(members), Some(key)) => members.get(key).is_some_and(|value| is_text(value, text)),
        (Value::Object(members), None) => IDENTITIES
            .iter()
            .find_map(|name| members.get(*name))
            .is_some_and(|value| is_text(value, text)),
        (scalar, _) => is_text(scalar, text),
    }
}

fn is_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => value == text,
        Value::Number(number) => number.to_string() == text,
        _ => false,
    }
}

/// Reads the value at the end of the steps.
pub(crate) fn read_json(steps: &[JsonStep], document: &[u8]) -> Result<Option<Value>, serde_json::Error> {
    find_raw(steps, document)?.map(Found::decode).transpose()
}

/// Whether the value at the end of the steps differs.
pub(crate) fn changed_json(steps: &[JsonStep], old: &[u8], new: &[u8]) -> Result<bool, serde_json::Error> {
    let (old, new) = (find_raw(steps, old)?, find_raw(steps, new)?);
    match (old, new) {
        (None, None) => Ok(false),
        (Some(Found::Raw(old)), Some(Found::Raw(new))) if old == new => Ok(false),
        (Some(old), Some(new)) => Ok(old.decode()? != new.decode()?),
        _ => Ok(true),
    }
}

/// A value that was found.
enum Found<'a> {
    /// As it is in the document.
    Raw(&'a str),
    /// An element of a list, which was decoded to be identified.
    Value(Value),
}

impl Found<'_> {
    fn decode(self) -> Result<Value, serde_json::Error> {
        match self {
            Self::Raw(raw) => serde_json::from_str(raw),
            Self::Value(value) => Ok(value),
        }
    }
}

/// Finds the value at the end of the steps, without decoding it where possible.
fn find_raw<'a>(steps: &[JsonStep], document: &'a [u8]) -> Result<Option<Found<'a>>, serde_json::Error> {
    let mut at: &RawValue = serde_json::from_slice(document)?;
    for (depth, step) in steps.iter().enumerate() {
        match at.get().as_bytes().first() {
            Some(b'{') => {
                let Some(name) = step.member() else {
                    return Ok(None);
                };
                let mut deserializer = serde_json::Deserializer::from_str(at.get());
                match Member(name).deserialize(&mut deserializer)? {
                    Some(member) => at = member,
                    None => return Ok(None),
                }
            }
            Some(b'[') => {
                let tree: Value = serde_json::from_str(at.get())?;
                let found = steps[depth..]
                    .iter()
                    .try_fold(&tree, |value, step| step.select(value));
                return Ok(found.cloned().map(Found::Value));
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(Found::Raw(at.get())))
}

/// Reads one member of an object; the last one if there are several, as trees have it.
struct Member<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_wanted) = map.next_key_seed(IsName(self.0))? {
            if is_wanted {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Compares a key without copying it.
struct IsName<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for IsName<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsName<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}
