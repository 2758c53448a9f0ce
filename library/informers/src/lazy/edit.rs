//! Changing encoded objects, for transforms, and encoding decoded ones.

use std::borrow::Cow;
use std::sync::Arc;

use kube_protobuf::path::FieldStep;
use kube_protobuf::{raw, schema, ser};
use serde::Serialize;
use serde_json::Value;

use super::context::ResolvedPath;
use super::{Context, FieldPath, Lazy, LazyError, Packed, PathError, SourceContext};
use crate::codec::{LazyCounters, LazyOptions};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::source::KnownResource;

impl<K> Lazy<K> {
    /// Replaces a field in the bytes; `None` removes it. All other fields stay, even those unknown to `K`.
    ///
    /// The path may not lead into lists or maps, which can only be replaced as a whole. For transforms; cached objects
    /// cannot be changed.
    ///
    /// # Errors
    ///
    /// The path is invalid or leads into a list or map, the value is not of the field's type, or the object cannot be
    /// decoded.
    pub fn set(&mut self, path: impl AsRef<str>, value: impl Into<Option<Value>>) -> Result<(), LazyError> {
        let (path, value) = (path.as_ref(), value.into());
        let resolved = self.context.resolve(path);
        let packed = match &*resolved {
            ResolvedPath::Invalid(error) => return Err(self.invalid_path(path, error.clone())),
            ResolvedPath::Field(field) if self.is_protobuf() => {
                let bytes = raw::set(field, &self.bytes(), value.as_ref());
                bytes
                    .and_then(|bytes| Packed::from_protobuf(Cow::Owned(bytes)))
                    .map_err(|error| self.unencodable(path, error))?
            }
            _ => {
                let bytes = self.set_json(path, value)?;
                Packed::from_json(&bytes)
                    .map_err(|error| self.unencodable(path, super::json_problem(error)))?
            }
        };
        self.replace(packed);
        Ok(())
    }

    fn set_json(&self, path: &str, value: Option<Value>) -> Result<Vec<u8>, LazyError> {
        let invalid = |step: &str| {
            self.invalid_path(
                path,
                PathError::NotSelectable {
                    step: step.to_owned(),
                },
            )
        };
        let parsed = FieldPath::parse(path).map_err(|error| self.invalid_path(path, error))?;
        let mut tree: Value = serde_json::from_slice(&self.bytes())
            .map_err(|error| self.undecodable(Some(path), super::json_problem(error)))?;
        let mut at = &mut tree;
        let (last, parents) = match parsed.steps() {
            [parents @ .., FieldStep::Name(last)] => (last, parents),
            _ => return Err(invalid(path)),
        };
        for step in parents {
            let FieldStep::Name(name) = step else {
                return Err(invalid(path));
            };
            let Value::Object(members) = at else {
                return Err(invalid(name));
            };
            at = members
                .entry(name.to_string())
                .or_insert_with(|| Value::Object(Default::default()));
        }
        let Value::Object(members) = at else {
            return Err(invalid(last));
        };
        match value {
            Some(value) => members.insert(last.to_string(), value),
            None => members.remove(&**last),
        };
        serde_json::to_vec(&tree).map_err(|error| self.unencodable(path, super::json_problem(error)))
    }

    /// Stores bytes with the object, such as a summary of fields that a transform removes. Replaces an earlier
    /// attachment.
    pub fn attach(&mut self, bytes: &[u8]) {
        let mut packed = self.packed.clone();
        packed.attach(bytes);
        self.exchange(packed);
    }

    fn replace(&mut self, mut packed: Packed) {
        if !self.packed.attachment().is_empty() {
            packed.attach(self.packed.attachment());
        }
        self.exchange(packed);
    }

    pub(super) fn exchange(&mut self, packed: Packed) {
        self.forget_decoded();
        let counters = &self.context.shared.counters;
        counters.release(self.memory());
        self.packed = packed;
        self.context.shared.counters.hold(self.memory());
    }

    fn unencodable(&self, path: &str, problem: impl std::fmt::Display) -> LazyError {
        LazyError::Unencodable {
            key: self.key(),
            problem: format!("{path}: {problem}"),
        }
    }
}

impl<K: Object + Serialize + KnownResource> Lazy<K> {
    /// Encodes an object, as protobuf if its kind has a schema: for stores that programs fill themselves and for tests.
    ///
    /// # Errors
    ///
    /// The object cannot be encoded.
    pub fn pack(object: &K) -> Result<Self, LazyError> {
        let unencodable = |problem: String| LazyError::Unencodable {
            key: ObjectKey::of(object),
            problem,
        };
        let kind = K::resource_type().expected();
        let message = schema::lookup(&kind.api_version, &kind.kind).filter(|kind| kind.has_object_meta());
        let packed = match message {
            Some(message) => ser::to_message(message, object)
                .and_then(|bytes| Packed::from_protobuf(Cow::Owned(bytes)))
                .map_err(|error| unencodable(error.to_string()))?,
            None => serde_json::to_vec(object)
                .and_then(|bytes| Packed::from_json(&bytes))
                .map_err(|error| unencodable(super::json_problem(error)))?,
        };
        let shared = SourceContext::new(LazyOptions::default(), Arc::<LazyCounters>::default());
        Ok(Self::new(
            packed,
            Arc::new(Context::new(kind, message, Arc::new(shared))),
        ))
    }
}
