//! An unreadable object affects only itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube_informers::ObjectKey;
use kube_informers::delta::Delta;
use kube_informers::quarantine::Problem;
use kube_informers::source::{Identity, KnownObjects};
use kube_informers::store::{Served, StoreWriter};

use super::thing::*;

fn quarantine(cache: &Cache) -> Vec<(String, Served)> {
    let entries = cache.writer.store().quarantine().into_iter();
    entries
        .map(|entry| (entry.key.to_string(), entry.served))
        .collect()
}

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

#[test]
fn an_unreadable_version_marks_the_last_good_one_stale() {
    let mut cache = Cache::with("5", &["a:u@5"]);

    let applied = cache.apply([Delta::Unreadable(bad("a:u@7")), Delta::Unreadable(bad("new:v@8"))]);

    assert_eq!(applied.quarantined, 2);
    assert_eq!(applied.problems[0].to_string(), bad("a:u@7").to_string());
    assert_eq!(cache.delivered(), [""; 0]);
    assert_eq!(cache.held(), ["a@5"]);
    assert!(cache.writer.store().is_stale(&key("a")));
    assert_eq!(
        quarantine(&cache),
        [
            ("a".to_owned(), Served::OlderVersion),
            ("new".to_owned(), Served::Nothing)
        ]
    );
    // It is in quarantine before the version advances past it.
    assert_eq!(cache.version().as_deref(), Some("8"));
}

#[test]
fn a_good_version_ends_the_quarantine() {
    let mut cache = Cache::with("5", &["a:u@5"]);
    cache.apply([Delta::Unreadable(bad("a:u@7")), Delta::Unreadable(bad("new:v@8"))]);

    let applied = cache.apply([updated("a:u@9"), updated("new:v@10")]);

    assert_eq!(cache.delivered(), ["updated a 5 -> 9", "added new"]);
    assert_eq!(applied.recovered, 2);
    assert_eq!(quarantine(&cache), []);
    assert!(!cache.writer.store().is_stale(&key("a")));
}

#[test]
fn versions_older_than_the_quarantined_one_are_dropped() {
    let mut cache = Cache::with("5", &["a:u@5"]);
    cache.apply([Delta::Unreadable(bad("a:u@7"))]);

    let applied = cache.apply([
        updated("a:u@6"),
        added("a:u@5"),
        deleted("a:u@6"),
        Delta::Unreadable(bad("a:u@6")),
        Delta::Unreadable(bad("a:u@7")),
    ]);

    assert_eq!((applied.stale_dropped, applied.duplicates), (4, 1));
    assert_eq!(cache.delivered(), [""; 0]);
    assert_eq!(quarantine(&cache).len(), 1);
}

#[test]
fn a_deletion_or_a_list_without_the_object_ends_the_quarantine() {
    let mut cache = Cache::with("5", &["a:u@1", "b:v@2", "c:w@3"]);
    cache.apply([
        Delta::Unreadable(bad("a:u@6")),
        Delta::Unreadable(bad("b:v@7")),
        Delta::Unreadable(bad("never:x@8")),
        Delta::Unreadable(bad("other:y@9")),
    ]);

    cache.apply([deleted("a:u@10"), Delta::DeletedUnreadable(bad("never:x@11"))]);
    assert_eq!(quarantine(&cache).len(), 2);

    let applied = cache.apply([list("20", &["c:w@3"])]);
    assert_eq!(quarantine(&cache), []);
    assert_eq!(applied.recovered, 0);
    assert_eq!(cache.delivered(), ["deleted a", "deleted b (missed)"]);
}

#[test]
fn unreadable_objects_of_a_list_are_not_deleted() {
    let mut cache = Cache::with("5", &["a:u@1", "b:v@2", "c:w@3"]);

    let applied = cache.apply([list_with_bad("9", &["c:w@3"], &["a:u@8", "n:x@9"])]);

    assert_eq!(cache.delivered(), ["deleted b (missed)"]);
    assert_eq!(cache.held(), ["a@1", "c@3"]);
    assert_eq!(applied.quarantined, 2);
    assert_eq!(
        quarantine(&cache),
        [
            ("a".to_owned(), Served::OlderVersion),
            ("n".to_owned(), Served::Nothing)
        ]
    );
}

#[test]
fn an_unreadable_object_in_the_held_version_is_ignored() {
    let mut cache = Cache::with("5", &["a:u@1"]);

    let applied = cache.apply([list_with_bad("9", &[], &["a:u@1"])]);

    assert_eq!((applied.quarantined, applied.unchanged), (0, 1));
    assert_eq!(cache.held(), ["a@1"]);
    assert_eq!(quarantine(&cache), []);
}

#[test]
fn a_list_with_the_held_version_makes_it_current() {
    let mut cache = Cache::with("5", &["a:u@1"]);
    cache.apply([Delta::Unreadable(bad("a:u@7"))]);

    // The server was restored to a state before version 7.
    let applied = cache.apply([list("4", &["a:u@1"])]);

    assert_eq!((applied.recovered, applied.unchanged), (1, 1));
    assert!(!cache.writer.store().is_stale(&key("a")));
    assert_eq!(cache.delivered(), [""; 0]);
}

#[test]
fn an_unreadable_object_with_another_uid_deletes_the_held_one() {
    let mut cache = Cache::with("5", &["a:u1@1"]);

    cache.apply([Delta::Unreadable(bad("a:u2@8"))]);

    assert_eq!(cache.delivered(), ["deleted a (missed)"]);
    assert_eq!(quarantine(&cache), [("a".to_owned(), Served::Nothing)]);
    cache.apply([updated("a:u2@9")]);
    assert_eq!(cache.delivered(), ["added a"]);
}

#[test]
fn a_stale_object_is_never_reused_instead_of_decoding() {
    let mut cache = Cache::with("5", &["n/a:u@5"]);
    let store = cache.writer.store();
    let identity = Identity {
        namespace: Some("n".into()),
        name: "a".into(),
        uid: Some("u".into()),
        resource_version: Some("5".into()),
    };
    let unchanged = |identity: &Identity<'_>| store.unchanged(identity).is_some();

    assert!(unchanged(&identity));
    for (what, other) in [
        (
            "version",
            Identity {
                resource_version: Some("6".into()),
                ..identity.clone()
            },
        ),
        (
            "no version",
            Identity {
                resource_version: None,
                ..identity.clone()
            },
        ),
        (
            "uid",
            Identity {
                uid: Some("v".into()),
                ..identity.clone()
            },
        ),
        (
            "no uid",
            Identity {
                uid: None,
                ..identity.clone()
            },
        ),
        (
            "namespace",
            Identity {
                namespace: None,
                ..identity.clone()
            },
        ),
        (
            "name",
            Identity {
                name: "b".into(),
                ..identity.clone()
            },
        ),
    ] {
        assert!(!unchanged(&other), "{what}");
    }

    cache.apply([Delta::Unreadable(bad("n/a:u@7"))]);
    assert!(!unchanged(&identity));
}

#[test]
fn f28_a_panicking_index_function_affects_one_version_of_one_object() {
    let mut cache = Cache::with("5", &["a:u@1", "b:v@2"]);
    let store = cache.writer.store();
    store
        .add_index("tag", |thing: &Thing| {
            assert!(!thing.tags.contains(&"bad".to_owned()), "as wanted");
            thing.tags.clone()
        })
        .unwrap();

    let applied = cache.apply([
        updated("a:u@7 bad"),
        updated("b:v@8 good"),
        added("c:w@9 bad"),
        list("10", &["a:u@7 bad", "b:v@8 good", "c:w@9 bad"]),
    ]);

    assert_eq!(cache.delivered(), ["updated b 2 -> 8"]);
    assert_eq!(cache.held(), ["a@1", "b@8"]);
    assert_eq!(applied.quarantined, 2);
    let problems = store.quarantine();
    let text = "the function of index \"tag\" panicked";
    assert_eq!(problems[0].object.problem, Problem::Index(text.to_owned()));
    assert_eq!(problems[0].object.resource_version.as_deref(), Some("7"));
    assert_eq!(problems[0].served, Served::OlderVersion);
    assert_eq!(problems[1].served, Served::Nothing);

    let applied = cache.apply([updated("a:u@11 fine")]);
    assert_eq!(applied.recovered, 1);
    assert_eq!(store.by_index("tag", "fine").unwrap().len(), 1);
}

#[test]
fn f28_an_object_on_which_a_late_index_panics_stays_without_values() {
    let mut cache = Cache::with("5", &["a:u@1 bad", "b:v@2 good"]);
    let store = cache.writer.store();

    let index = store
        .add_index("tag", |thing: &Thing| {
            assert!(!thing.tags.contains(&"bad".to_owned()), "as wanted");
            thing.tags.clone()
        })
        .unwrap();

    assert_eq!(cache.held(), ["a@1", "b@2"]);
    assert_eq!(index.values(), ["good".into()]);
    assert_eq!(quarantine(&cache), [("a".to_owned(), Served::ThisVersion)]);
    assert!(!store.is_stale(&key("a")));

    // The same version in a list changes nothing; a readable one does.
    cache.apply([list("9", &["a:u@1 bad", "b:v@2 good"])]);
    assert_eq!(quarantine(&cache).len(), 1);
    cache.apply([updated("a:u@10 fine")]);
    assert_eq!(quarantine(&cache), []);
    assert_eq!(index.count("fine"), 1);
}

#[test]
fn f28_an_index_panic_in_a_store_filled_by_hand_is_an_error_and_keeps_the_old_value() {
    let broken = Arc::new(AtomicBool::new(false));
    let mut writer = StoreWriter::with_key(|thing: &Thing| thing.name.clone());
    let store = writer.store();
    let is_broken = broken.clone();
    store
        .add_index("tag", move |thing: &Thing| {
            assert!(!is_broken.load(Ordering::SeqCst), "as wanted");
            thing.tags.clone()
        })
        .unwrap();
    writer.insert(thing("a@1 x")).unwrap();

    broken.store(true, Ordering::SeqCst);
    let error = writer.insert(thing("a@2 y")).unwrap_err();

    assert_eq!(
        error.to_string(),
        "the function of index \"tag\" panicked on the value: it was not stored"
    );
    assert_eq!(store.get("a").unwrap().version.as_deref(), Some("1"));
    assert!(store.is_stale("a"));
    assert_eq!(store.quarantine().len(), 1);

    broken.store(false, Ordering::SeqCst);
    writer.insert(thing("a@3 z")).unwrap();
    assert!(!store.is_stale("a"));
    assert!(store.quarantine().is_empty());
    assert_eq!(store.by_index("tag", "z").unwrap().len(), 1);
}

#[test]
fn f03_versions_reused_by_a_restored_server_are_new_states() {
    let mut cache = Cache::with("9", &["a:u@9"]);

    // Restored to version 3, where the object cannot be read, and then written to again up to version 9.
    cache.apply([list_with_bad("3", &[], &["a:u@3"])]);
    assert!(cache.writer.store().is_stale(&key("a")));
    cache.apply([Delta::Unreadable(bad("a:u@9"))]);
    cache.apply([list_with_bad("9", &[], &["a:u@9"])]);
    assert_eq!(
        quarantine(&cache).len(),
        1,
        "it is not the version 9 that was read"
    );

    cache.apply([updated("a:u@9 other")]);
    assert_eq!(cache.delivered(), ["updated a 9 -> 9"]);
    assert_eq!(cache.writer.store().get(&key("a")).unwrap().tags, ["other"]);
    assert_eq!(quarantine(&cache), []);
}

#[test]
fn f03_after_a_restore_the_held_version_does_not_block_the_next_one() {
    let mut cache = Cache::with("9", &["a:u@9"]);

    cache.apply([list_with_bad("3", &[], &["a:u@3"]), updated("a:u@4")]);

    assert_eq!(cache.delivered(), ["updated a 9 -> 4"]);
    assert!(!cache.writer.store().is_stale(&key("a")));
}
