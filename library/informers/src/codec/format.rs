//! `Format`: what an encoding must provide. See the module documentation of `codec`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use kube_protobuf::schema::Message;

use super::Expected;
use crate::wire::{ApiError, ListMeta, SourceError};

/// Decodes one object. The error names the path and the expected type, and no value.
pub(crate) type Decode<K> = Arc<dyn Fn(&RawObject<'_>, DecodeOptions<'_>) -> Result<K, String> + Send + Sync>;

/// The parameters of [`Decode`].
pub(crate) struct DecodeOptions<'a> {
    pub expected: &'a Expected,
    /// Whether to leave out `metadata.managedFields`.
    pub drop_managed_fields: bool,
    pub max_object_size: usize,
    /// A buffer that is kept from object to object.
    pub scratch: &'a mut Vec<u8>,
}

/// One encoding.
pub(super) trait Format: 'static {
    type List: SplitList;
    type Watch: SplitWatch;

    /// Creates the splitter of one list body. Objects over the limit are not held.
    fn list(max_object_size: usize) -> Self::List;

    /// Creates the splitter of one watch body. Objects over the limit are not held.
    fn watch(max_object_size: usize) -> Self::Watch;

    /// Reads the object of a `BOOKMARK` event. An unreadable one has no version.
    fn bookmark(object: &[u8]) -> Bookmark;

    /// Reads a `Status` object; `None` if it is not one.
    fn status(object: &[u8]) -> Option<ApiError>;
}

/// Splits a list body into objects.
pub(super) trait SplitList: Send {
    /// Adds the next bytes, after all objects of the bytes before have been returned by `next`.
    fn push(&mut self, chunk: Bytes);

    /// Returns the next object; `None` when more bytes are needed.
    fn next(&mut self) -> Result<Option<RawObject<'_>>, SourceError>;

    /// Returns the metadata of the list after its last byte. Fails if the body is incomplete or not a list: see
    /// [`check_list_kind`].
    fn finish(&mut self) -> Result<ListMeta, SourceError>;
}

/// Splits a watch body into events.
pub(super) trait SplitWatch: Send {
    /// Adds the next bytes, after all events of the bytes before have been returned by `next`.
    fn push(&mut self, chunk: Bytes);

    /// Returns the next complete event; `None` when more bytes are needed.
    fn next(&mut self) -> Result<Option<RawEvent<'_>>, SourceError>;
}

/// One event of a watch, not decoded.
pub(super) struct RawEvent<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`, as sent.
    pub event_type: Cow<'a, str>,
    pub object: RawObject<'a>,
}

/// One encoded object.
pub(crate) struct RawObject<'a> {
    /// The encoded bytes. Only the first of them if the object is over the limit.
    pub bytes: &'a [u8],
    pub skim: Skim<'a>,
    /// The full encoded size.
    pub size: usize,
    /// Whether the object is over the limit.
    pub too_large: bool,
    /// For protobuf of a known kind.
    pub schema: Option<Schema>,
}

/// The protobuf schema of an object.
#[derive(Clone, Copy)]
pub(crate) struct Schema {
    pub message: &'static Message,
    /// Whether the object's JSON contains its API version and kind. Items of a typed list do not.
    pub type_in_json: bool,
}

/// The parts of an object that are read without decoding it.
#[derive(Default)]
pub(crate) struct Skim<'a> {
    /// What the value is, if it is not an object: `a string`.
    pub not_an_object: Option<&'static str>,
    pub api_version: Text<'a>,
    pub kind: Text<'a>,
    pub name: Text<'a>,
    pub namespace: Text<'a>,
    pub uid: Text<'a>,
    pub resource_version: Text<'a>,
    /// The JSON member `metadata.managedFields`.
    pub managed_fields: Option<Range<usize>>,
}

impl Skim<'_> {
    pub fn into_owned(self) -> Skim<'static> {
        Skim {
            not_an_object: self.not_an_object,
            api_version: self.api_version.into_static(),
            kind: self.kind.into_static(),
            name: self.name.into_static(),
            namespace: self.namespace.into_static(),
            uid: self.uid.into_static(),
            resource_version: self.resource_version.into_static(),
            managed_fields: self.managed_fields,
        }
    }
}

/// One text field of a [`Skim`].
#[derive(Clone, Default)]
pub(crate) enum Text<'a> {
    /// Missing or empty.
    #[default]
    Absent,
    /// Present, but not valid text, or not among the bytes kept of a large object.
    Unreadable,
    Value(Cow<'a, str>),
}

impl<'a> Text<'a> {
    /// The value, if it could be read.
    pub fn as_deref(&self) -> Option<&str> {
        match self {
            Self::Value(text) => Some(text),
            Self::Absent | Self::Unreadable => None,
        }
    }

    pub fn into_owned(self) -> Option<String> {
        match self {
            Self::Value(text) => Some(text.into_owned()),
            Self::Absent | Self::Unreadable => None,
        }
    }

    fn into_static(self) -> Text<'static> {
        match self {
            Self::Absent => Text::Absent,
            Self::Unreadable => Text::Unreadable,
            Self::Value(text) => Text::Value(text.into_owned().into()),
        }
    }

    pub fn cloned(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Value(text) => Some(text.clone()),
            Self::Absent | Self::Unreadable => None,
        }
    }
}

/// The contents of a bookmark.
#[derive(Default)]
pub(super) struct Bookmark {
    pub resource_version: Option<String>,
    pub initial_events_end: bool,
}

/// The annotation of the bookmark that ends the initial events of a watch-list. Its value is `true`.
#[doc(alias = "InitialEventsAnnotationKey")]
pub(super) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Checks that a body is a list, by its kind or its items. No other object may pass for an empty list.
pub(super) fn check_list_kind(kind: Option<&str>, has_items: bool) -> Result<(), SourceError> {
    match kind {
        Some("Table") => Err(malformed(TABLE)),
        Some(kind) if !kind.is_empty() && !kind.ends_with("List") => Err(malformed(format!(
            "the response is a {}, not a list",
            shortened(kind, 64)
        ))),
        None | Some("") if !has_items => Err(malformed(
            "the response is not a list: it has neither a kind nor items",
        )),
        _ => Ok(()),
    }
}

pub(super) const TABLE: &str = "the server sent a Table, which is for printing and contains no objects: \
     remove `as=Table` from the Accept header, which a proxy may have set";

pub(super) fn malformed(text: impl Into<String>) -> SourceError {
    SourceError::Malformed(text.into())
}

/// The beginning of an identifier from outside, without control characters.
pub(super) fn shortened(text: &str, length: usize) -> String {
    text.chars()
        .take(length)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
