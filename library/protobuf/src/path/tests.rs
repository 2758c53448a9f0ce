use serde_json::json;

use super::*;

fn pod() -> Value {
    json!({
        "metadata": {
            "labels": {"app": "web", "app.kubernetes.io/name": "shop", "a]\"b": "odd"},
            "finalizers": ["example.com/cleanup"],
        },
        "spec": {"containers": [
            {"name": "side", "image": "side:1"},
            {"name": "web", "image": "web:2", "ports": [{"containerPort": 80, "name": "http"}]},
        ]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "numbers": [1, 2]},
    })
}

#[test]
fn a_path_reads_the_same_from_a_tree_and_from_a_document() {
    let tree = pod();
    let document = serde_json::to_vec_pretty(&tree).unwrap();
    for (path, expected) in [
        ("metadata.labels.app", Some(json!("web"))),
        ("metadata.labels[app.kubernetes.io/name]", Some(json!("shop"))),
        ("metadata.labels[\"app.kubernetes.io/name\"]", Some(json!("shop"))),
        ("metadata.labels[\"a]\\\"b\"]", Some(json!("odd"))),
        ("metadata.labels.none", None),
        (
            "metadata.finalizers[example.com/cleanup]",
            Some(json!("example.com/cleanup")),
        ),
        ("spec.containers[web].image", Some(json!("web:2"))),
        ("spec.containers[#0].image", Some(json!("side:1"))),
        ("spec.containers[#2].image", None),
        ("spec.containers[web].ports[http].containerPort", Some(json!(80))),
        ("spec.containers.web", None),
        ("status.conditions[Ready].status", Some(json!("True"))),
        ("status.conditions[Other].status", None),
        ("status.numbers[2]", Some(json!(2))),
        ("status.numbers[#9]", None),
        ("status", Some(tree["status"].clone())),
        ("[\"status\"].numbers", Some(json!([1, 2]))),
    ] {
        let path = FieldPath::parse(path).unwrap();
        assert_eq!(path.find(&tree), expected.as_ref(), "{path}");
        assert_eq!(path.read_json(&document).unwrap(), expected, "{path}");
    }
}

#[test]
fn the_last_of_two_members_of_one_name_counts() {
    let path = FieldPath::parse("a.b").unwrap();
    let document = br#"{"a":{"b":1},"a":{"b":2,"\u0062":3}}"#;
    assert_eq!(path.read_json(document).unwrap(), Some(json!(3)));
    let tree: Value = serde_json::from_slice(document).unwrap();
    assert_eq!(path.find(&tree), Some(&json!(3)));
}

#[test]
fn a_document_that_is_not_json_is_an_error() {
    let path = FieldPath::parse("a").unwrap();
    for document in [&b"{\"a\":1"[..], b"{\"a\":1}x", b"", b"{\"a\":tru}"] {
        assert!(path.read_json(document).is_err(), "{document:?}");
    }
    assert_eq!(path.read_json(b"[1]").unwrap(), None);
    assert_eq!(path.read_json(b"null").unwrap(), None);
}

#[test]
fn invalid_paths_name_the_place() {
    for (path, at) in [
        ("", 0),
        (".", 0),
        ("spec.", 5),
        ("spec..x", 5),
        ("a[", 1),
        ("a[]", 1),
        ("a[\"b]", 1),
        ("a]b", 0),
        ("a[b]c", 4),
        ("a[#x]", 1),
        ("a[#99999999999999999999]", 1),
    ] {
        assert_eq!(
            FieldPath::parse(path).unwrap_err(),
            PathError::Syntax { at },
            "{path}"
        );
    }
    assert_eq!(
        FieldPath::parse(&"a".repeat(1025)).unwrap_err(),
        PathError::TooLong
    );
    assert_eq!(
        FieldPath::parse(&"[a]".repeat(33)).unwrap_err(),
        PathError::TooLong
    );
}
