//! A shard that moves.

use super::*;

#[test]
fn a_moved_shard_replaces_the_watch_by_a_list_that_is_not_older() {
    let mut harness = Harness::watching(list_only(), "50");

    assert_eq!(
        harness.step(Input::ShardMoved),
        [
            "discard",
            "watch ended, listing because the shard has moved",
            "list rv=50+"
        ]
    );
    assert!(harness.machine.is_fetching());
    assert_eq!(harness.machine.attempts(), 0, "it is no failure");
}

#[test]
fn a_moved_shard_restarts_a_list_in_flight() {
    let mut harness = Harness::new(list_only());
    harness.step(Input::Start);
    harness.step(Input::PageEnd(&page("7", "more")));

    assert_eq!(
        harness.step(Input::ShardMoved),
        [
            "discard",
            "list ended, listing because the shard has moved",
            "list rv=- limit=500"
        ]
    );
}

#[test]
fn a_moved_shard_does_not_shorten_a_pause() {
    let mut harness = Harness::watching(list_only(), "50");
    harness.step(Input::Failed(&broken()));
    let Next::Sleep { until } = harness.machine.next(harness.now) else {
        panic!("it waits");
    };

    assert_eq!(harness.step(Input::ShardMoved), [""; 0]);
    assert_eq!(harness.machine.next(harness.now), Next::Sleep { until });
    assert_eq!(harness.wake(), ["list rv=50+"]);
}

#[test]
fn an_empty_shard_rests_until_it_moves() {
    let mut harness = Harness::watching(list_only(), "50");

    assert_eq!(
        harness.step(Input::ShardEmpty),
        ["discard", "watch ended, resting because the shard is empty"]
    );
    assert_eq!(harness.machine.next(harness.now), Next::Rest);
    assert_eq!(harness.step(Input::ShardEmpty), [""; 0]);
    assert_eq!(harness.machine.next(harness.now), Next::Rest);
    // The last version still applies: an older list is not accepted.
    assert_eq!(harness.step(Input::ShardMoved), ["list rv=50+"]);
}

/// A Retry-After, for example, which is not about the shard.
#[test]
fn an_empty_shard_does_not_end_a_pause() {
    let mut harness = Harness::watching(list_only(), "50");
    harness.step(Input::Failed(&broken()));
    let Next::Sleep { until } = harness.machine.next(harness.now) else {
        panic!("it waits");
    };

    harness.step(Input::ShardEmpty);
    harness.step(Input::ShardEmpty);
    assert_eq!(harness.machine.next(harness.now), Next::Rest);
    assert_eq!(harness.step(Input::ShardMoved), [""; 0]);
    assert_eq!(harness.machine.next(harness.now), Next::Sleep { until });
    assert_eq!(harness.wake(), ["list rv=50+"]);

    harness.step(Input::Failed(&broken()));
    harness.step(Input::ShardEmpty);
    harness.now += std::time::Duration::from_secs(600);
    assert_eq!(harness.step(Input::ShardMoved), ["list rv=50+"]);
}
