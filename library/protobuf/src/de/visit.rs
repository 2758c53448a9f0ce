//! How serde sees a value: one deserializer for all kinds of nodes.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Deserializer, IntoDeserializer, Unexpected, Visitor};
use serde_json::Number;

use super::access::{Entries, Items};
use super::node::{Node, NodeKind};
use super::tree::{Tree, Variant};
use crate::error::Error;
use crate::{cbor, quantity, text};

type Json<'de> = serde_json::Deserializer<serde_json::de::SliceRead<'de>>;

/// Reads JSON inside protobuf. Not a function: it would be compiled for each method and type.
macro_rules! raw {
    ($node:ident.$method:ident($visitor:ident)) => {{
        let mut json = $node.json()?;
        let value = json.$method($visitor)?;
        json.end()?;
        Ok(value)
    }};
}

impl<'de> Node<'de> {
    #[inline]
    fn text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.kind == NodeKind::Text
            && let Ok(text) = std::str::from_utf8(self.bytes)
        {
            return visitor.visit_borrowed_str(text);
        }
        self.other_text(visitor)
    }

    fn other_text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind {
            NodeKind::Text => visitor.visit_string(text::lossy(self.bytes)),
            NodeKind::Quantity => match quantity::canonical(self.bytes)? {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            NodeKind::Time | NodeKind::MicroTime => {
                visitor.visit_str(text::time(self.bytes, self.kind == NodeKind::MicroTime)?.as_str())
            }
            NodeKind::Bytes => visitor.visit_string(STANDARD.encode(self.bytes)),
            NodeKind::Duration => visitor.visit_string(text::duration(self.number.cast_signed())),
            NodeKind::Raw => raw!(self.deserialize_str(visitor)),
            NodeKind::Tree => match self.tree {
                Tree::Text(text) => visitor.visit_borrowed_str(text),
                _ => Err(self.unexpected(&visitor)),
            },
            _ => Err(self.unexpected(&visitor)),
        }
    }

    #[inline]
    fn numeric<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind {
            NodeKind::Integer => match self.number.cast_signed() {
                number @ ..0 => visitor.visit_i64(number),
                _ => visitor.visit_u64(self.number),
            },
            NodeKind::Double => double(f64::from_bits(self.number), visitor),
            NodeKind::Raw => raw!(self.deserialize_any(visitor)),
            NodeKind::Tree => match self.tree {
                Tree::Number(number) => tree_number(number, visitor),
                _ => Err(self.unexpected(&visitor)),
            },
            _ => Err(self.unexpected(&visitor)),
        }
    }

    #[inline]
    fn sequence<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind {
            NodeKind::List | NodeKind::WrappedStrings | NodeKind::WrappedMessages => {
                visitor.visit_seq(Items::new(self)?)
            }
            NodeKind::Raw => raw!(self.deserialize_seq(visitor)),
            NodeKind::Tree if matches!(self.tree, Tree::List(_)) => visitor.visit_seq(Items::new(self)?),
            _ => Err(self.unexpected(&visitor)),
        }
    }

    #[inline]
    fn entries<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind {
            NodeKind::Message | NodeKind::Map => visitor.visit_map(Entries::new(self, None)?),
            NodeKind::Raw => raw!(self.deserialize_map(visitor)),
            NodeKind::Tree if matches!(self.tree, Tree::Map(_)) => {
                visitor.visit_map(Entries::new(self, None)?)
            }
            _ => Err(self.unexpected(&visitor)),
        }
    }

    /// A tree, whatever was asked for: the visitor rejects what it does not expect.
    #[cold]
    fn of_any_type<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Null => visitor.visit_unit(),
            Tree::Bool(value) => visitor.visit_bool(*value),
            Tree::Number(number) => tree_number(number, visitor),
            Tree::Text(text) => visitor.visit_borrowed_str(text),
            Tree::List(_) => visitor.visit_seq(Items::new(self)?),
            Tree::Map(_) => visitor.visit_map(Entries::new(self, None)?),
        }
    }

    /// A deserializer of JSON inside protobuf.
    fn json(&self) -> Result<Json<'de>, Error> {
        match cbor::is_cbor(self.bytes) {
            // Rare, and a tree of it would be one more deserializer to compile every type for.
            true => Err(Error::not_canonical()),
            false => Ok(serde_json::Deserializer::from_slice(self.bytes)),
        }
    }

    #[cold]
    fn unexpected(&self, expected: &dyn de::Expected) -> Error {
        let found = match self.kind {
            NodeKind::Null => Unexpected::Unit,
            NodeKind::Bool => Unexpected::Bool(false),
            NodeKind::Integer => Unexpected::Signed(0),
            NodeKind::Double => Unexpected::Float(0.0),
            NodeKind::Text
            | NodeKind::Bytes
            | NodeKind::Quantity
            | NodeKind::Time
            | NodeKind::MicroTime
            | NodeKind::Duration => Unexpected::Str(""),
            NodeKind::Raw => Unexpected::Other("JSON"),
            NodeKind::WrappedStrings | NodeKind::WrappedMessages | NodeKind::List => Unexpected::Seq,
            NodeKind::Message | NodeKind::Map => Unexpected::Map,
            NodeKind::Tree => self.tree.unexpected(),
        };
        de::Error::invalid_type(found, expected)
    }
}

fn tree_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, Error> {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(value), ..) => visitor.visit_u64(value),
        (_, Some(value), _) => visitor.visit_i64(value),
        (.., value) => visitor.visit_f64(value.unwrap_or(f64::NAN)),
    }
}

/// A double, as serde_json reads what Go prints.
fn double<'de, V: Visitor<'de>>(double: f64, visitor: V) -> Result<V::Value, Error> {
    if double.fract() == 0.0
        && (9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0).contains(&double)
        && let Ok(integer) = double.to_string().parse::<u64>()
    {
        return visitor.visit_u64(integer);
    }
    visitor.visit_f64(double)
}

macro_rules! forward {
    ($inner:ident: $($method:ident)*) => {
        $(#[inline] fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.$inner(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind {
            NodeKind::Null => visitor.visit_unit(),
            NodeKind::Bool => visitor.visit_bool(self.number != 0),
            NodeKind::Integer | NodeKind::Double => self.numeric(visitor),
            NodeKind::Text
            | NodeKind::Bytes
            | NodeKind::Quantity
            | NodeKind::Time
            | NodeKind::MicroTime
            | NodeKind::Duration => self.text(visitor),
            NodeKind::Raw => raw!(self.deserialize_any(visitor)),
            NodeKind::WrappedStrings | NodeKind::WrappedMessages | NodeKind::List => self.sequence(visitor),
            NodeKind::Message | NodeKind::Map => self.entries(visitor),
            NodeKind::Tree => self.of_any_type(visitor),
        }
    }

    forward! { numeric: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
    deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 }
    forward! { text: deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
    deserialize_identifier }
    forward! { sequence: deserialize_seq }
    forward! { entries: deserialize_map }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind {
            NodeKind::Bool => visitor.visit_bool(self.number != 0),
            NodeKind::Raw => raw!(self.deserialize_bool(visitor)),
            NodeKind::Tree => match self.tree {
                Tree::Bool(value) => visitor.visit_bool(*value),
                _ => Err(self.unexpected(&visitor)),
            },
            _ => Err(self.unexpected(&visitor)),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind {
            NodeKind::Null => visitor.visit_none(),
            NodeKind::Tree if matches!(self.tree, Tree::Null) => visitor.visit_none(),
            NodeKind::Raw if self.bytes.trim_ascii() == b"null" || cbor::is_null(self.bytes) => {
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind {
            NodeKind::Null => visitor.visit_unit(),
            NodeKind::Raw => raw!(self.deserialize_unit(visitor)),
            NodeKind::Tree if matches!(self.tree, Tree::Null) => visitor.visit_unit(),
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.sequence(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.sequence(visitor)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        // JSON may have the fields of a struct in an array.
        if self.kind == NodeKind::Tree && matches!(self.tree, Tree::List(_)) {
            return visitor.visit_seq(Items::new(self)?);
        }
        self.entries(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.kind == NodeKind::Text
            && let Ok(text) = std::str::from_utf8(self.bytes)
        {
            return visitor.visit_enum(IntoDeserializer::<Error>::into_deserializer(text));
        }
        if self.kind == NodeKind::Tree {
            return match Variant::of(self) {
                Some(variant) => visitor.visit_enum(variant),
                None => Err(self.unexpected(&visitor)),
            };
        }
        // Other enums are rare: go through a tree.
        let tree: serde_json::Value = de::Deserialize::deserialize(self)?;
        Ok(tree.deserialize_enum(name, variants, visitor)?)
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}
