//! `Packed`: the encoded bytes of one object, with the places of its identity.
//!
//! ```text
//!  data:  body                     front                        attachment
//!         the object as received   its metadata, if it is JSON  bytes of a transform
//! ```
//!
//! Name, namespace, UID, version, labels and owners are read as borrowed strings. Protobuf has strings as they are. JSON
//! may have them with escapes, so a copy of these fields follows the body, in protobuf.

use std::borrow::Cow;
use std::ops::Range;

use kube_protobuf::{Error, raw, wire};
use serde::Deserialize;

use crate::object::OwnerRef;

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
            data,
        })
    }

    /// The encoded object.
    pub(crate) fn body(&self) -> &[u8] {
        &self.data[..self.body as usize]
    }

    /// The bytes that the metadata is read from.
    fn meta(&self) -> &[u8] {
        let range: Range<usize> = match self.front > self.body {
            true => self.body as usize..self.front as usize,
            false => 0..self.body as usize,
        };
        &self.data[range]
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
        // Both errors are excluded: the labels were read when the object was packed.
        let all = || raw::labels(self.meta()).into_iter().flatten().flatten();
        all().enumerate().filter_map(move |(at, (key, value))| {
            let is_last = !self.repeats_labels || all().skip(at + 1).all(|(other, _)| other != key);
            is_last.then_some((key, value))
        })
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        let owners = raw::owner_references(self.meta()).into_iter().flatten().flatten();
        owners.map(|owner| OwnerRef {
            api_version: owner.api_version,
            kind: owner.kind,
            name: owner.name,
            uid: owner.uid,
            controller: owner.controller,
        })
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
