//! The elements of lists, and the fields and entries of messages and maps.
//!
//! What walks the bytes is not generic, so that it is compiled once.

use std::borrow::Cow;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess};

use super::TypeMeta;
use super::key::Key;
use super::node::{self, Cut, Flow, Node, NodeKind};
use super::tree::Tree;
use crate::error::{Error, Step};
use crate::schema::{FieldSchema, Message, Shape};
use crate::{text, wire};

/// The elements of a list.
pub(crate) struct Items<'de> {
    /// The list; its bytes are the remaining ones.
    list: Node<'de>,
    /// The field of the elements within a wrapper; 0 for a repeated field.
    wrapped: u32,
    left: u64,
    index: usize,
}

impl<'de> Items<'de> {
    pub(super) fn new(mut list: Node<'de>) -> Result<Self, Error> {
        list.deeper()?;
        let (wrapped, left) = match list.kind {
            NodeKind::List | NodeKind::Tree => (0, list.number),
            _ => (list.number as u32, node::count(list.bytes, list.number as u32)?),
        };
        Ok(Self {
            list,
            wrapped,
            left,
            index: 0,
        })
    }

    pub(crate) fn advance(&mut self) -> Result<Option<Node<'de>>, Error> {
        loop {
            let Some(part) = wire::next(&mut self.list.bytes)? else {
                return Ok(self.advance_tree());
            };
            let mut item = self.list;
            if self.wrapped == 0 {
                item.set(self.list.field, part.wire, part.number, part.bytes, true)?;
            } else if part.field == self.wrapped {
                item.bytes = part.message()?;
                item.kind = match self.list.kind {
                    NodeKind::WrappedStrings => NodeKind::Text,
                    _ => NodeKind::Message,
                };
            } else {
                continue;
            }
            self.left = self.left.saturating_sub(1);
            return Ok(Some(item));
        }
    }

    #[cold]
    fn advance_tree(&self) -> Option<Node<'de>> {
        let Tree::List(items) = self.list.tree else {
            return None;
        };
        let mut item = self.list;
        item.set_tree(items.get(self.index)?);
        Some(item)
    }

    #[cold]
    fn locate(&self, error: Error) -> Error {
        error.at(Step::Index(self.index))
    }
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        match self.advance() {
            // No closures: they would be compiled for every type, in development builds as functions.
            Ok(Some(item)) => match seed.deserialize(item) {
                Ok(value) => {
                    self.index += 1;
                    Ok(Some(value))
                }
                Err(error) => Err(self.locate(error)),
            },
            Ok(None) => Ok(None),
            Err(error) => Err(self.locate(error)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

/// Messages embedded in each other, at most.
const MAX_EMBEDDED: usize = 2;

/// Where to continue after an embedded message.
#[derive(Clone, Copy)]
struct Outer<'de> {
    message: &'static Message,
    rest: &'de [u8],
    last: u32,
    seen: u64,
}

/// The fields of a message, or the entries of a map.
pub(super) struct Entries<'de> {
    /// The current field or key.
    name: &'de str,
    /// The current key, if it is not UTF-8.
    invalid_key: &'de [u8],
    /// The current value.
    value: Node<'de>,
    rest: &'de [u8],
    message: &'static Message,
    /// The field of a map.
    field: &'static FieldSchema,
    is_map: bool,
    cut: Cut,
    /// The number of embedded messages around the fields being read.
    embedded: u8,
    /// How many of `apiVersion` and `kind` were presented.
    presented: u8,
    /// The number of the last known field: they ascend.
    last: u32,
    /// The numbers of the fields seen.
    seen: u64,
    /// The number of entries left in a map.
    left: u64,
    type_meta: Option<TypeMeta<'de>>,
    /// The map, if it is a tree.
    tree: &'de Tree,
    outer: [Outer<'de>; MAX_EMBEDDED],
}

impl<'de> Entries<'de> {
    #[inline]
    pub(super) fn new(mut of: Node<'de>, type_meta: Option<TypeMeta<'de>>) -> Result<Self, Error> {
        of.deeper()?;
        Ok(Self {
            name: "",
            invalid_key: &[],
            rest: of.bytes,
            message: of.message,
            field: of.field,
            is_map: of.kind == NodeKind::Map,
            cut: of.cut,
            embedded: 0,
            presented: 0,
            last: 0,
            seen: 0,
            left: of.number,
            type_meta,
            tree: of.tree,
            outer: [Outer {
                message: of.message,
                rest: &[],
                last: 0,
                seen: 0,
            }; MAX_EMBEDDED],
            value: Node {
                cut: Cut::Nothing,
                ..of
            },
        })
    }

    /// Moves to the next field that JSON has.
    fn advance(&mut self) -> Result<bool, Error> {
        if self.is_map {
            return self.advance_map();
        }
        if self.type_meta.is_some() {
            return Ok(self.present_type_meta());
        }
        loop {
            let start = self.rest;
            if start.is_empty() {
                match self.advance_absent()? {
                    Some(advanced) => return Ok(advanced),
                    None => continue,
                }
            }
            let part = wire::part(&mut self.rest)?;
            // Fields of a newer server are skipped.
            let Some(field) = self.message.field(part.field) else {
                continue;
            };
            if part.field <= self.last {
                return Err(Error::not_canonical());
            }
            self.last = part.field;
            self.seen |= 1 << part.field;
            self.name = field.name();
            if self.cut == Cut::OfObject {
                self.value.cut = self.cut_of_field(part.field);
            }
            match field.shape() {
                Shape::Single => {
                    let keep = field.keeps_zero();
                    if self.value.set(field, part.wire, part.number, part.bytes, keep)? == Flow::Present {
                        return Ok(true);
                    }
                }
                Shape::List | Shape::Map => {
                    if field.is_numeric()
                        && field.shape() == Shape::List
                        && part.wire == wire::LENGTH_DELIMITED
                    {
                        return Err(Error::not_canonical());
                    }
                    let count = wire::run(&mut self.rest, part.field, part.wire)?;
                    if field.is_managed_fields() && self.cut == Cut::OfMetadata {
                        continue;
                    }
                    let run = &start[..start.len() - self.rest.len()];
                    let kind = if field.shape() == Shape::List {
                        NodeKind::List
                    } else {
                        NodeKind::Map
                    };
                    self.value.set_run(field, run, count, kind);
                    return Ok(true);
                }
                Shape::Embedded => self.enter(field, part.message()?)?,
                Shape::None => {}
            }
        }
    }

    fn cut_of_field(&self, number: u32) -> Cut {
        match number {
            1 if self.message.has_object_meta() => Cut::OfMetadata,
            2 if self.message.items().is_some() => Cut::OfObject,
            _ => Cut::Nothing,
        }
    }

    /// At the end of a message: the fields that JSON has although they are absent. `None` to go on reading.
    fn advance_absent(&mut self) -> Result<Option<bool>, Error> {
        let missing = self.message.always() & !self.seen;
        if missing != 0 {
            let number = missing.trailing_zeros();
            self.seen |= 1 << number;
            let Some(field) = self.message.field(number) else {
                return Ok(None);
            };
            if field.shape() == Shape::Embedded {
                self.enter(field, &[])?;
                return Ok(None);
            }
            self.name = field.name();
            return Ok(match self.value.set_absent(field)? {
                Flow::Present => Some(true),
                Flow::Omitted => None,
            });
        }
        let Some(embedded) = self.embedded.checked_sub(1) else {
            return Ok(Some(self.advance_tree()));
        };
        self.embedded = embedded;
        let outer = self.outer[usize::from(embedded)];
        (self.message, self.rest, self.last, self.seen) = (outer.message, outer.rest, outer.last, outer.seen);
        Ok(None)
    }

    /// Moves to the next entry of a tree.
    #[cold]
    fn advance_tree(&mut self) -> bool {
        let Tree::Map(entries) = self.tree else {
            return false;
        };
        let Some((key, value)) = entries.get(self.left as usize) else {
            return false;
        };
        self.left += 1;
        self.name = key;
        self.value.set_tree(value);
        true
    }

    fn enter(&mut self, field: &'static FieldSchema, bytes: &'de [u8]) -> Result<(), Error> {
        let Some(outer) = self.outer.get_mut(usize::from(self.embedded)) else {
            return Err(Error::malformed("embedded too deeply"));
        };
        *outer = Outer {
            message: self.message,
            rest: self.rest,
            last: self.last,
            seen: self.seen,
        };
        self.embedded += 1;
        (self.message, self.rest, self.last, self.seen) = (field.inner(), bytes, 0, 0);
        Ok(())
    }

    fn present_type_meta(&mut self) -> bool {
        let Some(type_meta) = self.type_meta else {
            return false;
        };
        self.value.kind = NodeKind::Text;
        if self.presented == 0 {
            (self.name, self.value.bytes) = ("apiVersion", type_meta.api_version.as_bytes());
        } else {
            (self.name, self.value.bytes) = ("kind", type_meta.kind.as_bytes());
            self.type_meta = None;
        }
        self.presented += 1;
        true
    }

    fn advance_map(&mut self) -> Result<bool, Error> {
        let Some(part) = wire::next(&mut self.rest)? else {
            return Ok(false);
        };
        self.left = self.left.saturating_sub(1);
        let field = self.field;
        let (mut key, mut value, mut entry) = (&[][..], None, part.message()?);
        while let Some(part) = wire::next(&mut entry)? {
            match part.field {
                1 => key = part.message()?,
                2 => value = Some(part),
                _ => {}
            }
        }
        match std::str::from_utf8(key) {
            Ok(name) => (self.name, self.invalid_key) = (name, &[]),
            Err(_) => (self.name, self.invalid_key) = ("", key),
        }
        self.value.set_entry(field, value)?;
        Ok(true)
    }

    #[cold]
    fn locate(&self, error: Error) -> Error {
        match self.is_map || matches!(self.tree, Tree::Map(_)) {
            true => error.at_key(self.name),
            false if self.name.is_empty() => error,
            // The names of fields are static; those of the walk are not known to be.
            false => self.locate_field(error),
        }
    }

    #[cold]
    fn locate_field(&self, error: Error) -> Error {
        let of = |message: &'static Message| {
            message
                .fields()
                .map(|(_, field)| field.name())
                .find(|name| *name == self.name)
        };
        let step = of(self.message).or(match self.name {
            "apiVersion" => Some("apiVersion"),
            "kind" => Some("kind"),
            _ => None,
        });
        match step {
            Some(name) => error.at(Step::Field(name)),
            None => error,
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        match self.advance() {
            Ok(true) => {
                let key = match self.invalid_key.is_empty() {
                    true => Cow::Borrowed(self.name),
                    false => Cow::Owned(text::lossy(self.invalid_key)),
                };
                match seed.deserialize(Key(key)) {
                    Ok(key) => Ok(Some(key)),
                    Err(error) => Err(error),
                }
            }
            Ok(false) => Ok(None),
            Err(error) => Err(self.locate(error)),
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        match seed.deserialize(self.value) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.locate(error)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        self.is_map.then_some(self.left as usize)
    }
}
