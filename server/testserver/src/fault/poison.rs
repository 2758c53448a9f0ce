//! Objects that cannot be decoded: corrupts the JSON of one object.
//! Knows nothing of lists or watches.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::RwLock;
use serde_json::{Value, json};

/// How an object's JSON is corrupted.
#[derive(Clone)]
#[non_exhaustive]
pub enum Poison {
    /// A field that must be an object is a number: `spec`, or `data` where there is no `spec`.
    WrongType,
    /// `status.phase` (or the top-level field `type`) has an unknown value.
    BadEnum,
    /// No `metadata` at all.
    MissingMetadata,
    /// No `metadata.name`.
    MissingName,
    /// No `metadata.resourceVersion`.
    MissingVersion,
    /// A resource version that is not a number.
    BadVersion,
    /// An annotation whose bytes are not UTF-8.
    InvalidUtf8,
    /// An extra field with this nesting depth.
    TooDeep(usize),
    /// An annotation of this number of bytes.
    Huge(usize),
    /// Another kind: apiVersion and kind.
    OtherKind(String, String),
    /// A `Status` object in place of the object.
    StatusObject,
    /// `null` in place of the object.
    Null,
    /// These bytes after the object, inside the list or frame.
    GarbageAfter(Bytes),
    /// These bytes in place of the object.
    Raw(Bytes),
    /// The object as this function changes it.
    Edit(Arc<dyn Fn(&mut Value) + Send + Sync>),
}

/// The objects that are corrupted wherever they appear, by collection and key.
#[derive(Debug, Default)]
pub(crate) struct Poisons {
    objects: RwLock<HashMap<(String, String), Poison>>,
    any: AtomicBool,
}

impl Poisons {
    pub(crate) fn insert(&self, collection: &str, key: &str, poison: Poison) {
        self.objects
            .write()
            .insert((collection.to_owned(), key.to_owned()), poison);
        self.any.store(true, Ordering::Release);
    }

    /// Returns whether the object was corrupted.
    pub(crate) fn remove(&self, collection: &str, key: &str) -> bool {
        self.objects
            .write()
            .remove(&(collection.to_owned(), key.to_owned()))
            .is_some()
    }

    pub(crate) fn clear(&self) {
        self.objects.write().clear();
        self.any.store(false, Ordering::Release);
    }

    pub(crate) fn get(&self, collection: &str, key: &str) -> Option<Poison> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.objects
            .read()
            .get(&(collection.to_owned(), key.to_owned()))
            .cloned()
    }
}

impl std::fmt::Debug for Poison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Poison::WrongType => "WrongType",
            Poison::BadEnum => "BadEnum",
            Poison::MissingMetadata => "MissingMetadata",
            Poison::MissingName => "MissingName",
            Poison::MissingVersion => "MissingVersion",
            Poison::BadVersion => "BadVersion",
            Poison::InvalidUtf8 => "InvalidUtf8",
            Poison::TooDeep(_) => "TooDeep",
            Poison::Huge(_) => "Huge",
            Poison::OtherKind(..) => "OtherKind",
            Poison::StatusObject => "StatusObject",
            Poison::Null => "Null",
            Poison::GarbageAfter(_) => "GarbageAfter",
            Poison::Raw(_) => "Raw",
            Poison::Edit(_) => "Edit",
        })
    }
}

impl Poison {
    /// A custom change of the object.
    pub fn edit(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Poison {
        Poison::Edit(Arc::new(change))
    }

    /// Corrupts the JSON of one object.
    pub(crate) fn corrupt(&self, object: &[u8]) -> Bytes {
        // The server's own bytes always parse.
        let mut value: Value = serde_json::from_slice(object).unwrap_or(Value::Null);
        match self {
            Poison::WrongType => {
                let field = if value.get("spec").is_some() || value.get("data").is_none() {
                    "spec"
                } else {
                    "data"
                };
                set(&mut value, &[field], json!(42));
            }
            Poison::BadEnum => {
                let field: &[&str] = if value.get("type").is_some() {
                    &["type"]
                } else {
                    &["status", "phase"]
                };
                set(&mut value, field, json!({"unheard": "of"}));
            }
            Poison::MissingMetadata => remove(&mut value, &["metadata"]),
            Poison::MissingName => remove(&mut value, &["metadata", "name"]),
            Poison::MissingVersion => remove(&mut value, &["metadata", "resourceVersion"]),
            Poison::BadVersion => set(
                &mut value,
                &["metadata", "resourceVersion"],
                json!("not-a-number"),
            ),
            Poison::InvalidUtf8 => return with_annotation(value, &[0xff, 0xc0, 0x80]),
            Poison::TooDeep(depth) => return with_nesting(&value, *depth),
            Poison::Huge(size) => return with_annotation(value, &vec![b'x'; *size]),
            Poison::OtherKind(api_version, kind) => {
                set(&mut value, &["apiVersion"], json!(api_version));
                set(&mut value, &["kind"], json!(kind));
            }
            Poison::StatusObject => {
                value = kube_api_protocol::status::ApiError::internal("failed on purpose").to_value()
            }
            Poison::Null => value = Value::Null,
            Poison::GarbageAfter(garbage) => return [object, garbage.as_ref()].concat().into(),
            Poison::Raw(bytes) => return bytes.clone(),
            Poison::Edit(change) => change(&mut value),
        }
        value.to_string().into()
    }
}

fn set(value: &mut Value, path: &[&str], new: Value) {
    match path {
        [] => *value = new,
        [first, rest @ ..] => {
            if !value.is_object() {
                *value = json!({});
            }
            if let Some(map) = value.as_object_mut() {
                set(map.entry(*first).or_insert(Value::Null), rest, new);
            }
        }
    }
}

fn remove(value: &mut Value, path: &[&str]) {
    if let [parents @ .., last] = path {
        let parent = parents.iter().try_fold(value, |value, key| value.get_mut(*key));
        if let Some(map) = parent.and_then(Value::as_object_mut) {
            map.remove(*last);
        }
    }
}

/// Puts raw bytes into the value of an annotation, which no JSON encoder would do.
fn with_annotation(mut value: Value, bytes: &[u8]) -> Bytes {
    const PLACE: &str = "here-go-the-bytes";
    set(
        &mut value,
        &["metadata", "annotations", "kube-testserver/poison"],
        json!(PLACE),
    );
    let text = value.to_string();
    match text.split_once(PLACE) {
        Some((before, after)) => [before.as_bytes(), bytes, after.as_bytes()].concat().into(),
        None => text.into(),
    }
}

fn with_nesting(value: &Value, depth: usize) -> Bytes {
    let text = value.to_string();
    let nested = format!(",\"deep\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    match text.strip_suffix('}') {
        Some(open) => format!("{open}{nested}").into(),
        None => text.into(),
    }
}
