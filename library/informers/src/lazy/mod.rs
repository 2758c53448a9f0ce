#![doc = include_str!("../docs/lazy.md")]

mod codec;
mod context;
mod decoded;
mod edit;
pub(crate) mod error;
mod index_values;
mod list_watch;
mod packed;
mod siblings;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kube_protobuf::{ErrorKind, raw};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracing::warn;

use crate::codec::{Encoded, Expected, decode};
use crate::key::ObjectKey;
use crate::object::{DecodedOnAccess, Object, OwnerRef};
use context::ResolvedPath;
use decoded::InFlight;

pub use crate::codec::holding::Validate;
use context::{Context, SourceContext};
pub(crate) use error::LazyError;
pub use kube_protobuf::path::{self, FieldPath, PathError};
pub use kube_protobuf::raw::RawValue as FieldValue;
use packed::{Front, Packed};

/// An object that is kept as its encoded bytes, and decoded on access. See the [module documentation](self).
///
/// `K` is any type that can be cached: a type of `k8s-openapi`, a derived custom resource, or
/// [`DynamicObject`](kube::core::DynamicObject). The bytes are those that the server sent, protobuf where the kind has
/// a schema and JSON otherwise, without `metadata.managedFields`. They include fields unknown to `K`.
pub struct Lazy<K> {
    packed: Packed,
    context: Arc<Context<K>>,
    in_flight: Mutex<InFlight<K>>,
}

impl<K> Lazy<K> {
    pub(crate) fn new(packed: Packed, context: Arc<Context<K>>) -> Self {
        let object = Self {
            packed,
            context,
            in_flight: Mutex::default(),
        };
        object.context.shared.counters.hold(object.memory());
        object
    }

    /// The memory it occupies, without decoded objects.
    fn memory(&self) -> usize {
        size_of::<Self>() + self.packed.heap_bytes()
    }

    /// The encoded object: the message of its kind in protobuf, or a JSON document.
    ///
    /// Owned if the object is [compressed](crate::source::SourceOptions::compressed).
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        self.packed.body()
    }

    /// Whether the bytes are protobuf. Otherwise they are JSON.
    pub fn is_protobuf(&self) -> bool {
        self.context.message.is_some()
    }

    /// The bytes that a transform has [attached](Self::attach); empty if there are none.
    pub fn attachment(&self) -> &[u8] {
        self.packed.attachment()
    }

    fn decode<T: DeserializeOwned + 'static>(&self) -> Result<T, LazyError> {
        let encoded = Encoded {
            bytes: &self.packed.body(),
            message: self.context.message,
            expected: &self.context.kind,
        };
        decode(encoded).map_err(|problem| self.undecodable(None, problem))
    }

    /// The estimated memory of the decoded object. A pod of 2.9 kB takes 29 kB.
    fn decoded_size(&self) -> usize {
        size_of::<K>() + 10 * self.packed.body_length()
    }

    fn key(&self) -> ObjectKey {
        ObjectKey::new(self.packed.namespace(), self.packed.name())
    }

    /// A failed access, which is counted, and logged once per object.
    #[cold]
    fn undecodable(&self, path: Option<&str>, problem: impl fmt::Display) -> LazyError {
        let error = LazyError::Undecodable {
            key: self.key(),
            version: self.packed.version().unwrap_or("unknown").to_owned(),
            path: path.map(str::to_owned),
            problem: problem.to_string(),
        };
        self.context.shared.counters.add_error();
        let is_reported = std::mem::replace(&mut self.in_flight.lock().is_reported, true);
        if !is_reported {
            let Expected {
                api_version, kind, ..
            } = &self.context.kind;
            warn!(kind = %format_args!("{api_version}/{kind}"), "{error}");
        }
        error
    }

    #[cold]
    fn invalid_path(&self, path: &str, source: PathError) -> LazyError {
        LazyError::Path {
            key: self.key(),
            path: path.to_owned(),
            source,
        }
    }

    /// Decodes the object into your own struct, reading only the fields that it declares.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kube_informers::error::LazyError;
    /// # use kube_informers::lazy::Lazy;
    /// #[derive(serde::Deserialize)]
    /// struct Placement {
    ///     spec: Spec,
    /// }
    /// #[derive(serde::Deserialize)]
    /// #[serde(rename_all = "camelCase")]
    /// struct Spec {
    ///     node_name: Option<String>,
    /// }
    ///
    /// # fn example(pod: &Lazy<Pod>) -> Result<(), LazyError> {
    /// let placement: Placement = pod.project()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The object is not a `P`.
    pub fn project<P: DeserializeOwned + 'static>(&self) -> Result<P, LazyError> {
        self.decode()
    }

    /// Reads one field without decoding the object; `None` if the object has no such field. See
    /// [`path`] for the grammar.
    ///
    /// # Errors
    ///
    /// The path is invalid for objects of this kind, or the bytes on the way to the field are malformed.
    pub fn path(&self, path: impl AsRef<str>) -> Result<Option<FieldValue<'_>>, LazyError> {
        let path = path.as_ref();
        match self.bytes() {
            Cow::Borrowed(bytes) => self.read(path, bytes),
            // The bytes are dropped on return, so the field is copied.
            Cow::Owned(bytes) => Ok(self.read_tree(path, &bytes)?.map(FieldValue::from)),
        }
    }

    fn read<'a>(&self, path: &str, bytes: &'a [u8]) -> Result<Option<FieldValue<'a>>, LazyError> {
        let resolved = self.context.resolve(path);
        let value = match &*resolved {
            ResolvedPath::Invalid(error) => return Err(self.invalid_path(path, error.clone())),
            ResolvedPath::Type(text) => return Ok(Some(Value::from(text.as_str()).into())),
            ResolvedPath::Json(json) => json.read_json(bytes).map_err(json_problem),
            ResolvedPath::Field(field) if !self.is_protobuf() => field.read_json(bytes).map_err(json_problem),
            ResolvedPath::Field(field) => match field.read(bytes) {
                Ok(value) => return Ok(value),
                Err(error) if error.kind() == ErrorKind::NotCanonical => {
                    canonical_value(field, bytes).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            },
        };
        match value {
            Ok(value) => Ok(value.map(FieldValue::from)),
            Err(problem) => Err(self.undecodable(Some(path), problem)),
        }
    }

    /// Reads one field as a tree; `None` if the object has no such field.
    ///
    /// # Errors
    ///
    /// The path is invalid for objects of this kind, or the field cannot be decoded.
    pub fn value(&self, path: impl AsRef<str>) -> Result<Option<Value>, LazyError> {
        self.read_tree(path.as_ref(), &self.bytes())
    }

    fn read_tree(&self, path: &str, bytes: &[u8]) -> Result<Option<Value>, LazyError> {
        let Some(value) = self.read(path, bytes)? else {
            return Ok(None);
        };
        match value.to_value() {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.canonical_value(path, bytes, error).map(Some),
        }
    }

    /// Reads one string, number or boolean as text; `None` if the object has no such field, or the field is something else.
    ///
    /// # Errors
    ///
    /// The path is invalid for objects of this kind, or the field cannot be decoded.
    pub fn text(&self, path: impl AsRef<str>) -> Result<Option<String>, LazyError> {
        let (path, bytes) = (path.as_ref(), self.bytes());
        let Some(value) = self.read(path, &bytes)? else {
            return Ok(None);
        };
        match value.text() {
            Ok(text) => Ok(text.map(Cow::into_owned)),
            Err(error) => Err(self.undecodable(Some(path), error)),
        }
    }

    /// The value of a field that could not be decoded because it is not in the form in which Go writes it.
    #[cold]
    fn canonical_value(
        &self,
        path: &str,
        bytes: &[u8],
        error: kube_protobuf::Error,
    ) -> Result<Value, LazyError> {
        let resolved = self.context.resolve(path);
        let value = match (&*resolved, error.kind()) {
            (ResolvedPath::Field(field), ErrorKind::NotCanonical) => canonical_value(field, bytes),
            _ => Err(error),
        };
        match value {
            Ok(value) => Ok(value.unwrap_or_default()),
            Err(error) => Err(self.undecodable(Some(path), error)),
        }
    }

    /// Whether a field differs from that of an older version of the object. Equal bytes are recognised without decoding.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kube_informers::lazy::Lazy;
    /// # use kube_informers::Event;
    /// # fn example(event: Event<Lazy<Pod>>) -> bool {
    /// // Whether an event is more than an update of the status. An object that cannot be read is worth a look.
    /// match &event {
    ///     Event::Updated { old, new, .. } => new.changed(old, "spec").unwrap_or(true),
    ///     _ => true,
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The path is invalid for objects of this kind, or the field of one of them cannot be decoded.
    pub fn changed(&self, old: &Self, path: impl AsRef<str>) -> Result<bool, LazyError> {
        let path = path.as_ref();
        if std::ptr::eq(self, old) {
            return Ok(false);
        }
        let (was, is) = (old.bytes(), self.bytes());
        if self.is_protobuf() == old.is_protobuf() {
            let resolved = self.context.resolve(path);
            let compared = match &*resolved {
                ResolvedPath::Field(field) if self.is_protobuf() && self.has_kind_of(old) => {
                    raw::changed(field, &was, &is).ok()
                }
                ResolvedPath::Field(field) if !self.is_protobuf() => field.changed_json(&was, &is).ok(),
                ResolvedPath::Json(field) => field.changed_json(&was, &is).ok(),
                _ => None,
            };
            // A failure is decoded again, to find out which of the two it concerns.
            if let Some(changed) = compared {
                return Ok(changed);
            }
        }
        Ok(old.read_tree(path, &was)? != self.read_tree(path, &is)?)
    }

    fn has_kind_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.context, &other.context)
            || matches!((self.context.message, other.context.message), (Some(a), Some(b)) if std::ptr::eq(a, b))
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> Lazy<K> {
    /// Decodes the object.
    ///
    /// While an event that carries the object is being delivered, all handlers share one decoded object. Otherwise
    /// every call decodes again, unless a cache of decoded objects is [enabled](crate::source::SourceOptions::decoded_cache).
    ///
    /// # Errors
    ///
    /// The object is not a `K`. With [`Validate::OnArrival`] this happens only to objects that a transform has changed.
    pub fn get(&self) -> Result<Arc<K>, LazyError> {
        let in_flight = self.in_flight.lock().get();
        if let Some(object) = in_flight {
            return Ok(object);
        }
        let SourceContext {
            decoded, in_flight, ..
        } = &*self.context.shared;
        let cached = decoded
            .as_ref()
            .and_then(|cache| cache.get(self.packed.address()));
        let object = match cached {
            Some(object) => object,
            None => {
                // Decoding runs code of `K`: not under a lock. Two handlers may decode at the same time; one result is kept.
                let object = Arc::new(self.decode::<K>()?);
                if let Some(cache) = decoded {
                    cache.put(self.packed.address(), &object, self.decoded_size());
                }
                object
            }
        };
        Ok(self.in_flight.lock().keep(object, self.decoded_size(), in_flight))
    }
}

/// The error of `serde_json` may quote a value, so only the place is reported.
fn json_problem(error: serde_json::Error) -> String {
    format!("invalid JSON at line {} column {}", error.line(), error.column())
}

#[cold]
fn canonical_value(path: &raw::Path, bytes: &[u8]) -> Result<Option<Value>, kube_protobuf::Error> {
    let canonical = raw::canonical(path.message(), bytes)?;
    match path.read(&canonical)? {
        Some(value) => value.to_value().map(Some),
        None => Ok(None),
    }
}

impl<K: Send + Sync + 'static> Object for Lazy<K> {
    fn object_name(&self) -> &str {
        self.packed.name()
    }

    fn object_namespace(&self) -> Option<&str> {
        self.packed.namespace()
    }

    fn object_uid(&self) -> Option<&str> {
        self.packed.uid()
    }

    fn object_version(&self) -> Option<&str> {
        self.packed.version()
    }

    fn object_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.packed.labels()
    }

    fn object_owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        self.packed.owners()
    }

    fn object_bytes(&self) -> Option<usize> {
        Some(self.memory())
    }

    fn before_caching(&mut self) {
        let siblings = self.context.shared.siblings.as_ref();
        if let Some(packed) = siblings.and_then(|siblings| self.packed.compress(siblings)) {
            self.exchange(packed);
        }
    }

    fn decoded_on_access(&self) -> Option<&dyn DecodedOnAccess> {
        Some(self)
    }
}

impl<K> DecodedOnAccess for Lazy<K> {
    fn begin_delivery(&self) {
        self.in_flight.lock().begin();
    }

    fn end_delivery(&self) {
        let freed = self.in_flight.lock().end();
        self.free(freed);
    }
}

impl<K> Lazy<K> {
    /// Drops the decoded object of events in flight.
    fn free(&self, decoded: Option<Arc<K>>) {
        if decoded.is_some() {
            let in_flight = &self.context.shared.in_flight;
            in_flight.fetch_sub(self.decoded_size(), Ordering::Relaxed);
        }
    }

    /// Forgets the decoded object. The bytes are about to change.
    fn forget_decoded(&mut self) {
        let decoded = self.in_flight.get_mut().clear();
        self.free(decoded);
        if let Some(cache) = &self.context.shared.decoded {
            cache.remove(self.packed.address());
        }
    }
}

impl<K> Drop for Lazy<K> {
    fn drop(&mut self) {
        self.forget_decoded();
        self.context.shared.counters.release(self.memory());
    }
}

/// Copies the bytes.
impl<K> Clone for Lazy<K> {
    fn clone(&self) -> Self {
        Self::new(self.packed.clone(), self.context.clone())
    }
}

/// The identity and the size only: the object may be a Secret.
impl<K> fmt::Debug for Lazy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lazy")
            .field("kind", &self.context.kind.kind)
            .field("key", &self.key())
            .field("version", &self.packed.version())
            .field("bytes", &self.packed.body_length())
            .field("protobuf", &self.is_protobuf())
            .finish()
    }
}
