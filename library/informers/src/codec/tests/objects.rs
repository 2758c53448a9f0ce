//! Single objects: identity, known versions, wrong kinds, limits.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use kube::core::{DynamicObject, PartialObjectMeta};
use proptest::prelude::*;
use serde_json::json;

use super::noise::Noise;
use super::*;
use crate::wire::{Identity, KnownObjects};

fn list<K: Object + serde::de::DeserializeOwned>(decoding: Decoding<K>, items: &[Value]) -> Vec<String> {
    let body = json!({"kind": "PodList", "items": items}).to_string();
    list_bytes(decoding, body.into_bytes(), 50)
}

fn list_bytes<K: Object + serde::de::DeserializeOwned>(
    decoding: Decoding<K>,
    body: Vec<u8>,
    size: usize,
) -> Vec<String> {
    let parts = body.chunks(size).map(Bytes::copy_from_slice).collect();
    let decoder = &mut *Codec::<K>::new().list_decoder(None, decoding).unwrap();
    read_list(decoder, parts).unwrap().0
}

/// Holds one version of one pod, and records the lookups.
#[derive(Default)]
struct Cache {
    asked: Mutex<Vec<String>>,
}

impl KnownObjects<Pod> for Cache {
    fn unchanged(&self, identity: &Identity<'_>) -> Option<Arc<Pod>> {
        self.asked.lock().unwrap().push(format!(
            "{}/{} {}@{}",
            identity.namespace.as_deref().unwrap_or("-"),
            identity.name,
            identity.uid.as_deref().unwrap_or("-"),
            identity.resource_version.as_deref().unwrap_or("-"),
        ));
        let is_known =
            identity.uid.as_deref() == Some("uid-a") && identity.resource_version.as_deref() == Some("1");
        is_known.then(|| Arc::new(serde_json::from_value(pod("a", "1")).unwrap()))
    }
}

#[test]
fn a_known_version_is_not_decoded_again() {
    let cache = Arc::new(Cache::default());
    let decoding = || Decoding {
        known: Some(cache.clone() as _),
        ..pods()
    };
    // Not decodable, which goes unnoticed because it is not decoded.
    let mut same = pod("a", "1");
    same["spec"] = json!("broken");

    let listed = list(decoding(), &[same.clone(), pod("a", "2"), pod("b", "1")]);
    let frames = ["ADDED", "MODIFIED", "DELETED"]
        .map(|kind| json!({"type": kind, "object": pod("a", "1")}).to_string());
    let watched = read_watch(
        &mut *Codec::new().watch_decoder(None, decoding()).unwrap(),
        vec![frames.concat().into()],
    )
    .unwrap();

    assert_eq!(listed, ["shop/a@1 unchanged", "shop/a@2", "shop/b@1"]);
    assert_eq!(
        watched,
        [
            "added shop/a@1 unchanged",
            "modified shop/a@1 unchanged",
            "deleted shop/a@1"
        ]
    );
    assert_eq!(
        *cache.asked.lock().unwrap(),
        [
            "shop/a uid-a@1",
            "shop/a uid-a@2",
            "shop/b uid-b@1",
            "shop/a uid-a@1",
            "shop/a uid-a@1"
        ]
    );
}

#[test]
fn an_object_without_uid_or_version_is_never_reused_from_the_cache() {
    let cache = Arc::new(Cache::default());
    let decoding = Decoding {
        known: Some(cache.clone() as _),
        ..pods()
    };
    let mut no_uid = pod("a", "1");
    no_uid["metadata"]["uid"] = json!("");
    let mut no_version = pod("a", "1");
    no_version["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");

    assert_eq!(list(decoding, &[no_uid, no_version]), ["shop/a@1", "shop/a@-"]);
    assert!(cache.asked.lock().unwrap().is_empty());
}

#[test]
fn f13_an_undecodable_object_does_not_affect_the_others() {
    let mut bad = pod("bad", "2");
    bad["spec"]["containers"][0]["ports"] = json!([{"containerPort": "http"}]);

    let items = list::<Pod>(pods(), &[pod("a", "1"), bad, pod("c", "3")]);

    assert_eq!(items[0], "shop/a@1");
    assert!(
        items[1].starts_with(
            "object shop/bad at version 2 cannot be decoded: \
             spec.containers[0].ports[0].containerPort: invalid type: a string, expected i32"
        ),
        "{}",
        items[1]
    );
    assert_eq!(items[2], "shop/c@3");
}

#[test]
fn objects_of_other_kinds_are_not_decoded() {
    let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}});
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "code": 500});
    let mut beta = pod("b", "1");
    beta["apiVersion"] = json!("v1beta1");
    let mut ours = pod("ours", "1");
    ours["apiVersion"] = json!("v1");
    ours["kind"] = json!("Pod");

    let items = list::<Pod>(pods(), &[node, status, beta, ours]);

    assert!(
        items[0].contains("object n is a v1/Node, not a v1/Pod"),
        "{}",
        items[0]
    );
    assert!(items[1].contains("is a v1/Status, not a v1/Pod"), "{}", items[1]);
    assert!(
        items[2].contains("object shop/b at version 1 is a v1beta1 object, not a v1/Pod"),
        "{}",
        items[2]
    );
    assert_eq!(items[3], "shop/ours@1");
}

#[test]
fn the_kind_is_found_at_the_end_of_an_object() {
    let body = r#"{"items":[{"metadata":{"name":"n"},"spec":{"kind":"Pod"},"kind":"Node"}]}"#;
    let items = list_bytes::<Pod>(pods(), body.into(), 3);
    assert!(items[0].contains("is a Node, not a v1/Pod"), "{}", items[0]);
}

#[test]
fn metadata_is_decoded_from_partial_or_whole_objects() {
    let decoding = || Decoding::<PartialObjectMeta<Pod>> {
        expected: Expected {
            metadata_only: true,
            ..pods::<Pod>().expected
        },
        ..pods()
    };
    let partial =
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}});
    let mut whole = pod("b", "1");
    whole["kind"] = json!("Pod");
    let other = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "c"}});
    let items = list(decoding(), &[partial.clone(), whole, other]);

    assert_eq!(items[..2], ["a@-", "shop/b@1"]);
    assert!(items[2].contains("is a v1/Node"), "{}", items[2]);
    assert!(list::<Pod>(pods(), &[partial])[0].contains("is a meta.k8s.io/v1/PartialObjectMetadata"));
}

#[test]
fn f36_an_object_over_the_limit_is_skipped_and_reported_by_its_key() {
    let mut large = pod("large", "2");
    large["spec"]["hostname"] = json!("x".repeat(3000));
    let size = large.to_string().len();
    let decoding = || Decoding::<Pod> {
        max_object_size: 2000,
        ..pods()
    };
    let body = json!({"kind": "PodList", "items": [pod("a", "1"), large, pod("b", "3")]}).to_string();

    for chunk in [7, 100, 100_000] {
        let items = list_bytes(decoding(), body.clone().into_bytes(), chunk);
        assert_eq!(
            items,
            [
                "shop/a@1".to_owned(),
                format!(
                    "object shop/large at version 2 is larger than the limit of 2000 bytes ({size} bytes)"
                ),
                "shop/b@3".to_owned()
            ],
            "in chunks of {chunk}"
        );
    }
}

#[test]
fn f36_an_object_of_exactly_the_limit_is_read() {
    let object = pod("a", "1");
    let decoding = || Decoding::<Pod> {
        max_object_size: object.to_string().len(),
        ..pods()
    };
    let body = json!({"kind": "PodList", "items": [object]}).to_string();

    for chunk in [7, 100_000] {
        let items = list_bytes(decoding(), body.clone().into_bytes(), chunk);
        assert_eq!(items, ["shop/a@1"], "in chunks of {chunk}");
    }
}

#[test]
fn f36_an_object_over_the_limit_with_late_metadata_has_no_key() {
    let object = format!(
        r#"{{"spec":{{"hostname":"{}"}},"metadata":{{"name":"large","namespace":"shop"}}}}"#,
        "x".repeat(3000)
    );
    let decoding = Decoding::<Pod> {
        max_object_size: 2000,
        ..pods()
    };
    let items = list_bytes(decoding, format!(r#"{{"items":[{object}]}}"#).into_bytes(), 100);
    assert!(
        items[0].starts_with("an object without a readable name is larger"),
        "{}",
        items[0]
    );
}

#[test]
fn deep_nesting_is_a_decode_error_and_not_a_stack_overflow() {
    for depth in [200, 200_000] {
        let deep = format!(
            r#"{{"metadata":{{"name":"deep"}},"spec":{}1{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        );
        let body = format!(r#"{{"items":[{deep},{}]}}"#, pod("a", "1")).into_bytes();
        let items = list_bytes::<DynamicObject>(pods(), body, 4096);
        assert!(
            items[0].contains("object deep cannot be decoded: invalid JSON"),
            "{}",
            items[0]
        );
        assert!(items[0].contains("recursion limit exceeded"), "{}", items[0]);
        assert_eq!(items[1], "shop/a@1");
    }
}

#[test]
fn invalid_utf8_and_lone_surrogates_are_decode_errors() {
    let cases: [(&[u8], &str); 4] = [
        (
            br#"{"metadata":{"name":"a","uid":"\ud800"}}"#,
            "object a cannot be decoded",
        ),
        (
            b"{\"metadata\":{\"name\":\"a\",\"uid\":\"\xff\"}}",
            "object a cannot be decoded",
        ),
        (
            b"{\"metadata\":{\"name\":\"\xff\"}}",
            "an object without a readable name cannot be decoded",
        ),
        (
            b"{\"metadata\":{\"name\":\"a\",\"namespace\":\"\xff\"}}",
            "an object without a readable name cannot be decoded",
        ),
    ];
    for (object, expected) in cases {
        let body = [b"{\"items\":[", object, b"]}"].concat();
        let items = list_bytes::<Pod>(pods(), body, 5);
        assert!(items[0].starts_with(expected), "{}", items[0]);
        assert!(!items[0].contains('\u{fffd}'), "{}", items[0]);
    }
}

#[test]
fn an_object_without_a_name_is_reported_as_nameless() {
    let items = list::<Pod>(
        pods(),
        &[
            json!({"metadata": {}}),
            json!({}),
            json!({"metadata": {"name": ""}}),
            pod("a", "1"),
        ],
    );
    assert!(
        items[..3].iter().all(|item| item.contains("has no name")),
        "{items:?}"
    );
    assert_eq!(items[3], "shop/a@1");
}

#[test]
fn managed_fields_of_a_template_are_kept() {
    let mut object = pod("a", "1");
    object["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
    object["spec"]["template"] = json!({"metadata": {"managedFields": [{"manager": "inner"}]}});
    let read = |drop_managed_fields| {
        let body = json!({"items": [object]}).to_string();
        let mut decoder = Codec::<DynamicObject>::new()
            .list_decoder(
                None,
                Decoding {
                    drop_managed_fields,
                    ..pods()
                },
            )
            .unwrap();
        decoder.push(body.into());
        match decoder.next().unwrap() {
            Some(ListItem::Object(Fetched::New(object))) => object,
            _ => panic!("one new object"),
        }
    };

    assert!(read(false).metadata.managed_fields.is_some());
    let dropped = read(true);
    assert_eq!(dropped.metadata.managed_fields, None);
    assert_eq!(
        dropped.data["spec"]["template"]["metadata"]["managedFields"][0]["manager"],
        "inner"
    );
}

proptest! {
    #[test]
    fn a_dynamic_object_equals_the_result_of_its_deserialize(
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut noise = Noise::new(noise);
        let mut object = noise.object(3);
        object["apiVersion"] = json!("v1");
        object["kind"] = json!("Pod");
        object["metadata"] = json!({"name": noise.text() + "x", "labels": {"a": noise.text()}});
        let mut body = Vec::new();
        noise.write(&json!({"items": [object]}), &mut body);
        let mut decoder = Codec::<DynamicObject>::new().list_decoder(None, pods()).unwrap();
        decoder.push(body.into());

        let Ok(Some(ListItem::Object(Fetched::New(ours)))) = decoder.next() else {
            return Err(TestCaseError::fail("one new object"));
        };

        prop_assert_eq!(*ours, serde_json::from_value::<DynamicObject>(object).unwrap());
    }
}

#[test]
fn a_dynamic_object_of_a_typed_list_has_its_type() {
    let body = json!({"items": [pod("a", "1")]}).to_string();
    let mut decoder = Codec::<DynamicObject>::new().list_decoder(None, pods()).unwrap();
    decoder.push(body.into());
    let Ok(Some(ListItem::Object(Fetched::New(object)))) = decoder.next() else {
        panic!("one new object");
    };
    let types = object.types.unwrap();
    assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "Pod"));
}
