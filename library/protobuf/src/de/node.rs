//! One value of an object, and where its bytes are.
//!
//! A flat struct that is copied, and one type for all values, so that every visitor is compiled once.

use super::Options;
use super::tree::{NULL, Tree};
use crate::error::{Error, Problem};
use crate::schema::{ABSENT, FieldSchema, Kind, Message};
use crate::{text, wire};

/// A value and where its bytes are.
#[derive(Clone, Copy)]
pub(crate) struct Node<'de> {
    pub(super) kind: NodeKind,
    /// How many levels may still be nested in it.
    pub(super) depth: u8,
    pub(super) cut: Cut,
    /// An integer, a boolean (0 or 1), the bits of a double, or the number of elements.
    pub(super) number: u64,
    /// A string, a message, a run of fields, or JSON.
    pub(super) bytes: &'de [u8],
    /// The field of a list or map.
    pub(super) field: &'static FieldSchema,
    /// The message, if it is one.
    pub(super) message: &'static Message,
    /// The value, if it is a tree.
    pub(super) tree: &'de Tree,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Null,
    Bool,
    Integer,
    Double,
    /// Not yet known to be UTF-8.
    Text,
    Bytes,
    Quantity,
    Time,
    MicroTime,
    Duration,
    /// JSON or CBOR.
    Raw,
    /// A message whose repeated field `number` is presented as a list: strings or messages.
    WrappedStrings,
    WrappedMessages,
    Message,
    List,
    Map,
    /// A tree in place of protobuf.
    Tree,
}

/// Where `managedFields` is left out: in the metadata of the object, or of the items of a list, and not in templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Nothing,
    /// This is the object.
    OfObject,
    /// This is its metadata.
    OfMetadata,
}

/// Whether JSON has a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Present,
    Omitted,
}

impl Flow {
    #[inline]
    fn present_if(present: bool) -> Self {
        if present { Self::Present } else { Self::Omitted }
    }
}

impl<'de> Node<'de> {
    pub(crate) fn of_message(message: &'static Message, bytes: &'de [u8], options: &Options) -> Self {
        Self {
            kind: NodeKind::Message,
            depth: options.max_depth,
            cut: if options.managed_fields {
                Cut::Nothing
            } else {
                Cut::OfObject
            },
            number: 0,
            bytes,
            field: &ABSENT,
            message,
            tree: &NULL,
        }
    }

    pub(crate) fn of_tree(tree: &'de Tree, depth: u8) -> Self {
        Self {
            kind: NodeKind::Tree,
            depth,
            cut: Cut::Nothing,
            number: 0,
            bytes: &[],
            field: &ABSENT,
            message: ABSENT.inner(),
            tree,
        }
    }

    /// The same for a value within it.
    pub(super) fn set_tree(&mut self, tree: &'de Tree) {
        (self.kind, self.tree) = (NodeKind::Tree, tree);
    }

    /// The run of fields of a list or map.
    #[inline]
    pub(crate) fn set_run(
        &mut self,
        field: &'static FieldSchema,
        run: &'de [u8],
        count: u64,
        kind: NodeKind,
    ) {
        (self.kind, self.bytes, self.number, self.field) = (kind, run, count, field);
    }

    /// Sets a single value, and says whether JSON has it. `keep` is whether JSON has zero.
    #[inline]
    pub(crate) fn set(
        &mut self,
        field: &'static FieldSchema,
        wire: u8,
        number: u64,
        bytes: &'de [u8],
        keep: bool,
    ) -> Result<Flow, Error> {
        self.bytes = bytes;
        match field.kind() {
            Kind::String if wire == wire::LENGTH_DELIMITED => {
                self.kind = NodeKind::Text;
                Ok(Flow::present_if(keep || !bytes.is_empty()))
            }
            Kind::Message if wire == wire::LENGTH_DELIMITED => {
                (self.kind, self.message) = (NodeKind::Message, field.inner());
                Ok(Flow::Present)
            }
            Kind::Int32 | Kind::Int64 | Kind::Bool if wire == wire::VARINT => {
                (self.kind, self.number) = match field.kind() {
                    Kind::Int32 => (NodeKind::Integer, i64::from(number as i32).cast_unsigned()),
                    Kind::Int64 => (NodeKind::Integer, number),
                    _ => (NodeKind::Bool, u64::from(number != 0)),
                };
                Ok(Flow::present_if(keep || self.number != 0))
            }
            _ => self.set_other(field, wire, number, bytes, keep),
        }
    }

    fn set_other(
        &mut self,
        field: &'static FieldSchema,
        wire: u8,
        number: u64,
        bytes: &'de [u8],
        keep: bool,
    ) -> Result<Flow, Error> {
        if field.kind() == Kind::Double && wire == wire::FIXED64 {
            return self.set_double(f64::from_bits(number), keep);
        }
        if wire != wire::LENGTH_DELIMITED {
            return Err(Error::wire_type(field.expected()));
        }
        match field.kind() {
            Kind::Bytes => {
                self.kind = NodeKind::Bytes;
                return Ok(Flow::present_if(keep || !bytes.is_empty()));
            }
            Kind::Time | Kind::MicroTime => {
                let micro = field.kind() == Kind::MicroTime;
                self.kind = if micro {
                    NodeKind::MicroTime
                } else {
                    NodeKind::Time
                };
                if text::is_zero_time(bytes, micro)? {
                    self.kind = NodeKind::Null;
                    return Ok(Flow::present_if(!field.omits_zero()));
                }
            }
            Kind::Quantity => {
                self.kind = NodeKind::Quantity;
                self.bytes = wire::first(bytes)?.unwrap_or(b"0");
            }
            Kind::IntOrString => self.set_int_or_string(bytes)?,
            Kind::Duration => {
                self.kind = NodeKind::Duration;
                self.number = first_number(bytes)?;
            }
            Kind::RawExtension => match wire::first(bytes)? {
                Some(json) => (self.kind, self.bytes) = (NodeKind::Raw, json),
                None => self.kind = NodeKind::Null,
            },
            Kind::FieldsV1 | Kind::Json => match wire::first(bytes)?.filter(|json| !json.is_empty()) {
                Some(json) => (self.kind, self.bytes) = (NodeKind::Raw, json),
                None => self.kind = NodeKind::Null,
            },
            Kind::Strings => {
                (self.kind, self.number) = (NodeKind::WrappedStrings, 1);
                return Ok(Flow::present_if(keep || count(bytes, 1)? > 0));
            }
            Kind::SchemaOrBool | Kind::SchemaOrArray | Kind::SchemaOrStrings => {
                self.set_schema(field, bytes)?
            }
            // Numbers with a length: packed, where a single number is expected.
            _ => return Err(Error::wire_type(field.expected())),
        }
        Ok(Flow::Present)
    }

    fn set_double(&mut self, double: f64, keep: bool) -> Result<Flow, Error> {
        if !double.is_finite() {
            return Err(Error::mismatch(
                "invalid value: NaN or infinity, expected a number",
            ));
        }
        (self.kind, self.number) = (NodeKind::Double, double.to_bits());
        // Go prints whole numbers without a point, and large ones with the fewest digits that identify them.
        if double.fract() == 0.0
            && double.abs() < 2e19
            && !(double == 0.0 && double.is_sign_negative())
            && let Ok(integer) = double.to_string().parse::<i64>()
        {
            (self.kind, self.number) = (NodeKind::Integer, integer.cast_unsigned());
        }
        Ok(Flow::present_if(keep || double != 0.0))
    }

    fn set_int_or_string(&mut self, mut rest: &'de [u8]) -> Result<(), Error> {
        let (mut kind, mut integer, mut string) = (0, 0, &[][..]);
        while let Some(part) = wire::next(&mut rest)? {
            match (part.field, part.wire) {
                (1, wire::VARINT) => kind = part.number,
                (2, wire::VARINT) => integer = part.number,
                (3, wire::LENGTH_DELIMITED) => string = part.bytes,
                (1..=3, _) => return Err(Error::wire_type("an IntOrString message")),
                _ => {}
            }
        }
        match kind {
            0 => {
                (self.kind, self.number) = (NodeKind::Integer, i64::from(integer as i32).cast_unsigned());
            }
            1 => (self.kind, self.bytes) = (NodeKind::Text, string),
            _ => {
                return Err(Error::mismatch(
                    "invalid value: unknown type, expected an integer or a string",
                ));
            }
        }
        Ok(())
    }

    /// A schema, or a boolean, list of schemas or list of strings in its place.
    fn set_schema(&mut self, field: &'static FieldSchema, bytes: &'de [u8]) -> Result<(), Error> {
        let (schema_field, other_field) = if field.kind() == Kind::SchemaOrBool {
            (2, 1)
        } else {
            (1, 2)
        };
        let (mut schema, mut other, mut last, mut rest) = (None, None, 0, bytes);
        while let Some(part) = wire::next(&mut rest)? {
            if part.field < last || part.field == schema_field && schema.is_some() {
                return Err(Error::not_canonical());
            }
            if part.field == schema_field {
                schema = Some(part.message()?);
            } else if part.field == other_field {
                other = Some(part);
            } else {
                continue;
            }
            last = part.field;
        }
        let schema_message = field
            .inner()
            .field(schema_field)
            .map_or(field.inner(), FieldSchema::inner);
        self.message = schema_message;
        match (field.kind(), other, schema) {
            (Kind::SchemaOrArray, Some(_), _) => (self.kind, self.number) = (NodeKind::WrappedMessages, 2),
            (Kind::SchemaOrStrings, Some(_), _) => (self.kind, self.number) = (NodeKind::WrappedStrings, 2),
            (_, _, Some(schema)) => (self.kind, self.bytes) = (NodeKind::Message, schema),
            (Kind::SchemaOrBool, allows, None) => {
                self.kind = NodeKind::Bool;
                self.number = u64::from(allows.is_some_and(|part| part.number != 0));
            }
            (_, _, None) => self.kind = NodeKind::Null,
        }
        Ok(())
    }

    /// The value of a field that is absent from the wire and that JSON has all the same.
    pub(crate) fn set_absent(&mut self, field: &'static FieldSchema) -> Result<Flow, Error> {
        if field.is_null_if_absent() {
            self.kind = NodeKind::Null;
            return Ok(Flow::Present);
        }
        let wire = match field.kind() {
            Kind::Bool | Kind::Int32 | Kind::Int64 => wire::VARINT,
            Kind::Double => wire::FIXED64,
            _ => wire::LENGTH_DELIMITED,
        };
        self.set(field, wire, 0, &[], field.keeps_zero())
    }

    /// The value of a map entry; Go's zero if it has none.
    pub(crate) fn set_entry(
        &mut self,
        field: &'static FieldSchema,
        value: Option<wire::Part<'de>>,
    ) -> Result<(), Error> {
        let zero = match field.kind() {
            Kind::Bool | Kind::Int32 | Kind::Int64 => wire::VARINT,
            Kind::Double => wire::FIXED64,
            _ => wire::LENGTH_DELIMITED,
        };
        let part = value.unwrap_or(wire::Part {
            field: 2,
            wire: zero,
            number: 0,
            bytes: &[],
        });
        self.set(field, part.wire, part.number, part.bytes, true)
            .map(drop)
    }

    /// Enters a message, list or map.
    #[inline]
    pub(super) fn deeper(&mut self) -> Result<(), Error> {
        match self.depth.checked_sub(1) {
            Some(depth) => {
                self.depth = depth;
                Ok(())
            }
            None => Err(Error::new(Problem::TooDeep)),
        }
    }
}

fn first_number(mut rest: &[u8]) -> Result<u64, Error> {
    let mut found = 0;
    while let Some(part) = wire::next(&mut rest)? {
        if part.field == 1 {
            if part.wire != wire::VARINT {
                return Err(Error::wire_type("a 64-bit integer"));
            }
            found = part.number;
        }
    }
    Ok(found)
}

/// How often a field occurs in a message.
pub(super) fn count(mut rest: &[u8], field: u32) -> Result<u64, Error> {
    let mut count = 0;
    while let Some(part) = wire::next(&mut rest)? {
        count += u64::from(part.field == field);
    }
    Ok(count)
}
