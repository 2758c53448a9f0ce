//! A store that is restricted to a shard.

use kube_informers::delta::Delta;
use kube_informers::quarantine::BadObject;
use kube_informers::shard::Shard;
use kube_informers::shard::{ShardField, ShardRange, shard_hash};
use kube_informers::sim::{Applied, Origin, Prepared};

use super::thing::*;

/// The shard that contains `a/…` objects and not `b/…` objects.
fn a_only() -> Shard {
    let hash = shard_hash("a");
    let range = ShardRange::between(hash, u128::from(hash) + 1).unwrap();
    Shard::new(ShardField::Namespace, [range])
}

fn apply<const N: usize>(cache: &mut Cache, deltas: [Delta<Thing>; N]) -> Applied {
    let prepared = Prepared::new(&cache.writer.store(), Origin::default(), deltas.into());
    cache
        .writer
        .apply(prepared.restrict_to(Some(a_only())), &mut cache.events)
}

#[test]
fn objects_outside_the_shard_are_ignored_but_advance_the_version() {
    let mut cache = Cache::new();

    let applied = apply(
        &mut cache,
        [list_with_bad("5", &["a/x:u1@1", "b/x:u2@2"], &["b/y@3"])],
    );
    assert_eq!((applied.added, applied.outside, applied.quarantined), (1, 2, 0));
    let applied = apply(
        &mut cache,
        [
            added("b/z:u3@6"),
            updated("a/x:u1@7"),
            deleted("b/z:u3@8"),
            Delta::Unreadable(bad("b/y@9")),
        ],
    );
    assert_eq!((applied.updated, applied.outside, applied.quarantined), (1, 3, 0));

    assert_eq!(cache.delivered(), ["added a/x", "updated a/x 1 -> 7"]);
    assert_eq!(cache.held(), ["a/x@7"]);
    assert_eq!(cache.version().as_deref(), Some("9"));
}

#[test]
fn eviction_delivers_each_object_once_and_keeps_the_version() {
    let mut cache = Cache::new();
    cache.apply([list_with_bad(
        "5",
        &["a/x:u1@1", "b/x:u2@2", "b/y:u3@3"],
        &["b/z@4"],
    )]);
    cache.delivered();
    let events = &mut cache.events;

    let applied = cache.writer.evict_outside(&a_only(), events);

    assert_eq!((applied.deleted, applied.vanished), (2, 0));
    assert_eq!(
        cache.delivered(),
        ["deleted b/x (left scope)", "deleted b/y (left scope)"]
    );
    assert_eq!(cache.held(), ["a/x@1"]);
    assert!(cache.writer.store().quarantine().is_empty());
    assert_eq!(cache.version().as_deref(), Some("5"));
    let again = cache.writer.evict_outside(&a_only(), &mut cache.events);
    assert_eq!(again, Applied::default());
}

#[test]
fn eviction_removes_objects_of_every_watch() {
    let mut cache = Cache::new();
    let second = Origin {
        member: 1,
        ..Origin::default()
    };
    cache.apply([list("5", &["b/x:u1@1"])]);
    cache.apply_from(second, [list("6", &["b/y:u2@2", "a/y:u3@3"])]);
    cache.delivered();

    cache.writer.evict_outside(&a_only(), &mut cache.events);

    assert_eq!(cache.delivered().len(), 2);
    assert_eq!(cache.held(), ["a/y@3"]);
}

/// A shard by UID, and the UIDs of an object inside and of one outside.
fn by_uid() -> (Shard, &'static str, String) {
    let inside = "11111111-0000-4000-8000-000000000000";
    let half = ShardRange::ALL
        .split(2)
        .into_iter()
        .find(|half| half.contains(shard_hash(inside)));
    let shard = Shard::new(ShardField::Uid, half);
    let mut numbers = (0..100).map(|number| format!("{number:08}-0000-4000-8000-000000000000"));
    let outside = numbers.find(|uid| !shard.covers_hash(shard_hash(uid))).unwrap();
    (shard, inside, outside)
}

/// A cache that holds `a/x` at version 5, inside the shard, after this delta.
fn after(delta: impl FnOnce(&str) -> Delta<Thing>) -> Cache {
    let (shard, inside, outside) = by_uid();
    let mut cache = Cache::new();
    cache.apply([list("5", &[&format!("a/x:{inside}@5")])]);
    cache.delivered();
    let deltas = vec![delta(&format!("a/x:{outside}"))];
    let prepared = Prepared::new(&cache.writer.store(), Origin::default(), deltas);
    cache
        .writer
        .apply(prepared.restrict_to(Some(shard)), &mut cache.events);
    cache
}

#[test]
fn an_object_outside_the_shard_that_reuses_a_name_deletes_the_held_one() {
    type Make = fn(&str) -> Delta<Thing>;
    let deltas: [(&str, Make); 5] = [
        ("a list", |outside| list("9", &[&format!("{outside}@7")])),
        ("an event", |outside| added(&format!("{outside}@7"))),
        ("an event that cannot be read", |outside| {
            Delta::Unreadable(bad(&format!("{outside}@7")))
        }),
        // Its creation was not applied: a requeue drops older changes of a name.
        ("a deletion", |outside| deleted(&format!("{outside}@7"))),
        ("a deletion that cannot be read", |outside| {
            Delta::DeletedUnreadable(bad(&format!("{outside}@7")))
        }),
    ];
    for (name, delta) in deltas {
        let mut cache = after(delta);

        assert_eq!(cache.delivered(), ["deleted a/x (missed)"], "{name}");
        assert!(cache.held().is_empty(), "{name}");
    }
}

#[test]
fn an_object_outside_the_shard_that_reuses_a_name_ends_the_quarantine_of_the_one_inside() {
    let (shard, inside, outside) = by_uid();
    for (version, is_ended) in [(7, true), (3, false)] {
        for event in [added, deleted] {
            let mut cache = Cache::new();
            cache.apply([list_with_bad("5", &[], &[&format!("a/x:{inside}@5")])]);
            let deltas = vec![event(&format!("a/x:{outside}@{version}"))];
            let prepared = Prepared::new(&cache.writer.store(), Origin::default(), deltas);
            cache
                .writer
                .apply(prepared.restrict_to(Some(shard.clone())), &mut cache.events);

            assert_eq!(
                cache.writer.store().quarantine().is_empty(),
                is_ended,
                "@{version}"
            );
            assert!(cache.delivered().is_empty(), "@{version}");
        }
    }
}

#[test]
fn a_nameless_object_is_outside_the_shard_if_its_uid_is() {
    let (shard, inside, outside) = by_uid();
    let nameless = |uid: &str| BadObject {
        key: None,
        ..bad(&format!("a/x:{uid}@7"))
    };
    type Make = fn(BadObject) -> Delta<Thing>;
    let deltas: [Make; 2] = [Delta::Unreadable, Delta::DeletedUnreadable];
    for delta in deltas {
        let mut cache = Cache::new();
        for (uid, counts) in [(inside, (0, 1)), (&*outside, (1, 0))] {
            let deltas = vec![delta(nameless(uid))];
            let prepared = Prepared::new(&cache.writer.store(), Origin::default(), deltas);
            let applied = cache
                .writer
                .apply(prepared.restrict_to(Some(shard.clone())), &mut cache.events);

            assert_eq!((applied.outside, applied.quarantined), counts, "{uid}");
        }
    }
}

#[test]
fn an_old_event_outside_the_shard_does_not_affect_the_held_object_of_that_name() {
    for event in [updated, deleted] {
        let mut cache = after(|outside| event(&format!("{outside}@3")));

        assert!(cache.delivered().is_empty());
        assert_eq!(cache.held(), ["a/x@5"]);
    }
}
