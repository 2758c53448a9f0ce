//! A `DeltaFifo` with keys of the user's own, and with a store as its known objects.

use std::sync::Arc;

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube_informers::delta::{Delta as Change, Replacement};
use kube_informers::quarantine::{BadObject, Problem};
use kube_informers::store::StoreWriter;
use kube_informers::target::Target;
use kube_informers::{Object, ObjectKey};
use kube_informers_classic::{Delta, DeltaFifo};

use crate::support::pod_at;

fn by_uid(pod: &Pod) -> ObjectKey {
    ObjectKey::cluster(pod.object_uid().unwrap_or_default())
}

fn list(pods: &[Pod], unreadable: &[&str], version: &str) -> Change<Pod> {
    Change::ReplacedAll(Replacement {
        objects: pods.iter().cloned().map(Arc::new).collect(),
        unreadable: unreadable.iter().map(|name| bad(name)).collect(),
        resource_version: Some(version.to_owned()),
        shard: None,
    })
}

fn bad(name: &str) -> BadObject {
    BadObject {
        key: Some(ObjectKey::cluster(name)),
        uid: None,
        resource_version: Some("50".to_owned()),
        problem: Problem::Decode("spec: wrong type".to_owned()),
        size: 10,
    }
}

/// Pops one key and applies its deltas to an indexer by UID. Returns the names of the deltas.
fn pop(queue: &DeltaFifo<Pod>, indexer: &mut StoreWriter<Pod>) -> Vec<&'static str> {
    let popped = queue.pop(|deltas, _| {
        for delta in deltas {
            match delta {
                Delta::Vanished(tombstone) => drop(indexer.remove(&tombstone.key)),
                Delta::Deleted(pod) => drop(indexer.remove(&by_uid(pod))),
                Delta::Dropped { key, .. } => drop(indexer.remove(key)),
                other => {
                    if let Some(pod) = other.object() {
                        indexer.insert(pod.clone())?;
                    }
                }
            }
        }
        Ok(())
    });
    let deltas = popped.now_or_never().expect("something is queued").unwrap();
    let named = deltas
        .iter()
        .filter(|delta| !matches!(delta, Delta::Bookmark { .. }));
    named.map(Delta::name).collect()
}

fn wired() -> (DeltaFifo<Pod>, StoreWriter<Pod>) {
    let indexer = StoreWriter::with_key(by_uid);
    let queue = DeltaFifo::new().key(by_uid).known(indexer.store());
    (queue, indexer)
}

#[test]
fn deltas_are_queued_under_the_keys_of_the_key_function() {
    let (queue, mut indexer) = wired();
    let pods = indexer.store();
    queue
        .accept(list(&[pod_at("a", "1"), pod_at("b", "2")], &[], "2"))
        .unwrap();
    queue.accept(Change::Updated(pod_at("a", "3").into())).unwrap();

    let keys: Vec<String> = queue.keys().iter().map(ObjectKey::to_string).collect();
    assert_eq!(keys, ["uid of a", "uid of b"]);
    assert_eq!(queue.get(&ObjectKey::cluster("uid of a")).len(), 2);
    assert!(!queue.add_if_absent(Delta::Updated(pod_at("b", "4").into())));
    assert_eq!(pop(&queue, &mut indexer), ["Replaced", "Updated"]);
    assert_eq!(pop(&queue, &mut indexer), ["Replaced"]);
    assert!(queue.has_synced());
    assert_eq!(pods.get("uid of a").unwrap().object_version(), Some("3"));

    // A second object under the same name is another key.
    let mut again = pod_at("a", "5");
    again.metadata.uid = Some("another uid".to_owned());
    queue.accept(Change::Added(again.clone().into())).unwrap();
    assert_eq!(pop(&queue, &mut indexer), ["Added"]);
    assert_eq!(pods.len(), 3);

    // A list without the old ones deletes them by key.
    queue.accept(list(&[again], &[], "9")).unwrap();
    while !queue.is_empty() {
        pop(&queue, &mut indexer);
    }
    assert_eq!(pods.keys(), [ObjectKey::cluster("another uid")]);
}

#[test]
fn deltas_without_an_object_find_their_key_by_name() {
    let (queue, mut indexer) = wired();
    let pods = indexer.store();
    queue
        .accept(list(
            &[pod_at("a", "1"), pod_at("b", "2"), pod_at("c", "3")],
            &[],
            "3",
        ))
        .unwrap();
    for _ in 0..3 {
        pop(&queue, &mut indexer);
    }
    // `a` is queued again; `b` and `c` are in the store only.
    queue.accept(Change::Updated(pod_at("a", "4").into())).unwrap();

    queue.accept(Change::DeletedUnreadable(bad("a"))).unwrap();
    queue.accept(Change::DeletedUnreadable(bad("b"))).unwrap();
    let dropped = Change::Dropped {
        key: ObjectKey::cluster("c"),
        resource_version: Some("6".to_owned()),
    };
    queue.accept(dropped).unwrap();
    queue
        .accept(Change::DeletedUnreadable(bad("never seen")))
        .unwrap();

    assert_eq!(pop(&queue, &mut indexer), ["Updated", "Vanished"]);
    assert_eq!(pop(&queue, &mut indexer), ["Vanished"]);
    assert_eq!(pop(&queue, &mut indexer), ["Dropped"]);
    assert!(queue.is_empty());
    assert!(pods.is_empty());
}

#[test]
fn unreadable_object_of_a_list_is_not_deleted_under_its_own_key() {
    let (queue, mut indexer) = wired();
    let pods = indexer.store();
    queue
        .accept(list(&[pod_at("a", "1"), pod_at("b", "2")], &[], "2"))
        .unwrap();
    pop(&queue, &mut indexer);
    pop(&queue, &mut indexer);

    queue.accept(list(&[], &["a"], "5")).unwrap();
    assert_eq!(pop(&queue, &mut indexer), ["ReplacedUnreadable"]);
    assert_eq!(pop(&queue, &mut indexer), ["Vanished"]);
    assert_eq!(pods.keys(), [ObjectKey::cluster("uid of a")]);
}

#[test]
fn panicking_key_function_falls_back_to_the_name() {
    let queue = DeltaFifo::new().key(|pod: &Pod| {
        assert_ne!(pod.object_name(), "b");
        by_uid(pod)
    });
    queue
        .accept(list(&[pod_at("a", "1"), pod_at("b", "2")], &[], "2"))
        .unwrap();

    let keys: Vec<String> = queue.keys().iter().map(ObjectKey::to_string).collect();
    assert_eq!(keys, ["uid of a", "b"]);
}

#[test]
fn lists_become_syncs_if_replaced_is_switched_off() {
    let mut indexer = StoreWriter::new();
    let queue = DeltaFifo::new().known(indexer.store()).emit_replaced(false);
    queue
        .accept(list(&[pod_at("a", "1"), pod_at("b", "2")], &[], "2"))
        .unwrap();
    let names: Vec<&str> = queue.list().iter().map(Delta::name).collect();
    assert_eq!(names, ["Sync", "Sync"]);

    queue.accept(list(&[pod_at("b", "2")], &[], "3")).unwrap();
    assert_eq!(pop(&queue, &mut indexer), ["Sync", "Vanished"]);
}

#[test]
fn store_as_known_objects_accepts_deletions_and_resyncs() {
    let mut indexer = StoreWriter::new();
    let queue = DeltaFifo::new().known(indexer.store());
    indexer.insert(pod_at("a", "1")).unwrap();
    indexer.insert(pod_at("b", "2")).unwrap();

    queue.accept(Change::Deleted(pod_at("a", "3").into())).unwrap();
    queue
        .accept(Change::Deleted(pod_at("unknown", "4").into()))
        .unwrap();
    queue.accept(Change::SyncAll).unwrap();

    let names: Vec<&str> = queue.list().iter().map(Delta::name).collect();
    assert_eq!(names, ["Deleted", "Sync"]);
}
