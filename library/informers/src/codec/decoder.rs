//! The list and watch decoders of any [`Format`].
//!
//! An object that cannot be decoded is reported by its key and does not affect the other objects. Only an error of
//! the body itself ends the decoding.

use bytes::Bytes;

use super::format::{Bookmark, Decode, Format, RawEvent, SplitList, SplitWatch};
use super::objects::{Objects, Reads, Rejected, Scratch, bad_object};
use super::{Decoder, Decoding};
use crate::object::Object;
use crate::quarantine::{BadObject, Problem};
use crate::wire::{ApiError, ListItem, SourceError, WatchItem};

pub(super) struct ListReader<K, F: Format> {
    splitter: F::List,
    objects: Objects<K>,
    scratch: Scratch,
}

impl<K: Object, F: Format> ListReader<K, F> {
    pub(super) fn new(decode: Decode<K>, decoding: Decoding<K>) -> Self {
        Self {
            splitter: F::list(decoding.max_object_size),
            objects: Objects::new(decode, decoding),
            scratch: Scratch::default(),
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
        let read = self.objects.read(&raw, Reads::NewObject, &mut self.scratch)?;
        Ok(Some(match read {
            Ok(object) => ListItem::Object(object),
            Err(object) => ListItem::Unreadable(object),
        }))
    }

    fn finish(&mut self) -> Result<Option<ListItem<K>>, SourceError> {
        self.splitter.finish().map(ListItem::End).map(Some)
    }
}

pub(super) struct WatchReader<K, F: Format> {
    splitter: F::Watch,
    objects: Objects<K>,
    scratch: Scratch,
    /// An event of unknown type without a key has been reported. Later ones are skipped.
    reported_unknown_type: bool,
}

impl<K: Object, F: Format> WatchReader<K, F> {
    pub(super) fn new(decode: Decode<K>, decoding: Decoding<K>) -> Self {
        Self {
            splitter: F::watch(decoding.max_object_size),
            objects: Objects::new(decode, decoding),
            scratch: Scratch::default(),
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
            let Some(event) = self.splitter.next()? else {
                return Ok(None);
            };
            let Self {
                objects,
                scratch,
                reported_unknown_type,
                ..
            } = self;
            if let Some(item) = watch_item::<K, F>(event, objects, scratch, reported_unknown_type)? {
                return Ok(Some(item));
            }
        }
    }

    fn finish(&mut self) -> Result<Option<WatchItem<K>>, SourceError> {
        Ok(None)
    }
}

/// `None` for an event that is skipped.
fn watch_item<K: Object, F: Format>(
    event: RawEvent<'_>,
    objects: &Objects<K>,
    scratch: &mut Scratch,
    reported_unknown_type: &mut bool,
) -> Result<Option<WatchItem<K>>, SourceError> {
    let RawEvent {
        event_type,
        object: raw,
    } = event;
    let event_type = event_type.as_ref();
    if matches!(event_type, "ADDED" | "MODIFIED" | "DELETED") && objects.is_outside(&raw.skim) {
        return Ok(Some(WatchItem::Outside {
            resource_version: raw.skim.resource_version.into_owned(),
            added: event_type == "ADDED",
        }));
    }
    Ok(Some(match event_type {
        "ADDED" => match objects.read(&raw, Reads::NewObject, scratch)? {
            Ok(object) => WatchItem::Added(object),
            Err(object) => unreadable(object),
        },
        "MODIFIED" => match objects.read(&raw, Reads::NewState, scratch)? {
            Ok(object) => WatchItem::Modified(object),
            Err(object) => unreadable(object),
        },
        "DELETED" => match objects.read(&raw, Reads::Deleted, scratch)? {
            Ok(object) => WatchItem::Deleted(object),
            Err(object) => WatchItem::Unreadable {
                deleted: true,
                object,
            },
        },
        "BOOKMARK" => match objects.check_kind(&raw) {
            Ok(()) => bookmark(F::bookmark(raw.bytes)),
            Err(Rejected::Response(error)) => return Err(error),
            // The version of a foreign bookmark must not count as progress.
            Err(Rejected::Object(bookmark)) => unreadable(BadObject {
                resource_version: None,
                ..*bookmark
            }),
        },
        "ERROR" => WatchItem::Error(
            F::status(raw.bytes).unwrap_or_else(|| ApiError::new(0, "", "it sent no readable Status")),
        ),
        other => {
            let object = bad_object(&raw, unknown_type(other));
            if object.key.is_none() && std::mem::replace(reported_unknown_type, true) {
                return Ok(None);
            }
            unreadable(object)
        }
    }))
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
