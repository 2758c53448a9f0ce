//! JSON.
//!
//! `scan` finds the end of a value and the identity on the way, `members` walks the object around the items, `list`
//! and `frames` split bodies, `explain` turns a failed decode into an error without values.

pub(super) mod explain;
pub(super) mod frames;
pub(super) mod list;
mod members;
pub(super) mod scan;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::dynamic;
use super::format::{
    Bookmark, Decode, DecodeOptions, Format, INITIAL_EVENTS_END, RawEvent, RawObject, Skim, SplitList,
    SplitWatch, TABLE, Text, check_list_kind, malformed, shortened,
};
use super::status::status;
use crate::wire::{ApiError, ListMeta, SourceError};
use explain::explain;
use frames::FrameSplitter;
use list::ListSplitter;
use members::{RawItem, SplitError};
use scan::{Scanner, Shape, Span};

/// The JSON format.
pub(super) struct Json;

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
    let bytes = match &raw.skim.managed_fields {
        Some(range) if options.drop_managed_fields => {
            let scratch = options.scratch;
            scratch.clear();
            scratch.extend_from_slice(raw.bytes.get(..range.start).unwrap_or_default());
            scratch.extend_from_slice(raw.bytes.get(range.end..).unwrap_or_default());
            scratch
        }
        _ => raw.bytes,
    };
    serde_json::from_slice(bytes).map_err(|error| explain::<K>(bytes, &error))
}

/// The value of a body that is a JSON string.
pub(super) fn string(body: &[u8]) -> Option<String> {
    serde_json::from_slice(body).ok()
}

impl Format for Json {
    type List = JsonList;
    type Watch = JsonWatch;

    fn list(max_object_size: usize) -> JsonList {
        JsonList(ListSplitter::new(max_object_size))
    }

    fn watch(max_object_size: usize) -> JsonWatch {
        JsonWatch(FrameSplitter::new(max_object_size))
    }

    fn bookmark(object: &[u8]) -> Bookmark {
        #[derive(Default, Deserialize)]
        struct BookmarkObject {
            metadata: Option<BookmarkMeta>,
        }

        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct BookmarkMeta {
            resource_version: Option<String>,
            annotations: Option<BTreeMap<String, serde_json::Value>>,
        }

        let object: BookmarkObject = serde_json::from_slice(object).unwrap_or_default();
        let meta = object.metadata.unwrap_or_default();
        let annotations = meta.annotations.unwrap_or_default();
        Bookmark {
            resource_version: meta.resource_version,
            initial_events_end: annotations
                .get(INITIAL_EVENTS_END)
                .and_then(serde_json::Value::as_str)
                == Some("true"),
        }
    }

    fn status(object: &[u8]) -> Option<ApiError> {
        status(&serde_json::from_slice(object).ok()?)
    }
}

pub(super) struct JsonList(ListSplitter);

/// A list without its items.
#[derive(Deserialize)]
struct Envelope {
    kind: Option<String>,
    metadata: Option<EnvelopeMeta>,
    items: Option<Vec<IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvelopeMeta {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
    remaining_item_count: Option<i64>,
    shard_info: Option<ShardInfo>,
}

#[derive(Default, Deserialize)]
struct ShardInfo {
    selector: Option<String>,
}

impl SplitList for JsonList {
    fn push(&mut self, chunk: Bytes) {
        self.0.push(chunk);
    }

    fn next(&mut self) -> Result<Option<RawObject<'_>>, SourceError> {
        let next = self.0.next().map_err(|error| split_error("list", error))?;
        Ok(next.map(raw_object))
    }

    fn finish(&mut self) -> Result<ListMeta, SourceError> {
        let Some(bytes) = self.0.envelope() else {
            return Err(malformed(match self.0.size() {
                0 => "the response body is empty".to_owned(),
                size => format!("the list is truncated after {size} bytes"),
            }));
        };
        let envelope: Envelope = serde_json::from_slice(bytes).map_err(|error| {
            malformed(format!(
                "the list cannot be decoded: {}",
                explain::<Envelope>(bytes, &error)
            ))
        })?;
        check_list_kind(envelope.kind.as_deref(), envelope.items.is_some())?;
        let meta = envelope.metadata.unwrap_or_default();
        Ok(ListMeta {
            resource_version: meta.resource_version.filter(|version| !version.is_empty()),
            continue_token: meta.continue_token.filter(|token| !token.is_empty()),
            remaining: meta.remaining_item_count.and_then(|count| count.try_into().ok()),
            shard_selector: meta.shard_info.and_then(|info| info.selector),
        })
    }
}

pub(super) struct JsonWatch(FrameSplitter);

impl SplitWatch for JsonWatch {
    fn push(&mut self, chunk: Bytes) {
        self.0.push(chunk);
    }

    fn next(&mut self) -> Result<Option<RawEvent<'_>>, SourceError> {
        let next = self.0.next().map_err(|error| split_error("watch", error))?;
        let Some(frame) = next else { return Ok(None) };
        let object = frame.object.unwrap_or(RawItem {
            bytes: b"null",
            outline: Default::default(),
            size: 0,
            too_large: false,
        });
        match event_type(frame.head)? {
            Some(event_type) => Ok(Some(RawEvent {
                event_type,
                object: raw_object(object),
            })),
            // Some servers report a failure as a bare Status, without the event around it.
            None if kind_of(frame.head).as_deref() == Some("Status") => Ok(Some(RawEvent {
                event_type: "ERROR".into(),
                object: RawObject {
                    bytes: frame.head,
                    skim: Skim::default(),
                    size: frame.head.len(),
                    too_large: false,
                    schema: None,
                },
            })),
            None => Err(malformed("the watch sent a frame without an event type")),
        }
    }
}

fn event_type(head: &[u8]) -> Result<Option<Cow<'_, str>>, SourceError> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(rename = "type", borrow)]
        event_type: Option<Cow<'a, str>>,
    }

    /// [`Head`] for `explain`, which needs an owned type.
    #[derive(Deserialize)]
    struct OwnedHead {
        #[serde(rename = "type")]
        _event_type: Option<String>,
    }

    // The frames that servers send in practice need no parser.
    Ok(Some(Cow::Borrowed(match head {
        br#"{"type":"ADDED","object":null}"# => "ADDED",
        br#"{"type":"MODIFIED","object":null}"# => "MODIFIED",
        br#"{"type":"DELETED","object":null}"# => "DELETED",
        _ => {
            let head: Head<'_> = serde_json::from_slice(head).map_err(|error| {
                malformed(format!(
                    "the watch sent a frame that cannot be decoded: {}",
                    explain::<OwnedHead>(head, &error)
                ))
            })?;
            return Ok(head.event_type);
        }
    })))
}

fn raw_object(item: RawItem<'_>) -> RawObject<'_> {
    let RawItem {
        bytes,
        outline,
        size,
        too_large,
    } = item;
    let text = |span: Option<Span>| match span {
        None => Text::Absent,
        Some(span) if span.start == span.end => Text::Absent,
        Some(span) => span.text(bytes).map_or(Text::Unreadable, Text::Value),
    };
    RawObject {
        bytes,
        skim: Skim {
            not_an_object: match outline.shape {
                Shape::Object => None,
                Shape::Array => Some("an array"),
                Shape::Text => Some("a string"),
                Shape::Scalar => Some("a number, a boolean or null"),
            },
            api_version: text(outline.api_version),
            kind: text(outline.kind),
            name: text(outline.name),
            namespace: text(outline.namespace),
            uid: text(outline.uid),
            resource_version: text(outline.resource_version),
            managed_fields: outline.managed_fields.map(|span| span.start..span.end),
        },
        size,
        too_large,
        schema: None,
    }
}

/// The kind of an object, which may be incomplete.
fn kind_of(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let mut scanner = Scanner::default();
    scanner.feed(bytes);
    scanner.outline.kind?.text(bytes)
}

fn split_error(what: &str, error: SplitError) -> SourceError {
    malformed(match error {
        SplitError::NotAnObject(b'<') => "the response is HTML or XML, not from an API server: \
             check the server address and any proxy in between"
            .to_owned(),
        SplitError::NotAnObject(_) => format!("the {what} is not JSON: it does not start with an object"),
        SplitError::UnexpectedByte(offset) => {
            format!("the {what} is not JSON: unexpected byte at offset {offset}")
        }
        SplitError::TrailingData(offset) => format!("the {what} has trailing data at offset {offset}"),
        SplitError::DuplicateMember(name) => format!("the {what} has two members named {name:?}"),
        SplitError::EnvelopeTooLarge(start) => match kind_of(&start) {
            Some(kind) if kind == "Table" => TABLE.to_owned(),
            Some(kind) => format!(
                "a {} is not a {what}: it contains too much data besides objects",
                shortened(&kind, 64)
            ),
            None => format!("the response is not a {what}: it contains too much data besides objects"),
        },
    })
}
