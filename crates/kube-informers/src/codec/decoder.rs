//! The list and watch decoders of any [`Format`].
//!
//! An object that cannot be decoded is reported by its key and does not affect the other objects. Only an error of
//! the body itself ends the decoding.

use bytes::Bytes;

use super::format::{Bookmark, Decode, Format, RawEvent, SplitList, SplitWatch};
use super::objects::{Objects, Rejected, bad_object};
use super::{Decoder, Decoding};
use crate::object::Object;
use crate::quarantine::{BadObject, Problem};
use crate::wire::{ApiError, Fetched, ListItem, SourceError, WatchItem};

pub(super) struct ListReader<K, F: Format> {
    splitter: F::List,
    objects: Objects<K>,
}

impl<K: Object, F: Format> ListReader<K, F> {
    pub(super) fn new(decode: Decode<K>, decoding: Decoding<K>) -> Self {
        Self {
            splitter: F::list(decoding.max_object_size),
            objects: Objects::new(decode, decoding),
        }
    }
}

impl<K: Object, F: Format> Decoder<ListItem<K>> for ListReader<K, F> {
    fn push(&mut self, chunk: Bytes) {
        self.splitter.push(chunk);
    }

    fn next(&mut self) -> Result<Option<ListItem<K>>, SourceError> {
        let Some(raw) = self.splitter.next()? else {
            return Ok(None);
        };
        if self.objects.is_outside(&raw.skim) {
            return Ok(Some(ListItem::Outside));
        }
        match self.objects.read(&raw, true) {
            Ok(object) => Ok(Some(ListItem::Object(object))),
            Err(Rejected::Object(object)) => Ok(Some(ListItem::Unreadable(*object))),
            Err(Rejected::Response(error)) => Err(error),
        }
    }

    fn finish(&mut self) -> Result<Option<ListItem<K>>, SourceError> {
        self.splitter.finish().map(ListItem::End).map(Some)
    }
}

pub(super) struct WatchReader<K, F: Format> {
    splitter: F::Watch,
    objects: Objects<K>,
    /// An event of unknown type without a key has been reported. Later ones are skipped.
    reported_unknown_type: bool,
}

impl<K: Object, F: Format> WatchReader<K, F> {
    pub(super) fn new(decode: Decode<K>, decoding: Decoding<K>) -> Self {
        Self {
            splitter: F::watch(decoding.max_object_size),
            objects: Objects::new(decode, decoding),
            reported_unknown_type: false,
        }
    }
}

impl<K: Object, F: Format> Decoder<WatchItem<K>> for WatchReader<K, F> {
    fn push(&mut self, chunk: Bytes) {
        self.splitter.push(chunk);
    }

    fn next(&mut self) -> Result<Option<WatchItem<K>>, SourceError> {
        loop {
            let Some(RawEvent {
                event_type,
                object: raw,
            }) = self.splitter.next()?
            else {
                return Ok(None);
            };
            let objects = &mut self.objects;
            let event_type = event_type.as_ref();
            if matches!(event_type, "ADDED" | "MODIFIED" | "DELETED") && objects.is_outside(&raw.skim) {
                return Ok(Some(WatchItem::Outside {
                    resource_version: raw.skim.resource_version.into_owned(),
                    added: event_type == "ADDED",
                }));
            }
            return match event_type {
                "ADDED" => object(objects.read(&raw, true), WatchItem::Added, false),
                "MODIFIED" => object(objects.read(&raw, true), WatchItem::Modified, false),
                // Never reused from the cache: it carries the version of the deletion.
                "DELETED" => object(objects.read(&raw, false), WatchItem::Deleted, true),
                "BOOKMARK" => match objects.check_kind(&raw) {
                    Ok(()) => Ok(Some(bookmark(F::bookmark(raw.bytes)))),
                    Err(Rejected::Response(error)) => Err(error),
                    // The version of a foreign bookmark must not count as progress.
                    Err(Rejected::Object(bookmark)) => Ok(Some(unreadable(BadObject {
                        resource_version: None,
                        ..*bookmark
                    }))),
                },
                "ERROR" => Ok(Some(WatchItem::Error(
                    F::status(raw.bytes)
                        .unwrap_or_else(|| ApiError::new(0, "", "it sent no readable Status")),
                ))),
                other => {
                    let object = bad_object(&raw, unknown_type(other));
                    if object.key.is_none() && std::mem::replace(&mut self.reported_unknown_type, true) {
                        continue;
                    }
                    Ok(Some(unreadable(object)))
                }
            };
        }
    }

    fn finish(&mut self) -> Result<Option<WatchItem<K>>, SourceError> {
        Ok(None)
    }
}

fn object<K>(
    read: Result<Fetched<K>, Rejected>,
    event: fn(Fetched<K>) -> WatchItem<K>,
    deleted: bool,
) -> Result<Option<WatchItem<K>>, SourceError> {
    match read {
        Ok(object) => Ok(Some(event(object))),
        Err(Rejected::Object(object)) => Ok(Some(WatchItem::Unreadable {
            deleted,
            object: *object,
        })),
        Err(Rejected::Response(error)) => Err(error),
    }
}

fn unreadable<K>(object: BadObject) -> WatchItem<K> {
    WatchItem::Unreadable {
        deleted: false,
        object,
    }
}

fn bookmark<K>(bookmark: Bookmark) -> WatchItem<K> {
    WatchItem::Bookmark {
        resource_version: bookmark.resource_version.filter(|version| !version.is_empty()),
        initial_events_end: bookmark.initial_events_end,
    }
}

fn unknown_type(event_type: &str) -> Problem {
    let is_word = event_type.len() <= 32
        && event_type
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    Problem::Decode(match is_word {
        true => format!("the event type {event_type:?} is unknown"),
        false => "its event type is unknown".to_owned(),
    })
}
