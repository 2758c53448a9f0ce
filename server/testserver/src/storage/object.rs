//! A stored object: its JSON, encoded once, and the metadata that the server needs often.
//! Lists and watches copy the bytes unchanged. Independent of collections and HTTP.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::RwLock;
use serde::Serialize;
use serde_json::{Map, Value};

/// Metadata for selectors, deletion and garbage collection, so that the JSON need not be parsed again.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) owners: Vec<Owner>,
    pub(crate) has_finalizers: bool,
    pub(crate) deleting: bool,
}

/// One entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: String,
    pub(crate) block_owner_deletion: bool,
}

/// An object at one revision. Immutable and cheap to share.
pub(crate) struct Stored {
    pub(crate) key: Arc<str>,
    pub(crate) revision: u64,
    pub(crate) meta: Arc<Meta>,
    bytes: Bytes,
    /// End of `{"kind":…,"apiVersion":…,`, which typed lists leave out of their items.
    body_start: usize,
    /// The value of `"metadata":`, including the braces.
    metadata: Range<usize>,
    /// The digits of `metadata.resourceVersion`, without the quotes.
    digits: Range<usize>,
    /// Values of fields that selectors use, so that each object is parsed once for them and not once per watch.
    fields: RwLock<Vec<(Box<str>, Box<str>)>>,
    /// The protobuf message, encoded for the first client that requests it.
    message: OnceLock<Bytes>,
    /// The object in other versions, by the conversion that made them.
    converted: RwLock<Vec<(u64, Arc<Stored>)>>,
}

/// Never prints the object: it may be a secret.
impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key, self.revision)
    }
}

/// The storage key of an object: `namespace/name`, or `name` for cluster-scoped kinds.
///
/// One string, not a pair, because lists are sorted by it: `a-b/x` comes before `a/x`.
pub(crate) fn storage_key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

impl Stored {
    /// Encodes `object` with the given type and revision. Revision 0 is that of an object that is not stored: it has no
    /// resource version.
    pub(crate) fn encode(
        api_version: &str,
        kind: &str,
        object: &Map<String, Value>,
        revision: u64,
    ) -> Stored {
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(b"{\"kind\":");
        write_value(&mut out, kind);
        out.extend_from_slice(b",\"apiVersion\":");
        write_value(&mut out, api_version);
        out.push(b',');
        let body_start = out.len();

        out.extend_from_slice(b"\"metadata\":");
        let metadata_start = out.len();
        out.push(b'{');
        let mut digits = out.len()..out.len();
        if revision > 0 {
            out.extend_from_slice(b"\"resourceVersion\":\"");
            digits.start = out.len();
            out.extend_from_slice(revision.to_string().as_bytes());
            digits.end = out.len();
            out.push(b'"');
        }
        let empty = Map::new();
        let metadata = object
            .get("metadata")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
            write_entry(&mut out, key, value);
        }
        if revision == 0 && out.get(metadata_start + 1) == Some(&b',') {
            // Every entry begins with a comma, and there is nothing before the first one.
            out.remove(metadata_start + 1);
        }
        out.push(b'}');
        let metadata_range = metadata_start..out.len();

        for (key, value) in object {
            if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
                write_entry(&mut out, key, value);
            }
        }
        out.push(b'}');

        let meta = Meta::read(metadata);
        Stored {
            key: storage_key(meta.namespace.as_deref(), &meta.name).into(),
            revision,
            meta: Arc::new(meta),
            bytes: Bytes::from(out),
            body_start,
            metadata: metadata_range,
            digits,
            fields: RwLock::default(),
            message: OnceLock::new(),
            converted: RwLock::default(),
        }
    }

    /// The same object with another resource version, for DELETED events.
    pub(crate) fn at_revision(&self, revision: u64) -> Stored {
        let digits = revision.to_string();
        let grown = |at: usize| at - self.digits.len() + digits.len();
        let converted = self.converted.read();
        let converted = converted
            .iter()
            .map(|(by, object)| (*by, Arc::new(object.at_revision(revision))));
        let converted = converted.collect();
        let mut out = Vec::with_capacity(self.bytes.len() + digits.len());
        out.extend_from_slice(&self.bytes[..self.digits.start]);
        out.extend_from_slice(digits.as_bytes());
        out.extend_from_slice(&self.bytes[self.digits.end..]);
        Stored {
            key: self.key.clone(),
            revision,
            meta: self.meta.clone(),
            bytes: Bytes::from(out),
            body_start: self.body_start,
            metadata: self.metadata.start..grown(self.metadata.end),
            digits: self.digits.start..grown(self.digits.end),
            fields: RwLock::new(self.fields.read().clone()),
            message: OnceLock::new(),
            converted: RwLock::new(converted),
        }
    }

    /// The whole object as encoded, including its type.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The `apiVersion` in which the object is encoded.
    pub(crate) fn api_version(&self) -> &str {
        const FIELD: &[u8] = b"\"apiVersion\":\"";
        let head = &self.bytes[..self.body_start];
        let start = head.windows(FIELD.len()).rposition(|at| at == FIELD);
        // Versions contain no characters that JSON escapes.
        let version = start.and_then(|start| head.get(start + FIELD.len()..head.len().saturating_sub(2)));
        version
            .and_then(|version| std::str::from_utf8(version).ok())
            .unwrap_or_default()
    }

    /// The object in another version, if this conversion has made it.
    pub(crate) fn converted(&self, by: u64, api_version: &str) -> Option<Arc<Stored>> {
        let converted = self.converted.read();
        let found = converted
            .iter()
            .find(|(made_by, object)| *made_by == by && object.api_version() == api_version);
        found.map(|(_, object)| object.clone())
    }

    /// Keeps the object in another version. Those of earlier conversions are dropped.
    pub(crate) fn keep_converted(&self, by: u64, api_version: &str, object: Arc<Stored>) {
        let mut converted = self.converted.write();
        converted.retain(|(made_by, object)| *made_by == by && object.api_version() != api_version);
        converted.push((by, object));
    }

    /// The protobuf message; `encode` makes it from the JSON the first time.
    pub(crate) fn message(&self, encode: impl FnOnce(&[u8]) -> Bytes) -> Bytes {
        self.message.get_or_init(|| encode(&self.bytes)).clone()
    }

    /// Everything after the type, without the opening brace: `"metadata":{…},…}`.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[self.body_start..]
    }

    /// The JSON value of `"metadata":`.
    pub(crate) fn metadata(&self) -> &[u8] {
        &self.bytes[self.metadata.clone()]
    }

    /// Passes the value of a selectable field to `test`; `read` extracts it from the parsed object the first time.
    pub(crate) fn with_field<T>(
        &self,
        field: &str,
        read: impl FnOnce(&Value) -> String,
        test: impl FnOnce(&str) -> T,
    ) -> T {
        if let Some((_, value)) = self.fields.read().iter().find(|(name, _)| **name == *field) {
            return test(value);
        }
        let value = read(&self.value());
        let result = test(&value);
        self.fields.write().push((field.into(), value.into()));
        result
    }

    /// The parsed object, for patches, tables and tests.
    pub(crate) fn value(&self) -> Value {
        // Encoded by `encode` from a value, so it always parses.
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }
}

impl Meta {
    fn read(metadata: &Map<String, Value>) -> Meta {
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
        let owners = metadata
            .get("ownerReferences")
            .and_then(Value::as_array)
            .map(|owners| owners.iter().filter_map(Owner::read).collect())
            .unwrap_or_default();
        let labels = metadata
            .get("labels")
            .and_then(Value::as_object)
            .map(|labels| {
                labels
                    .iter()
                    .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                    .collect()
            })
            .unwrap_or_default();
        Meta {
            namespace: text("namespace").filter(|namespace| !namespace.is_empty()),
            name: text("name").unwrap_or_default(),
            uid: text("uid").unwrap_or_default(),
            labels,
            owners,
            has_finalizers: metadata
                .get("finalizers")
                .and_then(Value::as_array)
                .is_some_and(|finalizers| !finalizers.is_empty()),
            deleting: metadata.get("deletionTimestamp").is_some_and(|at| !at.is_null()),
        }
    }
}

impl Owner {
    fn read(value: &Value) -> Option<Owner> {
        Some(Owner {
            uid: value.get("uid")?.as_str()?.to_owned(),
            block_owner_deletion: value
                .get("blockOwnerDeletion")
                .and_then(Value::as_bool)
                .unwrap_or(false),
        })
    }
}

fn write_entry(out: &mut Vec<u8>, key: &str, value: &Value) {
    out.push(b',');
    write_value(out, key);
    out.push(b':');
    write_value(out, value);
}

fn write_value(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Serializing strings and JSON values to a `Vec` cannot fail.
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok(), "a JSON value is always writable");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stored(value: &Value, revision: u64) -> Stored {
        Stored::encode("v1", "Pod", value.as_object().expect("an object"), revision)
    }

    #[test]
    fn recorded_offsets_match_the_bytes() {
        let pod = stored(
            &json!({"metadata": {"name": "cart", "namespace": "shop", "resourceVersion": "1"}, "spec": {"a": "\""}}),
            99,
        );

        assert_eq!(
            pod.value(),
            json!({"kind": "Pod", "apiVersion": "v1", "spec": {"a": "\""},
                   "metadata": {"name": "cart", "namespace": "shop", "resourceVersion": "99"}})
        );
        assert_eq!(&*pod.key, "shop/cart");
        assert!(pod.body().starts_with(b"\"metadata\":{"));
        assert_eq!(pod.api_version(), "v1");
        let metadata: Value = serde_json::from_slice(pod.metadata()).expect("metadata is an object");
        assert_eq!(metadata["name"], "cart");
    }

    #[test]
    fn changing_the_revision_changes_only_the_digits() {
        let pod = stored(&json!({"metadata": {"name": "cart"}, "data": {"x": "9"}}), 9);

        let later = pod.at_revision(100_000);

        let mut expected = pod.value();
        expected["metadata"]["resourceVersion"] = json!("100000");
        assert_eq!(later.value(), expected);
        let metadata: Value = serde_json::from_slice(later.metadata()).expect("metadata is an object");
        assert_eq!(metadata, expected["metadata"]);
        assert_eq!(later.at_revision(9).bytes(), pod.bytes());
    }
}
