//! The tables of all built-in kinds.

use jiff::Timestamp;
use kube_api_protocol::negotiation::IncludeObject;
use kube_api_protocol::table::{column_definitions, row};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kinds::Registry;

#[test]
fn every_kind_has_one_cell_per_column_even_for_an_empty_object() {
    let now = Timestamp::UNIX_EPOCH;
    for kind in Registry::builtin_with_previews().iter() {
        let resource = kind.resource();
        for odd in [
            json!({}),
            json!(null),
            json!({ "metadata": 1, "spec": [], "status": "x" }),
        ] {
            let row = row(resource, &odd, IncludeObject::Metadata, now);
            let cells = row["cells"].as_array().map(Vec::len);
            let columns = column_definitions(resource).len();
            assert_eq!(cells, Some(columns), "{}", kind.group_kind());
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_objects_have_a_row(
        spec in any_part(), status in any_part(), metadata in any_part(), seconds in -1_000_000_i64..4_000_000_000,
    ) {
        let now = Timestamp::from_second(seconds).unwrap();
        let object = json!({ "metadata": metadata, "spec": spec, "status": status });
        for kind in Registry::builtin().iter() {
            let row = row(kind.resource(), &object, IncludeObject::Metadata, now);
            prop_assert_eq!(row["cells"].as_array().map(Vec::len), Some(column_definitions(kind.resource()).len()));
        }
    }
}

fn any_part() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "name",
        "containers",
        "initContainers",
        "containerStatuses",
        "initContainerStatuses",
        "state",
        "terminated",
        "waiting",
        "reason",
        "restartCount",
        "conditions",
        "type",
        "status",
        "ports",
        "replicas",
        "metrics",
        "creationTimestamp",
        "labels",
        "addresses",
        "ingress",
        "loadBalancer",
        "hard",
        "rules",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(|number| json!(number)),
        any::<bool>().prop_map(|flag| json!(flag)),
        Just(json!("Resource")),
        Just(json!("2026-01-01T00:00:00Z")),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(key.clone(), inner, 0..5).prop_map(|map| map
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}
