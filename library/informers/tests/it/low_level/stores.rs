//! A reflector that fills a store.

use kube_informers::reflector::ReflectorConfig;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use kube_informers::delta::Replacement;
use kube_informers::quarantine::{BadObject, Problem};
use kube_informers::reflector::{Reflector, ReflectorHandle};
use kube_informers::source::{ListAnswer, ListItem, ListMeta, WatchAnswer, WatchItem};
use kube_informers::store::StoreWriter;
use kube_informers::target::{ReflectorStore, StoreTarget, TargetError};
use kube_informers::{Object, ObjectKey, wait_for_sync_within};
use tokio_util::sync::CancellationToken;

use super::contents;
use crate::support::{Recorded, api, list_first, pod_at, refused, seconds, wait_for, within};

/// Runs a reflector during a test, and stops it.
async fn while_running<T>(reflector: Reflector<Pod>, test: impl AsyncFnOnce(&ReflectorHandle) -> T) -> T {
    let handle = reflector.handle();
    let stop = CancellationToken::new();
    let testing = async {
        let result = test(&handle).await;
        stop.cancel();
        result
    };
    let ((), result) = tokio::join!(reflector.run(stop.clone()), testing);
    result
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

fn bad(name: &str, version: &str) -> BadObject {
    BadObject {
        key: Some(ObjectKey::cluster(name)),
        uid: None,
        resource_version: Some(version.to_owned()),
        problem: Problem::Decode("spec: wrong type".to_owned()),
        size: 10,
    }
}

/// A list, a watch that expires after some changes, a second list, a bookmark.
fn two_lists(source: &Recorded) {
    source.on_list(ListAnswer::page([pod_at("a", "1"), pod_at("b", "2")], "2"));
    source.on_watch(
        WatchAnswer::new()
            .after(seconds(1))
            .added(pod_at("c", "3"))
            .modified(pod_at("a", "4"))
            .deleted(pod_at("b", "5"))
            .after(seconds(1))
            .failure(api(410, "Expired")),
    );
    source.on_list(ListAnswer::page([pod_at("a", "4"), pod_at("d", "8")], "9"));
    source.on_watch(WatchAnswer::new().after(seconds(1)).bookmark("12").hang());
}

#[tokio::test(start_paused = true)]
async fn store_of_a_reflector_equals_the_collection_after_changes_and_relists() {
    let source = Recorded::new();
    two_lists(&source);
    let (store, reflector) = Reflector::with_store(source.clone());

    while_running(reflector.config(list_first()), async |handle| {
        handle.synced_within(seconds(10)).await.unwrap();
        wait_for("the changes", || contents(&store) == ["a@4", "c@3"]).await;
        wait_for("the second list", || contents(&store) == ["a@4", "d@8"]).await;
        wait_for("the bookmark", || {
            store.resource_version().as_deref() == Some("12")
        })
        .await;
        assert_eq!(store.index_names(), ["namespace"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn store_writer_under_its_own_keys_equals_the_collection_after_changes_and_relists() {
    let source = Recorded::new();
    two_lists(&source);
    let writer = StoreWriter::with_key(uid);
    let store = writer.store();
    store
        .add_index("first letter", |pod: &Pod| [pod.object_name()[..1].to_owned()])
        .unwrap();
    let reflector = Reflector::new(source.clone(), writer).config(list_first());

    while_running(reflector, async |handle| {
        handle.synced().await.unwrap();
        assert_eq!(contents(&store), ["a@1", "b@2"]);
        assert_eq!(store.resource_version().as_deref(), Some("2"));
        wait_for("the changes", || contents(&store) == ["a@4", "c@3"]).await;
        assert_eq!(store.resource_version().as_deref(), Some("5"));
        wait_for("the second list", || contents(&store) == ["a@4", "d@8"]).await;
        assert!(store.get("uid of d").is_some());
        assert_eq!(store.by_index("first letter", "d").unwrap().len(), 1);
        assert!(store.by_index("first letter", "c").unwrap().is_empty());
        wait_for("the bookmark", || {
            store.resource_version().as_deref() == Some("12")
        })
        .await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn unreadable_object_keeps_its_last_state_in_every_store_and_is_deleted_by_name() {
    let answers = |source: &Recorded| {
        source.on_list(ListAnswer::page([pod_at("a", "1"), pod_at("b", "2")], "2"));
        let a = bad("a", "3");
        source.on_watch(
            WatchAnswer::new()
                .item(WatchItem::Unreadable {
                    deleted: false,
                    object: a,
                })
                .after(seconds(1))
                .failure(api(410, "Expired")),
        );
        // Both are unreadable now. `c` was never readable.
        let end = ListMeta {
            resource_version: Some("6".to_owned()),
            ..ListMeta::default()
        };
        let list = ["a", "b", "c"].iter().fold(ListAnswer::new(), |list, name| {
            list.item(ListItem::Unreadable(bad(name, "6")))
        });
        source.on_list(list.objects([pod_at("d", "6")]).end(end));
        let b = bad("b", "7");
        let gone = WatchItem::Unreadable {
            deleted: true,
            object: b,
        };
        source.on_watch(WatchAnswer::new().after(seconds(1)).item(gone).hang());
    };

    let source = Recorded::new();
    answers(&source);
    let writer = StoreWriter::with_key(uid);
    let store = writer.store();
    let by_uid = Reflector::new(source, writer).config(list_first());
    while_running(by_uid, async |_| {
        wait_for("the event", || store.is_stale("uid of a")).await;
        wait_for("the list", || contents(&store) == ["a@1", "b@2", "d@6"]).await;
        assert!(store.is_stale("uid of b"));
        wait_for("the deletion", || contents(&store) == ["a@1", "d@6"]).await;
    })
    .await;

    let source = Recorded::new();
    answers(&source);
    let writer = StoreWriter::new();
    let store = writer.store();
    let by_name = Reflector::new(source, writer).config(list_first());
    while_running(by_name, async |_| {
        wait_for("the list", || contents(&store) == ["a@1", "b@2", "d@6"]).await;
        let mut quarantined: Vec<String> = store
            .quarantine()
            .iter()
            .map(|entry| entry.key.to_string())
            .collect();
        quarantined.sort();
        assert_eq!(quarantined, ["a", "b", "c"]);
        wait_for("the deletion", || contents(&store) == ["a@1", "d@6"]).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn panicking_key_and_index_functions_cost_one_object() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page(
        [pod_at("a", "1"), pod_at("no key", "2"), pod_at("no index", "2")],
        "2",
    ));
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("no key", "3"))
            .added(pod_at("no index", "4"))
            .modified(pod_at("a", "5"))
            .hang(),
    );
    let writer = StoreWriter::with_key(|pod: &Pod| {
        assert_ne!(pod.object_name(), "no key");
        uid(pod)
    });
    let store = writer.store();
    let index = store.add_index("any", |pod: &Pod| {
        assert_ne!(pod.object_name(), "no index");
        ["value".to_owned()]
    });
    let reflector = Reflector::new(source.clone(), writer).config(list_first());

    while_running(reflector, async |handle| {
        wait_for("the last event", || contents(&store) == ["a@5"]).await;
        assert_eq!(index.unwrap().get("value").len(), 1);
        assert_eq!(handle.stats().lists, 1);
        assert_eq!(handle.stats().target_errors, 2);
        assert_eq!(source.requests().len(), 2);
    })
    .await;
}

/// A user's store: names and versions.
#[derive(Default)]
struct Versions {
    pods: Mutex<BTreeMap<ObjectKey, String>>,
    bookmarks: Mutex<Vec<String>>,
    resyncs: Mutex<u32>,
}

impl ReflectorStore<Pod> for Versions {
    fn put(&self, pod: Arc<Pod>) -> Result<(), TargetError> {
        assert_ne!(pod.object_name(), "panics");
        if pod.object_name() == "fails" {
            return Err("not this one".into());
        }
        let version = pod.object_version().unwrap_or_default().to_owned();
        self.pods.lock().unwrap().insert(ObjectKey::of(&*pod), version);
        Ok(())
    }

    fn delete(&self, key: &ObjectKey, _last: Option<&Arc<Pod>>) -> Result<(), TargetError> {
        self.pods.lock().unwrap().remove(key);
        Ok(())
    }

    fn replace_all(&self, list: Replacement<Pod>) -> Result<(), TargetError> {
        self.pods.lock().unwrap().clear();
        for pod in list.objects {
            self.put(pod)?;
        }
        Ok(())
    }

    fn resync(&self) -> Result<(), TargetError> {
        *self.resyncs.lock().unwrap() += 1;
        Ok(())
    }

    fn bookmark(&self, resource_version: &str) {
        self.bookmarks.lock().unwrap().push(resource_version.to_owned());
    }
}

#[tokio::test(start_paused = true)]
async fn errors_and_panics_of_a_users_store_cost_one_change() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([pod_at("a", "1")], "1"));
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("panics", "2"))
            .added(pod_at("fails", "3"))
            .added(pod_at("b", "4"))
            .deleted(pod_at("a", "5"))
            .bookmark("6")
            .hang(),
    );
    let store = Arc::new(Versions::default());
    let reflector = Reflector::new(source, StoreTarget(store.clone())).config(ReflectorConfig {
        resync: Some(seconds(60)),
        ..list_first()
    });

    while_running(reflector, async |handle| {
        wait_for("a resync", || *store.resyncs.lock().unwrap() == 1).await;
        let pods = store.pods.lock().unwrap().clone();
        assert_eq!(pods, BTreeMap::from([(ObjectKey::cluster("b"), "4".to_owned())]));
        assert_eq!(*store.bookmarks.lock().unwrap(), ["6"]);
        assert_eq!(handle.stats().target_errors, 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn rejected_list_of_a_users_store_is_requested_again() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([pod_at("panics", "1")], "1"));
    source.on_list(ListAnswer::page([pod_at("a", "2")], "2"));
    let store = Arc::new(Versions::default());
    let reflector = Reflector::new(source.clone(), StoreTarget(store.clone())).config(list_first());

    while_running(reflector, async |handle| {
        handle.synced().await.unwrap();
        assert_eq!(store.pods.lock().unwrap().len(), 1);
        let requests = source.seen(3).await;
        assert_eq!(requests[1..], ["list rv=1+", "watch rv=2"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn handle_of_a_reflector_tells_why_it_is_not_synced() {
    let source = Recorded::new();
    for _ in 0..100 {
        source.on_list(ListAnswer::error(refused()));
    }
    let (_store, reflector) = Reflector::with_store(source);

    while_running(reflector.config(list_first()), async |handle| {
        assert!(!handle.has_synced());
        let error = handle.synced_within(seconds(30)).await.unwrap_err().to_string();
        assert!(
            error.starts_with("the reflector of pods is not synced after 30s: "),
            "{error}"
        );
        assert!(error.contains("connection refused"), "{error}");
        let error = wait_for_sync_within(handle, seconds(5))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("connection refused"), "{error}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_reflector_that_ends_is_an_error() {
    let source = Recorded::new();
    source.on_list(ListAnswer::silence());
    let (_store, reflector) = Reflector::with_store(source.clone());
    let handle = reflector.handle();
    drop(reflector);
    let error = within(seconds(1), handle.synced()).await.unwrap_err();
    assert!(error.to_string().contains("build a new one"), "{error}");

    let (_store, reflector) = Reflector::with_store(source);
    let handle = reflector.handle();
    let running = reflector.run(CancellationToken::new());
    tokio::time::timeout(seconds(1), running).await.unwrap_err();
    within(seconds(1), handle.synced()).await.unwrap_err();
}
