//! The frames of a watch: one event each, as a line of JSON or as a delimited protobuf message.

use bytes::Bytes;
use jiff::Timestamp;
use kube_protobuf::TypeMeta;
use kube_protobuf::envelope::{to_body, to_watch_frame};
use serde_json::{Map, Value, json};

use crate::negotiation::{Encoding, Form};
use crate::protobuf::{encode_any, undecodable};
use crate::resource::Resource;
use crate::table;

/// The type of an event about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// The object was created, or entered the selection.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted, or left the selection.
    Deleted,
}

impl EventType {
    /// The type on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
        }
    }

    /// The event that a watch with selectors sends for a change: an object that enters the selection is added, one that leaves
    /// it is deleted. `None` if the object was not selected before and is not now.
    pub fn of_change(was_selected: bool, is_selected: bool) -> Option<EventType> {
        match (was_selected, is_selected) {
            (true, true) => Some(EventType::Modified),
            (false, true) => Some(EventType::Added),
            (true, false) => Some(EventType::Deleted),
            (false, false) => None,
        }
    }
}

/// A frame in JSON: the type of the event, the object, and the newline at the end.
pub fn json_frame(event: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 40);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(event.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    out.into()
}

/// A frame in protobuf: the envelope of the event around that of the object.
pub fn protobuf_frame(event: &str, type_meta: TypeMeta<'_>, message: &[u8]) -> Bytes {
    to_watch_frame(event, &to_body(type_meta, message)).into()
}

/// The frame of an object that is not stored: a bookmark, or a `Status` as an `ERROR` event.
pub fn frame(encoding: Encoding, event: &str, object: &Value) -> Bytes {
    if encoding == Encoding::Protobuf {
        let encoded = encode_any(object).unwrap_or_else(|| undecodable(object));
        return protobuf_frame(event, encoded.type_meta(), &encoded.bytes);
    }
    json_frame(event, object.to_string().as_bytes())
}

/// The object of a `BOOKMARK` event: its type and version, and the marker at the end of initial events. `parts` are the fields
/// that an object of a typed resource always has.
pub fn bookmark(
    resource: Resource<'_>,
    form: Form,
    resource_version: &str,
    ends_initial_events: bool,
    parts: impl FnOnce() -> Map<String, Value>,
) -> Value {
    let mut metadata = json!({ "resourceVersion": resource_version });
    let mut annotations = match form {
        Form::Object => resource.bookmark_annotations(),
        Form::Metadata | Form::Table(_) => Map::new(),
    };
    if ends_initial_events {
        annotations.insert("k8s.io/initial-events-end".to_owned(), json!("true"));
    }
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    match form {
        Form::Object => {
            let mut object =
                json!({ "kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata });
            if let Some(object) = object.as_object_mut() {
                object.extend(parts());
            }
            object
        }
        Form::Metadata => {
            json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
        }
        // A row for an empty object, which has no age.
        Form::Table(include) => {
            let object = json!({ "metadata": metadata });
            table::table_of_one(resource, &object, include, false, Timestamp::UNIX_EPOCH)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDGETS: Resource<'_> = Resource {
        group: "example.com",
        version: "v1",
        kind: "Widget",
        list_kind: "WidgetList",
        plural: "widgets",
        custom_columns: Some(&[]),
    };

    #[test]
    fn a_bookmark_has_the_type_the_version_and_the_marker() {
        let bookmark = bookmark(WIDGETS, Form::Object, "7", true, Map::new);

        assert_eq!(
            bookmark,
            json!({ "kind": "Widget", "apiVersion": "example.com/v1", "metadata": {
                "resourceVersion": "7", "annotations": { "k8s.io/initial-events-end": "true" } } })
        );
        let frame = frame(Encoding::Json, "BOOKMARK", &bookmark);
        assert!(frame.starts_with(b"{\"type\":\"BOOKMARK\",\"object\":{") && frame.ends_with(b"}}}\n"));
    }

    #[test]
    fn selectors_turn_changes_into_events() {
        assert_eq!(EventType::of_change(true, true), Some(EventType::Modified));
        assert_eq!(EventType::of_change(false, true), Some(EventType::Added));
        assert_eq!(EventType::of_change(true, false), Some(EventType::Deleted));
        assert_eq!(EventType::of_change(false, false), None);
    }
}
