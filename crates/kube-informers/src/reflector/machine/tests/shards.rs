//! A shard that moves.

use super::*;

#[test]
fn a_watch_is_left_for_a_list_that_is_not_older() {
    let mut bench = Bench::watching(list_only(), "50");

    assert_eq!(
        bench.tell(Input::ShardMoved),
        [
            "discard",
            "watch ended, listing because the shard has moved",
            "list rv=50+"
        ]
    );
    assert!(bench.machine.is_fetching());
    assert_eq!(bench.machine.attempts(), 0, "it is no failure");
}

#[test]
fn a_list_that_is_underway_is_begun_again() {
    let mut bench = Bench::new(list_only());
    bench.tell(Input::Start);
    bench.tell(Input::PageEnd(&page("7", "more")));

    assert_eq!(
        bench.tell(Input::ShardMoved),
        [
            "discard",
            "list ended, listing because the shard has moved",
            "list rv=- limit=500"
        ]
    );
}

#[test]
fn a_pause_goes_on_and_leads_to_a_list() {
    let mut bench = Bench::watching(list_only(), "50");
    bench.tell(Input::Failed(&broken()));
    let Next::Sleep { until } = bench.machine.next(bench.now) else {
        panic!("it waits");
    };

    assert_eq!(bench.tell(Input::ShardMoved), [""; 0]);
    assert_eq!(bench.machine.next(bench.now), Next::Sleep { until });
    assert_eq!(bench.wake(), ["list rv=50+"]);
}

#[test]
fn an_empty_shard_is_at_rest_until_it_moves() {
    let mut bench = Bench::watching(list_only(), "50");

    assert_eq!(
        bench.tell(Input::ShardEmpty),
        ["discard", "watch ended, resting because the shard is empty"]
    );
    assert_eq!(bench.machine.next(bench.now), Next::Rest);
    assert_eq!(bench.tell(Input::ShardEmpty), [""; 0]);
    assert_eq!(bench.machine.next(bench.now), Next::Rest);
    // What it knew before still counts: nothing older is taken.
    assert_eq!(bench.tell(Input::ShardMoved), ["list rv=50+"]);
}
