//! Indexes: names, values, order, late additions.

use std::sync::Arc;

use kube_informers::store::{NAMESPACE_INDEX, StoreWriter};

use super::thing::*;

fn states(objects: Vec<Arc<Thing>>) -> Vec<String> {
    objects.iter().map(|object| state(object)).collect()
}

#[test]
fn index_functions_may_return_an_option_a_vec_or_an_array() {
    let cache = Cache::with("5", &["n/a:u@1 red blue", "n/b:v@2"]);
    let store = cache.writer.store();

    let option = store
        .add_index("option", |thing: &Thing| thing.tags.first().cloned())
        .unwrap();
    let vec = store
        .add_index("vec", |thing: &Thing| thing.tags.clone())
        .unwrap();
    let array = store.add_index("array", |_: &Thing| ["same"]).unwrap();

    assert_eq!(option.values(), ["red".into()]);
    assert_eq!(vec.values(), ["blue".into(), "red".into()]);
    assert_eq!(array.count("same"), 2);
}

#[test]
fn an_index_has_the_name_it_was_added_with() {
    let store = Cache::new().writer.store();

    let added = store
        .add_index("tag", |thing: &Thing| thing.tags.clone())
        .unwrap();

    assert_eq!(added.name(), "tag");
    assert_eq!(store.index(NAMESPACE_INDEX).unwrap().name(), NAMESPACE_INDEX);
}

#[test]
fn unknown_and_duplicate_index_names_are_errors() {
    let cache = Cache::new();
    let store = cache.writer.store();
    store
        .add_index("tag", |thing: &Thing| thing.tags.clone())
        .unwrap();

    assert_eq!(
        store.by_index("tags", "x").unwrap_err().to_string(),
        "unknown index \"tags\": this store has \"namespace\", \"tag\"; add others with `add_index`"
    );
    assert!(store.index("tags").is_none());
    assert_eq!(
        store
            .add_index("tag", |_: &Thing| None::<String>)
            .unwrap_err()
            .to_string(),
        "the index \"tag\" already exists: use it with `index(\"tag\")`, or choose another name"
    );
    assert_eq!(store.index_names(), [NAMESPACE_INDEX, "tag"]);
    let empty = StoreWriter::with_key(|thing: &Thing| thing.name.clone()).store();
    assert_eq!(
        empty.by_index("tag", "x").unwrap_err().to_string(),
        "unknown index \"tag\": this store has none; add it with `add_index`"
    );
}

#[test]
fn objects_keep_the_order_of_the_list() {
    let mut cache = Cache::with("5", &["n/c:u@1 x", "n/a:v@2 x", "n/b:w@3 x y"]);
    let store = cache.writer.store();
    let index = store
        .add_index("tag", |thing: &Thing| thing.tags.clone())
        .unwrap();

    assert_eq!(states(index.get("x")), ["n/c@1", "n/a@2", "n/b@3"]);
    cache.apply([updated("n/c:u@6 x y")]);

    assert_eq!(states(index.get("x")), ["n/c@6", "n/a@2", "n/b@3"]);
    assert_eq!(states(index.get("y")), ["n/c@6", "n/b@3"]);
    assert_eq!(
        index
            .keys("y")
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["n/c", "n/b"]
    );
    assert_eq!(
        states(store.list().iter().cloned().collect()),
        states(index.get("x"))
    );
}

#[test]
fn matching_returns_the_union_over_the_values_of_an_object() {
    let cache = Cache::with("5", &["a:u@1 x", "b:v@2 y", "c:w@3 z", "d:t@4 x y"]);
    let index = cache
        .writer
        .store()
        .add_index("tag", |thing: &Thing| thing.tags.clone())
        .unwrap();

    assert_eq!(
        states(index.matching(&thing("unknown x y"))),
        ["a@1", "b@2", "d@4"]
    );
    assert_eq!(states(index.matching(&thing("unknown"))), [""; 0]);
    assert_eq!(index.values_of(&thing("unknown x y")), ["x", "y"]);
}

#[test]
fn objects_of_a_namespace_are_found_with_and_without_an_index() {
    let cache = Cache::with("5", &["a/x:u@1", "b/x:v@2", "a/y:w@3", "cluster:t@4"]);
    let mut by_hand = StoreWriter::<Thing>::new();
    by_hand
        .replace(cache.writer.store().list().iter().cloned(), None)
        .unwrap();
    assert_eq!(by_hand.store().index_names(), [""; 0]);

    for store in [cache.writer.store(), by_hand.store()] {
        assert_eq!(states(store.namespace("a")), ["a/x@1", "a/y@3"]);
        assert_eq!(states(store.namespace("none")), [""; 0]);
        assert_eq!(states(store.namespace("")), [""; 0]);
    }
}

#[test]
fn objects_are_found_by_key_by_parts_and_by_text() {
    let cache = Cache::with("5", &["a/x:u@1", "cluster:t@4"]);
    let store = cache.writer.store();

    assert!(store.get(("a", "x")).is_some());
    assert!(store.get((None, "x")).is_none());
    assert!(store.get((None, "cluster")).is_some());
    assert!(store.get(("", "cluster")).is_some());
    assert!(
        store
            .get(&"a/x".parse::<kube_informers::ObjectKey>().unwrap())
            .is_some()
    );
    assert!(store.contains(&kube_informers::ObjectKey::cluster("cluster")));
}

#[test]
fn large_results_are_complete() {
    let names: Vec<String> = (0..5000)
        .map(|n| format!("n/p{n}:u{n}@{} all v{}", n + 1, n % 3))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut cache = Cache::with("9000", &names);
    let store = cache.writer.store();
    let index = store
        .add_index("tag", |thing: &Thing| thing.tags.clone())
        .unwrap();

    assert_eq!(index.get("all").len(), 5000);
    assert_eq!(index.get("v1").len(), 1667);
    assert_eq!(index.matching(&thing("x v0 v1")).len(), 3334);
    assert_eq!(store.namespace("n").len(), 5000);

    // After a large deletion the table is compacted, in the same order.
    let rest: Vec<&str> = names.iter().step_by(100).copied().collect();
    let before = states(store.list().iter().step_by(100).cloned().collect());
    cache.apply([list("9001", &rest)]);
    assert_eq!(states(store.list().iter().cloned().collect()), before);
    assert_eq!(index.get("all").len(), 50);
    assert_eq!(index.get("v1").len(), 17);
    assert_eq!(store.keys().len(), 50);
    cache.apply([updated("n/p100:u100@9002 all v9"), deleted("n/p200:u200@9003")]);
    assert_eq!(states(index.get("v9")), ["n/p100@9002"]);
    assert_eq!(index.count("all"), 49);
}
