//! client-go's `mutation_cache_test.go`.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::lazy::Lazy;
use kube_informers::store::StoreWriter;
use kube_informers::{Cause, Event, Informer, Object};
use kube_informers_classic::{Overlay, OverlayOptions};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod};
use tokio::time::{Instant, advance};

use crate::support::synced;
use crate::thing::{Thing, state, thing};

struct World {
    writer: StoreWriter<Thing>,
    overlay: Overlay<Thing>,
}

fn world(options: OverlayOptions) -> World {
    let writer = StoreWriter::new();
    let store = writer.store();
    store
        .add_index("tag", |thing: &Thing| thing.tags.clone())
        .unwrap();
    let start = Instant::now();
    World {
        writer,
        overlay: Overlay::new(store, options, move || start.elapsed()),
    }
}

fn with_adds() -> OverlayOptions {
    OverlayOptions {
        include_adds: true,
        ..OverlayOptions::default()
    }
}

impl World {
    /// The watch delivers an object to the store and the handlers.
    fn watch(&mut self, text: &str) {
        self.writer.insert(thing(text)).unwrap();
        self.overlay.observe(&added(text));
    }

    fn seen(&self, key: &str) -> Option<String> {
        let object = self.overlay.get(key);
        object.map(|object| state(&object))
    }

    fn by_tag(&self, tag: &str) -> Vec<String> {
        let objects = self.overlay.by_index("tag", tag).unwrap();
        objects.iter().map(|object| state(object)).collect()
    }

    fn remove(&mut self, key: &str) {
        self.writer
            .remove(&key.parse::<kube_informers::ObjectKey>().unwrap());
    }
}

fn added(text: &str) -> Event<Thing> {
    Event::Added {
        object: thing(text),
        initial: false,
    }
}

fn deleted(text: &str) -> Event<Thing> {
    Event::Deleted {
        object: thing(text),
        cause: Cause::Observed,
    }
}

/// Upstream: TestMutationCacheOnAddOrUpdate
#[tokio::test(start_paused = true)]
async fn an_event_clears_an_own_write_unless_it_is_older() {
    for (event, expected) in [("2", "pod@1"), ("3", "pod@1"), ("1", "pod@2")] {
        let mut world = world(OverlayOptions::default());
        world.overlay.record(thing("pod:uid-1@2")).unwrap();

        world.overlay.observe(&added(&format!("pod:uid-1@{event}")));

        // Older than the own write, to distinguish the two.
        world.writer.insert(thing("pod:uid-1@1")).unwrap();
        assert_eq!(world.seen("pod").as_deref(), Some(expected), "event at {event}");
    }
}

/// Upstream: TestMutationCacheOnDelete
#[tokio::test(start_paused = true)]
async fn a_deletion_clears_an_own_write_of_the_same_uid_or_an_older_version() {
    for (event, expected) in [
        ("pod:uid-1@1", None),
        ("pod:uid-2@3", None),
        ("pod:uid-other@1", Some("pod@3")),
    ] {
        let mut world = world(with_adds());
        world.writer.insert(thing("pod:uid-1@2")).unwrap();
        world.overlay.record(thing("pod:uid-1@3")).unwrap();

        world.remove("pod");
        world.overlay.observe(&deleted(event));

        assert_eq!(world.seen("pod").as_deref(), expected, "{event}");
    }
}

/// Upstream: TestMutationCacheUpdateConcurrentDelete
#[tokio::test(start_paused = true)]
async fn a_write_recorded_after_its_deletion_was_observed_stays_invisible() {
    let mut world = world(with_adds());
    world.watch("pod:uid-1@1");

    // Another client deletes the object before the response to the update arrives.
    world.watch("pod:uid-1@2");
    world.remove("pod");
    world.overlay.observe(&deleted("pod:uid-1@2"));
    world.overlay.record(thing("pod:uid-1@2")).unwrap();

    assert_eq!(world.seen("pod"), None);
    assert_eq!(world.overlay.len(), 1, "the memory of the deletion");
}

/// Upstream: TestMutationCacheUpdateConcurrentRecreate
#[tokio::test(start_paused = true)]
async fn a_write_recorded_after_the_object_was_replaced_does_not_hide_the_new_one() {
    let mut world = world(with_adds());
    world.watch("pod:uid-1@1");

    world.watch("pod:uid-1@2");
    world.remove("pod");
    world.overlay.observe(&deleted("pod:uid-1@2"));
    world.watch("pod:uid-2@3");
    world.overlay.record(thing("pod:uid-1@2")).unwrap();

    assert_eq!(world.seen("pod").as_deref(), Some("pod@3"));
    assert_eq!(world.overlay.len(), 0);
}

/// Upstream: TestMutationCacheOnDeleteClearsStaleMutation
#[tokio::test(start_paused = true)]
async fn an_own_object_is_found_by_index_until_its_deletion_is_observed() {
    let world = world(with_adds());
    world.overlay.record(thing("pod:uid-1@2 pod")).unwrap();
    assert_eq!(world.by_tag("pod"), ["pod@2"]);

    world.overlay.observe(&deleted("pod:uid-1@1 pod"));

    assert_eq!(world.by_tag("pod"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_own_write_is_visible_until_the_store_catches_up() {
    let mut world = world(OverlayOptions::default());
    world.watch("pod:u@9");
    world.overlay.record(thing("pod:u@10")).unwrap();
    world.overlay.record(thing("pod:u@9")).unwrap();

    assert_eq!(world.seen("pod").as_deref(), Some("pod@10"));
    // No event is needed: reading notices it.
    world.writer.insert(thing("pod:u@11")).unwrap();
    assert_eq!(world.seen("pod").as_deref(), Some("pod@11"));
    assert!(world.overlay.is_empty());
}

#[tokio::test(start_paused = true)]
async fn objects_missing_from_the_store_are_visible_only_with_include_adds() {
    for (options, expected) in [(OverlayOptions::default(), None), (with_adds(), Some("new@5"))] {
        let world = world(options);

        world.overlay.record(thing("new:u@5 x")).unwrap();

        assert_eq!(world.seen("new").as_deref(), expected);
        assert_eq!(world.by_tag("x").first().map(String::as_str), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_takes_own_writes_into_account() {
    let mut world = world(OverlayOptions::default());
    for text in ["a:u1@1 old", "b:u2@2 old", "c:u3@3 old", "d:u4@4 new"] {
        world.watch(text);
    }

    world.overlay.record(thing("a:u1@5 new")).unwrap();
    world.overlay.record(thing("b:u2@6 old")).unwrap();
    world.writer.insert(thing("c:u3@9 old")).unwrap();
    world.overlay.record(thing("c:u3@7 new")).unwrap();

    assert_eq!(world.by_tag("old"), ["b@6", "c@9"]);
    assert_eq!(world.by_tag("new"), ["d@4", "a@5"]);
    assert!(world.overlay.by_index("unknown", "x").is_err());
}

#[tokio::test(start_paused = true)]
async fn recorded_writes_are_limited_in_number_and_time() {
    let world = world(OverlayOptions {
        capacity: 2,
        ttl: Duration::from_secs(10),
        include_adds: true,
    });
    world.overlay.record(thing("a:u1@1")).unwrap();
    world.overlay.record(thing("b:u2@2")).unwrap();
    assert!(world.seen("a").is_some());

    // `b` was used least recently.
    world.overlay.record(thing("c:u3@3")).unwrap();
    assert_eq!(world.overlay.len(), 2);
    assert_eq!(
        (world.seen("a").is_some(), world.seen("b").is_some()),
        (true, false)
    );

    advance(Duration::from_secs(10)).await;
    assert!(world.seen("a").is_some());
    advance(Duration::from_nanos(1)).await;
    assert_eq!((world.seen("a"), world.by_tag("x")), (None, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_not_a_number_is_rejected() {
    let world = world(with_adds());

    assert!(world.overlay.record(thing("a:u@opaque")).is_err());
    assert!(world.overlay.record(thing("a:u")).is_err());
    assert!(world.overlay.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_left_the_scope_is_not_remembered_as_deleted() {
    let world = world(with_adds());
    world.overlay.record(thing("a:u@5")).unwrap();

    world.overlay.observe(&Event::Deleted {
        object: thing("a:u@5"),
        cause: Cause::LeftScope,
    });
    assert_eq!(world.seen("a"), None);
    world.overlay.record(Arc::new((*thing("a:u@6")).clone())).unwrap();

    assert_eq!(world.seen("a").as_deref(), Some("a@6"));
}

#[tokio::test(start_paused = true)]
async fn a_packed_object_can_be_overlaid() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    let informer = synced(Informer::<Lazy<Pod>>::all(server.client())).await;
    let overlay = Overlay::new(informer.store(), OverlayOptions::default(), || Duration::ZERO);
    let stored: Pod = server.modify::<Pod>("ns", "a", |pod| *pod = pod.clone().label("x", "1"));
    let written = Lazy::pack(&stored).unwrap();
    assert_eq!(written.get().unwrap().metadata, stored.metadata);
    overlay.record(written).unwrap();
    assert_eq!(overlay.get("ns/a").unwrap().object_label("x"), Some("1"));
}
