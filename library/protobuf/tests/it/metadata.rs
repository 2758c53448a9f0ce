//! Metadata and paths read from encoded objects.

use kube_protobuf::raw::{self, Path, PathError};
use kube_protobuf::schema::{self, Message};
use kube_protobuf::{Options, from_message, ser};
use serde_json::{Value, json};

fn message() -> &'static Message {
    schema::lookup("apps/v1", "Deployment").unwrap()
}

fn object() -> Value {
    json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "7",
            "labels": {"app.kubernetes.io/name": "web", "tier": "front"},
            "annotations": {"note": ""},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "u-0", "controller": true}],
            "finalizers": ["a/b", "c"],
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}, {"manager": "kubelet"}],
        },
        "spec": {
            "replicas": 3,
            "selector": {},
            "strategy": {},
            "template": {
                "metadata": {"managedFields": [{"manager": "inner"}]},
                "spec": {"containers": [
                    {"name": "main", "image": "i:1", "resources": {}, "ports": [{"containerPort": 8080}]},
                    {"name": "side", "image": "i:2", "resources": {"limits": {"cpu": "100m"}}},
                ]},
            },
        },
        "status": {"conditions": [
            {"type": "Progressing", "status": "False", "lastUpdateTime": null, "lastTransitionTime": null},
            {"type": "Available", "status": "True", "lastUpdateTime": null, "lastTransitionTime": "2025-01-02T03:04:05Z"},
        ]},
    })
}

fn encoded(object: &Value) -> Vec<u8> {
    ser::value_to_message(message(), object).unwrap()
}

#[test]
fn header_labels_and_owners_are_read_without_decoding() {
    let bytes = encoded(&object());
    let header = raw::header(&bytes).unwrap();
    assert_eq!(
        (header.name, header.namespace, header.uid, header.resource_version),
        ("web", "shop", "u-1", "7")
    );
    let labels: Vec<_> = raw::labels(&bytes).unwrap().map(Result::unwrap).collect();
    assert_eq!(labels, [("app.kubernetes.io/name", "web"), ("tier", "front")]);
    assert_eq!(
        raw::annotations(&bytes)
            .unwrap()
            .map(Result::unwrap)
            .collect::<Vec<_>>(),
        [("note", "")]
    );
    let owners: Vec<_> = raw::owner_references(&bytes)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(
        (
            owners[0].kind,
            owners[0].name,
            owners[0].uid,
            owners[0].controller
        ),
        ("Owner", "o", "u-0", true)
    );
    assert!(!owners[0].block_owner_deletion);
}

#[test]
fn managed_fields_of_the_object_are_cut_and_nothing_else() {
    let bytes = encoded(&object());
    let cut = raw::without_managed_fields(&bytes).unwrap();
    assert!(raw::has_managed_fields(&bytes).unwrap() && !raw::has_managed_fields(&cut).unwrap());
    let mut expected = object();
    expected["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    assert_eq!(*cut, encoded(&expected));
    assert_eq!(cut.len(), cut.into_owned().capacity());
    // Decoding without them is the same.
    let options = Options::new().without_managed_fields();
    let read: Value = from_message(message(), &bytes, None, &options).unwrap();
    assert_eq!(read["metadata"], expected["metadata"]);
    assert_eq!(
        read["spec"]["template"]["metadata"],
        json!({"managedFields": [{"manager": "inner"}]})
    );
}

#[test]
fn unknown_fields_survive_the_cut() {
    let mut bytes = encoded(&object());
    kube_protobuf::wire::put_bytes(&mut bytes, 60, b"newer");
    assert!(raw::without_managed_fields(&bytes).unwrap().ends_with(b"newer"));
}

fn text(path: &str) -> Option<String> {
    let bytes = encoded(&object());
    let path = Path::parse(message(), path).unwrap_or_else(|error| panic!("{path}: {error}"));
    path.read(&bytes)
        .unwrap()
        .and_then(|value| value.text().unwrap().map(|text| text.into_owned()))
}

#[test]
fn paths_select_fields_entries_and_elements() {
    assert_eq!(text("spec.replicas").as_deref(), Some("3"));
    assert_eq!(
        text("metadata.labels[app.kubernetes.io/name]").as_deref(),
        Some("web")
    );
    assert_eq!(text("metadata.labels.tier").as_deref(), Some("front"));
    assert_eq!(text("metadata.labels.none"), None);
    assert_eq!(
        text("status.conditions[Available].status").as_deref(),
        Some("True")
    );
    assert_eq!(
        text("status.conditions[Available].lastTransitionTime").as_deref(),
        Some("2025-01-02T03:04:05Z")
    );
    assert_eq!(text("status.conditions[Other].status"), None);
    assert_eq!(
        text("spec.template.spec.containers[side].image").as_deref(),
        Some("i:2")
    );
    assert_eq!(
        text("spec.template.spec.containers[#0].image").as_deref(),
        Some("i:1")
    );
    assert_eq!(text("spec.template.spec.containers[#2].image"), None);
    assert_eq!(
        text("spec.template.spec.containers[main].ports[8080].containerPort").as_deref(),
        Some("8080")
    );
    assert_eq!(
        text("spec.template.spec.containers[side].resources.limits.cpu").as_deref(),
        Some("100m")
    );
    assert_eq!(text("metadata.finalizers[a/b]").as_deref(), Some("a/b"));
    assert_eq!(text("metadata.ownerReferences[u-0].name").as_deref(), Some("o"));
    assert_eq!(text("metadata.managedFields[#0].fieldsV1[\"f:spec\"]"), None);
    assert_eq!(text("metadata"), None);
}

#[test]
fn invalid_paths_are_errors() {
    let parse = |path: &str| Path::parse(message(), path).map(drop).unwrap_err();
    assert!(matches!(
        parse("spec.nodeName"),
        PathError::UnknownField {
            message: "apps.v1.DeploymentSpec",
            ..
        }
    ));
    assert!(matches!(
        parse("spec.replicas.x"),
        PathError::NotSelectable { .. }
    ));
    assert!(matches!(parse("spec[x]"), PathError::NotSelectable { .. }));
    for path in [
        "",
        ".",
        "spec.",
        "spec..replicas",
        "metadata.labels[",
        "metadata.labels[]",
        "metadata.labels[\"a]",
        "a]b",
    ] {
        assert!(
            matches!(
                parse(path),
                PathError::Syntax { .. } | PathError::UnknownField { .. }
            ),
            "{path}"
        );
    }
    assert_eq!(parse(&"a".repeat(2000)), PathError::TooLong);
    let deep = format!("metadata.managedFields[#0].fieldsV1{}", "[a]".repeat(100));
    assert_eq!(parse(&deep), PathError::TooLong);
}

#[test]
fn a_change_is_found_by_path() {
    let old = encoded(&object());
    let mut changed = object();
    changed["status"]["conditions"][0]["status"] = json!("True");
    changed["metadata"]["resourceVersion"] = json!("8");
    let new = encoded(&changed);
    let differs = |path: &str| raw::changed(&Path::parse(message(), path).unwrap(), &old, &new).unwrap();
    assert!(!differs("spec") && !differs("metadata.labels") && !differs("metadata.generateName"));
    assert!(differs("status") && differs("metadata") && differs("status.conditions[Progressing].status"));
    assert!(!differs("status.conditions[Available]"));
}

#[test]
fn another_encoding_of_the_same_value_is_no_change() {
    let old = encoded(&object());
    let mut parts = Vec::new();
    let mut rest = &old[..];
    while !rest.is_empty() {
        let start = rest;
        kube_protobuf::wire::part(&mut rest).unwrap();
        parts.push(&start[..start.len() - rest.len()]);
    }
    parts.reverse();
    let new = parts.concat();
    let path = Path::parse(message(), "spec").unwrap();
    assert!(old != new && !raw::changed(&path, &old, &new).unwrap());
}
