//! Decodes one object in two stages: its identity first, and the object only if the cache does not hold it.

use std::hint::black_box;
use std::sync::Arc;

use super::format::{Decode, DecodeOptions, RawObject, Skim, TABLE, Text, malformed, shortened};
use super::{Decoding, Expected};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::{BadObject, Problem};
use crate::shard::Membership;
use crate::wire::{Fetched, Identity, SourceError};

/// Decodes objects one by one.
pub(super) struct Objects<K> {
    decode: Decode<K>,
    decoding: Decoding<K>,
}

/// What is kept from object to object.
#[derive(Default)]
pub(super) struct Scratch {
    buffer: Vec<u8>,
    /// The estimated memory of the objects that were decoded since the heap had room for more.
    taken: usize,
}

impl Scratch {
    /// A decoded object takes about ten times its encoded size, as a pod does.
    const EXPANSION: usize = 10;
    /// Less than the size from which on the system's allocator maps memory for a single allocation, 128 KiB.
    const ROOM: usize = 96 << 10;

    /// Makes room for an object that the cache does not hold yet.
    ///
    /// The heaps of glibc's threads grow page by page, with a system call for each: six of them for a pod, a tenth of the
    /// time of an initial list. An allocation makes the heap grow by its size at once, and what is freed at the end of the
    /// heap stays there for the next objects. Other allocators take such a block from a cache.
    fn make_room(&mut self, encoded: usize) {
        self.taken = self.taken.saturating_add(encoded.saturating_mul(Self::EXPANSION));
        if self.taken >= Self::ROOM {
            self.taken = 0;
            drop(black_box(Vec::<u8>::with_capacity(Self::ROOM)));
        }
    }
}

/// What a body says of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    /// It exists: the cache may be about to hold one more object.
    NewObject,
    /// It has another state.
    NewState,
    /// It is gone. Never reused from the cache: the object has the version of the deletion.
    Deleted,
}

/// Why there is no object.
pub(super) enum Rejected {
    /// This object is rejected.
    Object(Box<BadObject>),
    /// The whole response is rejected.
    Response(SourceError),
}

impl Rejected {
    fn object(raw: &RawObject<'_>, problem: Problem) -> Self {
        Self::Object(Box::new(bad_object(raw, problem)))
    }
}

impl<K: Object> Objects<K> {
    pub(super) fn new(decode: Decode<K>, decoding: Decoding<K>) -> Self {
        Self { decode, decoding }
    }

    /// Whether an object is certainly outside the shard. An object with an incomplete identity is not: it is checked
    /// again after it has been decoded.
    pub(super) fn is_outside(&self, skim: &Skim<'_>) -> bool {
        let Some(shard) = &self.decoding.shard else {
            return false;
        };
        // No namespace means cluster-scoped, unless the namespace or the name cannot be read.
        let is_known = !matches!(skim.name, Text::Absent) && !matches!(skim.namespace, Text::Unreadable);
        let namespace = is_known.then(|| skim.namespace.as_deref().unwrap_or_default());
        shard.membership(skim.uid.as_deref(), namespace) == Membership::Outside
    }

    /// Returns the cached object if it has this version, and decodes it otherwise. The inner error is an object that is
    /// rejected, the outer one a response.
    #[allow(
        clippy::result_large_err,
        reason = "the caller moves it into an item of the same size"
    )]
    pub(super) fn read(
        &self,
        raw: &RawObject<'_>,
        reads: Reads,
        scratch: &mut Scratch,
    ) -> Result<Result<Fetched<K>, BadObject>, SourceError> {
        match self.known(raw, reads != Reads::Deleted) {
            Ok(Some(object)) => return Ok(Ok(Fetched::Unchanged(object))),
            Ok(None) => {}
            Err(Rejected::Object(object)) => return Ok(Err(*object)),
            Err(Rejected::Response(error)) => return Err(error),
        }
        if reads == Reads::NewObject {
            scratch.make_room(raw.size);
        }
        Ok(self.decode(raw, scratch))
    }

    /// Returns the cached object if `reuse` is set and the cache holds this version; `None` if the object has to be decoded.
    fn known(&self, raw: &RawObject<'_>, reuse: bool) -> Result<Option<Arc<K>>, Rejected> {
        self.check_kind(raw)?;
        if raw.too_large {
            let limit = self.decoding.max_object_size;
            return Err(Rejected::object(raw, Problem::TooLarge { limit }));
        }
        let skim = &raw.skim;
        if let Some(found) = skim.not_an_object {
            let problem = Problem::Decode(format!("invalid type: {found}, expected an object"));
            return Err(Rejected::object(raw, problem));
        }
        if matches!(skim.name, Text::Absent) {
            return Err(Rejected::object(raw, Problem::Nameless));
        }
        if reuse
            && let Some(known) = &self.decoding.known
            && let (Some(name), uid @ Some(_), resource_version @ Some(_)) = (
                skim.name.cloned(),
                skim.uid.cloned(),
                skim.resource_version.cloned(),
            )
        {
            let identity = Identity {
                namespace: skim.namespace.cloned(),
                name,
                uid,
                resource_version,
            };
            return Ok(known.unchanged(&identity));
        }
        Ok(None)
    }

    /// Decodes one object.
    #[allow(
        clippy::result_large_err,
        reason = "the caller moves it into an item of the same size"
    )]
    fn decode(&self, raw: &RawObject<'_>, scratch: &mut Scratch) -> Result<Fetched<K>, BadObject> {
        let options = DecodeOptions {
            expected: &self.decoding.expected,
            drop_managed_fields: self.decoding.drop_managed_fields,
            max_object_size: self.decoding.max_object_size,
            scratch: &mut scratch.buffer,
        };
        match (self.decode)(raw, options) {
            Ok(object) if object.object_name().is_empty() => Err(bad_object(raw, Problem::Nameless)),
            Ok(object) => Ok(object.into()),
            Err(text) => Err(bad_object(raw, Problem::Decode(text))),
        }
    }

    pub(super) fn check_kind(&self, raw: &RawObject<'_>) -> Result<(), Rejected> {
        let expected: &Expected = &self.decoding.expected;
        let (api_version, kind) = (raw.skim.api_version.as_deref(), raw.skim.kind.as_deref());
        if expected.admits(api_version, kind) {
            return Ok(());
        }
        let (api_version, kind) = (api_version.unwrap_or_default(), kind.unwrap_or_default());
        if kind == "Table" && api_version.starts_with("meta.k8s.io/") {
            return Err(Rejected::Response(malformed(TABLE)));
        }
        let problem = Problem::WrongKind {
            found: match (api_version, kind) {
                ("", kind) => shortened(kind, 64),
                (version, "") => format!("{} object", shortened(version, 64)),
                (version, kind) => format!("{}/{}", shortened(version, 64), shortened(kind, 64)),
            },
            expected: expected.to_string(),
        };
        Err(Rejected::object(raw, problem))
    }
}

/// A rejected object, with as much of its identity as could be read.
pub(super) fn bad_object(raw: &RawObject<'_>, problem: Problem) -> BadObject {
    let skim = &raw.skim;
    // With an unreadable namespace, the name alone would be the key of a cluster-scoped object.
    let name = match skim.namespace {
        Text::Unreadable => None,
        _ => skim.name.as_deref(),
    };
    BadObject {
        key: name.map(|name| ObjectKey::new(skim.namespace.as_deref(), name)),
        uid: skim.uid.clone().into_owned(),
        resource_version: skim.resource_version.clone().into_owned(),
        problem,
        size: raw.size,
    }
}
