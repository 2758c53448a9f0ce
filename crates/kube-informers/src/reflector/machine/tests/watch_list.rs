//! Watch-lists: the end marker, and the ways out.

use super::*;

#[test]
fn a_watch_list_is_one_request() {
    let mut bench = Bench::new(ReflectorConfig::default());

    assert_eq!(bench.tell(Input::Start), ["watch-list rv=-"]);
    assert_eq!(bench.event(EventKind::Added, "90"), Disposition::Gather);
    assert_eq!(bench.event(EventKind::Added, "10"), Disposition::Gather);
    assert_eq!(
        bench.tell(Input::Bookmark {
            resource_version: Some("95"),
            initial_events_end: true
        }),
        ["commit 95"]
    );
    assert_eq!(bench.event(EventKind::Added, "96"), Disposition::Forward);
    assert_eq!(bench.machine.last_version(), Some("96"));
}

#[test]
fn f09_versions_of_initial_events_are_never_a_position() {
    let mut bench = Bench::new(ReflectorConfig::default());
    bench.tell(Input::Start);
    bench.event(EventKind::Added, "90");
    bench.event(EventKind::Modified, "91");

    assert_eq!(bench.machine.last_version(), None);
    bench.tell(Input::Failed(&broken()));
    assert_eq!(
        bench.wake(),
        ["watch-list rv=-"],
        "a break before the end starts over"
    );
}

#[test]
fn f16_watch_list_without_end_marker_falls_back() {
    let mut bench = Bench::new(ReflectorConfig::default());
    bench.tell(Input::Start);
    bench.tell(Input::Progress);
    assert_eq!(bench.timeout(), Duration::from_secs(20));
    bench.pass(Duration::from_secs(18));
    bench.event(EventKind::Added, "3");
    assert_eq!(
        bench.timeout(),
        Duration::from_secs(5),
        "five seconds after the last event"
    );
    bench.pass(Duration::from_secs(5));

    assert_eq!(
        bench.tell(Input::DeadlinePassed),
        [
            "discard",
            "watch-list ended, listing instead",
            "list rv=- limit=500"
        ]
    );

    // The verdict is remembered for ten minutes, then the watch-list gets another chance.
    bench.tell(Input::PageEnd(&page("7", "")));
    bench.tell(Input::ErrorEvent(&ApiError::new(410, "Expired", "")));
    assert_eq!(bench.wake(), ["list rv=7+"]);
    bench.tell(Input::PageEnd(&page("7", "")));
    bench.pass(Duration::from_secs(600));
    bench.tell(Input::ErrorEvent(&ApiError::new(410, "Expired", "")));
    assert_eq!(bench.wake(), ["watch-list rv=7"]);
}

#[test]
fn f16_a_stream_that_ends_before_the_marker_falls_back_at_once() {
    let mut bench = Bench::new(ReflectorConfig::default());
    bench.tell(Input::Start);
    bench.event(EventKind::Added, "3");

    assert_eq!(
        bench.tell(Input::Ended),
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
        let mut bench = Bench::new(ReflectorConfig::default());
        bench.tell(Input::Start);

        assert_eq!(
            bench.tell(Input::Failed(&error)),
            [
                "discard",
                "watch-list ended, listing instead",
                "list rv=- limit=500"
            ]
        );
        bench.tell(Input::Failed(&api(500, "")));
        assert_eq!(bench.wake(), ["list rv=- limit=500"]);
    }
}

#[test]
fn a_watch_list_is_repeated_after_refused_connections_and_too_many_requests() {
    for error in [refused(), api(429, "TooManyRequests")] {
        let mut bench = Bench::new(ReflectorConfig::default());
        bench.tell(Input::Start);
        for pause in ["0.8", "1.6", "3.2"] {
            assert_eq!(
                bench.tell(Input::Failed(&error)),
                [
                    "discard".to_owned(),
                    format!("watch-list ended, trying again in {pause} s")
                ]
            );
            assert_eq!(bench.wake(), ["watch-list rv=-"]);
        }
    }
}

#[test]
fn f02_a_watch_list_at_a_refused_version_asks_for_the_newest_once_and_then_lists() {
    let mut bench = Bench::watching(ReflectorConfig::default(), "50");
    bench.machine.watch_list = true;
    bench.tell(Input::ErrorEvent(&ApiError::new(410, "Expired", "")));
    assert_eq!(bench.wake(), ["watch-list rv=50"]);

    assert_eq!(
        bench.tell(Input::Failed(&api(410, "Expired"))),
        [
            "discard",
            "watch-list ended, asking for the newest version instead",
            "watch-list rv=-"
        ]
    );
    assert_eq!(
        bench.tell(Input::Failed(&api(410, "Expired"))),
        [
            "discard",
            "watch-list ended, listing instead",
            "list rv=- limit=500"
        ]
    );
}
