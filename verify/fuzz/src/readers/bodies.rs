//! Bodies of responses: lists, watches, single objects and errors, in both encodings.

use bytes::Bytes;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::DynamicObject;
use kube_informers::Object;
use kube_informers::codec::{Codec, Decoder, Decoding, Expected};
use kube_informers::lazy::Lazy;
use kube_informers::lazy::Validate;
use kube_informers::sim::error_response;
use kube_informers::source::{Fetched, FromWire, ListItem, SourceError, WatchItem};
use kube_protobuf::envelope::{Envelope, ListMeta, to_body, to_list_body, to_watch_frame};
use kube_protobuf::schema::{self, Message};
use kube_protobuf::{MEDIA_TYPE, Options, TypeMeta, raw, ser};
use serde_json::{Value, json};

use super::{MEGABYTE, Reader, WORDS};
use crate::outcome::Outcome;

const JSON: &str = "application/json";
/// The limit of one object. Small, so that inputs exceed it.
const MAX_OBJECT: usize = 4096;

pub fn readers() -> Vec<Reader> {
    let mut readers = Vec::new();
    for (name, read) in [
        ("list-json", list::<Pod> as ReadBody),
        ("list-json-packed", list::<Lazy<Pod>>),
        ("list-json-dynamic", list::<DynamicObject>),
    ] {
        readers.push(body(name, json_lists(), move |input, outcome| {
            read(JSON, input, outcome)
        }));
    }
    for (name, read) in [
        ("watch-json", watch::<Pod> as ReadBody),
        ("watch-json-packed", watch::<Lazy<Pod>>),
    ] {
        readers.push(body(name, json_watches(), move |input, outcome| {
            read(JSON, input, outcome)
        }));
    }
    for (name, read) in [
        ("list-protobuf", list::<Pod> as ReadBody),
        ("list-protobuf-packed", list::<Lazy<Pod>>),
    ] {
        readers.push(body(name, protobuf_lists(), move |input, outcome| {
            read(MEDIA_TYPE, input, outcome);
        }));
    }
    let stream = format!("{MEDIA_TYPE};stream=watch");
    for (name, read) in [
        ("watch-protobuf", watch::<Pod> as ReadBody),
        ("watch-protobuf-packed", watch::<Lazy<Pod>>),
    ] {
        let stream = stream.clone();
        readers.push(body(name, protobuf_watches(), move |input, outcome| {
            read(&stream, input, outcome);
        }));
    }
    readers.push(body("object-protobuf", protobuf_objects(), object));
    readers.push(body("error-response", error_bodies(), error));
    readers
}

type ReadBody = fn(&str, &[u8], &mut Outcome);

fn body(name: &'static str, seeds: Vec<Vec<u8>>, read: impl FnMut(&[u8], &mut Outcome) + 'static) -> Reader {
    Reader {
        name,
        seeds,
        words: WORDS,
        memory_base: MEGABYTE,
        // A pod is 2.4 kB, a container 1.3 kB, and either is `{}` on the wire.
        memory_per_byte: 2048,
        read: Box::new(read),
    }
}

fn decoding<K>(input: &[u8]) -> Decoding<K> {
    Decoding {
        expected: Expected {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            metadata_only: false,
        },
        known: None,
        drop_managed_fields: input.len().is_multiple_of(2),
        max_object_size: MAX_OBJECT,
        shard: None,
    }
}

/// The chunks of a body: where they end depends on the input only.
fn chunks(input: &[u8]) -> impl Iterator<Item = Bytes> + use<'_> {
    let size = match input.len() % 5 {
        0 => 1,
        1 => 7,
        2 => 64,
        _ => input.len().max(1),
    };
    input.chunks(size).map(Bytes::copy_from_slice)
}

fn list<K: FromWire + Access>(content_type: &str, input: &[u8], outcome: &mut Outcome) {
    let codec = Codec::<K>::new().validate(Validate::OnAccess);
    let decoder = codec.list_decoder(Some(content_type), decoding(input));
    drain(decoder, input, outcome, |item, outcome| match item {
        ListItem::Object(Fetched::New(object)) => object.access(outcome),
        ListItem::Unreadable(bad) => outcome.error(&bad.to_string()),
        ListItem::End(meta) => outcome.note((meta.continue_token.is_some(), meta.remaining.is_some())),
        _ => outcome.note("other"),
    });
}

fn watch<K: FromWire + Access>(content_type: &str, input: &[u8], outcome: &mut Outcome) {
    let codec = Codec::<K>::new().validate(Validate::OnAccess);
    let decoder = codec.watch_decoder(Some(content_type), decoding(input));
    drain(decoder, input, outcome, |item, outcome| match item {
        WatchItem::Added(Fetched::New(object))
        | WatchItem::Modified(Fetched::New(object))
        | WatchItem::Deleted(Fetched::New(object)) => object.access(outcome),
        other => outcome.note(std::mem::discriminant(&other)),
    });
}

fn drain<T>(
    decoder: Result<Box<dyn Decoder<T>>, SourceError>,
    input: &[u8],
    outcome: &mut Outcome,
    mut each: impl FnMut(T, &mut Outcome),
) {
    let mut decoder = match decoder {
        Ok(decoder) => decoder,
        Err(error) => return outcome.error(&error),
    };
    let mut items = 0;
    for chunk in chunks(input) {
        decoder.push(chunk);
        loop {
            match decoder.next() {
                Ok(Some(item)) => {
                    items += 1;
                    each(item, outcome);
                }
                Ok(None) => break,
                Err(error) => return outcome.error(&error),
            }
        }
    }
    match decoder.finish() {
        Ok(Some(item)) => each(item, outcome),
        Ok(None) => {}
        Err(error) => outcome.error(&error),
    }
    outcome.count(items);
}

/// What a user does with an object.
trait Access {
    fn access(&self, outcome: &mut Outcome);
}

impl Access for Pod {
    fn access(&self, outcome: &mut Outcome) {
        outcome.count(self.object_labels().count() + self.object_owners().count());
    }
}

impl Access for DynamicObject {
    fn access(&self, outcome: &mut Outcome) {
        outcome.count(self.object_labels().count() + self.object_owners().count());
    }
}

const PATHS: &[&str] = &[
    "spec.nodeName",
    "spec.containers[web].image",
    "status.conditions[Ready].status",
    "metadata.labels",
    "metadata.annotations",
];

impl Access for Lazy<Pod> {
    fn access(&self, outcome: &mut Outcome) {
        outcome.count(self.object_labels().count() + self.object_owners().count());
        for path in PATHS {
            match self.value(path) {
                Ok(value) => outcome.note(value.is_some()),
                Err(error) => outcome.error(&error),
            }
            // The same bytes on both sides: whatever is in them, nothing has changed.
            match self.changed(self, path) {
                Ok(changed) => assert!(!changed, "{path} differs from itself"),
                Err(error) => outcome.error(&error),
            }
        }
        match self.get() {
            Ok(pod) => outcome.note(pod.spec.is_some()),
            Err(error) => outcome.error(&error),
        }
    }
}

/// One message with its envelope, of any kind: decoded, cut, read by path, encoded again.
fn object(input: &[u8], outcome: &mut Outcome) {
    let options = Options::new().max_size(MAX_OBJECT);
    let envelope = match Envelope::parse(input) {
        Ok(envelope) => envelope,
        Err(error) => return outcome.error(&error),
    };
    let message = match envelope.message() {
        Ok(message) => message,
        Err(error) => return outcome.error(&error),
    };
    let bytes = envelope.raw;
    raw_access(message, bytes, outcome);
    match envelope.decode::<Value>(&options) {
        Ok(value) => {
            // What was read can be written, and reads the same again.
            let Ok(encoded) = ser::to_message(message, &value) else {
                return outcome.note("not encoded");
            };
            let again =
                kube_protobuf::from_message::<Value>(message, &encoded, Some(envelope.type_meta()), &options);
            match again {
                Ok(again) => outcome.note(again == value),
                Err(error) => outcome.error(&error),
            }
        }
        Err(error) => outcome.error(&error),
    }
}

fn raw_access(message: &'static Message, bytes: &[u8], outcome: &mut Outcome) {
    match raw::header(bytes) {
        Ok(header) => outcome.note((header.name.is_empty(), header.uid.is_empty())),
        Err(error) => outcome.error(&error),
    }
    match raw::without_managed_fields(bytes) {
        Ok(cut) => {
            let twice = raw::without_managed_fields(&cut).expect("what was cut can be read");
            assert_eq!(cut, twice, "nothing is left to cut");
            assert_eq!(
                raw::has_managed_fields(&cut).ok(),
                Some(false),
                "all of it was cut"
            );
        }
        Err(error) => outcome.error(&error),
    }
    match raw::labels(bytes) {
        Ok(labels) => outcome.count(labels.count()),
        Err(error) => outcome.error(&error),
    }
    match raw::owner_references(bytes) {
        Ok(owners) => outcome.count(owners.count()),
        Err(error) => outcome.error(&error),
    }
    for path in PATHS {
        let Ok(path) = raw::Path::parse(message, path) else {
            continue;
        };
        match path.read(bytes) {
            Ok(Some(value)) => match value.to_value() {
                Ok(value) => outcome.note(value.is_object()),
                Err(error) => outcome.error(&error),
            },
            Ok(None) => outcome.note("absent"),
            Err(error) => outcome.error(&error),
        }
    }
}

fn error(input: &[u8], outcome: &mut Outcome) {
    let content_type = match input.len() % 3 {
        0 => JSON,
        1 => MEDIA_TYPE,
        _ => "text/html",
    };
    let error = error_response(500, content_type, input, input.len().is_multiple_of(2));
    let text = error.to_string();
    assert!(text.len() < 8192, "an error of {} bytes", text.len());
    outcome.error(&text);
    outcome.note((error.is_expired(), error.is_forbidden()));
}

fn pod(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-{number}"), "namespace": "shop", "uid": format!("u-{number}"), "resourceVersion": format!("{}", 10 + number),
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"app": "web", "tier": "front"},
            "annotations": {"note": "line one\nline two \u{1F600}"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r-1", "controller": true}],
            "managedFields": [{"manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "time": "2026-01-02T03:04:05Z", "fieldsV1": {"f:spec": {"f:nodeName": {}}}}]
        },
        "spec": {
            "nodeName": "node-1", "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "web", "image": "nginx:1", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}},
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
            "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}],
            "volumes": [{"name": "v", "emptyDir": {}}]
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
            "containerStatuses": [{"name": "web", "ready": true, "restartCount": 0, "image": "nginx:1", "imageID": "", "state": {"running": {}}}]}
    })
}

/// Small ones: half of the mutations should hit something that means something.
fn small_pod(number: usize) -> Value {
    json!({"metadata": {"name": format!("p{number}"), "namespace": "d", "uid": "u", "resourceVersion": "5", "labels": {"a": "b"}}, "spec": {"containers": []}})
}

fn status() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "too old resource version: 1 (5)",
        "reason": "Expired", "code": 410, "details": {"name": "x", "kind": "pods", "retryAfterSeconds": 3,
        "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"}]}})
}

fn json_lists() -> Vec<Vec<u8>> {
    let list = |items: Vec<Value>| json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "77", "continue": "abc", "remainingItemCount": 3}, "items": items});
    vec![
        list(vec![pod(1)]).to_string().into(),
        list(vec![small_pod(1), small_pod(2), small_pod(3)])
            .to_string()
            .into(),
        serde_json::to_vec_pretty(&list(vec![small_pod(1)])).expect("JSON"),
        list(vec![]).to_string().into(),
        status().to_string().into(),
    ]
}

fn json_watches() -> Vec<Vec<u8>> {
    let event = |kind: &str, object: Value| format!("{}\n", json!({"type": kind, "object": object}));
    let bookmark = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "90",
        "annotations": {"k8s.io/initial-events-end": "true"}}, "spec": {"containers": null}, "status": {}});
    vec![
        event("ADDED", pod(1)).into(),
        [
            event("ADDED", small_pod(1)),
            event("MODIFIED", small_pod(1)),
            event("DELETED", small_pod(1)),
        ]
        .concat()
        .into(),
        [event("BOOKMARK", bookmark), event("ADDED", small_pod(2))]
            .concat()
            .into(),
        event("ERROR", status()).into(),
    ]
}

const POD: TypeMeta<'static> = TypeMeta {
    api_version: "v1",
    kind: "Pod",
};

fn encoded(api_version: &str, kind: &str, value: &Value) -> Vec<u8> {
    let message = schema::lookup(api_version, kind).expect("a schema");
    ser::to_message(message, value).expect("a message")
}

fn enveloped(api_version: &str, kind: &str, value: &Value) -> Vec<u8> {
    to_body(TypeMeta { api_version, kind }, &encoded(api_version, kind, value))
}

fn protobuf_lists() -> Vec<Vec<u8>> {
    let list = TypeMeta {
        api_version: "v1",
        kind: "PodList",
    };
    let full = [encoded("v1", "Pod", &pod(1))];
    let small = [1, 2, 3].map(|number| encoded("v1", "Pod", &small_pod(number)));
    let meta = ListMeta::new("77");
    vec![
        to_list_body(list, &meta, full.iter().map(Vec::as_slice)),
        to_list_body(list, &meta, small.iter().map(Vec::as_slice)),
        to_list_body(list, &meta, std::iter::empty()),
        enveloped("v1", "Status", &status()),
    ]
}

fn protobuf_watches() -> Vec<Vec<u8>> {
    let frame = |kind: &str, value: &Value| to_watch_frame(kind, &to_body(POD, &encoded("v1", "Pod", value)));
    vec![
        frame("ADDED", &pod(1)),
        [frame("ADDED", &small_pod(1)), frame("DELETED", &small_pod(1))].concat(),
        frame("BOOKMARK", &json!({"metadata": {"resourceVersion": "90"}})),
        to_watch_frame("ERROR", &enveloped("v1", "Status", &status())),
    ]
}

fn protobuf_objects() -> Vec<Vec<u8>> {
    let map = ConfigMap {
        data: Some([("key".to_owned(), "value".to_owned())].into()),
        ..ConfigMap::default()
    };
    let map = serde_json::to_value(map).expect("JSON");
    let secret = json!({"metadata": {"name": "s"}, "data": {"password": "AAEC/w=="}, "type": "Opaque"});
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8081}], "selector": {"a": "b"}}});
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "default": {"a": 1},
        "additionalProperties": true, "enum": ["a", 1, null]}}}}}]}});
    let event = json!({"metadata": {"name": "e", "namespace": "d"}, "eventTime": "2026-01-02T03:04:05.123456Z",
        "regarding": {"kind": "Pod"}, "reason": "Started", "note": "n", "series": {"count": 3, "lastObservedTime": "2026-01-02T03:04:05.000001Z"}});
    vec![
        enveloped("v1", "Pod", &pod(1)),
        enveloped("v1", "Pod", &small_pod(1)),
        enveloped("v1", "ConfigMap", &map),
        enveloped("v1", "Secret", &secret),
        enveloped("v1", "Service", &service),
        enveloped("apiextensions.k8s.io/v1", "CustomResourceDefinition", &definition),
        enveloped("events.k8s.io/v1", "Event", &event),
        enveloped("v1", "Status", &status()),
    ]
}

fn error_bodies() -> Vec<Vec<u8>> {
    vec![
        status().to_string().into(),
        enveloped("v1", "Status", &status()),
        b"<html><body>502 Bad Gateway</body></html>".to_vec(),
        b"upstream connect error or disconnect/reset before headers".to_vec(),
        b"\"quoted\"".to_vec(),
        Vec::new(),
    ]
}
