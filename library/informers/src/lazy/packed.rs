//! `Packed`: the encoded bytes of one object, with the places of its identity.
//!
//! ```text
//!  data:  body                     front                        attachment
//!         the object as received   its metadata, if the body    bytes of a transform
//!         or compressed            is JSON or compressed
//! ```
//!
//! Name, namespace, UID, version, labels and owners are read as borrowed strings. Protobuf has strings as they are. JSON
//! may have them with escapes, and a compressed body does not have them at all, so a copy of these fields follows such a
//! body, in protobuf. A compressed object does not repeat labels and owners that its [`Sibling`] has as well.

use std::borrow::Cow;
use std::sync::Arc;

use kube_protobuf::{Error, raw, wire};
use serde::Deserialize;

use super::siblings::{Sibling, Siblings};
use crate::object::OwnerRef;

/// Smaller objects are not compressed: most of their memory is not the body.
const MIN_COMPRESSED: usize = 512;

/// One object.
#[derive(Clone)]
pub(crate) struct Packed {
    data: Box<[u8]>,
    body: u32,
    front: u32,
    name: Span,
    namespace: Span,
    uid: Span,
    version: Span,
    /// Some labels have the same key. The last one counts, as in a decoded object.
    repeats_labels: bool,
    compressed: Option<Compressed>,
}

/// How the body of a compressed object is restored.
#[derive(Clone)]
struct Compressed {
    /// What it was compressed against.
    sibling: Arc<Sibling>,
    /// The length of the restored body.
    length: u32,
    /// The labels and owners are those of the sibling.
    shares_labels: bool,
}

/// A text in the data.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    length: u32,
}

/// The metadata of a JSON object that is read without decoding it.
#[derive(Deserialize)]
pub(crate) struct Front {
    metadata: Option<FrontMeta>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrontMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<std::collections::BTreeMap<String, String>>,
    owner_references: Option<Vec<FrontOwner>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrontOwner {
    api_version: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    controller: Option<bool>,
}

impl Packed {
    /// Packs a protobuf message. Its metadata is checked; the rest is not read.
    pub(crate) fn from_protobuf(body: Cow<'_, [u8]>) -> Result<Self, Error> {
        let length = body.len();
        Self::new(body.into_owned().into_boxed_slice(), length, length)
    }

    /// Packs a JSON document. Its metadata is decoded, and the syntax of the rest is checked.
    pub(crate) fn from_json(body: &[u8]) -> Result<Self, serde_json::Error> {
        let Front { metadata } = serde_json::from_slice(body)?;
        let front = metadata.unwrap_or_default().encode();
        let mut data = Vec::with_capacity(body.len() + front.len());
        data.extend_from_slice(body);
        data.extend_from_slice(&front);
        let front = data.len();
        Self::new(data.into_boxed_slice(), body.len(), front)
            .map_err(|error| serde::de::Error::custom(error.to_string()))
    }

    fn new(data: Box<[u8]>, body: usize, front: usize) -> Result<Self, Error> {
        let meta = if front > body { body..front } else { 0..body };
        let span = |text: &str| match text {
            "" => Span { start: 0, length: 0 },
            text => Span {
                start: (text.as_ptr().addr() - data.as_ptr().addr()) as u32,
                length: text.len() as u32,
            },
        };
        let header = raw::header(&data[meta.clone()])?;
        let (name, namespace) = (span(header.name), span(header.namespace));
        let (uid, version) = (span(header.uid), span(header.resource_version));
        let mut labels = Vec::new();
        for label in raw::labels(&data[meta.clone()])? {
            labels.push(label?.0);
        }
        labels.sort_unstable();
        let repeats_labels = labels.windows(2).any(|pair| pair[0] == pair[1]);
        for owner in raw::owner_references(&data[meta])? {
            owner?;
        }
        Ok(Self {
            body: body as u32,
            front: front as u32,
            name,
            namespace,
            uid,
            version,
            repeats_labels,
            compressed: None,
            data,
        })
    }

    /// The encoded object.
    pub(crate) fn body(&self) -> Cow<'_, [u8]> {
        let held = &self.data[..self.body as usize];
        match &self.compressed {
            None => Cow::Borrowed(held),
            // The sibling itself: there is no difference to hold.
            Some(compressed) if held.is_empty() => Cow::Borrowed(compressed.sibling.body()),
            Some(Compressed { sibling, length, .. }) => Cow::Owned(sibling.restore(held, *length as usize)),
        }
    }

    /// The length of the encoded object.
    pub(crate) fn body_length(&self) -> usize {
        let compressed = self.compressed.as_ref();
        compressed.map_or(self.body, |compressed| compressed.length) as usize
    }

    /// The copy of the metadata, if there is one.
    pub(super) fn front(&self) -> Option<&[u8]> {
        (self.front > self.body).then(|| &self.data[self.body as usize..self.front as usize])
    }

    /// Whether some labels have the same key.
    pub(super) fn repeats_labels(&self) -> bool {
        self.repeats_labels
    }

    /// The same object, compressed against a similar one; `None` if that would not save memory.
    pub(super) fn compress(&self, siblings: &Siblings) -> Option<Self> {
        if self.compressed.is_some() || self.body_length() < MIN_COMPRESSED {
            return None;
        }
        let owner = self.owners().find(|owner| owner.controller);
        let (sibling, difference) = siblings.compress(owner.map_or("", |owner| owner.uid), self);
        let shares_labels = self.labels().eq(sibling.labels()) && self.owners().eq(sibling.owners());
        let front = self.front_message(!shares_labels);
        let data = [&*difference, &*front, self.attachment()].concat();
        let (body, end) = (difference.len(), difference.len() + front.len());
        // The front was just encoded, so that it can be read.
        let mut packed = Self::new(data.into_boxed_slice(), body, end).ok()?;
        // Labels that are copied are not repeated.
        packed.repeats_labels = shares_labels && sibling.repeats_labels();
        packed.compressed = Some(Compressed {
            sibling,
            length: self.body,
            shares_labels,
        });
        Some(packed)
    }

    /// A message with the identity, and with labels and owners if they are wanted.
    fn front_message(&self, labels_and_owners: bool) -> Vec<u8> {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let mut meta = FrontMeta {
            name: text(self.name()),
            namespace: text(self.text(self.namespace)),
            uid: text(self.text(self.uid)),
            resource_version: text(self.text(self.version)),
            ..FrontMeta::default()
        };
        if labels_and_owners {
            let labels = self
                .labels()
                .map(|(key, value)| (key.to_owned(), value.to_owned()));
            meta.labels = Some(labels.collect());
            meta.owner_references = Some(self.owners().map(FrontOwner::from).collect());
        }
        meta.encode()
    }

    /// The bytes that labels and owners are read from.
    fn meta(&self) -> &[u8] {
        if let Some(compressed) = self
            .compressed
            .as_ref()
            .filter(|compressed| compressed.shares_labels)
        {
            return compressed.sibling.meta();
        }
        self.front().unwrap_or(&self.data[..self.body as usize])
    }

    /// The bytes that a transform attached.
    pub(crate) fn attachment(&self) -> &[u8] {
        &self.data[self.front as usize..]
    }

    /// The same object with other bytes attached.
    pub(crate) fn attach(&mut self, bytes: &[u8]) {
        self.data = [&self.data[..self.front as usize], bytes].concat().into();
    }

    /// The heap memory it occupies.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.data.len()
    }

    /// Identifies the object while it is not changed or dropped.
    pub(crate) fn address(&self) -> usize {
        self.data.as_ptr().addr()
    }

    fn text(&self, span: Span) -> &str {
        let start = span.start as usize;
        let bytes = self.data.get(start..start + span.length as usize);
        std::str::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.text(self.name)
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        Some(self.text(self.namespace)).filter(|text| !text.is_empty())
    }

    pub(crate) fn uid(&self) -> Option<&str> {
        Some(self.text(self.uid)).filter(|text| !text.is_empty())
    }

    pub(crate) fn version(&self) -> Option<&str> {
        Some(self.text(self.version)).filter(|text| !text.is_empty())
    }

    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        labels(self.meta(), self.repeats_labels)
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        owners(self.meta())
    }
}

/// The labels of a message. With `repeats`, some have the same key, and the last one counts.
pub(super) fn labels(meta: &[u8], repeats: bool) -> impl Iterator<Item = (&str, &str)> {
    // Both errors are excluded: the labels were read when the object was packed.
    let all = move || raw::labels(meta).into_iter().flatten().flatten();
    all().enumerate().filter_map(move |(at, (key, value))| {
        let is_last = !repeats || all().skip(at + 1).all(|(other, _)| other != key);
        is_last.then_some((key, value))
    })
}

pub(super) fn owners(meta: &[u8]) -> impl Iterator<Item = OwnerRef<'_>> {
    let owners = raw::owner_references(meta).into_iter().flatten().flatten();
    owners.map(|owner| OwnerRef {
        api_version: owner.api_version,
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid,
        controller: owner.controller,
    })
}

impl From<OwnerRef<'_>> for FrontOwner {
    fn from(owner: OwnerRef<'_>) -> Self {
        Self {
            api_version: Some(owner.api_version.to_owned()),
            kind: Some(owner.kind.to_owned()),
            name: Some(owner.name.to_owned()),
            uid: Some(owner.uid.to_owned()),
            controller: Some(owner.controller),
        }
    }
}

impl FrontMeta {
    /// As a message with the metadata of an object.
    fn encode(&self) -> Vec<u8> {
        let mut meta = Vec::new();
        for (number, text) in [
            (1, &self.name),
            (3, &self.namespace),
            (5, &self.uid),
            (6, &self.resource_version),
        ] {
            if let Some(text) = text {
                wire::put_bytes(&mut meta, number, text.as_bytes());
            }
        }
        let mut entry = Vec::new();
        for (key, value) in self.labels.iter().flatten() {
            entry.clear();
            wire::put_bytes(&mut entry, 1, key.as_bytes());
            wire::put_bytes(&mut entry, 2, value.as_bytes());
            wire::put_bytes(&mut meta, 11, &entry);
        }
        for owner in self.owner_references.iter().flatten() {
            entry.clear();
            for (number, text) in [
                (1, &owner.kind),
                (3, &owner.name),
                (4, &owner.uid),
                (5, &owner.api_version),
            ] {
                wire::put_bytes(&mut entry, number, text.as_deref().unwrap_or_default().as_bytes());
            }
            if owner.controller == Some(true) {
                wire::put_tag(&mut entry, 6, wire::VARINT);
                entry.push(1);
            }
            wire::put_bytes(&mut meta, 13, &entry);
        }
        let mut message = Vec::new();
        wire::put_bytes(&mut message, 1, &meta);
        message
    }
}
