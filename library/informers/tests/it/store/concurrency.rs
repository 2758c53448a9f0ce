//! Concurrent readers, writers and index additions.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kube_informers::sim::Origin;

use super::thing::*;

/// Every object has the round of its list as tag and version. A reader that sees two rounds saw part of a write.
#[test]
fn readers_never_see_part_of_a_list_or_an_inconsistent_index() {
    let mut cache = Cache::new();
    let store = cache.writer.store();
    let index = store
        .add_index("round", |thing: &Thing| thing.tags.clone())
        .unwrap();
    let done = Arc::new(AtomicBool::new(false));

    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (store, index, done) = (store.clone(), index.clone(), done.clone());
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let view = store.view();
                    let snapshot = store.list();
                    for (key, thing) in view.iter() {
                        assert_eq!(view.resource_version(), thing.version.as_deref());
                        assert!(view.get(key).is_some_and(|found| Arc::ptr_eq(found, thing)));
                    }
                    assert!(matches!(view.iter().count(), 0 | 50 | 2000));
                    let mut rounds: Vec<_> = snapshot.iter().map(|thing| &thing.tags).collect();
                    rounds.dedup();
                    assert!(rounds.len() <= 1, "{rounds:?}");
                    assert_eq!(snapshot.len(), snapshot.iter().count());
                    assert!(matches!(index.values().len(), 0 | 1));
                    for value in index.values() {
                        let found = index.get(&value).len();
                        assert!(matches!(found, 0 | 50 | 2000), "{found}");
                    }
                }
            });
        }
        for round in 1..60 {
            // Small and large lists are written in different ways.
            let size = if round % 2 == 0 { 50 } else { 2000 };
            let objects: Vec<String> = (0..size).map(|n| format!("o{n}:u{n}@{round} r{round}")).collect();
            let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
            cache.apply([list(&round.to_string(), &objects)]);
        }
        done.store(true, Ordering::Relaxed);
    });

    assert_eq!(store.len(), 2000);
}

#[test]
fn an_index_added_during_writes_is_complete() {
    for _ in 0..20 {
        let mut cache = Cache::new();
        let first: Vec<String> = (0..500).map(|n| format!("o{n}:u{n}@1 t{}", n % 7)).collect();
        let first: Vec<&str> = first.iter().map(String::as_str).collect();
        cache.apply([list("1", &first)]);
        let store = cache.writer.store();

        let index = std::thread::scope(|scope| {
            let added = scope.spawn(|| store.add_index("tag", |thing: &Thing| thing.tags.clone()));
            for n in 0..300 {
                let text = format!("o{}:u{}@{} t{}", n * 2, n * 2, n + 2, n % 5);
                match n % 3 {
                    0 => cache.apply([deleted(&text)]),
                    _ => cache.apply([updated(&text)]),
                };
            }
            added.join().unwrap().unwrap()
        });

        let mut expected = 0;
        for object in store.list().iter() {
            for tag in &object.tags {
                let found = index.get(tag);
                assert!(found.iter().any(|other| Arc::ptr_eq(other, object)));
                expected += 1;
            }
        }
        let total: usize = index.values().iter().map(|value| index.count(value)).sum();
        assert_eq!(total, expected);
    }
}

#[test]
fn an_index_added_between_preparing_and_applying_covers_the_batch() {
    let mut cache = Cache::new();
    let prepared = cache
        .writer
        .prepare(Origin::default(), vec![added("a:u@1 red"), added("b:v@2 blue")]);

    let index = cache
        .writer
        .store()
        .add_index("tag", |thing: &Thing| thing.tags.clone())
        .unwrap();
    cache.writer.apply(prepared, &mut cache.events);

    assert_eq!(index.count("red") + index.count("blue"), 2);
}

#[test]
fn an_index_function_may_read_the_store() {
    let mut cache = Cache::with("1", &["a:u@1"]);
    let store = cache.writer.store();
    let reader = store.clone();

    // This would deadlock if a lock were held while the function runs.
    let index = store
        .add_index("len", move |_: &Thing| Some(reader.len().to_string()))
        .unwrap();
    cache.apply([added("b:v@2")]);

    assert_eq!(index.count("1"), 2);
}

#[test]
fn writes_during_the_construction_of_an_index_are_included() {
    let cache = Cache::with("4", &["a:u1@1 x", "b:u2@2 x", "c:u3@3 x"]);
    let store = cache.writer.store();
    let cache = Arc::new(Mutex::new(cache));
    let begun = AtomicBool::new(false);

    let index = store
        .add_index("tag", move |thing: &Thing| {
            // The first call happens after the objects to index were collected.
            if !begun.swap(true, Ordering::SeqCst) {
                cache
                    .lock()
                    .unwrap()
                    .apply([added("d:u4@5 z"), updated("c:u3@6 y"), deleted("b:u2@7")]);
            }
            thing.tags.clone()
        })
        .unwrap();

    assert_eq!(index.values(), ["x".into(), "y".into(), "z".into()]);
    let found = |value| {
        index
            .get(value)
            .iter()
            .map(|thing| state(thing))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (found("x"), found("y"), found("z")),
        (vec!["a@1".into()], vec!["c@6".into()], vec!["d@5".into()])
    );
    assert_eq!((index.count("x"), index.keys("x").len()), (1, 1));
}

#[test]
fn an_index_function_runs_once_per_version() {
    let mut cache = Cache::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    cache
        .writer
        .store()
        .add_index("tag", move |thing: &Thing| {
            counted.fetch_add(1, Ordering::SeqCst);
            thing.tags.clone()
        })
        .unwrap();

    cache.apply([list("3", &["a:u1@1", "b:u2@2", "c:u3@3"])]);
    assert_eq!(calls.swap(0, Ordering::SeqCst), 3);
    cache.apply([list("9", &["a:u1@1", "b:u2@8", "c:u3@3"])]);
    assert_eq!(calls.swap(0, Ordering::SeqCst), 1);
    cache.apply([updated("c:u3@10"), deleted("a:u1@11")]);
    assert_eq!(calls.swap(0, Ordering::SeqCst), 1);
}
