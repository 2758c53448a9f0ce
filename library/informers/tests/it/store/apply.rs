//! The events that deltas cause.

use kube_informers::Event;
use kube_informers::delta::{Delta, Replacement};
use kube_informers::sim::Origin;

use super::thing::*;

#[test]
fn the_content_of_the_store_decides_what_a_delta_means() {
    let mut cache = Cache::new();

    cache.apply([updated("a:u@5"), added("b:u@6"), added("a:u@7"), updated("b:u@8")]);

    assert_eq!(
        cache.delivered(),
        ["added a", "added b", "updated a 5 -> 7", "updated b 6 -> 8"]
    );
    assert_eq!(cache.held(), ["a@7", "b@8"]);
    assert_eq!(cache.version().as_deref(), Some("8"));
}

#[test]
fn added_is_initial_only_if_the_batch_is() {
    let mut cache = Cache::new();
    let initial = Origin {
        initial: true,
        ..Origin::default()
    };

    cache.apply_from(initial, [list("5", &["a:u@1"])]);
    cache.apply([added("b:u@6")]);

    assert_eq!(cache.delivered(), ["added a (initial)", "added b"]);
}

#[test]
fn f05_missed_deletes_come_before_additions() {
    let mut cache = Cache::with("5", &["a:u1@1", "b:u2@2", "c:u3@3", "d:u4@4"]);

    let applied = cache.apply([list("9", &["n:u6@6", "c:u3@8", "a:u1@1"])]);

    assert_eq!(
        cache.delivered(),
        [
            "deleted b (missed)",
            "deleted d (missed)",
            "added n",
            "updated c 3 -> 8"
        ]
    );
    assert_eq!(cache.held(), ["a@1", "c@8", "n@6"]);
    assert_eq!(cache.version().as_deref(), Some("9"));
    assert_eq!(
        (
            applied.added,
            applied.updated,
            applied.deleted,
            applied.vanished,
            applied.unchanged
        ),
        (1, 1, 2, 2, 1)
    );
}

#[test]
fn f05_an_object_added_and_missing_in_one_batch_causes_two_events() {
    let mut cache = Cache::new();

    cache.apply([added("k:u@5"), list("9", &[])]);

    assert_eq!(cache.delivered(), ["added k", "deleted k (missed)"]);
    assert_eq!(cache.held(), [""; 0]);
}

#[test]
fn f06_a_new_uid_in_a_list_is_a_deletion_followed_by_an_addition() {
    let mut cache = Cache::with("5", &["a:u1@1", "b:u2@2", "c:u3@3"]);

    cache.apply([list("9", &["c:u3@8", "b:new@7"])]);

    assert_eq!(
        cache.delivered(),
        [
            "deleted a (missed)",
            "updated c 3 -> 8",
            "deleted b (missed)",
            "added b"
        ]
    );
}

#[test]
fn f06_a_new_uid_on_a_watch_is_a_deletion_and_an_addition() {
    let mut cache = Cache::with("5", &["a:u1@1"]);

    cache.apply([updated("a:u2@7")]);

    assert!(matches!(&cache.events[0], Event::Deleted { object, .. } if state(object) == "a@1"));
    assert_eq!(cache.delivered(), ["deleted a (missed)", "added a"]);
}

#[test]
fn f06_a_late_deletion_of_the_previous_object_is_ignored() {
    let mut cache = Cache::with("9", &["a:u2@8"]);

    let applied = cache.apply([deleted("a:u1@7")]);

    assert_eq!(applied.stale_dropped, 1);
    assert_eq!(cache.held(), ["a@8"]);
    assert_eq!(cache.version().as_deref(), Some("9"));
}

#[test]
fn f06_the_deletion_of_an_unseen_object_deletes_its_predecessor() {
    let mut cache = Cache::with("9", &["a:u1@8"]);

    cache.apply([deleted("a:u2@12")]);

    assert!(matches!(&cache.events[0], Event::Deleted { object, .. } if state(object) == "a@8"));
    assert_eq!(cache.delivered(), ["deleted a (missed)"]);
    assert_eq!(cache.held(), [""; 0]);
}

#[test]
fn f11_a_repeated_event_is_not_delivered() {
    let mut cache = Cache::with("5", &["a:u@5"]);

    let applied = cache.apply([
        updated("a:u@7"),
        updated("a:u@7"),
        added("a:u@6"),
        updated("a:u@5"),
    ]);

    assert_eq!(cache.delivered(), ["updated a 5 -> 7"]);
    assert_eq!((applied.duplicates, applied.stale_dropped), (1, 2));
    assert_eq!(cache.version().as_deref(), Some("7"));
}

#[test]
fn f11_a_replayed_history_changes_nothing() {
    let mut cache = Cache::new();
    let history = || {
        [
            added("a:u1@1"),
            updated("a:u1@2"),
            deleted("a:u1@3"),
            added("a:u2@4"),
            added("b:u3@5"),
        ]
    };
    cache.apply(history());
    cache.delivered();

    let applied = cache.apply(history());

    assert_eq!(cache.delivered(), [""; 0]);
    assert_eq!(cache.held(), ["a@4", "b@5"]);
    assert_eq!(applied.duplicates + applied.stale_dropped, 5);
}

#[test]
fn f10_an_older_bookmark_is_ignored_and_counted() {
    let mut cache = Cache::with("20", &["a:u@5"]);

    let applied = cache.apply([bookmark("15")]);
    assert_eq!(applied.stale_dropped, 1);
    assert_eq!(cache.version().as_deref(), Some("20"));

    cache.apply([bookmark("25")]);
    assert_eq!(cache.version().as_deref(), Some("25"));
    assert_eq!(cache.delivered(), [""; 0]);
}

#[test]
fn f03_a_list_of_a_restored_server_is_authoritative_despite_lower_versions() {
    let mut cache = Cache::with("1200", &["a:u1@1100", "b:u2@900", "c:u3@1150"]);

    cache.apply([list("1000", &["a:u1@950", "b:u2@900"])]);

    assert_eq!(cache.delivered(), ["deleted c (missed)", "updated a 1100 -> 950"]);
    assert_eq!(cache.version().as_deref(), Some("1000"));

    cache.apply([updated("a:u1@1001")]);
    assert_eq!(cache.delivered(), ["updated a 950 -> 1001"]);
}

#[test]
fn f34_an_unchanged_list_keeps_every_object_and_causes_no_event() {
    let mut cache = Cache::with("5", &["a:u1@1", "b:u2@2"]);
    let before: Vec<_> = cache.writer.store().list().iter().cloned().collect();

    let applied = cache.apply([list("9", &["a:u1@1", "b:u2@2"])]);

    let after = cache.writer.store().list();
    assert!(
        before
            .iter()
            .zip(after.iter())
            .all(|(old, new)| std::sync::Arc::ptr_eq(old, new))
    );
    assert_eq!(applied.unchanged, 2);
    assert_eq!(cache.delivered(), [""; 0]);
    assert_eq!(cache.version().as_deref(), Some("9"));
}

#[test]
fn the_last_of_several_listed_objects_with_one_key_counts() {
    let mut cache = Cache::new();

    let applied = cache.apply([list("9", &["a:u1@1", "b:u2@2", "a:u1@3"])]);

    assert_eq!(cache.delivered(), ["added b", "added a"]);
    assert_eq!(cache.held(), ["a@3", "b@2"]);
    assert_eq!(applied.duplicates, 1);
}

#[test]
fn a_deletion_carries_the_final_object() {
    let mut cache = Cache::with("5", &["a:u@5"]);

    cache.apply([deleted("a:u@9"), deleted("unknown:u@10")]);

    assert!(matches!(&cache.events[0], Event::Deleted { object, .. } if state(object) == "a@9"));
    assert_eq!(cache.delivered(), ["deleted a"]);
    assert_eq!(cache.version().as_deref(), Some("10"));
}

#[test]
fn an_unreadable_deletion_deletes_the_last_good_object() {
    let mut cache = Cache::with("5", &["a:u@5", "b:v@5"]);

    cache.apply([
        Delta::DeletedUnreadable(bad("a:u@9")),
        Delta::DeletedUnreadable(bad("gone:u@10")),
        Delta::DeletedUnreadable(bad("b:other@4")),
    ]);

    assert!(matches!(&cache.events[0], Event::Deleted { object, .. } if state(object) == "a@5"));
    assert_eq!(cache.delivered(), ["deleted a"]);
    assert_eq!(cache.version().as_deref(), Some("10"));
}

#[test]
fn a_resync_delivers_held_objects_again() {
    let mut cache = Cache::with("5", &["a:u@5", "b:u@4"]);

    let applied = cache.apply([deleted("b:u@6"), added("c:u@7"), Delta::SyncAll]);

    assert!(matches!(&cache.events[2], Event::Updated { old, new, .. }
        if std::sync::Arc::ptr_eq(old, new) && state(new) == "a@5"));
    assert_eq!(
        cache.delivered(),
        ["deleted b", "added c", "updated a (resync)", "updated c (resync)"]
    );
    assert_eq!(applied.resynced, 2);
    assert_eq!(cache.version().as_deref(), Some("7"));
}

#[test]
fn an_object_without_a_name_is_counted_and_never_cached() {
    let mut cache = Cache::new();

    let applied = cache.apply([added(":u@5"), list("9", &[":u@6", "a:u@7"])]);

    assert_eq!(cache.delivered(), ["added a"]);
    assert_eq!(applied.quarantined, 2);
    let problem = applied.problems[0].to_string();
    assert_eq!(
        problem,
        "an object without a readable name at version 5 has no name"
    );
    assert!(cache.writer.store().quarantine().is_empty());
}

#[test]
fn objects_without_versions_are_always_applied() {
    let mut cache = Cache::new();

    cache.apply([Delta::ReplacedAll(Replacement {
        shard: None,
        objects: vec![thing("a")],
        unreadable: Vec::new(),
        resource_version: None,
    })]);
    cache.apply([updated("a x"), updated("a x")]);

    assert_eq!(
        cache.delivered(),
        ["added a", "updated a ? -> ?", "updated a ? -> ?"]
    );
    assert_eq!(cache.version(), None);
}

#[test]
fn a_batch_is_judged_by_the_store_at_the_time_it_is_applied() {
    let mut cache = Cache::with("5", &["a:u@5 old"]);
    cache
        .writer
        .store()
        .add_index("tag", |thing: &Thing| thing.tags.clone())
        .unwrap();
    // No index values are computed for `a`, because it is held in this version.
    let late = cache
        .writer
        .prepare(Origin::default(), vec![list("5", &["a:u@5 old"])]);
    cache.apply([updated("a:u@7 new")]);

    cache.writer.apply(late, &mut cache.events);

    assert_eq!(cache.delivered(), ["updated a 5 -> 7", "updated a 7 -> 5"]);
    assert_eq!(cache.writer.store().by_index("tag", "old").unwrap().len(), 1);
    assert_eq!(cache.writer.store().by_index("tag", "new").unwrap().len(), 0);
}

#[test]
fn a_batch_prepared_for_another_store_uses_the_indexes_of_the_store_it_is_applied_to() {
    let other = Cache::new();
    let mut cache = Cache::new();
    cache
        .writer
        .store()
        .add_index("tag", |thing: &Thing| thing.tags.clone())
        .unwrap();

    let prepared = other.writer.prepare(Origin::default(), vec![added("a:u@5 red")]);
    cache.writer.apply(prepared, &mut cache.events);

    assert_eq!(cache.writer.store().by_index("tag", "red").unwrap().len(), 1);
}
