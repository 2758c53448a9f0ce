//! The rules by which a message has the value of its JSON, one test each. They are written down in the README. Those of the
//! wire format are in `wire_rules.rs`.

use crate::common::message::{Bytes, at, metadata, read, spec};
use kube_protobuf::ErrorKind;
use serde_json::{Value, json};

#[test]
fn zero_is_omitted_with_omitempty() {
    // PodSpec.hostNetwork is a bool with omitempty.
    assert_eq!(at("v1", "Pod", spec(11, 0), "/spec/hostNetwork"), None);
    assert_eq!(
        at("v1", "Pod", spec(11, 1), "/spec/hostNetwork"),
        Some(json!(true))
    );
    assert_eq!(
        at("v1", "Pod", metadata(Bytes::new().bytes(1, "")), "/metadata/name"),
        None
    );
}

#[test]
fn zero_is_present_without_omitempty() {
    // DeploymentStatus has only omitempty, ScaleStatus.replicas does not.
    let scale = |status: Bytes| Bytes::new().message(3, status);
    assert_eq!(
        at(
            "autoscaling/v1",
            "Scale",
            scale(Bytes::new().number(1, 0)),
            "/status/replicas"
        ),
        Some(json!(0))
    );
    // Also if an encoder left it out.
    assert_eq!(
        at("autoscaling/v1", "Scale", scale(Bytes::new()), "/status/replicas"),
        Some(json!(0))
    );
}

#[test]
fn zero_behind_a_pointer_is_present() {
    // DeploymentSpec.replicas is a pointer with omitempty.
    assert_eq!(
        at("apps/v1", "Deployment", spec(1, 0), "/spec/replicas"),
        Some(json!(0))
    );
    assert_eq!(at("apps/v1", "Deployment", Bytes::new(), "/spec/replicas"), None);
}

#[test]
fn a_missing_pointer_list_or_map_without_omitempty_is_null() {
    // DeploymentSpec.selector is a pointer, PodSpec.containers a list; neither has omitempty.
    assert_eq!(
        at("apps/v1", "Deployment", Bytes::new(), "/spec/selector"),
        Some(Value::Null)
    );
    assert_eq!(
        at("v1", "Pod", Bytes::new(), "/spec/containers"),
        Some(Value::Null)
    );
    assert_eq!(at("v1", "PodList", Bytes::new(), "/items"), Some(Value::Null));
}

#[test]
fn an_empty_message_behind_a_pointer_is_an_empty_object() {
    // PodSpec.securityContext.
    let pod = Bytes::new().message(2, Bytes::new().bytes(14, ""));
    assert_eq!(at("v1", "Pod", pod, "/spec/securityContext"), Some(json!({})));
    assert_eq!(at("v1", "Pod", Bytes::new(), "/spec/securityContext"), None);
}

#[test]
fn a_missing_struct_is_an_object() {
    assert_eq!(
        read("v1", "Pod", &Bytes::new()).unwrap(),
        json!({"metadata": {}, "spec": {"containers": null}, "status": {}})
    );
}

#[test]
fn fields_of_an_embedded_struct_belong_to_the_struct_around_it() {
    // PodSpec.volumes[].volumeSource.configMap.localObjectReference.name.
    let config_map = Bytes::new().message(1, Bytes::new().bytes(1, "settings"));
    let volume = Bytes::new()
        .bytes(1, "config")
        .message(2, Bytes::new().message(19, config_map));
    let pod = Bytes::new().message(2, Bytes::new().message(1, volume));
    assert_eq!(
        at("v1", "Pod", pod, "/spec/volumes/0"),
        Some(json!({"name": "config", "configMap": {"name": "settings"}}))
    );
}

#[test]
fn time_is_rfc_3339_in_seconds() {
    let created = |time: Bytes| {
        at(
            "v1",
            "Pod",
            metadata(Bytes::new().message(8, time)),
            "/metadata/creationTimestamp",
        )
    };
    assert_eq!(
        created(Bytes::new().number(1, 1_760_000_000)),
        Some(json!("2025-10-09T08:53:20Z"))
    );
    // 1970 is a time, with and without the zero on the wire.
    assert_eq!(
        created(Bytes::new().number(1, 0).number(2, 0)),
        Some(json!("1970-01-01T00:00:00Z"))
    );
    assert_eq!(
        created(Bytes::new().number(2, 0)),
        Some(json!("1970-01-01T00:00:00Z"))
    );
    // Nanoseconds are dropped.
    assert_eq!(
        created(Bytes::new().number(1, 1).number(2, 999_999_999)),
        Some(json!("1970-01-01T00:00:01Z"))
    );
    assert_eq!(
        created(Bytes::new().number(1, -1)),
        Some(json!("1969-12-31T23:59:59Z"))
    );
}

#[test]
fn the_zero_time_is_null_or_omitted() {
    // creationTimestamp has omitzero, and deletionTimestamp is a pointer.
    let zero = -62_135_596_800;
    for time in [Bytes::new(), Bytes::new().number(1, zero)] {
        let object = metadata(Bytes::new().message(8, time.clone()).message(9, time));
        assert_eq!(
            at("v1", "Pod", object.clone(), "/metadata/creationTimestamp"),
            None
        );
        assert_eq!(
            at("v1", "Pod", object, "/metadata/deletionTimestamp"),
            Some(Value::Null)
        );
    }
    // PodCondition.lastProbeTime is a struct: always there.
    let condition = Bytes::new().message(3, Bytes::new().message(2, Bytes::new().bytes(1, "Ready")));
    assert_eq!(
        at("v1", "Pod", condition, "/status/conditions/0/lastProbeTime"),
        Some(Value::Null)
    );
}

#[test]
fn a_time_beyond_year_9999_is_an_error() {
    let object = metadata(Bytes::new().message(8, Bytes::new().number(1, 253_402_300_800)));
    let error = read("v1", "Pod", &object).unwrap_err();
    assert_eq!(error.path(), "metadata.creationTimestamp");
}

#[test]
fn micro_time_has_six_decimals() {
    // LeaseSpec.acquireTime.
    let acquired = |time: Bytes| {
        let lease = Bytes::new().message(2, Bytes::new().message(3, time));
        at("coordination.k8s.io/v1", "Lease", lease, "/spec/acquireTime")
    };
    assert_eq!(
        acquired(Bytes::new().number(1, 1).number(2, 123_456_789)),
        Some(json!("1970-01-01T00:00:01.123456Z"))
    );
    assert_eq!(
        acquired(Bytes::new().number(1, 0)),
        Some(json!("1970-01-01T00:00:00.000000Z"))
    );
    assert_eq!(acquired(Bytes::new()), Some(Value::Null));
}

fn config_of_limits(quantity: &str) -> Bytes {
    // ResourceQuotaSpec.hard["cpu"].
    let entry = Bytes::new()
        .bytes(1, "cpu")
        .message(2, Bytes::new().bytes(1, quantity));
    Bytes::new().message(2, Bytes::new().message(1, entry))
}

#[test]
fn quantity_is_printed_as_go_prints_it() {
    let data =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/quantities.txt")).unwrap();
    let mut count = 0;
    for line in data.lines() {
        let (text, printed) = line.split_once(' ').unwrap();
        let found = read("v1", "ResourceQuota", &config_of_limits(text));
        match printed {
            "!" => assert!(found.is_err(), "{text} is {found:?}"),
            _ => assert_eq!(found.unwrap()["spec"]["hard"]["cpu"], json!(printed), "{text}"),
        }
        count += 1;
    }
    assert!(count > 1000);
}

#[test]
fn a_missing_quantity_is_zero() {
    let quota = Bytes::new().message(2, Bytes::new().message(1, Bytes::new().bytes(1, "cpu")));
    assert_eq!(
        at("v1", "ResourceQuota", quota, "/spec/hard/cpu"),
        Some(json!("0"))
    );
}

#[test]
fn null_behind_a_pointer_is_encoded_as_no_pointer() {
    // AllocatedDeviceStatus.data is a pointer to a RawExtension.
    let claim = |data: Option<Value>| {
        let mut device = json!({"driver": "gpu", "pool": "node-1", "device": "0"});
        if let Some(data) = data {
            device["data"] = data;
        }
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "status": {"devices": [device]},
        });
        kube_protobuf::ser::to_body(&claim).unwrap()
    };
    assert_eq!(claim(Some(Value::Null)), claim(None));
    assert_ne!(claim(Some(json!({}))), claim(None));
}

#[test]
fn int_or_string_is_either() {
    // ServicePort.targetPort.
    let port = |value: Bytes| {
        let service = Bytes::new().message(2, Bytes::new().message(1, Bytes::new().message(4, value)));
        read("v1", "Service", &service).map(|service| service["spec"]["ports"][0]["targetPort"].clone())
    };
    assert_eq!(
        port(Bytes::new().number(1, 0).number(2, 8080).bytes(3, "x")).unwrap(),
        json!(8080)
    );
    assert_eq!(
        port(Bytes::new().number(1, 1).number(2, 8080).bytes(3, "http")).unwrap(),
        json!("http")
    );
    assert_eq!(port(Bytes::new()).unwrap(), json!(0));
    assert!(port(Bytes::new().number(1, 2)).is_err());
}

fn revision(raw: &[u8]) -> Result<Value, kube_protobuf::Error> {
    // ControllerRevision.data is a RawExtension.
    let object = Bytes::new().message(2, Bytes::new().bytes(1, raw));
    read("apps/v1", "ControllerRevision", &object).map(|object| object["data"].clone())
}

#[test]
fn raw_extension_is_the_json_in_it() {
    assert_eq!(revision(br#" {"a":[1,null]}"#).unwrap(), json!({"a": [1, null]}));
    assert_eq!(revision(b"null").unwrap(), Value::Null);
    let empty = Bytes::new().bytes(2, "");
    assert_eq!(
        at("apps/v1", "ControllerRevision", empty, "/data"),
        Some(Value::Null)
    );
    for invalid in [&b""[..], b"{", b"k8s\0", br#""\ud800""#, b"\"\xff\""] {
        let error = revision(invalid).unwrap_err();
        assert_eq!(
            (error.path().as_str(), error.kind()),
            ("data", ErrorKind::Type),
            "{error}"
        );
    }
}

#[test]
fn raw_extension_and_fields_v1_may_be_cbor() {
    // {"a": [1, -1, 1.5], "k": 'abc' for base64}: strings are byte strings or text strings.
    let cbor = b"\xd9\xd9\xf7\xa2\x41a\x83\x01\x20\xfb\x3f\xf8\x00\x00\x00\x00\x00\x00\x61k\xd6\x43abc";
    let expected = json!({"a": [1, -1, 1.5], "k": "YWJj"});
    assert_eq!(revision(cbor).unwrap(), expected);
    let entry = Bytes::new().message(7, Bytes::new().bytes(1, &cbor[3..]));
    let object = metadata(Bytes::new().message(17, entry));
    assert_eq!(
        at("v1", "Pod", object, "/metadata/managedFields/0/fieldsV1"),
        Some(expected)
    );
    assert!(revision(&cbor[..cbor.len() - 1]).is_err());
    assert!(revision(&[0x81; 300]).is_err());
}

#[test]
fn fields_v1_is_the_json_in_it_and_null_if_empty() {
    let fields = |raw: &str| {
        let entry = Bytes::new().message(7, Bytes::new().bytes(1, raw));
        let object = metadata(Bytes::new().message(17, entry));
        at("v1", "Pod", object, "/metadata/managedFields/0/fieldsV1")
    };
    assert_eq!(fields(r#"{"f:a":{}}"#), Some(json!({"f:a": {}})));
    assert_eq!(fields(""), Some(Value::Null));
}

#[test]
fn bytes_are_base64_also_in_maps() {
    let secret = |entry: Bytes| at("v1", "Secret", Bytes::new().message(2, entry), "/data");
    assert_eq!(
        secret(Bytes::new().bytes(1, "k").bytes(2, b"\x00\xff")),
        Some(json!({"k": "AP8="}))
    );
    assert_eq!(secret(Bytes::new().bytes(1, "k")), Some(json!({"k": ""})));
}

#[test]
fn a_message_of_strings_is_a_list() {
    // UserInfo.extra is a map of ExtraValue, APIResource.verbs is Verbs.
    let entry = Bytes::new()
        .bytes(1, "scopes")
        .message(2, Bytes::new().bytes(1, "a").bytes(1, "b"));
    let none = Bytes::new().bytes(1, "none");
    let user = Bytes::new().message(4, entry).message(4, none);
    let review = Bytes::new().message(2, Bytes::new().message(1, user));
    assert_eq!(
        at(
            "authentication.k8s.io/v1",
            "SelfSubjectReview",
            review,
            "/status/userInfo/extra"
        ),
        Some(json!({"scopes": ["a", "b"], "none": []}))
    );
    let verbs = |verbs: Option<Bytes>| {
        let resource = verbs.map_or(Bytes::new(), |verbs| Bytes::new().message(4, verbs));
        at(
            "v1",
            "APIResourceList",
            Bytes::new().message(2, resource),
            "/resources/0/verbs",
        )
    };
    assert_eq!(verbs(Some(Bytes::new().bytes(1, "get"))), Some(json!(["get"])));
    assert_eq!(verbs(Some(Bytes::new())), Some(json!([])));
    assert_eq!(verbs(None), Some(Value::Null));
}

/// A CustomResourceDefinition whose schema has this field.
fn crd(field: u32, value: Bytes) -> Bytes {
    let schema = Bytes::new().message(field, value);
    let version = Bytes::new().message(4, Bytes::new().message(1, schema));
    Bytes::new().message(2, Bytes::new().message(7, version))
}

fn in_schema(field: u32, value: Bytes, name: &str) -> Option<Value> {
    let pointer = format!("/spec/versions/0/schema/openAPIV3Schema/{name}");
    at(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        crd(field, value),
        &pointer,
    )
}

#[test]
fn json_of_a_schema_is_the_json_in_it() {
    assert_eq!(
        in_schema(8, Bytes::new().bytes(1, r#"{"a":1}"#), "default"),
        Some(json!({"a": 1}))
    );
    assert_eq!(in_schema(8, Bytes::new(), "default"), Some(Value::Null));
}

#[test]
fn a_schema_or_bool_or_list_is_what_it_holds() {
    let string = Bytes::new().bytes(5, "string");
    let expected = json!({"type": "string"});
    // additionalProperties: schema or bool.
    assert_eq!(
        in_schema(
            30,
            Bytes::new().number(1, 1).message(2, string.clone()),
            "additionalProperties"
        ),
        Some(expected.clone())
    );
    assert_eq!(
        in_schema(30, Bytes::new().number(1, 1), "additionalProperties"),
        Some(json!(true))
    );
    assert_eq!(
        in_schema(30, Bytes::new(), "additionalProperties"),
        Some(json!(false))
    );
    // items: schema or list of schemas.
    assert_eq!(
        in_schema(24, Bytes::new().message(1, string.clone()), "items"),
        Some(expected.clone())
    );
    assert_eq!(
        in_schema(24, Bytes::new().message(2, string.clone()).bytes(2, ""), "items"),
        Some(json!([expected.clone(), {}]))
    );
    assert_eq!(in_schema(24, Bytes::new(), "items"), Some(Value::Null));
    // dependencies: schema or list of strings.
    let dependency = |value: Bytes| Bytes::new().bytes(1, "a").message(2, value);
    assert_eq!(
        in_schema(32, dependency(Bytes::new().message(1, string)), "dependencies/a"),
        Some(expected)
    );
    assert_eq!(
        in_schema(32, dependency(Bytes::new().bytes(2, "b")), "dependencies/a"),
        Some(json!(["b"]))
    );
    assert_eq!(
        in_schema(32, dependency(Bytes::new()), "dependencies/a"),
        Some(Value::Null)
    );
}

#[test]
fn doubles_are_printed_as_go_prints_them() {
    let maximum = |double: f64| {
        let schema = Bytes::new().double(9, double);
        let version = Bytes::new().message(4, Bytes::new().message(1, schema));
        let crd = Bytes::new().message(2, Bytes::new().message(7, version));
        at(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            crd,
            "/spec/versions/0/schema/openAPIV3Schema/maximum",
        )
    };
    assert_eq!(maximum(1.0), Some(json!(1)));
    assert_eq!(maximum(-2.5), Some(json!(-2.5)));
    assert_eq!(
        maximum(1_152_921_504_606_846_976.0),
        Some(json!(1_152_921_504_606_847_000_i64))
    );
    assert_eq!(maximum(1e300), Some(json!(1e300)));
}
