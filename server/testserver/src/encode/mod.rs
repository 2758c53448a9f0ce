//! Encodes stored objects: as they are, metadata only, as rows of a table, in another version, or corrupted on purpose.
//! Returns the bytes of list items and watch frames. Does not decide which objects are encoded.

mod corrupt;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use kube_api_protocol::negotiation::{Accepted, Encoding, Form};
use kube_api_protocol::protobuf::{self, Encoded};
use kube_api_protocol::resource::{Resource, internal_metadata};
use kube_api_protocol::table;
use kube_api_protocol::watch::{self, EventType};
use serde_json::Value;

use crate::clock::Clock;
use crate::fault::{Poison, Poisons};
use crate::kinds::Kind;
use crate::state::ServerState;
use crate::storage::{Change, Stored};
use crate::typed;

/// Encodes the objects of one response.
#[derive(Debug)]
pub(crate) struct Encoder {
    kind: Arc<Kind>,
    /// The storage version of a built-in kind, if it differs from the requested version. Custom objects are in the requested
    /// version already.
    stored_as: Option<Arc<Kind>>,
    form: Form,
    encoding: Encoding,
    /// The API version and the kind of the objects, for protobuf envelopes.
    object_type: (Arc<str>, Arc<str>),
    collection: Arc<str>,
    /// Objects corrupted by a fault in this response, and those corrupted everywhere.
    poison: Vec<(String, Poison)>,
    poisons: Arc<Poisons>,
    clock: Arc<Clock>,
    /// Whether the column definitions were already sent; a watch sends them in its first event only.
    described: AtomicBool,
}

impl Encoder {
    pub(crate) fn new(state: &ServerState, kind: &Arc<Kind>, accepted: Accepted) -> Encoder {
        let stored_as = Some(state.registry.read().stored(kind));
        Encoder {
            kind: kind.clone(),
            stored_as: stored_as
                .filter(|_| !kind.custom)
                .filter(|stored| stored.version != kind.version || stored.group != kind.group),
            form: accepted.form,
            encoding: accepted.encoding,
            object_type: (kind.api_version().into(), kind.kind.as_str().into()),
            collection: ServerState::collection_of(kind),
            poison: Vec::new(),
            poisons: state.poisons.clone(),
            clock: state.clock.clone(),
            described: AtomicBool::new(false),
        }
    }

    /// Corrupts some objects, given by key.
    pub(crate) fn corrupting(mut self, poison: Vec<(String, Poison)>) -> Encoder {
        self.poison = poison;
        self
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    pub(crate) fn is_protobuf(&self) -> bool {
        self.encoding == Encoding::Protobuf
    }

    pub(crate) fn resource(&self) -> Resource<'_> {
        self.kind.resource()
    }

    /// A single object, including its type.
    pub(crate) fn object(&self, object: &Stored) -> Bytes {
        self.corrupted(object).unwrap_or_else(|| self.whole(object))
    }

    fn whole(&self, object: &Stored) -> Bytes {
        match (self.form, &self.stored_as) {
            (Form::Object, None) => object.bytes().clone(),
            (Form::Object, Some(_)) => self.converted(object).to_string().into(),
            (Form::Metadata, _) => {
                let mut out = Vec::with_capacity(object.metadata().len() + 80);
                self.write_metadata(object, &mut out);
                out.into()
            }
            (Form::Table(include), _) => {
                let describe = !self.described.swap(true, Ordering::Relaxed);
                let now = self.clock.now();
                table::table_of_one(self.resource(), &self.converted(object), include, describe, now)
                    .to_string()
                    .into()
            }
        }
    }

    fn converted(&self, object: &Stored) -> Value {
        match &self.stored_as {
            None => object.value(),
            Some(stored) => self.kind.convert_from(stored, object.value()),
        }
    }

    /// The object as an item of a list. Lists of built-in kinds leave the type out of their items.
    pub(crate) fn item(&self, object: &Stored, out: &mut Vec<u8>) {
        if let Some(corrupted) = self.corrupted(object) {
            out.extend_from_slice(&corrupted);
            return;
        }
        match (self.form, &self.stored_as) {
            (Form::Metadata, _) => self.write_metadata(object, out),
            (Form::Object, None) if !self.kind.items_carry_type() => {
                out.push(b'{');
                out.extend_from_slice(object.body());
            }
            (Form::Object, None) => out.extend_from_slice(object.bytes()),
            (Form::Object, Some(_)) => {
                let mut value = self.converted(object);
                if !self.kind.items_carry_type()
                    && let Some(map) = value.as_object_mut()
                {
                    map.remove("kind");
                    map.remove("apiVersion");
                }
                out.extend_from_slice(value.to_string().as_bytes());
            }
            (Form::Table(include), _) => {
                let row = table::row(
                    self.resource(),
                    &self.converted(object),
                    include,
                    self.clock.now(),
                );
                out.extend_from_slice(row.to_string().as_bytes());
            }
        }
    }

    /// One frame of a watch.
    pub(crate) fn event(&self, event: EventType, object: &Stored) -> Bytes {
        if self.is_protobuf() {
            let message = self.message(object);
            return watch::protobuf_frame(event.as_str(), message.type_meta(), &message.bytes);
        }
        watch::json_frame(event.as_str(), &self.object(object))
    }

    /// The watch frame of an object that is not stored: a bookmark or a `Status`.
    pub(crate) fn frame(&self, event: &str, object: &Value) -> Bytes {
        watch::frame(self.encoding, event, object)
    }

    /// The object as a protobuf message. The message of a stored object in its storage version is encoded once.
    pub(crate) fn message(&self, object: &Stored) -> Encoded {
        match self.poison_of(object) {
            Some(poison) => corrupt::corrupted(&self.whole(object), &poison),
            None if self.form == Form::Object && self.stored_as.is_none() => Encoded {
                api_version: self.object_type.0.clone(),
                kind: self.object_type.1.clone(),
                bytes: object.message(|bytes| protobuf::encode(bytes).bytes),
            },
            None => protobuf::encode(&self.whole(object)),
        }
    }

    /// The object as a protobuf response body.
    pub(crate) fn protobuf_body(&self, object: &Stored) -> Bytes {
        let message = self.message(object);
        kube_protobuf::envelope::to_body(message.type_meta(), &message.bytes).into()
    }

    /// The frame of a change for a watch without selector; encoded once and shared by all such watches.
    pub(crate) fn shared_event(&self, event: EventType, object: &Stored, change: &Change) -> Bytes {
        if self.form == Form::Object && self.stored_as.is_none() && self.poison_of(object).is_none() {
            change.shared_frame(self.encoding, || self.event(event, object))
        } else {
            self.event(event, object)
        }
    }

    /// The object of a bookmark: its type, the version, the end marker if requested, and the parts that a typed object
    /// always has.
    pub(crate) fn bookmark(&self, revision: u64, end_of_initial: bool) -> Value {
        let version = revision.to_string();
        watch::bookmark(self.resource(), self.form, &version, end_of_initial, || {
            typed::bookmark_parts(&self.kind)
        })
    }

    fn write_metadata(&self, object: &Stored, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":",
        );
        if self.resource().has_internal_metadata() {
            let metadata = object.value().get_mut("metadata").map(Value::take);
            let metadata = internal_metadata(metadata.unwrap_or_default());
            out.extend_from_slice(metadata.to_string().as_bytes());
        } else {
            out.extend_from_slice(object.metadata());
        }
        out.push(b'}');
    }

    fn corrupted(&self, object: &Stored) -> Option<Bytes> {
        Some(self.poison_of(object)?.corrupt(&self.whole(object)))
    }

    fn poison_of(&self, object: &Stored) -> Option<Poison> {
        let here = self.poison.iter().find(|(key, _)| **key == *object.key);
        here.map(|(_, poison)| poison.clone())
            .or_else(|| self.poisons.get(&self.collection, &object.key))
    }
}

#[cfg(test)]
mod tests;
