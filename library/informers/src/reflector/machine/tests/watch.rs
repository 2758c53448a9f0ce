//! Watches: how they end, and what follows.

use super::*;

#[test]
fn a_lost_connection_resumes_at_the_last_version_and_never_lists() {
    for error in [
        broken(),
        refused(),
        api(429, "TooManyRequests"),
        api(500, "InternalError"),
        api(503, ""),
        api(401, "Unauthorized"),
        api(403, "Forbidden"),
    ] {
        let mut harness = Harness::watching(list_only(), "10");
        harness.event(EventKind::Modified, "12");
        for _ in 0..20 {
            let request = harness.request_after(Input::Failed(&error));
            assert_eq!(request, "watch rv=12", "{error}");
        }
    }
}

#[test]
fn f20_a_version_rejected_by_http_status_leads_to_a_list() {
    let cases = [
        (api(410, "Expired"), "list rv=10+"),
        (api(410, ""), "list rv=10+"),
        (api(400, "BadRequest"), "list rv=- limit=500"),
        (api(422, "Invalid"), "list rv=- limit=500"),
        (api(404, "NotFound"), "list rv=- limit=500"),
    ];
    for (error, expected) in cases {
        let mut harness = Harness::watching(list_only(), "10");
        assert_eq!(harness.request_after(Input::Failed(&error)), expected, "{error}");
    }
}

#[test]
fn an_error_event_leads_to_a_list_unless_it_is_too_many_requests() {
    let mut harness = Harness::watching(list_only(), "10");
    harness.step(Input::ErrorEvent(&ApiError::new(429, "TooManyRequests", "")));
    assert_eq!(harness.wake(), ["watch rv=10"]);

    harness.step(Input::ErrorEvent(&ApiError::new(500, "StoreReadError", "")));
    assert_eq!(harness.wake(), ["list rv=10+"]);
}

#[test]
fn internal_errors_lead_to_a_new_watch_within_the_window_only() {
    let window = Duration::from_secs(30);
    let mut harness = Harness::watching(
        ReflectorConfig {
            internal_error_window: window,
            ..list_only()
        },
        "10",
    );
    let error = ApiError::new(500, "InternalError", "");

    harness.step(Input::ErrorEvent(&error));
    assert_eq!(harness.wake(), ["watch rv=10"]);
    harness.advance(window);
    harness.step(Input::ErrorEvent(&error));
    assert_eq!(harness.wake(), ["list rv=10+"]);
}

#[test]
fn an_expired_version_is_listed_at_once_also_after_an_outage() {
    let mut harness = Harness::watching(list_only(), "10");
    for _ in 0..20 {
        harness.request_after(Input::Failed(&refused()));
    }

    assert_eq!(
        harness.step(Input::Failed(&api(410, "Expired"))),
        [
            "watch ended, listing again because the last version has expired",
            "list rv=10+"
        ]
    );
}

#[test]
fn f19_a_server_that_rejects_every_watch_is_not_listed_in_a_tight_loop() {
    let mut harness = Harness::watching(list_only(), "10");
    let mut pauses = Vec::new();
    for _ in 0..10 {
        let before = harness.now;
        let expired = ApiError::new(410, "Expired", "");
        assert_eq!(harness.request_after(Input::ErrorEvent(&expired)), "list rv=10+");
        pauses.push((harness.now - before).as_secs_f64());
        assert_eq!(harness.step(Input::PageEnd(&page("10", "")))[0], "commit 10");
        while let Next::Sleep { .. } = harness.machine.next(harness.now) {
            harness.wake();
        }
    }

    assert_eq!(pauses[0], 0.0, "the first list is immediate");
    assert_eq!(pauses[6..], [25.6, 30.0, 30.0, 30.0], "{pauses:?}");

    harness.event(EventKind::Modified, "11");
    let expired = ApiError::new(410, "Expired", "");
    assert_eq!(
        harness
            .step(Input::ErrorEvent(&expired))
            .last()
            .map(String::as_str),
        Some("list rv=11+"),
        "progress makes it immediate again"
    );
}

#[test]
fn f21_instant_closes_back_off_and_never_list() {
    let mut harness = Harness::watching(list_only(), "10");
    let start = harness.now;
    let mut watches = 0;
    while harness.now - start < Duration::from_secs(600) {
        assert!(
            harness
                .step(Input::Ended)
                .iter()
                .all(|action| !action.starts_with("list"))
        );
        watches += harness
            .wake()
            .iter()
            .filter(|action| *action == "watch rv=10")
            .count();
    }

    assert!(watches < 35, "{watches} watches in ten minutes");
}

#[test]
fn f21_watches_that_close_after_one_event_each_are_paced() {
    let mut harness = Harness::watching(list_only(), "10");
    let start = harness.now;
    let mut version = 10;
    let mut watches = 0;
    while harness.now - start < Duration::from_secs(600) {
        version += 1;
        harness.event(EventKind::Modified, &version.to_string());
        let mut actions = harness.step(Input::Ended);
        while let Next::Sleep { .. } = harness.machine.next(harness.now) {
            actions = harness.wake();
        }
        watches += actions
            .iter()
            .filter(|action| action.starts_with("watch rv"))
            .count();
    }

    assert!(
        watches <= 5 + 240 + 1,
        "{watches} watches in ten minutes: more than 24 a minute"
    );
}

#[test]
fn a_watch_that_ran_its_time_is_followed_by_the_next_at_once() {
    let mut harness = Harness::watching(list_only(), "10");
    harness.advance(Duration::from_secs(300));

    assert_eq!(
        harness.step(Input::Ended),
        ["watch ended, watching from the last version", "watch rv=10"]
    );
}

#[test]
fn the_pause_starts_over_only_after_progress() {
    let mut harness = Harness::watching(list_only(), "10");
    let overloaded = api(500, "InternalError");
    for _ in 0..3 {
        harness.step(Input::Failed(&overloaded));
        harness.wake();
    }
    harness.step(Input::Progress { bytes: 0 });
    assert_eq!(
        harness.step(Input::Failed(&overloaded)),
        ["watch ended, watching from the last version in 6.4 s"]
    );
    harness.wake();

    harness.event(EventKind::Modified, "11");
    assert_eq!(
        harness.step(Input::Failed(&overloaded)),
        ["watch ended, watching from the last version in 0.8 s"]
    );
}

#[test]
fn a_productive_watch_resumes_at_once() {
    for error in [broken(), refused()] {
        let mut harness = Harness::watching(list_only(), "10");
        harness.event(EventKind::Modified, "11");

        assert_eq!(
            harness.step(Input::Failed(&error)),
            ["watch ended, watching from the last version", "watch rv=11"]
        );
        assert_eq!(
            harness.step(Input::Failed(&error)),
            ["watch ended, watching from the last version in 0.8 s"],
            "the next one has not delivered anything"
        );
    }
}

#[test]
fn f21_productive_watches_that_break_are_paced() {
    let mut harness = Harness::watching(list_only(), "10");
    let start = harness.now;
    let mut version = 10;
    let mut watches = 0;
    while harness.now - start < Duration::from_secs(600) {
        version += 1;
        harness.event(EventKind::Modified, &version.to_string());
        let request = harness.request_after(Input::Failed(&broken()));
        assert_eq!(request, format!("watch rv={version}"));
        watches += 1;
    }

    assert!(watches <= 5 + 240 + 1, "{watches} watches in ten minutes");
}

#[test]
fn f24_retry_after_is_respected() {
    let mut harness = Harness::watching(list_only(), "10");
    let error = ApiError {
        retry_after: Some(Duration::from_secs(17)),
        ..ApiError::new(429, "", "")
    };

    assert_eq!(
        harness.step(Input::Failed(&SourceError::Api(error))),
        ["watch ended, watching from the last version in 17.0 s"]
    );
}

#[test]
fn f03_the_newest_list_being_older_is_a_rewind() {
    let mut harness = Harness::watching(list_only(), "1200");
    harness.step(Input::Failed(&api(400, "BadRequest")));
    harness.wake();

    let actions = harness.step(Input::PageEnd(&page("1000", "")));

    assert_eq!(actions.last().map(String::as_str), Some("watch rv=1000"));
    assert!(actions.contains(&"commit 1000".to_owned()));
    assert_eq!(harness.machine.rewinds(), 1);
}

#[test]
fn f10_bookmarks_that_go_back_or_say_nothing_are_ignored() {
    let mut harness = Harness::watching(list_only(), "50");

    for version in [Some("45"), None, Some("")] {
        let bookmark = Input::Bookmark {
            resource_version: version,
            initial_events_end: false,
        };
        assert_eq!(harness.step(bookmark), [""; 0]);
    }
    assert_eq!(harness.machine.last_version(), Some("50"));
    assert_eq!(harness.machine.ignored_bookmarks(), 3);

    let bookmark = Input::Bookmark {
        resource_version: Some("51"),
        initial_events_end: false,
    };
    assert_eq!(harness.step(bookmark), ["bookmark 51"]);
    assert_eq!(harness.machine.last_version(), Some("51"));
}

#[test]
fn f15_silence_is_bounded_by_the_observed_bookmark_interval() {
    let bookmark = || Input::Bookmark {
        resource_version: Some("10"),
        initial_events_end: false,
    };
    let mut harness = Harness::watching(list_only(), "10");
    assert_eq!(
        harness.timeout(),
        Duration::from_secs(90),
        "before the first bookmark"
    );

    harness.step(bookmark());
    assert_eq!(
        harness.timeout(),
        Duration::from_secs(150),
        "one bookmark: the cap"
    );
    harness.advance(Duration::from_secs(20));
    harness.step(bookmark());
    assert_eq!(
        harness.timeout(),
        Duration::from_secs(50),
        "two and a half times 20 s"
    );
    harness.advance(Duration::from_secs(1));
    harness.step(bookmark());
    assert_eq!(
        harness.timeout(),
        Duration::from_secs(50),
        "the longest gap counts"
    );
    harness.advance(Duration::from_secs(50));

    assert_eq!(
        harness.step(Input::DeadlinePassed),
        ["watch ended, watching from the last version", "watch rv=10"]
    );
}

/// Upstream: TestWatchTimeout
#[test]
fn watches_last_between_once_and_twice_the_minimum() {
    let timeouts = |minimum: u64| {
        [0.0, 0.5, 0.999].map(|jitter| {
            let min_watch_timeout = Duration::from_secs(minimum);
            let mut machine = Machine::new(
                ReflectorConfig {
                    min_watch_timeout,
                    ..list_only()
                },
                true,
            );
            let mut context = Context::new(Instant::now(), jitter);
            machine.step(Input::Start, &mut context);
            machine.step(Input::PageEnd(&page("1", "")), &mut context);
            match context.actions.last() {
                Some(Action::Watch(request)) => request.timeout.as_secs(),
                other => panic!("no watch but {other:?}"),
            }
        })
    };

    assert_eq!(timeouts(0), [300, 450, 599]);
    assert_eq!(
        timeouts(1),
        [300, 450, 599],
        "a minimum below five minutes is raised"
    );
    assert_eq!(timeouts(1800), [1800, 2700, 3598]);
}

#[test]
fn synthetic_added_events_of_a_watch_without_version_do_not_move_it() {
    let mut harness = Harness::new(list_only());
    harness.step(Input::Start);
    assert_eq!(
        harness.step(Input::PageEnd(&ListMeta::default())),
        ["commit -", "watch rv=-"]
    );

    harness.event(EventKind::Added, "90");
    harness.event(EventKind::Added, "10");
    assert_eq!(harness.machine.last_version(), None);
    harness.event(EventKind::Modified, "91");
    assert_eq!(harness.machine.last_version(), Some("91"));
    harness.event(EventKind::Added, "92");
    assert_eq!(harness.machine.last_version(), Some("92"));
}
