//! Several watches in one store.

use kube_informers::delta::Delta;
use kube_informers::sim::Origin;

use super::thing::*;

fn from(member: usize) -> Origin {
    Origin {
        member,
        ..Origin::default()
    }
}

fn two_members() -> Cache {
    let mut cache = Cache::new();
    cache.apply_from(from(0), [list("5", &["a/x:u1@1", "a/y:u2@2"])]);
    cache.apply_from(from(1), [list("6", &["b/x:u3@3"])]);
    cache.delivered();
    cache
}

#[test]
fn a_list_of_one_watch_does_not_affect_the_others() {
    let mut cache = two_members();

    cache.apply_from(from(0), [list("9", &["a/y:u2@2"])]);

    assert_eq!(cache.delivered(), ["deleted a/x (missed)"]);
    assert_eq!(cache.held(), ["a/y@2", "b/x@3"]);
}

#[test]
fn each_watch_has_its_own_version() {
    let mut cache = two_members();

    cache.apply_from(from(1), [bookmark("20")]);

    let store = cache.writer.store();
    assert_eq!(
        store.resource_versions(),
        [Some("5".to_owned()), Some("20".to_owned())]
    );
    assert_eq!(store.resource_version(), None, "there is none for all of them");
}

#[test]
fn a_resync_of_one_watch_delivers_only_its_objects() {
    let mut cache = two_members();

    cache.apply_from(from(1), [Delta::SyncAll]);

    assert_eq!(cache.delivered(), ["updated b/x (resync)"]);
}

#[test]
fn only_a_list_of_the_same_watch_ends_a_quarantine() {
    let mut cache = two_members();
    cache.apply_from(from(0), [Delta::Unreadable(bad("a/bad:u9@9"))]);

    cache.apply_from(from(1), [list("10", &[])]);
    assert_eq!(cache.writer.store().quarantine().len(), 1);

    cache.apply_from(from(0), [list("11", &[])]);
    assert_eq!(cache.writer.store().quarantine(), []);
}

#[test]
fn an_object_that_moved_to_another_watch_survives_a_late_deletion_from_the_first() {
    let mut cache = two_members();

    // The second watch delivers the object before the first one delivers its deletion.
    cache.apply_from(from(1), [added("a/x:u1@8")]);
    let late = cache.apply_from(from(0), [deleted("a/x:u1@8")]);
    cache.apply_from(from(0), [list("9", &["a/y:u2@2"])]);

    assert_eq!((late.deleted, late.stale_dropped), (0, 1));
    assert_eq!(cache.delivered(), ["updated a/x 1 -> 8"]);
    assert_eq!(cache.held(), ["a/x@8", "a/y@2", "b/x@3"]);
    cache.apply_from(from(1), [deleted("a/x:u1@10")]);
    assert_eq!(cache.delivered(), ["deleted a/x"]);
}
