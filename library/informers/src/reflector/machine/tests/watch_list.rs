//! Watch-lists: the end marker, and the fallbacks.

use super::*;

#[test]
fn a_watch_list_is_one_request() {
    let mut harness = Harness::new(ReflectorConfig::default());

    assert_eq!(harness.step(Input::Start), ["watch-list rv=-"]);
    assert_eq!(harness.event(EventKind::Added, "90"), ["gather"]);
    assert_eq!(harness.event(EventKind::Added, "10"), ["gather"]);
    assert_eq!(
        harness.step(Input::Bookmark {
            resource_version: Some("95"),
            initial_events_end: true
        }),
        ["commit 95"]
    );
    assert_eq!(harness.event(EventKind::Added, "96"), ["forward"]);
    assert_eq!(harness.machine.last_version(), Some("96"));
}

#[test]
fn f09_versions_of_initial_events_are_never_a_position() {
    let mut harness = Harness::new(ReflectorConfig::default());
    harness.step(Input::Start);
    harness.event(EventKind::Added, "90");
    harness.event(EventKind::Modified, "91");

    assert_eq!(harness.machine.last_version(), None);
    harness.step(Input::Failed(&broken()));
    assert_eq!(
        harness.wake(),
        ["watch-list rv=-"],
        "a break before the end starts over"
    );
}

#[test]
fn f16_watch_list_without_end_marker_falls_back() {
    let mut harness = Harness::new(ReflectorConfig::default());
    harness.step(Input::Start);
    harness.step(Input::Progress { bytes: 0 });
    assert_eq!(harness.timeout(), Duration::from_secs(20));
    harness.advance(Duration::from_secs(18));
    harness.event(EventKind::Added, "3");
    assert_eq!(
        harness.timeout(),
        Duration::from_secs(5),
        "five seconds after the last event"
    );
    harness.advance(Duration::from_secs(5));

    assert_eq!(
        harness.step(Input::DeadlinePassed),
        [
            "discard",
            "watch-list ended, listing instead",
            "list rv=- limit=500"
        ]
    );

    // Watch-lists are disabled for ten minutes, then tried again.
    harness.step(Input::PageEnd(&page("7", "")));
    let expired = ApiError::new(410, "Expired", "");
    assert_eq!(harness.request_after(Input::ErrorEvent(&expired)), "list rv=7+");
    harness.step(Input::PageEnd(&page("7", "")));
    harness.advance(Duration::from_secs(600));
    assert_eq!(
        harness.request_after(Input::ErrorEvent(&expired)),
        "watch-list rv=7"
    );
}

#[test]
fn f16_a_stream_that_ends_before_the_marker_falls_back_at_once() {
    let mut harness = Harness::new(ReflectorConfig::default());
    harness.step(Input::Start);
    harness.event(EventKind::Added, "3");

    assert_eq!(
        harness.step(Input::Ended),
        [
            "discard",
            "watch-list ended, listing instead",
            "list rv=- limit=500"
        ]
    );
}

#[test]
fn f17_a_refused_watch_list_falls_back_and_is_remembered() {
    for error in [
        api(400, "BadRequest"),
        api(422, "Invalid"),
        api(405, "MethodNotAllowed"),
    ] {
        let mut harness = Harness::new(ReflectorConfig::default());
        harness.step(Input::Start);

        assert_eq!(
            harness.step(Input::Failed(&error)),
            [
                "discard",
                "watch-list ended, listing instead",
                "list rv=- limit=500"
            ]
        );
        harness.step(Input::Failed(&api(500, "")));
        assert_eq!(harness.wake(), ["list rv=- limit=500"]);
    }
}

#[test]
fn a_watch_list_is_repeated_after_refused_connections_and_too_many_requests() {
    for (error, third) in [(refused(), "2.5"), (api(429, "TooManyRequests"), "3.2")] {
        let mut harness = Harness::new(ReflectorConfig::default());
        harness.step(Input::Start);
        for pause in ["0.8", "1.6", third] {
            assert_eq!(
                harness.step(Input::Failed(&error)),
                [
                    "discard".to_owned(),
                    format!("watch-list ended, trying again in {pause} s")
                ]
            );
            assert_eq!(harness.wake(), ["watch-list rv=-"]);
        }
    }
}

#[test]
fn f02_a_watch_list_at_a_refused_version_asks_for_the_newest_once_and_then_lists() {
    let mut harness = Harness::watching(ReflectorConfig::default(), "50");
    harness.machine.watch_list = true;
    let expired = ApiError::new(410, "Expired", "");
    assert_eq!(
        harness.request_after(Input::ErrorEvent(&expired)),
        "watch-list rv=50"
    );

    assert_eq!(
        harness.step(Input::Failed(&api(410, "Expired"))),
        [
            "discard",
            "watch-list ended, requesting the newest version instead",
            "watch-list rv=-"
        ]
    );
    assert_eq!(
        harness.step(Input::Failed(&api(410, "Expired"))),
        [
            "discard",
            "watch-list ended, listing instead",
            "list rv=- limit=500"
        ]
    );
}
