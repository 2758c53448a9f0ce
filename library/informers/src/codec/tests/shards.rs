//! Objects outside the shard are not decoded.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::*;
use crate::shard::{Shard, ShardField, ShardRange, shard_hash};

/// The half of the hash space that contains the hash of a text.
fn half_of(field: ShardField, text: &str) -> Shard {
    let halves = ShardRange::ALL.split(2);
    let half = halves.into_iter().find(|half| half.contains(shard_hash(text)));
    Shard::new(field, half)
}

fn decoding(shard: Shard) -> Decoding<Pod> {
    Decoding {
        shard: Some(shard),
        ..pods()
    }
}

fn item(uid: &str, name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": uid, "resourceVersion": "5"}})
}

fn listed(shard: Shard, items: &[Value]) -> (Vec<String>, ListMeta) {
    let echo = shard.selector();
    let body = json!({
        "kind": "PodList", "apiVersion": "v1",
        "metadata": {"resourceVersion": "9", "shardInfo": {"selector": echo}},
        "items": items,
    });
    let mut decoder = Codec::<Pod>::new().list_decoder(None, decoding(shard)).unwrap();
    read_list(&mut *decoder, vec![Bytes::from(body.to_string())]).unwrap()
}

const LOW: &str = "11111111-0000-4000-8000-000000000000";

/// A UID in the other half.
fn high() -> String {
    let inside = half_of(ShardField::Uid, LOW);
    let mut uids = (0..100).map(|number| format!("{number:08}-0000-4000-8000-000000000000"));
    uids.find(|uid| !inside.covers_hash(shard_hash(uid))).unwrap()
}

#[test]
fn a_list_omits_objects_outside_the_shard_and_returns_the_echo() {
    let shard = half_of(ShardField::Uid, LOW);
    let bad = json!({"metadata": {"name": "bad", "uid": high()}, "spec": 5});
    let (items, meta) = listed(shard.clone(), &[item(LOW, "in"), item(&high(), "out"), bad]);

    assert_eq!(items, ["shop/in@5", "outside", "outside"]);
    assert_eq!(meta.shard_selector, shard.selector());
}

#[test]
fn an_object_of_unknown_membership_is_decoded() {
    let nameless = json!({"metadata": {"name": "x", "resourceVersion": "1"}, "spec": 5});
    let (items, _) = listed(half_of(ShardField::Uid, LOW), &[nameless]);

    assert!(items[0].contains("cannot be decoded"), "{items:?}");
}

#[test]
fn a_shard_by_namespace_is_decided_by_the_namespace() {
    let shop = half_of(ShardField::Namespace, "shop");
    let others = Shard::everything(ShardField::Namespace)
        .difference(&shop)
        .unwrap();
    let node = json!({"metadata": {"name": "node", "uid": "u", "resourceVersion": "2"}});

    assert_eq!(listed(shop, &[item(LOW, "cart")]).0, ["shop/cart@5"]);
    assert_eq!(listed(others, &[item(LOW, "cart")]).0, ["outside"]);
    assert_eq!(
        listed(half_of(ShardField::Namespace, ""), &[node]).0,
        ["node@2"],
        "cluster-scoped objects hash as the empty string"
    );
}

#[test]
fn a_watch_reports_only_the_version_of_events_outside_the_shard() {
    let out = item(&high(), "out");
    let frames = [
        json!({"type": "ADDED", "object": out}),
        json!({"type": "DELETED", "object": out}),
        json!({"type": "MODIFIED", "object": {"metadata": {"name": "out", "uid": high()}, "spec": 5}}),
        json!({"type": "MODIFIED", "object": item(LOW, "in")}),
        json!({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "8"}}}),
    ];
    let body: String = frames.iter().map(|frame| format!("{frame}\n")).collect();
    let mut decoder = Codec::<Pod>::new()
        .watch_decoder(None, decoding(half_of(ShardField::Uid, LOW)))
        .unwrap();

    assert_eq!(
        read_watch(&mut *decoder, vec![Bytes::from(body)]).unwrap(),
        [
            "outside 5 added",
            "outside 5",
            "outside -",
            "modified shop/in@5",
            "bookmark 8"
        ]
    );
}

#[test]
fn a_list_with_an_unexpected_echo_is_accepted() {
    for info in [json!(null), json!({}), json!({"selector": null})] {
        let body =
            json!({"kind": "PodList", "metadata": {"resourceVersion": "9", "shardInfo": info}, "items": []});
        let mut decoder = Codec::<Pod>::new().list_decoder(None, pods()).unwrap();
        let (_, meta) = read_list(&mut *decoder, vec![Bytes::from(body.to_string())]).unwrap();
        assert_eq!(meta.shard_selector, None);
    }
}
