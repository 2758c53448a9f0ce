//! A `TtlStore` as the target of a reflector.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::ObjectKey;
use kube_informers::quarantine::{BadObject, Problem};
use kube_informers::reflector::{Reflector, ReflectorHandle};
use kube_informers::source::{ListAnswer, ListItem, ListMeta, WatchAnswer, WatchItem};
use kube_informers::target::StoreTarget;
use kube_informers_classic::TtlStore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::{Recorded, api, list_first, pod_at, seconds, text_of, wait_for};

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

/// A list, an event and a list that cannot be read, a deletion of an unreadable object.
fn unreadable(source: &Recorded) {
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
}

#[tokio::test(start_paused = true)]
async fn ttl_store_holds_what_was_listed_or_changed_within_its_time() {
    let source = Recorded::new();
    two_lists(&source);
    let start = Instant::now();
    let store = Arc::new(TtlStore::with_key(uid, seconds(60), move || start.elapsed()));
    let reflector = Reflector::new(source.clone(), StoreTarget(store.clone())).config(list_first());
    let contents = || {
        let mut pods: Vec<String> = store.list().iter().map(|pod| text_of(pod)).collect();
        pods.sort();
        pods
    };

    while_running(reflector, async |handle| {
        handle.synced().await.unwrap();
        wait_for("the changes", || contents() == ["a@4", "c@3"]).await;
        wait_for("the second list", || contents() == ["a@4", "d@8"]).await;
        wait_for("the expiry", || contents().is_empty()).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn unreadable_object_keeps_its_last_state_and_is_deleted_by_name() {
    let source = Recorded::new();
    unreadable(&source);
    let ttl = Arc::new(TtlStore::with_key(uid, seconds(0), || seconds(0)));
    let expiring = Reflector::new(source, StoreTarget(ttl.clone())).config(list_first());
    while_running(expiring, async |_| {
        wait_for("the list", || ttl.keys().len() == 3).await;
        wait_for("the deletion", || ttl.get("uid of b").is_none()).await;
    })
    .await;
}

#[test]
fn a_ttl_store_accepts_any_duration() {
    let durations = [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_secs(1),
        Duration::from_secs(30 * 365 * 24 * 3600),
        Duration::from_secs(i64::MAX as u64),
        Duration::from_secs(u64::MAX),
        Duration::from_millis(u64::MAX),
        Duration::MAX,
    ];
    for ttl in durations {
        for now in durations {
            let store = TtlStore::with_key(ObjectKey::of::<Pod>, ttl, move || now);
            store.insert(Arc::new(pod_at("a", "1")));
            store.insert_for(ttl, Arc::new(pod_at("b", "1")));
            let _ = store.list();
        }
    }
}
