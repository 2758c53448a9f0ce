//! The values of expressions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value as Json;

use super::failure::Failure;
use super::functions::{Cidr, Quantity, Url};

/// The value of an expression.
pub(super) type Outcome = Result<Value, Failure>;

/// A value. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A text.
    String(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// In nanoseconds.
    Duration(i64),
    /// A point in time.
    Timestamp(Timestamp),
    /// A list.
    List(Arc<List>),
    /// A map or an object.
    Map(Arc<BTreeMap<Key, Value>>),
    /// A value that may be absent.
    Optional(Option<Arc<Value>>),
    /// The name of a type.
    Type(Arc<str>),
    /// A URL.
    Url(Arc<Url>),
    /// A quantity, such as `500m`.
    Quantity(Quantity),
    /// An IP address.
    Ip(IpAddr),
    /// A block of IP addresses.
    Cidr(Cidr),
    /// The name of a format.
    Format(&'static str),
}

/// A list, and how its elements are identified.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The elements.
    pub items: Vec<Value>,
    /// What makes it equal to another list.
    pub identity: Identity,
}

/// What makes two lists equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// The order of the elements counts.
    #[default]
    Position,
    /// It does not: `x-kubernetes-list-type: set`.
    Element,
    /// Elements are identified by these fields: `x-kubernetes-list-type: map`.
    Fields(Arc<[String]>),
}

/// The key of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// `true` or `false`.
    Bool(bool),
    /// An integer. Unsigned and whole floating-point numbers are equal to it.
    Int(i64),
    /// A text.
    String(Arc<str>),
}

impl Key {
    /// The key that a value is; `None` if values of this type cannot be keys.
    pub(super) fn of(value: &Value) -> Option<Key> {
        match value {
            Value::Bool(value) => Some(Key::Bool(*value)),
            Value::Int(value) => Some(Key::Int(*value)),
            Value::Uint(value) => i64::try_from(*value).ok().map(Key::Int),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                Some(Key::Int(*value as i64))
            }
            Value::String(value) => Some(Key::String(value.clone())),
            _ => None,
        }
    }

    pub(super) fn value(&self) -> Value {
        match self {
            Key::Bool(value) => Value::Bool(*value),
            Key::Int(value) => Value::Int(*value),
            Key::String(value) => Value::String(value.clone()),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::String(text.into())
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Value::List(Arc::new(List {
            items,
            identity: Identity::Position,
        }))
    }
}

/// The value of JSON whose types no schema describes.
impl From<&Json> for Value {
    fn from(json: &Json) -> Self {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(whole), _) => Value::Int(whole),
                (None, Some(large)) => Value::Uint(large),
                (None, None) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::from(text.as_str()),
            Json::Array(items) => Value::from(items.iter().map(Value::from).collect::<Vec<_>>()),
            Json::Object(fields) => {
                let entry =
                    |(name, value): (&String, &Json)| (Key::String(name.as_str().into()), value.into());
                Value::Map(Arc::new(fields.iter().map(entry).collect()))
            }
        }
    }
}

impl Value {
    pub(super) fn optional(value: Option<Value>) -> Value {
        Value::Optional(value.map(Arc::new))
    }

    /// The name of the value's type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
            Value::Url(_) => "kubernetes.URL",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Ip(_) => "net.IP",
            Value::Cidr(_) => "net.CIDR",
            Value::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// The size that costs are computed with: the length of texts, lists and maps, otherwise 1.
    pub(super) fn size(&self) -> u64 {
        let size = match self {
            Value::String(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(list) => list.items.len(),
            Value::Map(map) => map.len(),
            _ => 1,
        };
        size as u64
    }

    /// The number of values within this one, and their length: the work of comparing it. Stops counting at a limit.
    pub(super) fn weight(&self, limit: u64) -> u64 {
        let mut weight = self.size();
        if let Value::List(list) = self
            && list.identity != Identity::Position
        {
            // Every element is compared with every other one.
            weight = weight.saturating_mul(weight);
        }
        let mut add = |value: &Value| {
            weight = weight.saturating_add(if weight < limit {
                value.weight(limit - weight)
            } else {
                0
            });
        };
        match self {
            Value::List(list) => list.items.iter().for_each(&mut add),
            Value::Map(map) => map.values().for_each(&mut add),
            Value::Optional(Some(value)) => add(value),
            _ => {}
        }
        weight
    }

    /// Whether this is the zero value of its type, as `optional.ofNonZeroValue` decides it.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Value::Null | Value::Optional(None) => true,
            Value::Bool(value) => !value,
            Value::Int(value) | Value::Duration(value) => *value == 0,
            Value::Uint(value) => *value == 0,
            Value::Double(value) => *value == 0.0,
            Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => self.size() == 0,
            _ => false,
        }
    }

    /// The order of two values; `None` if they have none.
    pub(super) fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::Int(a), Value::Int(b)) | (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
            (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
            (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
            (Value::Double(a), Value::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Value::Int(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
            (Value::Double(a), Value::Uint(b)) => a.partial_cmp(&(*b as f64)),
            (Value::Uint(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

/// Values of different types are unequal, except for numbers.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::List(a), Value::List(b)) => a == b,
            (Value::Map(a), Value::Map(b)) => a == b,
            (Value::Optional(a), Value::Optional(b)) => a == b,
            (Value::Type(a), Value::Type(b)) => a == b,
            (Value::Url(a), Value::Url(b)) => a == b,
            (Value::Quantity(a), Value::Quantity(b)) => a == b,
            (Value::Ip(a), Value::Ip(b)) => a == b,
            (Value::Cidr(a), Value::Cidr(b)) => a == b,
            (Value::Format(a), Value::Format(b)) => a == b,
            (a, b) => a.compare(b) == Some(Ordering::Equal),
        }
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        if self.items.len() != other.items.len() {
            return false;
        }
        match &self.identity {
            Identity::Position => self.items == other.items,
            Identity::Element => self.items.iter().all(|item| other.items.contains(item)),
            Identity::Fields(fields) => self.items.iter().all(|item| {
                let same = |other: &&Value| is_same(fields, item, other);
                other.items.iter().find(same).is_some_and(|other| item == other)
            }),
        }
    }
}

impl List {
    /// The concatenation of two lists. Those with an identity are merged: elements of the second replace those of the
    /// first.
    pub(super) fn concat(&self, other: &List) -> List {
        let mut items = self.items.clone();
        for item in &other.items {
            let known = match &self.identity {
                Identity::Position => None,
                Identity::Element => items.iter().position(|known| known == item),
                Identity::Fields(fields) => items.iter().position(|known| is_same(fields, known, item)),
            };
            match known {
                Some(position) => items[position] = item.clone(),
                None => items.push(item.clone()),
            }
        }
        List {
            items,
            identity: self.identity.clone(),
        }
    }
}

/// Whether two elements have the same values in the fields that identify them.
fn is_same(fields: &[String], a: &Value, b: &Value) -> bool {
    let (Value::Map(a), Value::Map(b)) = (a, b) else {
        return false;
    };
    fields.iter().all(|field| {
        let key = Key::String(field.as_str().into());
        a.get(&key) == b.get(&key)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_equal_across_types_and_other_values_are_not() {
        assert_eq!(Value::Int(1), Value::Double(1.0));
        assert_eq!(Value::Int(1), Value::Uint(1));
        assert_ne!(Value::Int(1), Value::from("1"));
        assert_ne!(Value::Null, Value::Bool(false));
        assert_eq!(
            Value::from(&json!({ "a": [1, 2] })),
            Value::from(&json!({ "a": [1, 2] }))
        );
    }

    #[test]
    fn sets_and_keyed_lists_ignore_the_order() {
        let list = |json: Json, identity: &Identity| {
            let Value::List(list) = Value::from(&json) else {
                panic!("a list")
            };
            List {
                items: list.items.clone(),
                identity: identity.clone(),
            }
        };
        let (a, b) = (json!([1, 2]), json!([2, 1]));
        assert_ne!(
            list(a.clone(), &Identity::Position),
            list(b.clone(), &Identity::Position)
        );
        assert_eq!(list(a, &Identity::Element), list(b, &Identity::Element));
        let fields = Identity::Fields(Arc::from(["k".to_owned()]));
        let first = list(json!([{ "k": 1, "v": 1 }, { "k": 2 }]), &fields);
        let second = list(json!([{ "k": 2 }, { "k": 1, "v": 1 }]), &fields);
        assert_eq!(first, second);
        let merged = first.concat(&list(json!([{ "k": 2, "v": 5 }, { "k": 3 }]), &fields));
        assert_eq!(merged.items.len(), 3);
        assert_eq!(merged.items[1], Value::from(&json!({ "k": 2, "v": 5 })));
    }
}
