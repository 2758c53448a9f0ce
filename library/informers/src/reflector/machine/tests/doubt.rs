//! Doubts about a watch that looks healthy, silent watches, and lists that an audit requests.

use super::*;
use crate::reflector::oversight::Doubt;

fn bookmark(version: &str) -> Input<'_> {
    Input::Bookmark {
        resource_version: Some(version),
        initial_events_end: false,
    }
}

#[test]
fn an_interrupted_watch_is_doubted_once_the_server_accepts_it() {
    let mut harness = Harness::watching(list_only(), "10");
    harness.step(Input::Progress { bytes: 0 });
    assert_eq!(
        harness.machine.take_doubt(),
        None,
        "the version is that of a list"
    );

    harness.step(Input::Failed(&broken()));
    assert_eq!(harness.machine.take_doubt(), None, "there is no server to ask");
    harness.wake();
    harness.step(Input::Progress { bytes: 0 });
    assert_eq!(harness.machine.take_doubt(), Some(Doubt::Reconnected));
    harness.step(Input::Progress { bytes: 0 });
    assert_eq!(harness.machine.take_doubt(), None);
}

#[test]
fn a_watch_that_ends_at_its_timeout_is_not_doubted_and_an_earlier_end_is() {
    for (lasted, expected) in [(299, None), (120, Some(Doubt::Reconnected))] {
        let mut harness = Harness::watching(list_only(), "10");
        harness.step(Input::Progress { bytes: 0 });
        harness.advance(Duration::from_secs(lasted));
        assert_eq!(
            harness.step(Input::Ended),
            ["watch ended, watching from the last version", "watch rv=10"]
        );
        harness.step(Input::Progress { bytes: 0 });
        assert_eq!(harness.machine.take_doubt(), expected, "after {lasted} s");
    }
}

#[test]
fn a_run_of_older_events_is_doubted_and_a_single_one_is_not() {
    let mut harness = Harness::watching(list_only(), "10");
    for version in ["7", "8"] {
        harness.event(EventKind::Modified, version);
    }
    assert_eq!(harness.machine.take_doubt(), None);
    assert!(harness.machine.receives_older_events());
    harness.event(EventKind::Modified, "9");
    assert_eq!(harness.machine.take_doubt(), Some(Doubt::OlderEvents));

    harness.event(EventKind::Modified, "11");
    assert!(!harness.machine.receives_older_events());
    harness.step(bookmark("5"));
    assert_eq!(
        harness.machine.take_doubt(),
        Some(Doubt::OlderEvents),
        "a bookmark is no repetition"
    );
}

#[test]
fn a_rewind_lists_the_newest_version_and_accepts_a_lower_one() {
    let mut harness = Harness::watching(ReflectorConfig::default(), "1200");
    assert_eq!(
        harness.step(Input::RelistRequested(RelistReason::Rewind)),
        [
            "watch ended, listing again because the server's history was replaced",
            "list rv=- limit=500"
        ]
    );
    assert_eq!(
        harness.step(Input::PageEnd(&page("1000", ""))),
        ["commit 1000", "watch rv=1000"]
    );
    assert_eq!(harness.machine.rewinds(), 1);
}

/// The list is read from the server's storage: its watch cache is what lost the event.
#[test]
fn drift_lists_exactly_the_last_version() {
    let mut harness = Harness::watching(ReflectorConfig::default(), "10");
    harness.event(EventKind::Modified, "12");
    let actions = harness.step(Input::RelistRequested(RelistReason::Drift));
    assert_eq!(actions[1], "list rv=12= limit=500");

    // A failed attempt is repeated in the same way, an expired version is replaced by the newest.
    harness.step(Input::Failed(&broken()));
    assert_eq!(harness.wake(), ["list rv=12= limit=500"]);
    let actions = harness.step(Input::Failed(&api(410, "Expired")));
    assert_eq!(actions[2], "list rv=- limit=500");
    harness.step(Input::PageEnd(&page("14", "")));
    assert_eq!(harness.machine.rewinds(), 0);
    assert_eq!(harness.machine.last_version(), Some("14"));
}

#[test]
fn f15_a_watch_without_bookmarks_reconnects_after_90_s_and_that_is_no_failure() {
    let mut harness = Harness::watching(list_only(), "10");
    harness.step(Input::Progress { bytes: 0 });
    harness.advance(Duration::from_secs(90));
    assert_eq!(
        harness.step(Input::DeadlinePassed),
        ["watch ended, watching from the last version", "watch rv=10"]
    );
    assert_eq!(harness.machine.attempts(), 0);

    // A server that does not even send headers is failing.
    harness.advance(Duration::from_secs(90));
    assert_eq!(
        harness.step(Input::DeadlinePassed),
        ["watch ended, watching from the last version in 0.8 s"]
    );
}

#[test]
fn f15_a_watch_ends_5_s_after_its_timeout_whatever_it_sends() {
    let mut harness = Harness::watching(list_only(), "10");
    for _ in 0..30 {
        harness.step(Input::Progress { bytes: 0 });
        harness.advance(Duration::from_secs(10));
    }
    assert_eq!(harness.timeout(), Duration::from_secs(5));

    // While the target is full nothing is read, so that the server is not late.
    harness.advance(Duration::from_secs(600));
    harness.step(Input::TargetWasFull);
    assert_eq!(harness.timeout(), Duration::from_secs(90));
}
