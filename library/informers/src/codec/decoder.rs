//! The list and watch decoders of any [`Format`].
//!
//! An object that cannot be decoded is reported by its key and does not affect the other objects. Only an error of
//! the body itself ends the decoding.

use std::sync::Arc;

use bytes::Bytes;

use super::format::{Bookmark, Decode, Format, RawEvent, RawObject, SplitList, SplitWatch};
use super::job::{DecodeJob, JobBuilder};
use super::objects::{Objects, Rejected, Scratch, bad_object};
use super::{Decoder, Decoding};
use crate::object::Object;
use crate::quarantine::{BadObject, Problem};
use crate::wire::{ApiError, Fetched, ListItem, SourceError, WatchItem};

/// What follows in a body.
#[allow(clippy::large_enum_variant, reason = "one at a time, on the stack")]
pub(super) enum Step<'a, K, T> {
    /// An item without an object to decode.
    Item(T),
    /// An object to decode.
    Decode(RawObject<'a>, Becomes<K, T>),
}

/// The item that an object becomes.
pub(super) struct Becomes<K, T> {
    to_item: ToItem<K, T>,
    /// Whether the cache will hold one more object.
    is_new: bool,
}

impl<K: Object, T> Becomes<K, T> {
    fn one_more(to_item: ToItem<K, T>) -> Self {
        Self {
            to_item,
            is_new: true,
        }
    }

    fn another_state(to_item: ToItem<K, T>) -> Self {
        Self {
            to_item,
            is_new: false,
        }
    }

    pub(super) fn decode(self, objects: &Objects<K>, raw: &RawObject<'_>, scratch: &mut Scratch) -> T {
        if self.is_new {
            scratch.make_room(raw.size);
        }
        (self.to_item)(objects.decode(raw, scratch))
    }
}

/// Makes an item of an object, or of one that could not be decoded.
pub(super) type ToItem<K, T> = fn(Result<Fetched<K>, BadObject>) -> T;

pub(super) struct ListReader<K, F: Format> {
    splitter: F::List,
    objects: Arc<Objects<K>>,
    scratch: Scratch,
    job: JobBuilder<K, ListItem<K>>,
}

impl<K: Object, F: Format> ListReader<K, F> {
    pub(super) fn new(decode: Decode<K>, decoding: Decoding<K>) -> Self {
        Self {
            splitter: F::list(decoding.max_object_size),
            objects: Arc::new(Objects::new(decode, decoding)),
            scratch: Scratch::default(),
            job: JobBuilder::default(),
        }
    }
}

impl<K: Object, F: Format> Decoder<ListItem<K>> for ListReader<K, F> {
    fn push(&mut self, chunk: Bytes) {
        self.splitter.push(chunk);
    }

    fn next(&mut self) -> Result<Option<ListItem<K>>, SourceError> {
        let step = list_step(&mut self.splitter, &self.objects)?;
        Ok(step.map(|step| step.item(&self.objects, &mut self.scratch)))
    }

    fn collect(&mut self, max_items: usize) -> usize {
        while self.job.len() < max_items && self.job.add(list_step(&mut self.splitter, &self.objects)) {}
        self.job.len()
    }

    fn take_job(&mut self) -> Option<DecodeJob<ListItem<K>>> {
        self.job.take(&self.objects)
    }

    fn finish(&mut self) -> Result<Option<ListItem<K>>, SourceError> {
        self.splitter.finish().map(ListItem::End).map(Some)
    }
}

fn list_step<'a, K: Object, S: SplitList>(
    splitter: &'a mut S,
    objects: &Objects<K>,
) -> Result<Option<Step<'a, K, ListItem<K>>>, SourceError> {
    let Some(raw) = splitter.next()? else {
        return Ok(None);
    };
    if objects.is_outside(&raw.skim) {
        return Ok(Some(Step::Item(ListItem::Outside)));
    }
    object_step(objects, raw, true, Becomes::one_more(listed)).map(Some)
}

fn listed<K>(read: Result<Fetched<K>, BadObject>) -> ListItem<K> {
    match read {
        Ok(object) => ListItem::Object(object),
        Err(object) => ListItem::Unreadable(object),
    }
}

/// An object that the cache holds, one that is rejected, or one to decode.
fn object_step<'a, K: Object, T>(
    objects: &Objects<K>,
    raw: RawObject<'a>,
    reuse: bool,
    becomes: Becomes<K, T>,
) -> Result<Step<'a, K, T>, SourceError> {
    let to_item = becomes.to_item;
    match objects.known(&raw, reuse) {
        Ok(None) => Ok(Step::Decode(raw, becomes)),
        Ok(Some(object)) => Ok(Step::Item(to_item(Ok(Fetched::Unchanged(object))))),
        Err(Rejected::Object(object)) => Ok(Step::Item(to_item(Err(*object)))),
        Err(Rejected::Response(error)) => Err(error),
    }
}

impl<K: Object, T> Step<'_, K, T> {
    fn item(self, objects: &Objects<K>, scratch: &mut Scratch) -> T {
        match self {
            Self::Item(item) => item,
            Self::Decode(raw, becomes) => becomes.decode(objects, &raw, scratch),
        }
    }
}

pub(super) struct WatchReader<K, F: Format> {
    splitter: F::Watch,
    objects: Arc<Objects<K>>,
    scratch: Scratch,
    job: JobBuilder<K, WatchItem<K>>,
    /// An event of unknown type without a key has been reported. Later ones are skipped.
    reported_unknown_type: bool,
}

impl<K: Object, F: Format> WatchReader<K, F> {
    pub(super) fn new(decode: Decode<K>, decoding: Decoding<K>) -> Self {
        Self {
            splitter: F::watch(decoding.max_object_size),
            objects: Arc::new(Objects::new(decode, decoding)),
            scratch: Scratch::default(),
            job: JobBuilder::default(),
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
            if let Some(step) = watch_step::<K, F>(event, &self.objects, &mut self.reported_unknown_type)? {
                return Ok(Some(step.item(&self.objects, &mut self.scratch)));
            }
        }
    }

    fn collect(&mut self, max_items: usize) -> usize {
        while self.job.len() < max_items {
            let step = match self.splitter.next() {
                Ok(Some(event)) => {
                    match watch_step::<K, F>(event, &self.objects, &mut self.reported_unknown_type) {
                        Ok(None) => continue,
                        step => step,
                    }
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            if !self.job.add(step) {
                break;
            }
        }
        self.job.len()
    }

    fn take_job(&mut self) -> Option<DecodeJob<WatchItem<K>>> {
        self.job.take(&self.objects)
    }

    fn finish(&mut self) -> Result<Option<WatchItem<K>>, SourceError> {
        Ok(None)
    }
}

/// `None` for an event that is skipped.
fn watch_step<'a, K: Object, F: Format>(
    event: RawEvent<'a>,
    objects: &Objects<K>,
    reported_unknown_type: &mut bool,
) -> Result<Option<Step<'a, K, WatchItem<K>>>, SourceError> {
    let RawEvent {
        event_type,
        object: raw,
    } = event;
    let event_type = event_type.as_ref();
    if matches!(event_type, "ADDED" | "MODIFIED" | "DELETED") && objects.is_outside(&raw.skim) {
        return Ok(Some(Step::Item(WatchItem::Outside {
            resource_version: raw.skim.resource_version.into_owned(),
            added: event_type == "ADDED",
        })));
    }
    let item = match event_type {
        "ADDED" => return object_step(objects, raw, true, Becomes::one_more(added)).map(Some),
        "MODIFIED" => return object_step(objects, raw, true, Becomes::another_state(modified)).map(Some),
        // Never reused from the cache: it carries the version of the deletion.
        "DELETED" => return object_step(objects, raw, false, Becomes::another_state(deleted)).map(Some),
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
    };
    Ok(Some(Step::Item(item)))
}

fn added<K>(read: Result<Fetched<K>, BadObject>) -> WatchItem<K> {
    read.map_or_else(unreadable, WatchItem::Added)
}

fn modified<K>(read: Result<Fetched<K>, BadObject>) -> WatchItem<K> {
    read.map_or_else(unreadable, WatchItem::Modified)
}

fn deleted<K>(read: Result<Fetched<K>, BadObject>) -> WatchItem<K> {
    match read {
        Ok(object) => WatchItem::Deleted(object),
        Err(object) => WatchItem::Unreadable {
            deleted: true,
            object,
        },
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
