//! Tests of server-side apply: examples and random sequences.

use proptest::prelude::*;
use serde_json::{Map, json};

use super::super::managed::track_update;
use super::*;
use crate::kinds::Registry;

const T1: &str = "2026-01-01T00:00:00Z";
const T2: &str = "2026-01-02T00:00:00Z";

fn configmaps() -> std::sync::Arc<Kind> {
    Registry::builtin().resource("", "v1", "configmaps").unwrap()
}

fn config(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" }, "data": data })
}

fn by<'a>(name: &'a str, now: &'a str) -> Manager<'a> {
    Manager {
        name,
        subresource: "",
        now,
    }
}

#[test]
fn first_apply_creates_the_object_and_records_its_owner() {
    let object = apply(
        &configmaps(),
        None,
        &config(json!({ "a": "1" })),
        &by("ci", T1),
        false,
    )
    .unwrap();

    assert_eq!(object["data"], json!({ "a": "1" }));
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "ci", "operation": "Apply", "apiVersion": "v1", "time": T1, "fieldsType": "FieldsV1",
            "fieldsV1": { "f:data": { "f:a": {} } },
        }])
    );
}

#[test]
fn omitted_fields_are_removed_unless_co_owned() {
    let kind = configmaps();
    let first = apply(
        &kind,
        None,
        &config(json!({ "a": "1", "b": "1", "c": "1" })),
        &by("ci", T1),
        false,
    )
    .unwrap();
    let shared = apply(
        &kind,
        Some(&first),
        &config(json!({ "b": "1" })),
        &by("ops", T1),
        false,
    )
    .unwrap();
    assert_eq!(shared["data"], first["data"]);

    let less = apply(
        &kind,
        Some(&shared),
        &config(json!({ "a": "2" })),
        &by("ci", T2),
        false,
    )
    .unwrap();

    assert_eq!(less["data"], json!({ "a": "2", "b": "1" }));
}

#[test]
fn whole_applied_map_is_removed_whole() {
    let kind = configmaps();
    let first = apply(&kind, None, &config(json!({ "a": "1" })), &by("ci", T1), false).unwrap();
    let empty = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } });

    let second = apply(&kind, Some(&first), &empty, &by("ci", T2), false).unwrap();

    assert_eq!(second.get("data"), None);
    assert_eq!(second["metadata"].get("managedFields"), None);
}

#[test]
fn field_of_another_owner_conflicts_unless_forced() {
    let kind = configmaps();
    let first = apply(
        &kind,
        None,
        &config(json!({ "a": "1", "b": "1" })),
        &by("ci", T1),
        false,
    )
    .unwrap();
    let other = config(json!({ "a": "2", "b": "1" }));

    let error = apply(&kind, Some(&first), &other, &by("ops", T2), false).unwrap_err();
    assert_eq!(
        error.message(),
        "Apply failed with 1 conflict: conflict with \"ci\": .data.a"
    );
    assert_eq!(error.code(), 409);

    let forced = apply(&kind, Some(&first), &other, &by("ops", T2), true).unwrap();
    assert_eq!(forced["data"], json!({ "a": "2", "b": "1" }));
    assert_eq!(
        forced["metadata"]["managedFields"][0]["fieldsV1"],
        json!({ "f:data": { "f:b": {} } })
    );
}

#[test]
fn conflict_with_an_update_names_its_version_and_time() {
    let kind = configmaps();
    let first = apply(&kind, None, &config(json!({ "a": "1" })), &by("ci", T1), false).unwrap();
    let mut edited = first.clone();
    edited["data"]["a"] = json!("edited");
    track_update(&kind, Some(&first), &mut edited, &by("kubectl-edit", T2));

    let error = apply(
        &kind,
        Some(&edited),
        &config(json!({ "a": "1" })),
        &by("ci", T2),
        false,
    )
    .unwrap_err();

    assert_eq!(
        error.message(),
        "Apply failed with 1 conflict: conflict with \"kubectl-edit\" using v1 at 2026-01-02T00:00:00Z: .data.a"
    );
}

#[test]
fn reapplying_the_same_configuration_changes_nothing() {
    let kind = configmaps();
    let configuration = config(json!({ "a": "1" }));
    let first = apply(&kind, None, &configuration, &by("ci", T1), false).unwrap();

    assert_eq!(
        apply(&kind, Some(&first), &configuration, &by("ci", T2), false).unwrap(),
        first
    );
}

#[test]
fn applying_to_an_object_without_managed_fields_conflicts() {
    let kind = configmaps();
    let live = config(json!({ "a": "1", "b": "1" }));

    let error = apply(
        &kind,
        Some(&live),
        &config(json!({ "a": "2" })),
        &by("ci", T1),
        false,
    )
    .unwrap_err();
    assert!(
        error.message().contains("\"before-first-apply\" using v1"),
        "{error}"
    );

    let shared = apply(
        &kind,
        Some(&live),
        &config(json!({ "a": "1" })),
        &by("ci", T1),
        false,
    )
    .unwrap();
    assert_eq!(shared["data"], json!({ "a": "1", "b": "1" }));
}

#[test]
fn items_of_keyed_lists_are_owned_individually() {
    let kind = Registry::builtin().resource("apps", "v1", "deployments").unwrap();
    let deployment = |containers: Value| {
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" },
                "spec": { "template": { "spec": { "containers": containers } } } })
    };
    let containers = |object: &Value| object.pointer("/spec/template/spec/containers").cloned().unwrap();
    let web = json!({ "name": "web", "image": "web:1", "ports": [{ "containerPort": 80 }] });
    let log = json!({ "name": "log", "image": "log:1" });

    let first = apply(&kind, None, &deployment(json!([web])), &by("team", T1), false).unwrap();
    let second = apply(
        &kind,
        Some(&first),
        &deployment(json!([log])),
        &by("mesh", T1),
        false,
    )
    .unwrap();
    assert_eq!(containers(&second), json!([web, log]));

    let upgraded = json!({ "name": "web", "image": "web:2" });
    let third = apply(
        &kind,
        Some(&second),
        &deployment(json!([upgraded])),
        &by("team", T2),
        false,
    )
    .unwrap();
    assert_eq!(containers(&third), json!([upgraded, log]));

    let left = apply(
        &kind,
        Some(&third),
        &deployment(json!([])),
        &by("mesh", T2),
        false,
    )
    .unwrap();
    assert_eq!(containers(&left), json!([upgraded]));
}

#[test]
fn configurations_of_another_kind_or_with_managed_fields_are_rejected() {
    let kind = configmaps();
    let apply = |configuration: Value| apply(&kind, None, &configuration, &by("ci", T1), false).unwrap_err();

    assert_eq!(
        apply(json!({ "apiVersion": "v2", "kind": "ConfigMap" })),
        PatchError::BadRequest("invalid object type: /v2, Kind=ConfigMap".into())
    );
    assert_eq!(apply(json!([])).code(), 400);
    let mut with_record = config(json!({}));
    with_record["metadata"]["managedFields"] = json!([]);
    assert_eq!(
        apply(with_record),
        PatchError::BadRequest("metadata.managedFields must be nil".into())
    );
}

/// Objects with fields of known and unknown shape.
fn any_object() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "metadata",
        "labels",
        "finalizers",
        "ownerReferences",
        "uid",
        "spec",
        "template",
        "containers",
        "name",
        "ports",
        "containerPort",
        "selector",
        "status",
        "conditions",
        "type",
        "managedFields",
        "fieldsV1",
        "f:spec",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!(1)),
        Just(json!("a")),
        Just(json!({})),
        Just(json!([]))
    ];
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(key.clone(), inner, 0..5).prop_map(|map| map
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #[test]
    fn applied_fields_are_in_the_result(
        first in prop::collection::btree_map("[a-d]", "[xy]", 0..4),
        other in prop::collection::btree_map("[a-d]", "[xy]", 0..4),
        second in prop::collection::btree_map("[a-d]", "[xy]", 0..4),
    ) {
        let kind = configmaps();
        let object = apply(&kind, None, &config(json!(first)), &by("one", T1), true).unwrap();
        let object = apply(&kind, Some(&object), &config(json!(other)), &by("two", T1), true).unwrap();
        let object = apply(&kind, Some(&object), &config(json!(second)), &by("one", T2), true).unwrap();

        let empty = Map::new();
        let data = object.get("data").and_then(Value::as_object).unwrap_or(&empty);
        for (name, value) in &second {
            prop_assert_eq!(data.get(name), Some(&json!(value)));
        }
        for name in data.keys() {
            prop_assert!(second.contains_key(name) || other.contains_key(name), "{} is nobody's", name);
        }
    }

    #[test]
    fn arbitrary_objects_are_applied_and_tracked_without_a_panic(
        live in any_object(), applied in any_object(), force in any::<bool>(),
    ) {
        let kind = Registry::builtin().resource("apps", "v1", "deployments").unwrap();
        let mut applied = applied;
        if let Value::Object(fields) = &mut applied {
            fields.insert("apiVersion".to_owned(), json!("apps/v1"));
            fields.insert("kind".to_owned(), json!("Deployment"));
        }
        let _ = apply(&kind, Some(&live), &applied, &by("one", T1), force);
        let _ = apply(&kind, None, &applied, &by("one", T1), force);
        let mut updated = applied.clone();
        track_update(&kind, Some(&live), &mut updated, &by("two", T2));
        if let Ok(once) = apply(&kind, Some(&updated), &applied, &by("one", T2), true) {
            let twice = apply(&kind, Some(&once), &applied, &by("one", T2), false);
            prop_assert_eq!(twice, Ok(once));
        }
    }
}
