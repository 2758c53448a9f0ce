//! Single fields of an encoded object.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::canonical::canonical_bytes;
use crate::de::{Flow, Node, NodeKind, Options};
use crate::error::{Error, Step};
use crate::path::{FieldPath, FieldStep, JsonStep, PathError, changed_json, read_json};
use crate::schema::{FieldSchema, Kind, Message, Shape};
use crate::wire::{self, LENGTH_DELIMITED};

/// A path to a field of a kind, to be read from many objects.
///
/// [`path`](crate::path) has the grammar. Within embedded JSON, the steps apply to its objects and arrays.
#[derive(Clone, Debug)]
pub struct Path {
    message: &'static Message,
    steps: Vec<PathStep>,
    /// The same for objects of this kind in JSON.
    json: Vec<JsonStep>,
}

#[derive(Clone, Debug)]
enum PathStep {
    /// The field of a message, after the fields of the messages it is embedded in.
    Field(Vec<u32>, &'static FieldSchema),
    Key(Box<str>),
    /// The element whose field has this text.
    Element(Option<u32>, Box<str>),
    Index(usize),
    /// A step within JSON, which is the one of `json`.
    Json,
}

/// What the steps so far lead to.
enum Place {
    Message(&'static Message),
    List(&'static FieldSchema),
    Map(&'static FieldSchema),
    Strings,
    Json,
    /// A schema, boolean or list: only known from the object. Read like JSON.
    Either,
    Scalar,
}

impl Place {
    fn of_field(field: &'static FieldSchema) -> Self {
        match field.shape() {
            Shape::List => Self::List(field),
            Shape::Map => Self::Map(field),
            _ => Self::of_value(field),
        }
    }

    fn of_value(field: &'static FieldSchema) -> Self {
        match field.kind() {
            Kind::Message => Self::Message(field.inner()),
            Kind::RawExtension | Kind::FieldsV1 | Kind::Json => Self::Json,
            Kind::SchemaOrBool | Kind::SchemaOrArray | Kind::SchemaOrStrings => Self::Either,
            Kind::Strings => Self::Strings,
            _ => Self::Scalar,
        }
    }
}

impl Place {
    /// A step from here, in both encodings, and where it leads.
    fn step(self, step: &FieldStep) -> Result<(PathStep, JsonStep, Self), PathError> {
        let mut json = JsonStep::from(step);
        let (step, next) = match (self, step) {
            (Self::Message(message), FieldStep::Name(name)) => {
                let (numbers, field) = find(message, name).ok_or_else(|| PathError::UnknownField {
                    message: message.name(),
                    field: name.to_string(),
                })?;
                (PathStep::Field(numbers, field), Self::of_field(field))
            }
            (Self::Map(field), FieldStep::Name(key) | FieldStep::Selector(key)) => {
                (PathStep::Key(key.clone()), Self::of_value(field))
            }
            (Self::List(field), FieldStep::Index(index)) => (PathStep::Index(*index), Self::of_value(field)),
            (Self::List(field), FieldStep::Selector(text)) => {
                let has_identity = matches!(field.kind(), Kind::String | Kind::Int32 | Kind::Int64);
                if !has_identity && field.key().is_none() {
                    return Err(PathError::NotSelectable {
                        step: text.to_string(),
                    });
                }
                let key = field.key().and_then(|number| field.inner().field(number));
                json = JsonStep::Selector {
                    text: text.clone(),
                    key: key.map(FieldSchema::name),
                };
                (
                    PathStep::Element(field.key(), text.clone()),
                    Self::of_value(field),
                )
            }
            (Self::Strings, FieldStep::Index(index)) => (PathStep::Index(*index), Self::Scalar),
            (Self::Strings, FieldStep::Selector(text)) => {
                (PathStep::Element(None, text.clone()), Self::Scalar)
            }
            (Self::Json | Self::Either, _) => (PathStep::Json, Self::Json),
            (_, FieldStep::Name(text) | FieldStep::Selector(text)) => {
                return Err(PathError::NotSelectable {
                    step: text.to_string(),
                });
            }
            (_, FieldStep::Index(index)) => {
                return Err(PathError::NotSelectable {
                    step: format!("#{index}"),
                });
            }
        };
        Ok((step, json, next))
    }
}

impl Path {
    /// Parses a path for objects of a message.
    ///
    /// # Errors
    ///
    /// The path is invalid, or the message has no such field.
    pub fn parse(message: &'static Message, path: &str) -> Result<Self, PathError> {
        Self::new(message, &FieldPath::parse(path)?)
    }

    /// The path for objects of a message.
    ///
    /// # Errors
    ///
    /// The message has no such field.
    pub fn new(message: &'static Message, path: &FieldPath) -> Result<Self, PathError> {
        let (mut place, mut steps, mut json) = (Place::Message(message), Vec::new(), Vec::new());
        for step in path.steps() {
            let (step, json_step, next) = place.step(step)?;
            steps.push(step);
            json.push(json_step);
            place = next;
        }
        Ok(Self { message, steps, json })
    }

    /// The message the path was parsed for.
    pub fn message(&self) -> &'static Message {
        self.message
    }

    /// The numbers of the fields on the way, and the field, if the path leads through single messages only.
    pub(super) fn fields(&self) -> Option<(Vec<u32>, &'static FieldSchema)> {
        let mut all = Vec::new();
        let mut last = None;
        for (at, step) in self.steps.iter().enumerate() {
            let PathStep::Field(numbers, field) = step else {
                return None;
            };
            let is_last = at + 1 == self.steps.len();
            if !is_last && (field.shape() != Shape::Single || field.message().is_none()) {
                return None;
            }
            all.extend_from_slice(numbers);
            last = Some(*field);
        }
        last.map(|field| (all, field))
    }

    /// Reads the value from the bytes of an object. `None` if its JSON has no such member.
    ///
    /// # Errors
    ///
    /// The bytes on the way to the value are malformed.
    pub fn read<'a>(&self, object: &'a [u8]) -> Result<Option<RawValue<'a>>, Error> {
        Ok(self.find(object)?.map(|found| match found {
            Found::Node(node) => RawValue(Inner::Node(node)),
            Found::Json(value) => RawValue(Inner::Json(value)),
        }))
    }

    fn find<'a>(&self, object: &'a [u8]) -> Result<Option<Found<'a>>, Error> {
        let mut node = Node::of_message(self.message, object, &Options::default());
        for (at, step) in self.steps.iter().enumerate() {
            let found = match step {
                PathStep::Field(numbers, field) => {
                    let result = node.select_field(numbers, field);
                    result.map_err(|error| error.at(Step::Field(field.name())))?
                }
                PathStep::Key(key) => node.select_key(key).map_err(|error| error.at_key(key))?,
                PathStep::Element(number, text) => node
                    .select_element(*number, text)
                    .map_err(|error| error.at_key(text))?,
                PathStep::Index(index) => node
                    .select_index(*index)
                    .map_err(|error| error.at(Step::Index(*index)))?,
                PathStep::Json => return self.find_json(node, at),
            };
            if !found {
                return Ok(None);
            }
        }
        Ok(Some(Found::Node(node)))
    }

    fn find_json<'a>(&self, node: Node<'a>, from: usize) -> Result<Option<Found<'a>>, Error> {
        let tree: Value = serde::Deserialize::deserialize(node)?;
        let mut steps = self.json[from..].iter();
        let found = steps.try_fold(&tree, |value, step| step.select(value));
        Ok(found.cloned().map(Found::Json))
    }

    /// Reads the value from an object of this kind in JSON. Unlike [`FieldPath::read_json`], it identifies the elements of
    /// lists by the merge keys of the kind.
    ///
    /// # Errors
    ///
    /// The bytes are not JSON.
    pub fn read_json(&self, object: &[u8]) -> Result<Option<Value>, serde_json::Error> {
        read_json(&self.json, object)
    }

    /// Whether the value differs between two versions of an object of this kind in JSON. Equal bytes are recognised
    /// without decoding.
    ///
    /// # Errors
    ///
    /// One of them is not JSON.
    pub fn changed_json(&self, old: &[u8], new: &[u8]) -> Result<bool, serde_json::Error> {
        changed_json(&self.json, old, new)
    }
}

/// The numbers that lead to a field by its name, through embedded messages.
fn find(message: &'static Message, name: &str) -> Option<(Vec<u32>, &'static FieldSchema)> {
    message.fields().find_map(|(number, field)| match field.shape() {
        Shape::Embedded => {
            let (mut numbers, found) = find(field.inner(), name)?;
            numbers.insert(0, number);
            Some((numbers, found))
        }
        _ => (field.name() == name).then(|| (vec![number], field)),
    })
}

enum Found<'a> {
    Node(Node<'a>),
    Json(Value),
}

/// A value read by a [`Path`].
pub struct RawValue<'a>(Inner<'a>);

enum Inner<'a> {
    Node(Node<'a>),
    Json(Value),
}

impl fmt::Debug for RawValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawValue(..)")
    }
}

impl From<Value> for RawValue<'_> {
    fn from(value: Value) -> Self {
        Self(Inner::Json(value))
    }
}

impl<'a> RawValue<'a> {
    /// The string as it is in the bytes; `None` for other values, and for values that are strings only in JSON.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Inner::Node(node) => node.borrowed_text(),
            Inner::Json(value) => value.as_str(),
        }
    }

    /// A scalar as text: a string as JSON has it, a number in decimal, or `true` or `false`. `None` for `null`, lists,
    /// maps and messages.
    ///
    /// # Errors
    ///
    /// The bytes of the value are malformed.
    pub fn text(&self) -> Result<Option<Cow<'_, str>>, Error> {
        if let Some(text) = self.as_str() {
            return Ok(Some(Cow::Borrowed(text)));
        }
        let is_scalar = match &self.0 {
            Inner::Node(node) => node.is_scalar(),
            Inner::Json(_) => true,
        };
        if !is_scalar {
            return Ok(None);
        }
        Ok(match self.to_value()? {
            Value::String(text) => Some(Cow::Owned(text)),
            Value::Number(number) => Some(Cow::Owned(number.to_string())),
            Value::Bool(flag) => Some(Cow::Borrowed(if flag { "true" } else { "false" })),
            _ => None,
        })
    }

    /// The value as a tree.
    ///
    /// # Errors
    ///
    /// The bytes of the value are malformed.
    pub fn to_value(&self) -> Result<Value, Error> {
        self.deserialize()
    }

    /// Decodes the value.
    ///
    /// # Errors
    ///
    /// The bytes of the value are malformed, or they are not a `T`.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, Error> {
        match &self.0 {
            Inner::Json(value) => Ok(T::deserialize(value)?),
            Inner::Node(node) => match T::deserialize(*node) {
                Err(error) if error.is_not_canonical() => match node.parts() {
                    Some((message, bytes)) => {
                        let canonical = canonical_bytes(message, bytes, 128)?;
                        T::deserialize(Node::of_message(message, &canonical, &Options::default()))
                    }
                    None => Err(error),
                },
                result => result,
            },
        }
    }
}

/// Whether the values of a path differ between two versions of an object.
///
/// Equal bytes are recognised without decoding. If the bytes differ, the values are decoded and compared, so
/// that two encodings of the same value are not a change.
///
/// # Errors
///
/// The bytes on the way to one of the values, or of the value, are malformed.
pub fn changed(path: &Path, old: &[u8], new: &[u8]) -> Result<bool, Error> {
    if old == new {
        return Ok(false);
    }
    let (old, new) = (path.read(old)?, path.read(new)?);
    match (&old, &new) {
        (None, None) => Ok(false),
        (Some(RawValue(Inner::Node(a))), Some(RawValue(Inner::Node(b)))) if a.is_same(b) => Ok(false),
        (Some(old), Some(new)) => Ok(old.to_value()? != new.to_value()?),
        _ => Ok(true),
    }
}

impl<'a> Node<'a> {
    /// Moves to a field of a message. False if JSON does not have it.
    fn select_field(&mut self, numbers: &[u32], field: &'static FieldSchema) -> Result<bool, Error> {
        let (Some((&last, embedded)), Some(mut message)) = (numbers.split_last(), self.message_bytes())
        else {
            return Ok(false);
        };
        for &number in embedded {
            message = super::single(message, number)?.unwrap_or_default();
        }
        if matches!(field.shape(), Shape::List | Shape::Map) {
            return self.select_run(message, last, field);
        }
        let (mut found, mut rest) = (None, message);
        while let Some(part) = wire::next(&mut rest)? {
            if part.field == last {
                if found.is_some() && part.wire == LENGTH_DELIMITED && field.kind() != Kind::String {
                    return Err(Error::not_canonical());
                }
                found = Some(part);
            }
        }
        match found {
            Some(part) => {
                let keep = field.keeps_zero();
                Ok(self.set(field, part.wire, part.number, part.bytes, keep)? == Flow::Present)
            }
            None => self.select_absent(field),
        }
    }

    /// A field that is absent from the wire.
    fn select_absent(&mut self, field: &'static FieldSchema) -> Result<bool, Error> {
        Ok(field.is_always() && self.set_absent(field)? == Flow::Present)
    }

    /// Moves to a list or map: the bytes from its first to its last occurrence.
    fn select_run(
        &mut self,
        message: &'a [u8],
        number: u32,
        field: &'static FieldSchema,
    ) -> Result<bool, Error> {
        let (mut start, mut end, mut count, mut gap) = (None, 0, 0, false);
        let mut rest = message;
        while !rest.is_empty() {
            let at = message.len() - rest.len();
            let part = wire::part(&mut rest)?;
            if part.field == number {
                if field.is_numeric() && field.shape() == Shape::List && part.wire == LENGTH_DELIMITED {
                    return Err(Error::not_canonical());
                }
                gap |= start.is_some() && end != at;
                start = start.or(Some(at));
                end = message.len() - rest.len();
                count += 1;
            }
        }
        match start {
            Some(_) if gap => Err(Error::not_canonical()),
            Some(start) => {
                let kind = if field.shape() == Shape::List {
                    NodeKind::List
                } else {
                    NodeKind::Map
                };
                self.set_run(field, &message[start..end], count, kind);
                Ok(true)
            }
            None => self.select_absent(field),
        }
    }

    /// Moves to the value of a key.
    fn select_key(&mut self, wanted: &str) -> Result<bool, Error> {
        let Some((field, mut rest)) = self.map_run() else {
            return Ok(false);
        };
        let mut found = None;
        while let Some(part) = wire::next(&mut rest)? {
            let (mut key, mut value, mut entry) = (&[][..], None, part.message()?);
            while let Some(part) = wire::next(&mut entry)? {
                match part.field {
                    1 => key = part.message()?,
                    2 => value = Some(part),
                    _ => {}
                }
            }
            if key == wanted.as_bytes() {
                found = Some(value);
            }
        }
        match found {
            Some(value) => self.set_entry(field, value).map(|()| true),
            None => Ok(false),
        }
    }

    /// Moves to the element whose field `number`, or which itself, has this text.
    fn select_element(&mut self, number: Option<u32>, wanted: &str) -> Result<bool, Error> {
        let Some(mut elements) = self.elements()? else {
            return Ok(false);
        };
        while let Some(element) = elements.advance()? {
            let mut identity = element;
            if let Some(number) = number {
                let Some(field) = element.schema_field(number) else {
                    return Ok(false);
                };
                if !identity.select_field(&[number], field)? {
                    continue;
                }
            }
            if RawValue(Inner::Node(identity)).text()?.as_deref() == Some(wanted) {
                *self = element;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves to the element at a position.
    fn select_index(&mut self, index: usize) -> Result<bool, Error> {
        let Some(mut elements) = self.elements()? else {
            return Ok(false);
        };
        for _ in 0..index {
            if elements.advance()?.is_none() {
                return Ok(false);
            }
        }
        match elements.advance()? {
            Some(element) => {
                *self = element;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}
