//! The rules of the wire format: order, repetition, unknown fields, invalid text, errors and limits. One test each, as in
//! `rules.rs`.

use crate::common::message::{Bytes, at, metadata, read, spec};
use kube_protobuf::wire::{put_tag, put_varint};
use kube_protobuf::{ErrorKind, Options, from_message, schema, ser};
use serde_json::{Value, json};

#[test]
fn invalid_utf8_is_replaced_byte_by_byte() {
    // An unpaired surrogate has three invalid bytes.
    let object = metadata(
        Bytes::new()
            .bytes(1, b"a\xed\xa0\x80b")
            .message(11, Bytes::new().bytes(1, b"\xff").bytes(2, b"\xe2\x82")),
    );
    assert_eq!(
        at("v1", "Pod", object.clone(), "/metadata/name"),
        Some(json!("a\u{fffd}\u{fffd}\u{fffd}b"))
    );
    assert_eq!(
        at("v1", "Pod", object, "/metadata/labels"),
        Some(json!({"\u{fffd}": "\u{fffd}\u{fffd}"}))
    );
}

#[test]
fn unknown_fields_are_ignored() {
    let mut object = metadata(Bytes::new().bytes(62, "newer").bytes(1, "a").number(2000, 7)).double(63, 1.0);
    // An unknown group.
    put_tag(&mut object.0, 61, 3);
    object = object.number(1, 7);
    put_tag(&mut object.0, 61, 4);
    assert_eq!(at("v1", "Pod", object, "/metadata/name"), Some(json!("a")));
}

#[test]
fn numbers_may_be_packed() {
    // PodSecurityContext.supplementalGroups.
    let expected = Some(json!([1, 300, -1]));
    let pod = |context: Bytes| {
        let pod = Bytes::new().message(2, Bytes::new().message(14, context));
        at("v1", "Pod", pod, "/spec/securityContext/supplementalGroups")
    };
    assert_eq!(
        pod(Bytes::new().number(4, 1).number(4, 300).number(4, -1)),
        expected
    );
    let mut packed = Vec::new();
    for number in [1, 300, -1_i64] {
        put_varint(&mut packed, number.cast_unsigned());
    }
    assert_eq!(pod(Bytes::new().bytes(4, &packed)), expected);
    assert_eq!(pod(Bytes::new().bytes(4, &packed[..3]).number(4, -1)), expected);
}

#[test]
fn fields_may_be_out_of_order() {
    let object = Bytes::new()
        .bytes(3, "")
        .message(1, Bytes::new().bytes(3, "shop").bytes(1, "a"));
    assert_eq!(
        at("v1", "Pod", object, "/metadata"),
        Some(json!({"name": "a", "namespace": "shop"}))
    );
}

#[test]
fn occurrences_of_a_single_field_are_merged_or_replaced() {
    let object = metadata(Bytes::new().bytes(1, "a").bytes(1, "b")).message(1, Bytes::new().bytes(3, "shop"));
    assert_eq!(
        at("v1", "Pod", object, "/metadata"),
        Some(json!({"name": "b", "namespace": "shop"}))
    );
}

#[test]
fn elements_of_a_list_need_not_be_adjacent() {
    let object = metadata(Bytes::new().bytes(14, "x").bytes(1, "a").bytes(14, "y"));
    assert_eq!(
        at("v1", "Pod", object, "/metadata/finalizers"),
        Some(json!(["x", "y"]))
    );
}

#[test]
fn of_equal_keys_the_last_one_counts() {
    let label = |value| Bytes::new().bytes(1, "app").bytes(2, value);
    let object = metadata(Bytes::new().message(11, label("a")).message(11, label("b")));
    assert_eq!(
        at("v1", "Pod", object, "/metadata/labels"),
        Some(json!({"app": "b"}))
    );
}

#[test]
fn small_integers_are_cut_to_their_size() {
    let replicas = (7_i64 << 32) + 3;
    assert_eq!(
        at("apps/v1", "Deployment", spec(1, replicas), "/spec/replicas"),
        Some(json!(3))
    );
}

#[test]
fn of_versions_that_differ_the_newest_counts() {
    // 1.33 prints null.
    let pod = read("v1", "Pod", &Bytes::new()).unwrap();
    assert_eq!(pod["metadata"], json!({}));
    // 1.37 added the status, and prints it always; a server that knows it writes it.
    let node = |bytes| at("storage.k8s.io/v1", "CSINode", bytes, "/status");
    assert_eq!(node(Bytes::new()), None);
    assert_eq!(node(Bytes::new().message(3, Bytes::new())), Some(json!({})));
}

#[test]
fn an_empty_list_is_null_where_go_omits_nothing() {
    // Both are nothing on the wire: `[]` written by a client comes back as null.
    let message = schema::lookup("v1", "Pod").unwrap();
    let nothing = ser::value_to_message(message, &json!({"spec": {"containers": []}})).unwrap();
    assert_eq!(
        nothing,
        ser::value_to_message(message, &json!({"spec": {"containers": null}})).unwrap()
    );
    assert_eq!(
        at("v1", "Pod", Bytes(nothing), "/spec/containers"),
        Some(Value::Null)
    );
}

#[test]
fn errors_name_path_and_expected_type_and_no_value() {
    #[derive(serde::Deserialize, Debug)]
    #[allow(dead_code)]
    struct Wrong {
        spec: WrongSpec,
    }
    #[derive(serde::Deserialize, Debug)]
    #[allow(dead_code)]
    struct WrongSpec {
        containers: Vec<WrongContainer>,
    }
    #[derive(serde::Deserialize, Debug)]
    #[allow(dead_code)]
    struct WrongContainer {
        image: u32,
    }
    let container = Bytes::new().bytes(1, "main").bytes(2, "registry/secret");
    let pod = Bytes::new().message(2, Bytes::new().message(2, container));
    let message = schema::lookup("v1", "Pod").unwrap();
    let error = from_message::<Wrong>(message, &pod.0, None, &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec.containers[#0].image: invalid type: a string, expected u32"
    );
    // Of the wrong wire type.
    let error = read("v1", "Pod", &Bytes::new().message(2, Bytes::new().number(10, 1))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec.nodeName: unexpected wire type, expected a string"
    );
}

#[test]
fn size_and_depth_are_limited() {
    let message = schema::lookup("v1", "Pod").unwrap();
    let object = metadata(Bytes::new().bytes(1, "a"));
    let error = from_message::<Value>(message, &object.0, None, &Options::new().max_size(4)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let mut schema_bytes = Bytes::new();
    for _ in 0..200 {
        // not: a schema in a schema.
        schema_bytes = Bytes::new().message(28, schema_bytes);
    }
    let version = Bytes::new().message(4, Bytes::new().message(1, schema_bytes));
    let crd = Bytes::new().message(2, Bytes::new().message(7, version));
    let error = read("apiextensions.k8s.io/v1", "CustomResourceDefinition", &crd).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooDeep);
}
