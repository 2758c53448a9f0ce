//! Decoded objects: shared by the handlers of an event, freed with it, kept by an optional cache.

use kube_informers::source::SourceOptions;
use std::sync::{Arc, Weak};

use k8s_openapi::api::core::v1::Pod;
use kube_informers::handler::Backlog;
use kube_informers::handler::HandlerOptions;
use kube_informers::lazy::Lazy;
use kube_informers::source::Encoding;
use kube_informers::{Event, Informer, ListWatch, Object, Scope};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod};
use parking_lot::Mutex;

use super::{ENCODINGS, lazy_pods};
use crate::support::*;

/// The decoded objects that handlers have seen, without keeping them alive.
type Seen = Arc<Mutex<Vec<(String, Weak<Pod>)>>>;

fn watcher(seen: &Seen, name: &'static str) -> impl FnMut(Event<Lazy<Pod>>) + Send + 'static {
    let seen = seen.clone();
    move |event| {
        let decoded = event.object().get().unwrap();
        // A second access within the handler.
        assert!(Arc::ptr_eq(&decoded, &event.object().get().unwrap()));
        seen.lock().push((name.to_owned(), Arc::downgrade(&decoded)));
    }
}

fn addresses(seen: &Seen) -> Vec<usize> {
    seen.lock().iter().map(|(_, pod)| pod.as_ptr().addr()).collect()
}

#[tokio::test(start_paused = true)]
async fn handlers_of_one_event_share_one_decoded_object_which_is_freed_with_it() {
    for encoding in ENCODINGS {
        let server = TestServer::new();
        let informer = synced(lazy_pods(&server, encoding)).await;
        let seen = Seen::default();
        for name in ["one", "two", "three"] {
            informer.add_event_handler(watcher(&seen, name)).unwrap();
        }
        server.create(pod("ns", "a"));
        wait_for("all have received it", || seen.lock().len() == 3).await;
        settle().await;

        let shared = addresses(&seen);
        assert!(shared.iter().all(|address| *address == shared[0]), "{shared:?}");
        assert!(seen.lock().iter().all(|(_, pod)| pod.strong_count() == 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_finds_the_object_that_a_fast_one_decoded() {
    let server = TestServer::new();
    let informer = synced(lazy_pods(&server, Encoding::Auto)).await;
    let seen = Seen::default();
    let mut fast = watcher(&seen, "fast");
    informer
        .add_event_handler(move |event: Event<Lazy<Pod>>| fast(event))
        .unwrap();
    let slow = Arc::new(Mutex::new(watcher(&seen, "slow")));
    informer
        .add_event_handler(move |event: Event<Lazy<Pod>>| {
            let slow = slow.clone();
            async move {
                tokio::time::sleep(secs(5)).await;
                (slow.lock())(event);
            }
        })
        .unwrap();

    server.create(pod("ns", "a"));
    pass(secs(1)).await;
    assert_eq!(seen.lock().len(), 1);
    assert_eq!(seen.lock()[0].1.strong_count(), 1, "kept for the slow handler");
    pass(secs(10)).await;
    let shared = addresses(&seen);
    assert_eq!((shared.len(), shared[0]), (2, shared[1]));
    assert_eq!(seen.lock()[0].1.strong_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_removed_handler_releases_the_events_it_has_not_received() {
    let server = TestServer::new();
    let informer = synced(lazy_pods(&server, Encoding::Auto)).await;
    let seen = Seen::default();
    informer.add_event_handler(watcher(&seen, "fast")).unwrap();
    let unread = informer.subscribe();
    for name in ["a", "b", "c"] {
        server.create(pod("ns", name));
    }
    wait_for("they are received", || seen.lock().len() == 3).await;
    settle().await;
    assert!(seen.lock().iter().all(|(_, pod)| pod.strong_count() == 1));
    drop(unread);
    assert!(seen.lock().iter().all(|(_, pod)| pod.strong_count() == 0));
}

#[tokio::test(start_paused = true)]
async fn late_and_coalescing_handlers_and_streams_free_what_they_decode() {
    let server = TestServer::new();
    for name in ["a", "b"] {
        server.create(pod("ns", name));
    }
    let informer = synced(lazy_pods(&server, Encoding::Auto)).await;
    let seen = Seen::default();
    informer.add_event_handler(watcher(&seen, "late")).unwrap();
    let coalescing = HandlerOptions::default().backlog(Backlog::CoalesceByKey);
    informer
        .add_event_handler_with(coalescing, watcher(&seen, "coalescing"))
        .unwrap();
    wait_for("the initial objects are received", || seen.lock().len() == 4).await;
    let mut stream = informer.subscribe();
    let mut streamed = watcher(&seen, "stream");
    server.modify::<Pod>("ns", "a", |pod| *pod = pod.clone().label("x", "1"));
    for _ in 0..3 {
        streamed(stream.next().await.unwrap());
    }
    wait_for("all have received all", || seen.lock().len() == 9).await;
    drop(stream);
    settle().await;
    assert!(seen.lock().iter().all(|(_, pod)| pod.strong_count() == 0));
}

#[tokio::test(start_paused = true)]
async fn outside_of_events_every_access_decodes_unless_a_cache_is_switched_on() {
    let server = TestServer::new();
    for name in ["a", "b", "c"] {
        server.create(pod("ns", name));
    }
    let informer = synced(lazy_pods(&server, Encoding::Auto)).await;
    let object = informer.store().get("ns/a").unwrap();
    assert!(!Arc::ptr_eq(&object.get().unwrap(), &object.get().unwrap()));

    let size = size_of::<Pod>() + 10 * object.bytes().len();
    let source = ListWatch::<Lazy<Pod>>::new(server.client(), Scope::all()).options(SourceOptions {
        decoded_cache: 2 * size + size / 2,
        ..Default::default()
    });
    let informer = synced(Informer::from_list_watch(source)).await;
    let get = |name: &str| informer.store().get(("ns", name)).unwrap().get().unwrap();
    let (a, b) = (get("a"), get("b"));
    assert!(Arc::ptr_eq(&a, &get("a")) && Arc::ptr_eq(&b, &get("b")));
    // The third one evicts the one that was not used for the longest time.
    get("a");
    get("c");
    assert!(Arc::ptr_eq(&a, &get("a")));
    assert!(!Arc::ptr_eq(&b, &get("b")));

    // A new version is never served from the cache of the old one, and nothing is kept for deleted objects.
    server.modify::<Pod>("ns", "a", |pod| *pod = pod.clone().label("x", "1"));
    wait_for("it is updated", || {
        get("a")
            .metadata
            .labels
            .as_ref()
            .is_some_and(|labels| labels.contains_key("x"))
    })
    .await;
    let last = Arc::downgrade(&get("a"));
    server.delete::<Pod>("ns", "a");
    wait_for("it is freed", || last.strong_count() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn stats_report_the_memory_of_objects_keys_indexes_and_backlog() {
    let server = TestServer::new();
    let informer = synced(lazy_pods(&server, Encoding::Auto)).await;
    let empty = informer.stats().memory;
    assert_eq!(empty.objects, Some(0));
    for name in ["a", "b", "c"] {
        server.create(pod("ns", name));
    }
    wait_for("they are cached", || informer.store().len() == 3).await;
    let mut unread = informer.subscribe();
    let cached: usize = informer
        .store()
        .list()
        .iter()
        .map(|object| object.object_bytes().unwrap())
        .sum();
    let full = informer.stats().memory;
    assert_eq!(full.objects, Some(cached));
    assert!(full.keys > empty.keys && full.indexes > empty.indexes && full.backlog > 0);

    // States that only a handler still holds are counted until it drops them.
    server.delete::<Pod>("ns", "a");
    wait_for("it is gone", || informer.store().len() == 2).await;
    let held: Vec<_> = [unread.next().await, unread.next().await].into_iter().collect();
    drop(unread);
    assert_eq!(informer.stats().memory.objects, Some(cached));
    drop(held);
    let remaining = informer.stats().memory.objects.unwrap();
    assert!(remaining < cached && remaining > 0, "{remaining} of {cached}");
    assert_eq!(informer.stats().memory.backlog, 0);

    let typed = synced_pods(&server).await.stats().memory;
    assert_eq!(typed.objects, None);
    assert!(typed.keys > 0);
}
