//! What the objects of one informer share: their kind, resolved paths, decoded objects and counters.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use kube_protobuf::path::{FieldPath, FieldStep, PathError};
use kube_protobuf::raw;
use kube_protobuf::schema::{self, Message};
use parking_lot::RwLock;

use super::decoded::DecodedCache;
use super::siblings::Siblings;
use crate::codec::{Expected, LazyCounters, LazyOptions};

/// What the objects of one source share.
pub(crate) struct SourceContext<K> {
    pub(super) counters: Arc<LazyCounters>,
    /// Objects that are decoded for events in flight, in estimated bytes.
    pub(super) in_flight: AtomicUsize,
    pub(super) decoded: Option<DecodedCache<K>>,
    /// What objects are compressed against, if they are.
    pub(super) siblings: Option<Siblings>,
}

impl<K> SourceContext<K> {
    pub(crate) fn new(options: LazyOptions, counters: Arc<LazyCounters>) -> Self {
        Self {
            siblings: options.compressed.then(|| Siblings::new(counters.clone())),
            counters,
            in_flight: AtomicUsize::new(0),
            decoded: (options.decoded_cache > 0).then(|| DecodedCache::new(options.decoded_cache)),
        }
    }
}

/// The largest number of paths that are kept resolved. Programs use a handful.
const MAX_PATHS: usize = 128;

/// What the objects of one kind and encoding share.
pub(crate) struct Context<K> {
    /// Their type.
    pub(crate) kind: Expected,
    /// The schema, if they are protobuf.
    pub(super) message: Option<&'static Message>,
    /// The schema of their kind in either encoding.
    schema: Option<&'static Message>,
    paths: RwLock<HashMap<Box<str>, Arc<ResolvedPath>>>,
    pub(super) shared: Arc<SourceContext<K>>,
}

/// A path, and what it is for the kind.
pub(super) enum ResolvedPath {
    /// A field of the schema.
    Field(raw::Path),
    /// A path into JSON that the schema does not have.
    Json(FieldPath),
    /// `apiVersion` or `kind`, which some encodings have around the object.
    Type(String),
    Invalid(PathError),
}

impl<K> Context<K> {
    pub(crate) fn new(
        kind: Expected,
        message: Option<&'static Message>,
        shared: Arc<SourceContext<K>>,
    ) -> Self {
        Self {
            schema: message.or_else(|| schema::lookup(&kind.api_version, &kind.kind)),
            kind,
            message,
            paths: RwLock::default(),
            shared,
        }
    }

    pub(crate) fn is_for(&self, message: Option<&'static Message>, api_version: &str, kind: &str) -> bool {
        let is_same = match (self.message, message) {
            (Some(held), Some(message)) => std::ptr::eq(held, message),
            (None, None) => true,
            _ => false,
        };
        is_same && self.kind.api_version == api_version && self.kind.kind == kind
    }

    /// The path as it applies to this kind. Parsed once.
    pub(super) fn resolve(&self, path: &str) -> Arc<ResolvedPath> {
        if let Some(resolved) = self.paths.read().get(path) {
            return resolved.clone();
        }
        let resolved = Arc::new(self.parse(path));
        let mut paths = self.paths.write();
        if paths.len() < MAX_PATHS {
            paths.insert(path.into(), resolved.clone());
        }
        resolved
    }

    fn parse(&self, path: &str) -> ResolvedPath {
        let parsed = match FieldPath::parse(path) {
            Ok(parsed) => parsed,
            Err(error) => return ResolvedPath::Invalid(error),
        };
        match parsed.steps() {
            [FieldStep::Name(name)] if &**name == "kind" => {
                return ResolvedPath::Type(self.kind.kind.clone());
            }
            [FieldStep::Name(name)] if &**name == "apiVersion" => {
                return ResolvedPath::Type(self.kind.api_version.clone());
            }
            _ => {}
        }
        match self.schema.map(|schema| raw::Path::new(schema, &parsed)) {
            Some(Ok(path)) => ResolvedPath::Field(path),
            // The JSON of a newer server may have the field.
            Some(Err(PathError::UnknownField { .. })) if self.message.is_none() => ResolvedPath::Json(parsed),
            Some(Err(error)) => ResolvedPath::Invalid(error),
            None => ResolvedPath::Json(parsed),
        }
    }
}
