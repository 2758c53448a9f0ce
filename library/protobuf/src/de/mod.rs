//! Decoding: presents a protobuf message to serde as its JSON would be presented.
//!
//! Any `T: DeserializeOwned` that reads the JSON of an object reads its protobuf, with the same value.

mod access;
mod key;
mod node;
mod select;
mod tree;
mod visit;

use serde::de::{DeserializeOwned, Deserializer, Visitor};

pub(crate) use node::{Flow, Node, NodeKind};
use tree::Tree;

use crate::canonical::canonical_bytes;
use crate::error::Error;
use crate::schema::Message;

/// What to decode, and how much of it at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Whether `metadata.managedFields` is decoded. On by default.
    pub managed_fields: bool,
    /// Larger objects are an error. 16 MiB by default.
    pub max_size: usize,
    /// More deeply nested messages, lists and maps are an error. 128 by default, the limit of `serde_json`.
    pub max_depth: u8,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            managed_fields: true,
            max_size: 16 << 20,
            max_depth: 128,
        }
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves `metadata.managedFields` out.
    #[must_use]
    pub fn without_managed_fields(mut self) -> Self {
        self.managed_fields = false;
        self
    }

    /// Sets the size limit.
    #[must_use]
    pub fn max_size(mut self, bytes: usize) -> Self {
        self.max_size = bytes;
        self
    }

    /// Sets the depth limit.
    #[must_use]
    pub fn max_depth(mut self, depth: u8) -> Self {
        self.max_depth = depth;
        self
    }
}

/// `apiVersion` and `kind`, which protobuf has around an object and JSON inside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta<'a> {
    /// Group and version, such as `apps/v1`.
    pub api_version: &'a str,
    /// The kind, such as `Deployment`.
    pub kind: &'a str,
}

/// Decodes the bytes of one message.
///
/// `type_meta` is presented as `apiVersion` and `kind` of the object; pass `None` for items of a list, whose JSON has
/// neither.
///
/// # Errors
///
/// The bytes are malformed or exceed a limit, or they are not a `T`.
pub fn from_message<T: DeserializeOwned>(
    message: &'static Message,
    bytes: &[u8],
    type_meta: Option<TypeMeta<'_>>,
    options: &Options,
) -> Result<T, Error> {
    match T::deserialize(ObjectDeserializer::new(message, bytes, type_meta, options)?) {
        Err(error) if error.is_not_canonical() => {
            let canonical = canonical_bytes(message, bytes, options.max_depth)?;
            T::deserialize(ObjectDeserializer::new(message, &canonical, type_meta, options)?)
        }
        result => result,
    }
}

/// Why a JSON value is not a `T`: the path, the class of the error and the expected type, and never a value. `None` if it is
/// one, or if `T` depends on the encoding, as raw JSON does.
///
/// Types are compiled for one deserializer of JSON and one of protobuf. The errors of the former quote values, so the value
/// goes through the latter.
pub fn explain_json<T: DeserializeOwned>(value: serde_json::Value) -> Option<String> {
    let tree = Tree::from(value);
    let error = T::deserialize(Node::of_tree(&tree, u8::MAX)).err()?;
    (!error.depends_on_encoding()).then(|| error.as_of_json())
}

/// A serde deserializer over one message, for types that borrow and for seeds.
///
/// It requires the fields in the order in which Go writes them, and fails with
/// [`ErrorKind::NotCanonical`](crate::ErrorKind::NotCanonical) otherwise. [`from_message`] has no such requirement.
pub struct ObjectDeserializer<'de> {
    node: Node<'de>,
    type_meta: Option<TypeMeta<'de>>,
}

impl<'de> ObjectDeserializer<'de> {
    /// A deserializer over the bytes of one message.
    ///
    /// # Errors
    ///
    /// The message is larger than the limit.
    pub fn new(
        message: &'static Message,
        bytes: &'de [u8],
        type_meta: Option<TypeMeta<'de>>,
        options: &Options,
    ) -> Result<Self, Error> {
        if bytes.len() > options.max_size {
            return Err(Error::too_large(options.max_size));
        }
        Ok(Self {
            node: Node::of_message(message, bytes, options),
            type_meta,
        })
    }
}

impl<'de> Deserializer<'de> for ObjectDeserializer<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(access::Entries::new(self.node, self.type_meta)?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map struct enum identifier
    }
}
