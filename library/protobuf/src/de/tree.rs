//! A tree in place of protobuf, to explain why JSON is not of a type.
//!
//! It goes through the deserializer of protobuf: one of its own would be compiled for every type once more.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IntoDeserializer, Unexpected,
    VariantAccess, Visitor,
};
use serde_json::{Number, Value};

use super::access::Entries;
use super::node::Node;
use crate::error::Error;

/// A value whose elements and entries have positions.
pub(crate) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

pub(crate) static NULL: Tree = Tree::Null;

impl From<Value> for Tree {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(members) => Self::Map(
                members
                    .into_iter()
                    .map(|(key, value)| (key, value.into()))
                    .collect(),
            ),
        }
    }
}

impl Tree {
    /// What it is, without its value.
    pub(super) fn unexpected(&self) -> Unexpected<'static> {
        match self {
            Self::Null => Unexpected::Unit,
            Self::Bool(_) => Unexpected::Bool(false),
            Self::Number(number) if number.is_f64() => Unexpected::Float(0.0),
            Self::Number(_) => Unexpected::Signed(0),
            Self::Text(_) => Unexpected::Str(""),
            Self::List(_) => Unexpected::Seq,
            Self::Map(_) => Unexpected::Map,
        }
    }
}

/// A variant of an enum, alone or with what it holds.
pub(super) struct Variant<'de> {
    name: &'de str,
    content: Content<'de>,
}

impl<'de> Variant<'de> {
    /// `None` for a value that is not an enum.
    pub(super) fn of(node: Node<'de>) -> Option<Self> {
        match node.tree {
            Tree::Text(name) => Some(Self {
                name,
                content: Content(None),
            }),
            Tree::Map(members) => {
                let [(name, content)] = &**members else {
                    return None;
                };
                let mut inner = node;
                inner.set_tree(content);
                Some(Self {
                    name,
                    content: Content(Some(inner)),
                })
            }
            _ => None,
        }
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Content<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content<'de>), Error> {
        let name: StrDeserializer<'_, Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self.content))
    }
}

pub(super) struct Content<'de>(Option<Node<'de>>);

fn missing(expected: &dyn Expected) -> Error {
    Error::invalid_type(Unexpected::UnitVariant, expected)
}

impl<'de> VariantAccess<'de> for Content<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.0.map(|node| node.tree) {
            None | Some(Tree::Null) => Ok(()),
            Some(_) => Err(Error::invalid_type(Unexpected::NewtypeVariant, &"unit variant")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        match self.0 {
            Some(node) => seed.deserialize(node),
            None => Err(missing(&"newtype variant")),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Some(node) if matches!(node.tree, Tree::List(_)) => node.deserialize_any(visitor),
            _ => Err(missing(&"tuple variant")),
        }
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Some(node) if matches!(node.tree, Tree::Map(_)) => visitor.visit_map(Entries::new(node, None)?),
            _ => Err(missing(&"struct variant")),
        }
    }
}
