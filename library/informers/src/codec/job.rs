//! `DecodeJob`: objects of a body that are split and not decoded, so that another thread can decode them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::decoder::{Becomes, Step};
use super::format::{RawObject, Schema, Skim};
use super::objects::{Objects, Scratch};
use crate::object::Object;
use crate::wire::SourceError;

/// A part of a body: its items in order, with objects that have not been decoded.
pub struct DecodeJob<T> {
    objects: usize,
    has_failed: bool,
    run: Box<dyn FnOnce() -> Vec<Result<T, SourceError>> + Send>,
}

impl<T> DecodeJob<T> {
    /// The number of objects to decode.
    pub fn objects(&self) -> usize {
        self.objects
    }

    /// Whether the body cannot be read further. The last item is then an error.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Decodes the objects. An error is the last item: the decoder is of no further use.
    pub fn run(self) -> Vec<Result<T, SourceError>> {
        (self.run)()
    }
}

impl<T> fmt::Debug for DecodeJob<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeJob")
            .field("objects", &self.objects)
            .finish_non_exhaustive()
    }
}

/// Collects the items of a job.
pub(super) struct JobBuilder<K, T> {
    /// The bytes of all objects.
    bytes: Vec<u8>,
    items: Vec<Item<K, T>>,
    objects: usize,
    has_failed: bool,
}

impl<K, T> Default for JobBuilder<K, T> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            items: Vec::new(),
            objects: 0,
            has_failed: false,
        }
    }
}

enum Item<K, T> {
    Ready(Result<T, SourceError>),
    Decode(Box<Undecoded>, Becomes<K, T>),
}

struct Undecoded {
    bytes: Range<usize>,
    skim: Skim<'static>,
    size: usize,
    schema: Option<Schema>,
}

impl<K: Object, T: Send + 'static> JobBuilder<K, T> {
    /// The number of items.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Adds what follows in the body. Returns whether anything did.
    pub(super) fn add(&mut self, step: Result<Option<Step<'_, K, T>>, SourceError>) -> bool {
        match step {
            Ok(None) => return false,
            Err(error) => {
                self.items.push(Item::Ready(Err(error)));
                self.has_failed = true;
                return false;
            }
            Ok(Some(Step::Item(item))) => self.items.push(Item::Ready(Ok(item))),
            Ok(Some(Step::Decode(raw, becomes))) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(raw.bytes);
                let undecoded = Undecoded {
                    bytes: start..self.bytes.len(),
                    skim: raw.skim.into_owned(),
                    size: raw.size,
                    schema: raw.schema,
                };
                self.items.push(Item::Decode(Box::new(undecoded), becomes));
                self.objects += 1;
            }
        }
        true
    }

    /// The job; `None` if nothing was added.
    pub(super) fn take(&mut self, decoder: &Arc<Objects<K>>) -> Option<DecodeJob<T>> {
        if self.items.is_empty() {
            return None;
        }
        let (job, decoder) = (std::mem::take(self), decoder.clone());
        Some(DecodeJob {
            objects: job.objects,
            has_failed: job.has_failed,
            run: Box::new(move || job.run(&decoder)),
        })
    }

    fn run(self, decoder: &Objects<K>) -> Vec<Result<T, SourceError>> {
        let mut scratch = Scratch::default();
        let read = |item| match item {
            Item::Ready(item) => item,
            Item::Decode(undecoded, becomes) => {
                let Undecoded {
                    bytes,
                    skim,
                    size,
                    schema,
                } = *undecoded;
                let raw = RawObject {
                    bytes: self.bytes.get(bytes).unwrap_or_default(),
                    skim,
                    size,
                    // Such an object is rejected before it gets here.
                    too_large: false,
                    schema,
                };
                Ok(becomes.decode(decoder, &raw, &mut scratch))
            }
        };
        self.items.into_iter().map(read).collect()
    }
}
