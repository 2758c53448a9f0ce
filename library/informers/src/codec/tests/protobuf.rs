//! Protobuf bodies give what the JSON bodies of the same objects give.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube_protobuf::envelope::{ListMeta as ProtobufListMeta, to_body, to_list_body, to_watch_frame};
use kube_protobuf::{TypeMeta, schema, ser};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::*;
use crate::shard::{Shard, ShardField, ShardRange};
use crate::wire::{Identity, KnownObjects};

const MEDIA_TYPE: Option<&str> = Some("application/vnd.kubernetes.protobuf");
const POD: TypeMeta<'static> = TypeMeta {
    api_version: "v1",
    kind: "Pod",
};

/// The message of an object.
fn message(kind: TypeMeta<'_>, object: &Value) -> Vec<u8> {
    let schema = schema::lookup(kind.api_version, kind.kind).unwrap();
    ser::value_to_message(schema, object).unwrap()
}

fn pod_list(pods: &[Vec<u8>]) -> Vec<u8> {
    let mut meta = ProtobufListMeta::new("7");
    meta.continue_token = "more".to_owned();
    meta.remaining_item_count = Some(3);
    let kind = TypeMeta {
        api_version: "v1",
        kind: "PodList",
    };
    to_list_body(kind, &meta, pods.iter().map(Vec::as_slice))
}

fn pod_message(name: &str, version: &str) -> Vec<u8> {
    message(POD, &pod(name, version))
}

fn event(event_type: &str, kind: TypeMeta<'_>, object: &Value) -> Vec<u8> {
    to_watch_frame(event_type, &to_body(kind, &message(kind, object)))
}

fn list_of<K: Object + DeserializeOwned>(
    body: &[u8],
    cuts: &[usize],
    decoding: Decoding<K>,
) -> Result<(Vec<String>, ListMeta), SourceError> {
    let mut decoder = Codec::new().list_decoder(MEDIA_TYPE, decoding).unwrap();
    read_list(&mut *decoder, chunks(body, cuts))
}

fn watch_of<K: Object + DeserializeOwned>(
    body: &[u8],
    cuts: &[usize],
    decoding: Decoding<K>,
) -> Result<Vec<String>, SourceError> {
    let mut decoder = Codec::new().watch_decoder(MEDIA_TYPE, decoding).unwrap();
    read_watch(&mut *decoder, chunks(body, cuts))
}

/// The first object of a list or watch body.
fn first<K: Object + DeserializeOwned>(content_type: Option<&str>, body: &[u8], decoding: Decoding<K>) -> K {
    let mut decoder = Codec::new().list_decoder(content_type, decoding).unwrap();
    decoder.push(Bytes::copy_from_slice(body));
    match decoder.next().unwrap() {
        Some(ListItem::Object(Fetched::New(object))) => *object,
        Some(ListItem::Unreadable(object)) => panic!("{object}"),
        _ => panic!("the first item is an object"),
    }
}

fn first_event<K: Object + DeserializeOwned>(
    content_type: Option<&str>,
    body: &[u8],
    decoding: Decoding<K>,
) -> K {
    let mut decoder = Codec::new().watch_decoder(content_type, decoding).unwrap();
    decoder.push(Bytes::copy_from_slice(body));
    match decoder.next().unwrap() {
        Some(WatchItem::Added(Fetched::New(object))) => *object,
        Some(WatchItem::Unreadable { object, .. }) => panic!("{object}"),
        _ => panic!("the first item is an object"),
    }
}

#[test]
fn a_list_is_read_in_chunks_of_any_size() {
    let body = pod_list(&[pod_message("a", "1"), pod_message("b", "2")]);
    for cut in 0..body.len() {
        let (lines, meta) = list_of::<Pod>(&body, &[cut, cut + 1], pods()).unwrap();
        assert_eq!(lines, ["shop/a@1", "shop/b@2"]);
        assert_eq!(meta.resource_version.as_deref(), Some("7"));
        assert_eq!(meta.continue_token.as_deref(), Some("more"));
        assert_eq!(meta.remaining, Some(3));
    }
}

#[test]
fn an_incomplete_list_is_an_error() {
    let body = pod_list(&[pod_message("a", "1"), pod_message("b", "2")]);
    let error = list_of::<Pod>(b"", &[], pods()).unwrap_err();
    assert_eq!(error.to_string(), "the response body is empty");
    // The last four bytes are the empty content encoding and content type, which may be absent.
    for end in (1..body.len() - 4).chain([body.len() - 3, body.len() - 1]) {
        assert!(list_of::<Pod>(&body[..end], &[], pods()).is_err(), "{end}");
    }
}

#[test]
fn another_object_is_not_an_empty_list() {
    let status = ser::to_body(&json!({"apiVersion": "v1", "kind": "Status", "message": "x"})).unwrap();
    let error = list_of::<Pod>(&status, &[], pods()).unwrap_err();
    assert_eq!(error.to_string(), "the response is a Status, not a list");
    let error = list_of::<Pod>(b"<html>no</html>", &[], pods()).unwrap_err();
    assert!(error.to_string().contains("not Kubernetes protobuf"), "{error}");
}

#[test]
fn items_of_another_kind_are_rejected() {
    let decoding = || {
        let mut decoding = pods::<Pod>();
        decoding.expected.kind = "Service".to_owned();
        decoding
    };
    let body = pod_list(&[pod_message("a", "1")]);
    let (lines, _) = list_of(&body, &[], decoding()).unwrap();
    assert!(
        lines[0].contains("v1/Pod") && lines[0].contains("v1/Service"),
        "{lines:?}"
    );
    let lines = watch_of(&event("ADDED", POD, &pod("a", "1")), &[], decoding()).unwrap();
    assert!(
        lines[0].contains("v1/Pod") && lines[0].contains("v1/Service"),
        "{lines:?}"
    );
}

#[test]
fn a_watch_is_read_in_chunks_of_any_size() {
    let end =
        json!({"metadata": {"resourceVersion": "4", "annotations": {"k8s.io/initial-events-end": "true"}}});
    let status = json!({"status": "Failure", "reason": "Expired", "message": "too old", "code": 410});
    let body: Vec<u8> = [
        event("ADDED", POD, &pod("a", "1")),
        event("MODIFIED", POD, &pod("a", "2")),
        event("DELETED", POD, &pod("a", "3")),
        event("BOOKMARK", POD, &end),
        event("BOOKMARK", POD, &json!({"metadata": {"resourceVersion": "5"}})),
        event("SHRUG", POD, &pod("a", "3")),
        event(
            "ERROR",
            TypeMeta {
                api_version: "v1",
                kind: "Status",
            },
            &status,
        ),
    ]
    .concat();
    for cut in 0..body.len() {
        let lines = watch_of::<Pod>(&body, &[cut, cut + 1], pods()).unwrap();
        assert_eq!(
            lines[..5],
            [
                "added shop/a@1",
                "modified shop/a@2",
                "deleted shop/a@3",
                "bookmark 4 end",
                "bookmark 5",
            ]
        );
        assert!(
            lines[5].contains("the event type \"SHRUG\" is unknown"),
            "{}",
            lines[5]
        );
        assert_eq!(lines[6], "error: the server returned 410 Expired: too old");
    }
}

#[test]
fn a_typed_object_equals_the_object_of_the_json_body() {
    // Servers always send these.
    let mut object = pod("a", "1");
    object["spec"]["containers"][0]["resources"] = json!({});
    object["status"] = json!({});
    let json_list =
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [object]}).to_string();
    let mut whole = object.clone();
    whole["apiVersion"] = "v1".into();
    whole["kind"] = "Pod".into();
    let json_event = json!({"type": "ADDED", "object": whole}).to_string();
    let protobuf_list = pod_list(&[message(POD, &object)]);
    let protobuf_event = event("ADDED", POD, &object);

    let from_json: Pod = first(None, json_list.as_bytes(), pods());
    assert_eq!(first::<Pod>(MEDIA_TYPE, &protobuf_list, pods()), from_json);
    let from_json: Pod = first_event(None, json_event.as_bytes(), pods());
    assert_eq!(first_event::<Pod>(MEDIA_TYPE, &protobuf_event, pods()), from_json);
    // A dynamic object has its type in both cases.
    let from_json: DynamicObject = first(None, json_list.as_bytes(), pods());
    let from_list: DynamicObject = first(MEDIA_TYPE, &protobuf_list, pods());
    assert_eq!(from_list.types, from_json.types);
    assert_eq!(from_list.metadata, from_json.metadata);
    assert_eq!(from_list.data["spec"]["containers"][0]["image"], "i");
    let from_watch: DynamicObject = first_event(MEDIA_TYPE, &protobuf_event, pods());
    assert_eq!(from_watch, from_list);
}

#[test]
fn metadata_of_any_kind_is_read() {
    let shops = || {
        let mut decoding = pods::<PartialObjectMeta<DynamicObject>>();
        decoding.expected = Expected {
            api_version: "example.com/v1".to_owned(),
            kind: "Shop".to_owned(),
            metadata_only: true,
        };
        decoding
    };
    let kind = TypeMeta {
        api_version: "meta.k8s.io/v1",
        kind: "PartialObjectMetadata",
    };
    let list = TypeMeta {
        kind: "PartialObjectMetadataList",
        ..kind
    };
    let item = message(kind, &pod("a", "1"));
    let body = to_list_body(list, &ProtobufListMeta::new("7"), [item.as_slice()]);
    let from_list = first(MEDIA_TYPE, &body, shops());
    let from_watch = first_event(MEDIA_TYPE, &event("ADDED", kind, &pod("a", "1")), shops());
    let json = json!({"kind": list.kind, "apiVersion": list.api_version, "metadata": {}, "items": [
        {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": pod("a", "1")["metadata"]}]});
    let from_json = first(None, json.to_string().as_bytes(), shops());

    assert_eq!(from_list.metadata.name.as_deref(), Some("a"));
    assert_eq!(from_list.types, from_json.types);
    assert_eq!(from_list.metadata, from_json.metadata);
    assert_eq!(
        (from_watch.types, from_watch.metadata),
        (from_list.types, from_list.metadata)
    );
}

#[test]
fn managed_fields_are_dropped_on_request() {
    let mut object = pod("a", "1");
    object["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Apply",
        "fieldsV1": {"f:spec": {}}}]);
    let body = pod_list(&[message(POD, &object)]);
    let kept: Pod = first(MEDIA_TYPE, &body, pods());
    let dropped: Pod = first(
        MEDIA_TYPE,
        &body,
        Decoding {
            drop_managed_fields: true,
            ..pods()
        },
    );

    assert_eq!(kept.metadata.managed_fields.as_ref().map(Vec::len), Some(1));
    assert_eq!(dropped.metadata.managed_fields, None);
    assert_eq!(dropped.spec, kept.spec);
}

/// A projection that expects a number where pods have a string.
#[derive(serde::Deserialize)]
struct Numbered {
    metadata: ObjectMeta,
    #[serde(rename = "spec")]
    _spec: NumberedSpec,
}

#[derive(serde::Deserialize)]
struct NumberedSpec {
    #[serde(rename = "nodeName")]
    _node_name: Option<u32>,
}

impl Object for Numbered {
    fn object_name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
    fn object_namespace(&self) -> Option<&str> {
        self.metadata.namespace.as_deref()
    }
    fn object_uid(&self) -> Option<&str> {
        self.metadata.uid.as_deref()
    }
    fn object_version(&self) -> Option<&str> {
        self.metadata.resource_version.as_deref()
    }
}

#[test]
fn one_bad_object_costs_one_object() {
    let mut scheduled = pod("scheduled", "2");
    scheduled["spec"]["nodeName"] = "value".into();
    let bad = message(POD, &scheduled);
    let expected = "object shop/scheduled at version 2 cannot be decoded: spec.nodeName: invalid type: a string, \
                    expected u32";
    let body = pod_list(&[
        pod_message("a", "1"),
        bad.clone(),
        vec![0xff],
        pod_message("b", "3"),
    ]);
    let (lines, _) = list_of::<Numbered>(&body, &[], pods()).unwrap();
    assert_eq!((lines[0].as_str(), lines[3].as_str()), ("shop/a@1", "shop/b@3"));
    assert!(lines[1].starts_with(expected), "{}", lines[1]);
    assert!(lines[2].contains("malformed protobuf"), "{}", lines[2]);

    let body = [
        to_watch_frame("ADDED", &to_body(POD, &bad)),
        to_watch_frame("ADDED", b"not an object"),
        event("ADDED", POD, &pod("b", "3")),
    ]
    .concat();
    let lines = watch_of::<Numbered>(&body, &[], pods()).unwrap();
    assert!(lines[0].starts_with(expected), "{}", lines[0]);
    assert!(lines[1].contains("not Kubernetes protobuf"), "{}", lines[1]);
    assert_eq!(lines[2], "added shop/b@3");
}

#[test]
fn an_object_over_the_limit_is_reported_by_its_key() {
    let mut large = pod("large", "2");
    large["metadata"]["annotations"] = json!({"x": "y".repeat(20_000)});
    let decoding = || Decoding {
        max_object_size: 4000,
        ..pods::<Pod>()
    };
    let body = pod_list(&[pod_message("a", "1"), message(POD, &large), pod_message("b", "3")]);
    for cuts in [&[][..], &[300, 3000, 9000]] {
        let (lines, _) = list_of(&body, cuts, decoding()).unwrap();
        assert_eq!((lines[0].as_str(), lines[2].as_str()), ("shop/a@1", "shop/b@3"));
        assert!(
            lines[1].contains("shop/large") && lines[1].contains("4000"),
            "{}",
            lines[1]
        );
    }
    // Within the slack for the rest of the event, and beyond it.
    for size in [5000, 20_000] {
        large["metadata"]["annotations"] = json!({"x": "y".repeat(size)});
        let body = [event("DELETED", POD, &large), event("ADDED", POD, &pod("b", "3"))].concat();
        let lines = watch_of(&body, &[300, 3000, 9000], decoding()).unwrap();
        assert!(
            lines[0].contains("deleted: ") && lines[0].contains("shop/large"),
            "{}",
            lines[0]
        );
        assert_eq!(lines[1], "added shop/b@3");
    }
}

#[test]
fn unchanged_objects_are_not_decoded() {
    struct Cached(Arc<Pod>);
    impl KnownObjects<Pod> for Cached {
        fn unchanged(&self, identity: &Identity<'_>) -> Option<Arc<Pod>> {
            let same =
                identity.uid.as_deref() == Some("uid-a") && identity.resource_version.as_deref() == Some("1");
            same.then(|| self.0.clone())
        }
    }
    let cached: Pod = serde_json::from_value(pod("a", "1")).unwrap();
    let mut undecodable = pod_message("a", "1");
    undecodable.extend_from_slice(&[0x10, 0x01]);
    let decoding = || Decoding {
        known: Some(Arc::new(Cached(Arc::new(cached.clone())))),
        ..pods()
    };
    let (lines, _) = list_of(&pod_list(&[undecodable.clone()]), &[], decoding()).unwrap();
    assert_eq!(lines, ["shop/a@1 unchanged"]);
    let body = to_watch_frame("ADDED", &to_body(POD, &undecodable));
    assert_eq!(
        watch_of(&body, &[], decoding()).unwrap(),
        ["added shop/a@1 unchanged"]
    );
}

#[test]
fn objects_outside_the_shard_are_not_decoded() {
    let names: Vec<String> = (0..20).map(|i| format!("p{i}")).collect();
    let shards = ShardRange::ALL.split(2).into_iter();
    let shards = shards.map(|range| Shard::new(ShardField::Uid, [range]));
    let mut undecodable: Vec<Vec<u8>> = names.iter().map(|name| pod_message(name, "1")).collect();
    undecodable
        .iter_mut()
        .for_each(|pod| pod.extend_from_slice(&[0x10, 0x01]));
    let body = pod_list(&undecodable);
    let mut inside = 0;
    for shard in shards {
        let (lines, _) = list_of::<Pod>(
            &body,
            &[],
            Decoding {
                shard: Some(shard),
                ..pods()
            },
        )
        .unwrap();
        inside += lines.iter().filter(|line| *line != "outside").count();
    }
    assert_eq!(inside, names.len());
}

#[test]
fn a_split_message_is_read_as_one() {
    // Two metadata messages, which a decoder must merge.
    let schema = schema::lookup("v1", "Pod").unwrap();
    let first =
        ser::value_to_message(schema, &json!({"metadata": {"name": "a", "namespace": "shop"}})).unwrap();
    let mut object = first;
    object.extend_from_slice(&[0x0a, 0x03, 0x32, 0x01, b'9']);
    let (lines, _) = list_of::<Pod>(&pod_list(&[object]), &[], pods()).unwrap();
    assert_eq!(lines, ["shop/a@9"]);
}

proptest! {
    #[test]
    fn no_corruption_panics(at in any::<prop::sample::Index>(), byte in any::<u8>(), cuts in prop::collection::vec(any::<usize>(), 0..4)) {
        let list = pod_list(&[pod_message("a", "1"), pod_message("b", "2")]);
        let watch = [event("ADDED", POD, &pod("a", "1")), event("BOOKMARK", POD, &pod("a", "2"))].concat();
        for body in [list, watch] {
            let mut body = body;
            let at = at.index(body.len());
            body[at] = byte;
            let _ = list_of::<Pod>(&body, &cuts, pods());
            let _ = watch_of::<Pod>(&body, &cuts, pods());
            let _ = watch_of::<DynamicObject>(&body, &cuts, pods());
        }
    }
}
