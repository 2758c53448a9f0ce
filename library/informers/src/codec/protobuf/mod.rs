//! Kubernetes protobuf, read by the crate `kube-protobuf`.
//!
//! The message of an object follows from the kind that surrounds it: that of the list, or that of the envelope in
//! a watch event. In all other respects an object is presented as its JSON would be.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use kube_protobuf::envelope::{EventType, ListItem, ListSplitter, WatchSplitter};
use kube_protobuf::raw::{self, Header};
use kube_protobuf::schema::{self, Message};
use kube_protobuf::{Envelope, Error, ErrorKind, Options, TypeMeta, from_body, from_message};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::dynamic;
use super::format::{
    Bookmark, Decode, DecodeOptions, Format, INITIAL_EVENTS_END, RawEvent, RawObject, Schema, Skim,
    SplitList, SplitWatch, Text, check_list_kind, malformed,
};
use super::status::status;
use crate::wire::{ApiError, ListMeta, SourceError};

/// A protobuf response with an object that cannot be read as such.
pub(crate) const NOT_PROTOBUF: &str = "the object is not Kubernetes protobuf, or its kind is unknown";

/// The protobuf format.
pub(super) struct Protobuf;

/// Returns the function that decodes `K`.
pub(super) fn decode_function<K: DeserializeOwned + 'static>() -> Decode<K> {
    if dynamic::is_dynamic::<K>() {
        Arc::new(|raw, options| {
            let expected = options.expected;
            dynamic::into(decode(raw, options)?, expected)
        })
    } else {
        Arc::new(decode::<K>)
    }
}

fn decode<K: DeserializeOwned>(raw: &RawObject<'_>, options: DecodeOptions<'_>) -> Result<K, String> {
    let Some(schema) = raw.schema else {
        return Err(NOT_PROTOBUF.to_owned());
    };
    let mut limits = Options::new().max_size(options.max_object_size);
    if options.drop_managed_fields {
        limits = limits.without_managed_fields();
    }
    let type_meta = match (&raw.skim.api_version, &raw.skim.kind) {
        (Text::Value(api_version), Text::Value(kind)) if schema.type_in_json => {
            Some(TypeMeta { api_version, kind })
        }
        _ => None,
    };
    from_message(schema.message, raw.bytes, type_meta, &limits).map_err(|error| error.to_string())
}

impl Format for Protobuf {
    type List = ProtobufList;
    type Watch = ProtobufWatch;

    fn list(max_object_size: usize) -> ProtobufList {
        ProtobufList {
            splitter: ListSplitter::new(max_object_size),
            received: 0,
            items: None,
            item: Bytes::new(),
        }
    }

    fn watch(max_object_size: usize) -> ProtobufWatch {
        ProtobufWatch {
            splitter: WatchSplitter::new(max_object_size.saturating_add(EVENT_OVERHEAD)),
            max_object_size,
            body: Bytes::new(),
            object: Bytes::new(),
        }
    }

    fn bookmark(object: &[u8]) -> Bookmark {
        let Ok(header) = raw::header(object) else {
            return Bookmark::default();
        };
        let ends = |annotation: (&str, &str)| annotation == (INITIAL_EVENTS_END, "true");
        Bookmark {
            resource_version: Some(header.resource_version.to_owned()),
            initial_events_end: raw::annotations(object)
                .is_ok_and(|mut annotations| annotations.any(|annotation| annotation.is_ok_and(ends))),
        }
    }

    fn status(object: &[u8]) -> Option<ApiError> {
        Envelope::parse(object)
            .ok()
            .filter(|envelope| envelope.kind == "Status")?;
        let object: Value = from_body(object, &Options::new()).ok()?;
        status(&object)
    }
}

pub(super) struct ProtobufList {
    splitter: ListSplitter,
    received: usize,
    /// The type of the items, once it has arrived.
    items: Option<ItemType>,
    /// The current item.
    item: Bytes,
}

struct ItemType {
    api_version: String,
    kind: String,
    schema: Option<Schema>,
}

impl ItemType {
    fn of_list(api_version: &str, list_kind: &str) -> Self {
        let kind = list_kind.strip_suffix("List").unwrap_or(list_kind);
        let message = schema::lookup(api_version, list_kind).and_then(Message::items);
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            schema: message.map(|message| Schema {
                message,
                type_in_json: kind == "PartialObjectMetadata",
            }),
        }
    }
}

impl SplitList for ProtobufList {
    fn push(&mut self, chunk: Bytes) {
        self.received += chunk.len();
        self.splitter.push(chunk);
    }

    fn next(&mut self) -> Result<Option<RawObject<'_>>, SourceError> {
        let Self { splitter, items, .. } = self;
        let next = match splitter.next_item() {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(None),
            Err(error) => {
                if error.kind() == ErrorKind::NotAList {
                    check_list_kind(Some(splitter.kind()), true)?;
                }
                return Err(split_error("list", &error));
            }
        };
        let items = items.get_or_insert_with(|| ItemType::of_list(splitter.api_version(), splitter.kind()));
        let (size, too_large);
        (self.item, size, too_large) = match next {
            ListItem::Object(bytes) => (bytes.clone(), bytes.len(), false),
            ListItem::TooLarge { size, prefix } => (prefix, size as usize, true),
        };
        let skim = match too_large {
            true => skim_prefix(raw::header_of_prefix(&self.item)),
            false => skim(&self.item),
        };
        Ok(Some(RawObject {
            bytes: &self.item,
            skim: Skim {
                api_version: text(&items.api_version),
                kind: text(&items.kind),
                ..skim
            },
            size,
            too_large,
            schema: items.schema,
        }))
    }

    fn finish(&mut self) -> Result<ListMeta, SourceError> {
        let splitter = std::mem::replace(&mut self.splitter, ListSplitter::new(0));
        let meta = splitter.finish().map_err(|_| {
            malformed(match self.received {
                0 => "the response body is empty".to_owned(),
                size => format!("the list is truncated after {size} bytes"),
            })
        })?;
        Ok(ListMeta {
            resource_version: Some(meta.resource_version).filter(|version| !version.is_empty()),
            continue_token: Some(meta.continue_token).filter(|token| !token.is_empty()),
            remaining: meta.remaining_item_count.and_then(|count| count.try_into().ok()),
            shard_selector: meta.shard_selector,
        })
    }
}

/// An event without its object is smaller than this: the event type, the API version and the kind.
const EVENT_OVERHEAD: usize = 4096;

pub(super) struct ProtobufWatch {
    splitter: WatchSplitter,
    max_object_size: usize,
    /// The object of the current event with its envelope.
    body: Bytes,
    /// The message of that object.
    object: Bytes,
}

impl SplitWatch for ProtobufWatch {
    fn push(&mut self, chunk: Bytes) {
        self.splitter.push(chunk);
    }

    fn next(&mut self) -> Result<Option<RawEvent<'_>>, SourceError> {
        let next = self.splitter.next_event();
        let frame = match next.map_err(|error| split_error("watch", &error))? {
            None => return Ok(None),
            Some(Ok(frame)) => frame,
            Some(Err(truncated)) => {
                return Ok(Some(RawEvent {
                    event_type: event_type(truncated.event()),
                    object: RawObject {
                        bytes: &[],
                        skim: skim_prefix(truncated.header()).into_owned(),
                        size: truncated.size as usize,
                        too_large: true,
                        schema: None,
                    },
                }));
            }
        };
        self.object = frame.raw().unwrap_or_default();
        self.body = frame.object;
        let object = match (Envelope::parse(&self.body), &frame.event) {
            // The `Status` of an error is read with its envelope.
            (_, EventType::Error) => RawObject {
                bytes: &self.body,
                skim: Skim::default(),
                size: self.body.len(),
                too_large: false,
                schema: None,
            },
            (Err(_), _) => RawObject {
                bytes: &[],
                skim: unreadable(),
                size: self.body.len(),
                too_large: false,
                schema: None,
            },
            (Ok(envelope), _) => RawObject {
                bytes: &self.object,
                skim: Skim {
                    api_version: text(envelope.api_version),
                    kind: text(envelope.kind),
                    ..skim(&self.object)
                },
                size: self.object.len(),
                too_large: self.object.len() > self.max_object_size,
                schema: envelope.message().ok().map(|message| Schema {
                    message,
                    type_in_json: true,
                }),
            },
        };
        Ok(Some(RawEvent {
            event_type: event_type(frame.event),
            object,
        }))
    }
}

fn event_type(event: EventType) -> Cow<'static, str> {
    match event {
        EventType::Added => "ADDED".into(),
        EventType::Modified => "MODIFIED".into(),
        EventType::Deleted => "DELETED".into(),
        EventType::Bookmark => "BOOKMARK".into(),
        EventType::Error => "ERROR".into(),
        other => other.as_str().to_owned().into(),
    }
}

fn text(text: &str) -> Text<'_> {
    match text {
        "" => Text::Absent,
        text => Text::Value(text.into()),
    }
}

fn skim(object: &[u8]) -> Skim<'_> {
    let Ok(header) = raw::header(object) else {
        return unreadable();
    };
    Skim {
        name: text(header.name),
        namespace: text(header.namespace),
        uid: text(header.uid),
        resource_version: text(header.resource_version),
        ..Skim::default()
    }
}

/// The identity of an object that is known by its first bytes only.
fn skim_prefix(header: Header<'_>) -> Skim<'_> {
    // Fields arrive in the order of their numbers, and the version has the highest one of these four.
    let is_complete = !header.resource_version.is_empty();
    let text = |text| match text {
        "" if !is_complete => Text::Unreadable,
        text => self::text(text),
    };
    Skim {
        name: text(header.name),
        namespace: text(header.namespace),
        uid: text(header.uid),
        resource_version: text(header.resource_version),
        ..Skim::default()
    }
}

/// The identity of an object whose metadata is malformed or not in the usual form. Decoding decides which.
fn unreadable() -> Skim<'static> {
    Skim {
        name: Text::Unreadable,
        namespace: Text::Unreadable,
        uid: Text::Unreadable,
        resource_version: Text::Unreadable,
        ..Skim::default()
    }
}

fn split_error(what: &str, error: &Error) -> SourceError {
    malformed(format!("the {what} is not Kubernetes protobuf: {error}"))
}
