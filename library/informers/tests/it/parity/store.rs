//! client-go's `store_test.go`, `thread_safe_store_test.go`, `index_test.go`, and the part of
//! `controller_test.go` that is about applying deltas.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::delta::{Delta, Replacement};
use kube_informers::sim::{DeltaWriter, Origin};
use kube_informers::store::{Index, StoreWriter};
use kube_informers::{Event, Object};

use crate::store::thing::{Cache, Thing, added, bad, deleted, list, updated};

#[derive(Debug, PartialEq, Eq)]
struct Word {
    id: &'static str,
    value: &'static str,
}

fn word(id: &'static str, value: &'static str) -> Word {
    Word { id, value }
}

fn words() -> StoreWriter<Word, &'static str> {
    StoreWriter::with_key(|word: &Word| word.id)
}

fn values<'a>(words: impl IntoIterator<Item = &'a Arc<Word>>) -> BTreeSet<&'static str> {
    words.into_iter().map(|word| word.value).collect()
}

/// Upstream: TestCache
#[test]
fn a_store_adds_updates_deletes_lists_and_replaces() {
    let mut writer = words();
    let store = writer.store();

    writer.insert(word("foo", "bar")).unwrap();
    assert_eq!(store.get("foo").unwrap().value, "bar");
    writer.insert(word("foo", "baz")).unwrap();
    assert_eq!(store.get("foo").unwrap().value, "baz");
    writer.remove("foo");
    assert_eq!(store.get("foo"), None);

    for (id, value) in [("a", "b"), ("c", "d"), ("e", "e")] {
        writer.insert(word(id, value)).unwrap();
    }
    let snapshot = store.list();
    assert_eq!(
        (snapshot.len(), values(snapshot.iter())),
        (3, ["b", "d", "e"].into())
    );

    writer
        .replace([word("foo", "foo"), word("bar", "bar")], Some("0"))
        .unwrap();
    let snapshot = store.list();
    assert_eq!(
        (snapshot.len(), values(snapshot.iter())),
        (2, ["foo", "bar"].into())
    );
}

/// Upstream: TestIndex
#[test]
fn an_index_finds_objects_with_a_common_value() {
    let mut writer = words();
    let by_value = writer
        .store()
        .add_index("by_val", |word: &Word| [word.value])
        .unwrap();
    for (id, value) in [("a", "b"), ("c", "b"), ("e", "f"), ("g", "h")] {
        writer.insert(word(id, value)).unwrap();
    }

    for (value, expected) in [("b", vec!["a", "c"]), ("f", vec!["e"]), ("h", vec!["g"])] {
        let found = by_value.matching(&word("", value));
        assert_eq!(found.iter().map(|word| word.id).collect::<Vec<_>>(), expected);
    }
}

/// Upstream: TestCacheTransactionShouldIndexErrors
///
/// Keys cannot fail here; index functions can, by a panic.
#[test]
fn a_transaction_reports_which_writes_succeeded() {
    let run = |values: &[u32]| {
        let mut writer = StoreWriter::with_key(|value: &u32| *value);
        writer
            .store()
            .add_index("small", |value: &u32| {
                assert!(*value < 3, "as wanted");
                [value.to_string()]
            })
            .unwrap();
        let mut transaction = writer.transaction();
        for value in values {
            transaction.insert(*value);
        }
        (transaction.commit(), writer.store().len())
    };

    assert_eq!(run(&[1, 2]), (Ok(()), 2));
    let (all_failed, held) = run(&[3, 4]);
    let error = all_failed.unwrap_err();
    assert_eq!((error.successful, held), (Vec::new(), 0));
    let (some_failed, held) = run(&[1, 3, 2, 4]);
    let error = some_failed.unwrap_err();
    assert_eq!((&error.successful, held), (&vec![0, 2], 2));
    assert_eq!(error.to_string(), "2 of 4 writes failed");
    let first = std::error::Error::source(&error).unwrap();
    assert_eq!(
        first.to_string(),
        "the function of index \"small\" panicked on the value: it was not stored"
    );
}

fn texts() -> (StoreWriter<(&'static str, &'static str), &'static str>, TextIndex) {
    let writer = StoreWriter::with_key(|(key, _): &(&'static str, &'static str)| *key);
    let index = writer
        .store()
        .add_index("testIndexer", |(_, text): &(&'static str, &'static str)| {
            text.split(',').map(str::to_owned).collect::<Vec<_>>()
        })
        .unwrap();
    (writer, index)
}

type TextIndex = Index<(&'static str, &'static str), &'static str>;

/// Upstream: TestThreadSafeStoreDeleteRemovesEmptySetsFromIndex
#[test]
fn a_value_is_removed_from_the_index_with_its_last_object() {
    let (mut writer, index) = texts();
    writer.insert(("testKey", "testKey")).unwrap();
    assert_eq!(index.count("testKey"), 1);

    writer.remove("testKey");

    assert_eq!(index.values().len(), 0);
}

/// Upstream: TestThreadSafeStoreAddKeepsNonEmptySetPostDeleteFromIndex
#[test]
fn a_value_stays_in_the_index_as_long_as_an_object_has_it() {
    let (mut writer, index) = texts();
    writer.insert(("retain", "testIndex")).unwrap();
    writer.insert(("delete", "testIndex")).unwrap();
    assert_eq!(index.count("testIndex"), 2);

    writer.remove("delete");

    assert_eq!(index.values(), ["testIndex".into()]);
    assert_eq!(index.keys("testIndex"), ["retain"]);
}

/// Upstream: TestThreadSafeStoreIndexingFunctionsWithMultipleValues
#[test]
fn an_index_follows_every_write_of_objects_with_several_values() {
    let (mut writer, index) = texts();
    let check = |foo: &[&str], bar: &[&str], baz: &[&str]| {
        for (value, expected) in [("foo", foo), ("bar", bar), ("baz", baz)] {
            let mut keys = index.keys(value);
            keys.sort_unstable();
            assert_eq!(keys, expected, "{value}");
        }
    };

    writer.insert(("key1", "foo")).unwrap();
    writer.insert(("key2", "bar")).unwrap();
    check(&["key1"], &["key2"], &[]);
    writer.insert(("key2", "foo,bar")).unwrap();
    check(&["key1", "key2"], &["key2"], &[]);
    writer.insert(("key1", "foo,bar")).unwrap();
    check(&["key1", "key2"], &["key1", "key2"], &[]);
    writer.insert(("key3", "foo,bar,baz")).unwrap();
    check(&["key1", "key2", "key3"], &["key1", "key2", "key3"], &["key3"]);
    writer.insert(("key1", "foo")).unwrap();
    check(&["key1", "key2", "key3"], &["key2", "key3"], &["key3"]);
    writer.insert(("key2", "bar")).unwrap();
    check(&["key1", "key3"], &["key2", "key3"], &["key3"]);
    writer.remove("key1");
    check(&["key3"], &["key2", "key3"], &["key3"]);
    writer.remove("key3");
    check(&[], &["key2"], &[]);
}

/// Upstream: TestThreadSafeStoreRV
///
/// A watch delivers ascending versions, and so does the transaction here. Upstream uses the version of the last write
/// unconditionally.
#[test]
fn the_version_of_the_store_is_that_of_the_last_change() {
    let mut cache = Cache::new();
    assert_eq!(cache.version(), None);

    let mut after = |delta: Delta<_>| {
        cache.apply([delta]);
        cache.version()
    };
    assert_eq!(after(added("key1:1@10")).as_deref(), Some("10"));
    assert_eq!(after(added("key3:3@10")).as_deref(), Some("10"));
    assert_eq!(after(added("key4:4@20")).as_deref(), Some("20"));
    assert_eq!(after(deleted("key4:4@30")).as_deref(), Some("30"));
    assert_eq!(
        after(added("key5")).as_deref(),
        Some("30"),
        "an object without a version"
    );
    assert_eq!(after(added("key6:6@40")).as_deref(), Some("40"));
    let by_key = Delta::DeletedUnreadable(bad("key6"));
    assert_eq!(after(by_key).as_deref(), Some("40"), "a deletion by key alone");
    cache.apply([
        updated("key9:9@40"),
        updated("key10:10@45"),
        updated("key11:11@50"),
    ]);
    assert_eq!(cache.version().as_deref(), Some("50"));

    let mut cache = Cache::with("10", &["key1:1@10"]);
    cache.apply([list("50", &["key3:3@40", "key2:2@30"])]);
    assert_eq!(cache.version().as_deref(), Some("50"));

    let mut cache = Cache::with("10", &["key1:1@10"]);
    cache.apply([deleted("key1:1@20")]);
    assert_eq!(cache.version().as_deref(), Some("20"));
}

fn pod(name: &str, version: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    pod.metadata.resource_version = Some(version.to_owned());
    pod
}

/// Upstream: TestGetIndexFuncValues
#[test]
fn the_values_of_an_index_are_those_of_its_objects() {
    let mut writer = StoreWriter::<Pod>::new();
    let index = writer
        .store()
        .add_index("testmodes", |pod: &Pod| {
            pod.object_label("foo").map(str::to_owned)
        })
        .unwrap();

    for (name, label) in [("one", "bar"), ("two", "bar"), ("tre", "biz")] {
        let mut pod = pod(name, "1");
        pod.metadata.labels = Some([("foo".to_owned(), label.to_owned())].into());
        writer.insert(pod).unwrap();
    }

    assert_eq!(index.values(), ["bar".into(), "biz".into()]);
}

/// Upstream: TestMultiIndexKeys
#[test]
fn objects_with_several_values_are_found_by_each_of_them() {
    let mut writer = StoreWriter::<Pod>::new();
    let store = writer.store();
    store
        .add_index("byUser", |pod: &Pod| {
            let users = pod.metadata.annotations.as_ref().and_then(|all| all.get("users"));
            let users = users.map(String::as_str).unwrap_or_default();
            users.split(',').map(str::to_owned).collect::<Vec<_>>()
        })
        .unwrap();
    let with_users = |name: &str, users: &str| {
        let mut pod = pod(name, "1");
        pod.metadata.annotations = Some([("users".to_owned(), users.to_owned())].into());
        pod
    };
    for (name, users) in [
        ("one", "ernie,bert"),
        ("two", "bert,oscar"),
        ("tre", "ernie,elmo"),
    ] {
        writer.insert(with_users(name, users)).unwrap();
    }
    let names = |user: &str| {
        let pods = store.by_index("byUser", user).unwrap();
        let names = pods.iter().map(|pod| Object::object_name(&**pod).to_owned());
        names.collect::<Vec<_>>()
    };

    assert_eq!(names("ernie"), ["one", "tre"]);
    assert_eq!(names("bert"), ["one", "two"]);
    assert_eq!(names("elmo"), ["tre"]);
    assert_eq!(names("oscar"), ["two"]);
    assert_eq!(names("elmo1"), [""; 0]);

    writer.remove(&"default/tre".parse::<kube_informers::ObjectKey>().unwrap());
    assert_eq!(names("ernie"), ["one"]);
    assert_eq!(names("elmo"), [""; 0]);

    writer.insert(with_users("two", "oscar")).unwrap();
    assert_eq!(names("bert"), ["one"]);
}

/// Upstream: TestReplaceEvents
#[test]
fn a_replacement_delivers_deletions_then_updates_and_additions_in_list_order() {
    let replace = |before: &[(&str, &str)], after: &[(&str, &str)], version: &str| {
        let mut writer = DeltaWriter::new();
        let pods = |pods: &[(&str, &str)]| {
            pods.iter()
                .map(|(name, version)| pod(name, version))
                .collect::<Vec<_>>()
        };
        let deltas = pods(before).into_iter().map(|pod| Delta::Added(Arc::new(pod)));
        let prepared = writer.prepare(Origin::default(), deltas.collect());
        writer.apply(prepared, &mut Vec::new());

        let mut events = Vec::new();
        let replacement = Replacement {
            shard: None,
            objects: pods(after).into_iter().map(Arc::new).collect(),
            unreadable: Vec::new(),
            resource_version: Some(version.to_owned()),
        };
        let prepared = writer.prepare(Origin::default(), vec![Delta::ReplacedAll(replacement)]);
        writer.apply(prepared, &mut events);

        // When an event is delivered, the store is in the state after all of them.
        let store = writer.store();
        let texts: Vec<String> = events
            .iter()
            .map(|event: &Event<Pod>| {
                let delivered = event.object().metadata.resource_version.clone();
                let held = store.get(&event.key());
                let held = held.and_then(|pod| pod.metadata.resource_version.clone());
                format!(
                    "{event}; delivered {}, held {}",
                    delivered.unwrap(),
                    held.unwrap_or("-".into())
                )
            })
            .collect();
        assert_eq!(store.len(), after.len());
        assert_eq!(store.resource_version().as_deref(), Some(version));
        texts
    };

    assert_eq!(
        replace(&[], &[("pod-1", "1")], "1"),
        ["added default/pod-1; delivered 1, held 1"]
    );
    assert_eq!(
        replace(&[("pod-1", "1"), ("pod-3", "2")], &[], "2"),
        [
            "deleted default/pod-1 (missed); delivered 1, held -",
            "deleted default/pod-3 (missed); delivered 2, held -"
        ]
    );
    assert_eq!(
        replace(
            &[("pod-1", "1"), ("pod-2", "2"), ("pod-3", "3")],
            &[("pod-1", "4"), ("pod-2", "5"), ("pod-4", "6")],
            "6"
        ),
        [
            "deleted default/pod-3 (missed); delivered 3, held -",
            "updated default/pod-1 1 -> 4; delivered 4, held 4",
            "updated default/pod-2 2 -> 5; delivered 5, held 5",
            "added default/pod-4; delivered 6, held 6"
        ]
    );
}

/// Upstream: TestProcessDeltasInBatch
#[test]
fn a_failing_object_of_a_batch_suppresses_only_its_own_event() {
    for (batch, expected) in [
        (vec!["a good"], vec!["added a"]),
        (vec!["a bad"], vec![]),
        (vec!["a good", "b bad"], vec!["added a"]),
        (vec!["a good", "b bad", "c good"], vec!["added a", "added c"]),
    ] {
        let mut writer = DeltaWriter::new();
        writer
            .store()
            .add_index("tag", |thing: &Thing| {
                assert_eq!(thing.tags, ["good"], "as wanted");
                None::<String>
            })
            .unwrap();

        let deltas = batch.iter().map(|text| added(text)).collect();
        let mut events = Vec::new();
        let prepared = writer.prepare(Origin::default(), deltas);
        let applied = writer.apply(prepared, &mut events);

        let texts: Vec<String> = events.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected);
        assert_eq!(applied.quarantined, batch.len() - expected.len());
        assert_eq!(applied.problems.len(), applied.quarantined);
    }
}

/// Upstream: TestStoreResourceVersion
#[test]
fn the_version_of_the_store_follows_updates_and_deletions() {
    let mut cache = Cache::with("1", &["default/pod-1:u@1"]);

    cache.apply([updated("default/pod-1:u@2")]);
    assert_eq!(cache.version().as_deref(), Some("2"));
    cache.apply([deleted("default/pod-1:u@3")]);

    assert_eq!(cache.version().as_deref(), Some("3"));
}

/// Upstream: TestStoreResourceVersionWithNonMetaTransform
#[test]
fn objects_without_a_version_do_not_change_the_version_of_the_store() {
    let mut cache = Cache::new();
    cache.apply([list("1", &["pod-1"])]);
    assert_eq!(cache.version().as_deref(), Some("1"));

    cache.apply([updated("pod-1 changed")]);
    assert_eq!(cache.version().as_deref(), Some("1"));
    cache.apply([list("3", &["pod-1"])]);

    assert_eq!(cache.version().as_deref(), Some("3"));
}

/// Upstream: TestDeletedObjectGetKey
#[test]
fn a_deletion_without_a_readable_name_has_no_key_and_deletes_nothing() {
    let mut nameless = bad("default/pod-1");
    assert_eq!(
        Delta::<Thing>::DeletedUnreadable(nameless.clone()).key(),
        Some("default/pod-1".parse().unwrap())
    );
    nameless.key = None;
    assert_eq!(Delta::<Thing>::DeletedUnreadable(nameless.clone()).key(), None);

    let mut cache = Cache::with("1", &["default/pod-1:u@1"]);
    let applied = cache.apply([Delta::DeletedUnreadable(nameless)]);

    assert_eq!(applied.problems.len(), 1);
    assert_eq!(cache.held(), ["default/pod-1@1"]);
}
