//! The JSON codec: list bodies and watch frames.
//!
//! An object that cannot be read is still known by its key, and costs nobody else anything; what makes the
//! whole answer worthless is an error.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::frames::FrameSplitter;
use super::list::ListSplitter;
use super::members::{Broken, RawItem};
use super::objects::{Decode, Objects, Refused, bad, kind_of, malformed, short, table};
use super::{Codec, Decoding, Expected, ListDecoder, WatchDecoder, dynamic, explain};
use crate::object::Object;
use crate::quarantine::{BadObject, Problem};
use crate::source::{ApiError, Fetched, ListItem, ListMeta, SourceError, WatchItem};

/// JSON: what every API server speaks.
pub struct JsonCodec<K> {
    decode: Decode<K>,
}

impl<K: Object + DeserializeOwned> JsonCodec<K> {
    /// The codec for `K`.
    pub fn new() -> Self {
        let decode = if dynamic::is_dynamic::<K>() {
            dynamic::decode::<K>
        } else {
            typed::<K>
        };
        Self { decode }
    }
}

impl<K: Object + DeserializeOwned> Default for JsonCodec<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Clone for JsonCodec<K> {
    fn clone(&self) -> Self {
        Self { decode: self.decode }
    }
}

impl<K> fmt::Debug for JsonCodec<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JsonCodec")
    }
}

fn typed<K: DeserializeOwned>(bytes: &[u8], _: &Expected) -> Result<K, String> {
    serde_json::from_slice(bytes).map_err(|error| explain::<K>(bytes, &error))
}

const JSON: &str = "application/json";
// As client-go does: a server that cannot send metadata alone sends whole objects, which decode all the same.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

impl<K: Object> Codec<K> for JsonCodec<K> {
    fn accept_list(&self, metadata_only: bool) -> &str {
        if metadata_only { METADATA_LIST } else { JSON }
    }

    fn accept_watch(&self, metadata_only: bool) -> &str {
        if metadata_only { METADATA } else { JSON }
    }

    fn list_decoder(
        &self,
        content_type: Option<&str>,
        decoding: Decoding<K>,
    ) -> Result<Box<dyn ListDecoder<K>>, SourceError> {
        expect_json(content_type)?;
        Ok(Box::new(JsonList {
            splitter: ListSplitter::new(decoding.max_object_size),
            objects: Objects::new(self.decode, decoding),
        }))
    }

    fn watch_decoder(
        &self,
        content_type: Option<&str>,
        decoding: Decoding<K>,
    ) -> Result<Box<dyn WatchDecoder<K>>, SourceError> {
        expect_json(content_type)?;
        Ok(Box::new(JsonWatch {
            splitter: FrameSplitter::new(decoding.max_object_size),
            objects: Objects::new(self.decode, decoding),
            told_of_unknown_type: false,
        }))
    }
}

/// Refuses what is certainly no JSON. A server that says nothing, or something vague, is judged by its bytes.
fn expect_json(content_type: Option<&str>) -> Result<(), SourceError> {
    let kind = content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    let is_other = ["protobuf", "cbor", "yaml", "xml"]
        .iter()
        .any(|other| kind.contains(other));
    if is_other && !kind.contains("json") {
        return Err(malformed(format!(
            "the answer is {kind}, though application/json was asked for"
        )));
    }
    Ok(())
}

fn broken(what: &str, broken: Broken) -> SourceError {
    malformed(match broken {
        Broken::NoObject(b'<') => "the answer is HTML or XML, so this is not an API server: \
             check the server address and any proxy in between"
            .to_owned(),
        Broken::NoObject(_) => format!("the {what} is not JSON: it does not begin with an object"),
        Broken::Garbage(offset) => format!("the {what} is not JSON: unexpected byte at offset {offset}"),
        Broken::Trailing(offset) => format!("the {what} has more data after its end, at offset {offset}"),
        Broken::Twice(name) => format!("the {what} has two members named {name:?}"),
        Broken::Envelope(start) => match kind_of(&start) {
            Some(kind) if kind == "Table" => table(),
            kind => format!(
                "{} is no {what}: it holds too much besides objects",
                kind.map_or("the answer".into(), |kind| format!("a {}", short(&kind, 64)))
            ),
        },
    })
}

struct JsonList<K> {
    splitter: ListSplitter,
    objects: Objects<K>,
}

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

impl<K: Object> ListDecoder<K> for JsonList<K> {
    fn push(&mut self, chunk: Bytes) {
        self.splitter.push(chunk);
    }

    fn next(&mut self) -> Result<Option<ListItem<K>>, SourceError> {
        let next = self.splitter.next().map_err(|error| broken("list", error))?;
        let Some(raw) = next else { return Ok(None) };
        if self.objects.is_outside(&raw) {
            return Ok(Some(ListItem::Outside));
        }
        match self.objects.read(&raw, true) {
            Ok(object) => Ok(Some(ListItem::Object(object))),
            Err(Refused::Bad(object)) => Ok(Some(ListItem::Unreadable(*object))),
            Err(Refused::Answer(error)) => Err(error),
        }
    }

    fn finish(&mut self) -> Result<ListMeta, SourceError> {
        let Some(bytes) = self.splitter.envelope() else {
            return Err(malformed(match self.splitter.size() {
                0 => "the list is empty: no byte of it came".to_owned(),
                size => format!("the list is cut off after {size} bytes"),
            }));
        };
        let envelope: Envelope = serde_json::from_slice(bytes).map_err(|error| {
            malformed(format!(
                "the list cannot be read: {}",
                explain::<Envelope>(bytes, &error)
            ))
        })?;
        // Anything but a list must never pass for an empty one.
        match envelope.kind.as_deref() {
            Some("Table") => return Err(malformed(table())),
            Some(kind) if !kind.is_empty() && !kind.ends_with("List") => {
                return Err(malformed(format!(
                    "the answer is a {}, not a list",
                    short(kind, 64)
                )));
            }
            None | Some("") if envelope.items.is_none() => {
                return Err(malformed(
                    "the answer is JSON, but no list: it has neither a kind nor items",
                ));
            }
            _ => {}
        }
        let meta = envelope.metadata.unwrap_or_default();
        Ok(ListMeta {
            resource_version: meta.resource_version.filter(|version| !version.is_empty()),
            continue_token: meta.continue_token.filter(|token| !token.is_empty()),
            remaining: meta.remaining_item_count.and_then(|count| count.try_into().ok()),
            shard_selector: meta.shard_info.and_then(|info| info.selector),
        })
    }
}

struct JsonWatch<K> {
    splitter: FrameSplitter,
    objects: Objects<K>,
    told_of_unknown_type: bool,
}

/// A frame without its object.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type", borrow)]
    event: Option<Cow<'a, str>>,
}

/// The part of a bookmark that matters.
#[derive(Default, Deserialize)]
struct Bookmark {
    metadata: Option<BookmarkMeta>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: Option<String>,
    annotations: Option<BTreeMap<String, serde_json::Value>>,
}

#[doc(alias = "InitialEventsAnnotationKey")]
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

impl<K: Object> WatchDecoder<K> for JsonWatch<K> {
    fn push(&mut self, chunk: Bytes) {
        self.splitter.push(chunk);
    }

    fn next(&mut self) -> Result<Option<WatchItem<K>>, SourceError> {
        loop {
            let frame = self.splitter.next().map_err(|error| broken("watch", error))?;
            let Some(frame) = frame else { return Ok(None) };
            let event = event_type(frame.head)?;
            let raw = frame.object.unwrap_or(RawItem {
                bytes: b"null",
                outline: Default::default(),
                size: 0,
                too_large: false,
            });
            let about_object = matches!(event.as_deref(), Some("ADDED" | "MODIFIED" | "DELETED"));
            if about_object && self.objects.is_outside(&raw) {
                return Ok(Some(WatchItem::Outside {
                    resource_version: Objects::<K>::version(&raw),
                    added: event.as_deref() == Some("ADDED"),
                }));
            }
            return match event.as_deref() {
                Some("ADDED") => object(self.objects.read(&raw, true), WatchItem::Added, false),
                Some("MODIFIED") => object(self.objects.read(&raw, true), WatchItem::Modified, false),
                // Never from the cache: it carries the version at which it is gone.
                Some("DELETED") => object(self.objects.read(&raw, false), WatchItem::Deleted, true),
                Some("BOOKMARK") => match self.objects.check_kind(&raw) {
                    Ok(()) => Ok(Some(bookmark(&raw))),
                    Err(Refused::Answer(error)) => Err(error),
                    // Its version is not one of ours either, so that nobody takes it for progress.
                    Err(Refused::Bad(bookmark)) => Ok(Some(WatchItem::Unreadable {
                        deleted: false,
                        object: BadObject {
                            resource_version: None,
                            ..*bookmark
                        },
                    })),
                },
                Some("ERROR") => Ok(Some(WatchItem::Error(ApiError::from_status(0, raw.bytes)))),
                Some(other) => {
                    let object = bad(&raw, unknown_type(other));
                    // Each object is told of; what belongs to no object, once.
                    if object.key.is_none() && std::mem::replace(&mut self.told_of_unknown_type, true) {
                        continue;
                    }
                    Ok(Some(WatchItem::Unreadable {
                        deleted: false,
                        object,
                    }))
                }
                // Some servers report a failure without the frame around it.
                None if kind_of(frame.head).as_deref() == Some("Status") => {
                    Ok(Some(WatchItem::Error(ApiError::from_status(0, frame.head))))
                }
                None => Err(malformed("the watch sent a frame without an event type")),
            };
        }
    }
}

fn event_type(head: &[u8]) -> Result<Option<Cow<'_, str>>, SourceError> {
    // What servers really send needs no parser.
    Ok(Some(Cow::Borrowed(match head {
        br#"{"type":"ADDED","object":null}"# => "ADDED",
        br#"{"type":"MODIFIED","object":null}"# => "MODIFIED",
        br#"{"type":"DELETED","object":null}"# => "DELETED",
        _ => {
            let head: Head<'_> = serde_json::from_slice(head).map_err(|error| {
                malformed(format!(
                    "the watch sent a frame that cannot be read: {}",
                    explain::<OwnedHead>(head, &error)
                ))
            })?;
            return Ok(head.event);
        }
    })))
}

/// [`Head`] for a second look.
#[derive(Deserialize)]
struct OwnedHead {
    #[serde(rename = "type")]
    _event: Option<String>,
}

fn object<K>(
    read: Result<Fetched<K>, Refused>,
    event: fn(Fetched<K>) -> WatchItem<K>,
    deleted: bool,
) -> Result<Option<WatchItem<K>>, SourceError> {
    match read {
        Ok(object) => Ok(Some(event(object))),
        Err(Refused::Bad(object)) => Ok(Some(WatchItem::Unreadable {
            deleted,
            object: *object,
        })),
        Err(Refused::Answer(error)) => Err(error),
    }
}

fn bookmark<K>(raw: &RawItem<'_>) -> WatchItem<K> {
    // A bookmark that cannot be read says nothing, which is what an absent version means.
    let bookmark: Bookmark = serde_json::from_slice(raw.bytes).unwrap_or_default();
    let meta = bookmark.metadata.unwrap_or_default();
    let annotation = meta
        .annotations
        .as_ref()
        .and_then(|all| all.get(INITIAL_EVENTS_END));
    WatchItem::Bookmark {
        resource_version: meta.resource_version.filter(|version| !version.is_empty()),
        initial_events_end: annotation.and_then(serde_json::Value::as_str) == Some("true"),
    }
}

fn unknown_type(event: &str) -> Problem {
    let is_word = event.len() <= 32
        && event
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    Problem::Decode(match is_word {
        true => format!("the event type {event:?} is unknown"),
        false => "its event type is unknown".to_owned(),
    })
}
