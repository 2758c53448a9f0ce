//! Two-stage decoding of one object out of its JSON bytes.
//!
//! First the identity, which the splitter has found on its way; then, unless the cache has this very version,
//! the object itself. Takes raw items, gives objects or [`BadObject`]s; does not know lists or watches.

use std::borrow::Cow;

use super::members::RawItem;
use super::scan::{Scanner, Shape, Span};
use super::{Decoding, Expected};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::{BadObject, Problem};
use crate::shard::Membership;
use crate::source::{Fetched, Identity, SourceError};

/// Turns the bytes of one object into the object, or says why not, without values.
pub(super) type Decode<K> = fn(&[u8], &Expected) -> Result<K, String>;

/// Decodes objects, one after the other.
pub(super) struct Objects<K> {
    decode: Decode<K>,
    decoding: Decoding<K>,
    /// For objects of which a part is cut out.
    scratch: Vec<u8>,
}

/// Why there is no object.
pub(super) enum Refused {
    Bad(Box<BadObject>),
    /// Not the object is wrong, but the whole answer.
    Answer(SourceError),
}

impl Refused {
    fn bad(raw: &RawItem<'_>, problem: Problem) -> Self {
        Self::Bad(Box::new(bad(raw, problem)))
    }
}

impl<K: Object> Objects<K> {
    pub(super) fn new(decode: Decode<K>, decoding: Decoding<K>) -> Self {
        Self {
            decode,
            decoding,
            scratch: Vec::new(),
        }
    }

    /// Whether an object is outside the shard, as far as its outline shows.
    pub(super) fn is_outside(&self, raw: &RawItem<'_>) -> bool {
        let Some(shard) = &self.decoding.shard else {
            return false;
        };
        let text = |span: Option<Span>| {
            span.and_then(|span| span.text(raw.bytes))
                .filter(|text| !text.is_empty())
        };
        let uid = text(raw.outline.uid);
        let namespace = text(raw.outline.namespace);
        // No namespace means cluster-scoped, unless the namespace or the name cannot be read.
        let half = namespace.is_none() && raw.outline.namespace.is_some_and(|span| span.start < span.end);
        let is_known = raw.outline.name.is_some() && !half;
        let namespace = is_known.then(|| namespace.as_deref().unwrap_or_default());
        shard.membership(uid.as_deref(), namespace) == Membership::Outside
    }

    /// The version of an object that is not decoded.
    pub(super) fn version(raw: &RawItem<'_>) -> Option<String> {
        let version = raw.outline.resource_version?.text(raw.bytes)?;
        (!version.is_empty()).then(|| version.into_owned())
    }

    /// Decodes one object, or takes it from the cache if that is allowed and it is there.
    pub(super) fn read(&mut self, raw: &RawItem<'_>, reuse: bool) -> Result<Fetched<K>, Refused> {
        self.check_kind(raw)?;
        if raw.too_large {
            let limit = self.decoding.max_object_size;
            return Err(Refused::bad(raw, Problem::TooLarge { limit }));
        }
        if let Some(found) = not_an_object(raw.outline.shape) {
            let problem = Problem::Decode(format!("invalid type: {found}, expected an object"));
            return Err(Refused::bad(raw, problem));
        }
        let text = |span: Option<Span>| {
            span.and_then(|span| span.text(raw.bytes))
                .filter(|text| !text.is_empty())
        };
        let name = text(raw.outline.name);
        if name.is_none() && raw.outline.name.is_none_or(|span| span.start == span.end) {
            return Err(Refused::bad(raw, Problem::Nameless));
        }
        if reuse
            && let Some(known) = &self.decoding.known
            && let (Some(name), Some(uid), Some(version)) =
                (name, text(raw.outline.uid), text(raw.outline.resource_version))
        {
            let identity = Identity {
                namespace: text(raw.outline.namespace),
                name,
                uid: Some(uid),
                resource_version: Some(version),
            };
            if let Some(object) = known.unchanged(&identity) {
                return Ok(Fetched::Unchanged(object));
            }
        }
        let decoded = match raw
            .outline
            .managed_fields
            .filter(|_| self.decoding.drop_managed_fields)
        {
            None => (self.decode)(raw.bytes, &self.decoding.expected),
            Some(cut) => {
                self.scratch.clear();
                self.scratch
                    .extend_from_slice(raw.bytes.get(..cut.start).unwrap_or_default());
                self.scratch
                    .extend_from_slice(raw.bytes.get(cut.end..).unwrap_or_default());
                (self.decode)(&self.scratch, &self.decoding.expected)
            }
        };
        match decoded {
            Ok(object) if object.object_name().is_empty() => Err(Refused::bad(raw, Problem::Nameless)),
            Ok(object) => Ok(Fetched::New(object)),
            Err(text) => Err(Refused::bad(raw, Problem::Decode(text))),
        }
    }

    pub(super) fn check_kind(&self, raw: &RawItem<'_>) -> Result<(), Refused> {
        let text = |span: Option<Span>| span.and_then(|span| span.text(raw.bytes));
        let (api_version, kind) = (text(raw.outline.api_version), text(raw.outline.kind));
        let expected = &self.decoding.expected;
        if expected.admits(api_version.as_deref(), kind.as_deref()) {
            return Ok(());
        }
        let (api_version, kind) = (api_version.unwrap_or_default(), kind.unwrap_or_default());
        if kind == "Table" && api_version.starts_with("meta.k8s.io/") {
            return Err(Refused::Answer(malformed(table())));
        }
        let problem = Problem::WrongKind {
            found: match (api_version.as_ref(), kind.as_ref()) {
                ("", kind) => short(kind, 64),
                (version, "") => format!("{} object", short(version, 64)),
                (version, kind) => format!("{}/{}", short(version, 64), short(kind, 64)),
            },
            expected: expected.to_string(),
        };
        Err(Refused::bad(raw, problem))
    }
}

fn not_an_object(shape: Shape) -> Option<&'static str> {
    match shape {
        Shape::Object => None,
        Shape::Array => Some("an array"),
        Shape::Text => Some("a string"),
        Shape::Scalar => Some("a number, a boolean or null"),
    }
}

/// An object that could not be read, with as much of its identity as could.
pub(super) fn bad(raw: &RawItem<'_>, problem: Problem) -> BadObject {
    let text = |span: Option<Span>| {
        span.and_then(|span| span.text(raw.bytes))
            .filter(|text| !text.is_empty())
    };
    let namespace = text(raw.outline.namespace);
    // A namespace that is there and cannot be read must not make a cluster-scoped key.
    let half = namespace.is_none() && raw.outline.namespace.is_some_and(|span| span.start < span.end);
    BadObject {
        key: text(raw.outline.name)
            .filter(|_| !half)
            .map(|name| ObjectKey::new(namespace.as_deref(), &name)),
        uid: text(raw.outline.uid).map(Cow::into_owned),
        resource_version: text(raw.outline.resource_version).map(Cow::into_owned),
        problem,
        size: raw.size,
    }
}

pub(super) fn malformed(text: impl Into<String>) -> SourceError {
    SourceError::Malformed(text.into())
}

pub(super) fn table() -> String {
    "the server sent a Table, which is for printing and holds no objects to cache: \
     remove `as=Table` from the Accept header that something in between sets"
        .to_owned()
}

/// The kind an object claims, from as much of it as there is.
pub(super) fn kind_of(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let mut scanner = Scanner::default();
    scanner.feed(bytes);
    scanner.outline.kind?.text(bytes)
}

pub(super) fn short(text: &str, length: usize) -> String {
    text.chars()
        .take(length)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
