//! What reading paths needs of a value.

use super::access::Items;
use super::node::{Node, NodeKind};
use crate::error::Error;
use crate::schema::{FieldSchema, Message};

impl<'de> Node<'de> {
    /// The bytes of a message.
    pub(crate) fn message_bytes(&self) -> Option<&'de [u8]> {
        (self.kind == NodeKind::Message).then_some(self.bytes)
    }

    /// The field of a message.
    pub(crate) fn schema_field(&self, number: u32) -> Option<&'static FieldSchema> {
        self.message
            .field(number)
            .filter(|_| self.kind == NodeKind::Message)
    }

    /// The message and its bytes.
    pub(crate) fn parts(&self) -> Option<(&'static Message, &'de [u8])> {
        (self.kind == NodeKind::Message).then_some((self.message, self.bytes))
    }

    /// The field and the entries of a map.
    pub(crate) fn map_run(&self) -> Option<(&'static FieldSchema, &'de [u8])> {
        (self.kind == NodeKind::Map).then_some((self.field, self.bytes))
    }

    /// The elements of a list.
    pub(crate) fn elements(&self) -> Result<Option<Items<'de>>, Error> {
        match self.kind {
            NodeKind::List | NodeKind::WrappedStrings | NodeKind::WrappedMessages => {
                Items::new(*self).map(Some)
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn is_scalar(&self) -> bool {
        !matches!(
            self.kind,
            NodeKind::Message
                | NodeKind::List
                | NodeKind::Map
                | NodeKind::WrappedStrings
                | NodeKind::WrappedMessages
                | NodeKind::Null
        )
    }

    /// The string, if it is UTF-8.
    pub(crate) fn borrowed_text(&self) -> Option<&'de str> {
        match self.kind {
            NodeKind::Text => std::str::from_utf8(self.bytes).ok(),
            _ => None,
        }
    }

    /// Whether two values of one path are the same, byte by byte.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind
            && match self.kind {
                NodeKind::Null => true,
                NodeKind::Bool | NodeKind::Integer | NodeKind::Double | NodeKind::Duration => {
                    self.number == other.number
                }
                _ => self.bytes == other.bytes,
            }
    }
}
