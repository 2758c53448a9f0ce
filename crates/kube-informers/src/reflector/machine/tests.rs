//! The machine, table by table: inputs in, actions out, as text.

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::reflector::config::{InitialList, ReflectorConfig};
use crate::source::{StatusCause, VersionMatch};

/// A machine on a clock of its own, without jitter.
struct Bench {
    machine: Machine,
    now: Instant,
}

fn list_only() -> ReflectorConfig {
    ReflectorConfig {
        watch_list: false,
        ..ReflectorConfig::default()
    }
}

fn api(code: u16, reason: &str) -> SourceError {
    SourceError::Api(ApiError::new(code, reason, ""))
}

fn refused() -> SourceError {
    SourceError::Transport {
        context: "cannot connect".into(),
        refused: true,
        source: "refused".into(),
    }
}

fn broken() -> SourceError {
    SourceError::Transport {
        context: "connection lost".into(),
        refused: false,
        source: "reset".into(),
    }
}

fn page(version: &str, token: &str) -> ListMeta {
    ListMeta {
        resource_version: Some(version.to_owned()),
        continue_token: Some(token.to_owned()),
        remaining: None,
    }
}

fn text(action: &Action) -> String {
    match action {
        Action::List(request) => {
            let mut text = format!("list rv={}", request.resource_version.as_deref().unwrap_or("-"));
            if request.version_match == Some(VersionMatch::NotOlderThan) {
                text.push('+');
            }
            if let Some(token) = &request.continue_token {
                text.push_str(&format!(" token={token}"));
            }
            if let Some(limit) = request.limit {
                text.push_str(&format!(" limit={limit}"));
            }
            text
        }
        Action::Watch(request) => format!(
            "{} rv={}",
            if request.initial_events {
                "watch-list"
            } else {
                "watch"
            },
            request.resource_version.as_deref().unwrap_or("-")
        ),
        Action::Commit { resource_version, .. } => {
            format!("commit {}", resource_version.as_deref().unwrap_or("-"))
        }
        Action::Discard => "discard".to_owned(),
        Action::Bookmark { resource_version } => format!("bookmark {resource_version}"),
        Action::Report(report) => {
            let mut text = format!("{} ended, {}", report.operation, report.resume);
            if !report.pause.is_zero() {
                text.push_str(&format!(" in {:.1} s", report.pause.as_secs_f64()));
            }
            text
        }
    }
}

impl Bench {
    fn new(config: ReflectorConfig) -> Self {
        Self {
            machine: Machine::new(config, true),
            now: Instant::now(),
        }
    }

    fn tell(&mut self, input: Input<'_>) -> Vec<String> {
        let actions = self.machine.step(self.now, 0.0, input);
        if actions
            .iter()
            .any(|action| matches!(action, Action::Commit { .. }))
        {
            self.machine.commit_taken();
        }
        actions.iter().map(text).collect()
    }

    /// Lets time pass until the machine wants to be woken, and wakes it.
    fn wake(&mut self) -> Vec<String> {
        match self.machine.next(self.now) {
            Next::Sleep { until } => self.now = self.now.max(until),
            Next::Read { deadline } => panic!("it does not sleep but reads until {deadline:?}"),
        }
        self.tell(Input::Woken)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// How long it would wait for the open stream.
    fn patience(&self) -> Duration {
        match self.machine.next(self.now) {
            Next::Read { deadline } => deadline - self.now,
            Next::Sleep { until } => panic!("it does not read but sleeps until {until:?}"),
        }
    }

    /// A machine that watches at this version.
    fn watching(config: ReflectorConfig, version: &str) -> Self {
        let mut bench = Self::new(ReflectorConfig {
            watch_list: false,
            ..config
        });
        bench.tell(Input::Start);
        let actions = bench.tell(Input::PageEnd(&page(version, "")));
        assert_eq!(
            actions,
            [format!("commit {version}"), format!("watch rv={version}")]
        );
        bench.machine.watch_list = bench.machine.config.watch_list;
        bench
    }

    fn event(&mut self, kind: EventKind, version: &str) -> Disposition {
        self.machine.event(self.now, kind, Some(version))
    }
}

#[test]
fn the_first_list_is_consistent_and_paged() {
    let mut bench = Bench::new(list_only());

    assert_eq!(bench.tell(Input::Start), ["list rv=- limit=500"]);
    assert_eq!(
        bench.tell(Input::PageEnd(&page("7", "c1"))),
        ["list rv=- token=c1 limit=500"]
    );
    assert_eq!(
        bench.tell(Input::PageEnd(&page("7", ""))),
        ["commit 7", "watch rv=7"]
    );
}

#[test]
fn an_any_cached_list_starts_at_zero_and_remembers_pages() {
    let mut bench = Bench::new(ReflectorConfig {
        initial_list: InitialList::AnyCached,
        ..list_only()
    });

    assert_eq!(bench.tell(Input::Start), ["list rv=0 limit=500"]);
    bench.tell(Input::PageEnd(&page("7", "c1")));
    bench.tell(Input::PageEnd(&page("7", "")));

    // The server has no watch cache: later lists are paged too.
    bench.tell(Input::ErrorEvent(&ApiError::new(410, "Expired", "")));
    assert_eq!(bench.wake(), ["list rv=7+ limit=500"]);
}

#[test]
fn a_relist_asks_for_at_least_the_last_version_and_not_for_pages() {
    let mut bench = Bench::watching(list_only(), "10");

    assert_eq!(
        bench.tell(Input::ErrorEvent(&ApiError::new(410, "Expired", ""))),
        ["watch ended, listing again because the last version has expired in 0.8 s"]
    );
    assert_eq!(bench.wake(), ["list rv=10+"]);
}

#[test]
fn an_expired_or_too_large_version_is_dropped_once_and_at_once() {
    let too_large = SourceError::Api(ApiError {
        code: 504,
        causes: vec![StatusCause {
            reason: "ResourceVersionTooLarge".into(),
            message: String::new(),
        }],
        ..ApiError::default()
    });
    for error in [api(410, "Expired"), too_large, api(400, "BadRequest")] {
        let mut bench = Bench::watching(list_only(), "10");
        bench.tell(Input::ErrorEvent(&ApiError::new(410, "Expired", "")));
        bench.wake();

        assert_eq!(
            bench.tell(Input::Failed(&error)),
            [
                "discard",
                "list ended, asking for the newest version instead",
                "list rv=- limit=500"
            ]
        );
        assert_eq!(
            bench.tell(Input::Failed(&error)),
            ["discard", "list ended, trying again in 0.8 s"],
            "the second time it backs off"
        );
    }
}

#[test]
fn f22_an_expired_page_leads_to_one_whole_list() {
    let mut bench = Bench::new(ReflectorConfig {
        page_size: Some(4),
        ..list_only()
    });
    bench.tell(Input::Start);
    bench.tell(Input::PageEnd(&page("7", "c1")));

    assert_eq!(
        bench.tell(Input::Failed(&api(410, "Expired"))),
        [
            "discard",
            "list ended, asking for the whole list instead of pages",
            "list rv=-"
        ]
    );
}

#[test]
fn f23_pages_of_different_versions_and_repeated_tokens_are_no_list() {
    let mut bench = Bench::new(list_only());
    bench.tell(Input::Start);
    bench.tell(Input::PageEnd(&page("7", "c1")));
    assert_eq!(
        bench.tell(Input::PageEnd(&page("8", ""))),
        ["discard", "list ended, trying again in 0.8 s"]
    );

    bench.wake();
    bench.tell(Input::PageEnd(&page("7", "c1")));
    assert_eq!(
        bench.tell(Input::PageEnd(&page("7", "c1"))),
        ["discard", "list ended, trying again in 1.6 s"]
    );
}

#[test]
fn failing_lists_really_back_off() {
    let mut bench = Bench::new(list_only());
    bench.tell(Input::Start);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        bench.tell(Input::Failed(&api(500, "InternalError")));
        let before = bench.now;
        bench.wake();
        pauses.push((bench.now - before).as_secs_f64());
    }

    assert_eq!(pauses, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]);
}

#[test]
fn a_broken_connection_resumes_at_the_last_version_and_never_lists() {
    for error in [
        broken(),
        refused(),
        api(429, "TooManyRequests"),
        api(500, "InternalError"),
        api(503, ""),
        api(401, "Unauthorized"),
        api(403, "Forbidden"),
    ] {
        let mut bench = Bench::watching(list_only(), "10");
        bench.event(EventKind::Modified, "12");
        for _ in 0..20 {
            bench.tell(Input::Failed(&error));
            assert_eq!(bench.wake(), ["watch rv=12"], "{error}");
        }
    }
}

#[test]
fn f20_a_version_refused_by_http_status_leads_to_a_list() {
    let cases = [
        (api(410, "Expired"), "list rv=10+"),
        (api(410, ""), "list rv=10+"),
        (api(400, "BadRequest"), "list rv=- limit=500"),
        (api(422, "Invalid"), "list rv=- limit=500"),
        (api(404, "NotFound"), "list rv=- limit=500"),
    ];
    for (error, expected) in cases {
        let mut bench = Bench::watching(list_only(), "10");
        bench.tell(Input::Failed(&error));
        assert_eq!(bench.wake(), [expected], "{error}");
    }
}

#[test]
fn an_error_event_leads_to_a_list_unless_it_is_too_many_requests() {
    let mut bench = Bench::watching(list_only(), "10");
    bench.tell(Input::ErrorEvent(&ApiError::new(429, "TooManyRequests", "")));
    assert_eq!(bench.wake(), ["watch rv=10"]);

    bench.tell(Input::ErrorEvent(&ApiError::new(500, "StoreReadError", "")));
    assert_eq!(bench.wake(), ["list rv=10+"]);
}

#[test]
fn internal_errors_are_watched_through_within_their_window_only() {
    let window = Duration::from_secs(30);
    let mut bench = Bench::watching(
        ReflectorConfig {
            internal_error_window: window,
            ..list_only()
        },
        "10",
    );
    let error = ApiError::new(500, "InternalError", "");

    bench.tell(Input::ErrorEvent(&error));
    assert_eq!(bench.wake(), ["watch rv=10"]);
    bench.pass(window);
    bench.tell(Input::ErrorEvent(&error));
    assert_eq!(bench.wake(), ["list rv=10+"]);
}

#[test]
fn f19_a_server_that_refuses_every_watch_is_not_listed_in_a_tight_loop() {
    let mut bench = Bench::watching(list_only(), "10");
    let mut pauses = Vec::new();
    for _ in 0..8 {
        bench.tell(Input::ErrorEvent(&ApiError::new(410, "Expired", "")));
        let before = bench.now;
        assert_eq!(bench.wake(), ["list rv=10+"]);
        pauses.push((bench.now - before).as_secs_f64());
        assert_eq!(bench.tell(Input::PageEnd(&page("10", "")))[0], "commit 10");
        while let Next::Sleep { .. } = bench.machine.next(bench.now) {
            bench.wake();
        }
    }

    assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]), "{pauses:?}");
    assert_eq!(pauses.last(), Some(&30.0));
}

#[test]
fn f21_instant_closes_back_off_and_never_list() {
    let mut bench = Bench::watching(list_only(), "10");
    let start = bench.now;
    let mut watches = 0;
    while bench.now - start < Duration::from_secs(600) {
        assert!(
            bench
                .tell(Input::Ended)
                .iter()
                .all(|action| !action.starts_with("list"))
        );
        watches += bench
            .wake()
            .iter()
            .filter(|action| *action == "watch rv=10")
            .count();
    }

    assert!(watches < 35, "{watches} watches in ten minutes");
}

#[test]
fn f21_watches_that_close_after_one_event_each_are_paced() {
    let mut bench = Bench::watching(list_only(), "10");
    let start = bench.now;
    let mut version = 10;
    let mut watches = 0;
    while bench.now - start < Duration::from_secs(600) {
        version += 1;
        bench.event(EventKind::Modified, &version.to_string());
        let mut actions = bench.tell(Input::Ended);
        while let Next::Sleep { .. } = bench.machine.next(bench.now) {
            actions = bench.wake();
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
    let mut bench = Bench::watching(list_only(), "10");
    bench.pass(Duration::from_secs(300));

    assert_eq!(
        bench.tell(Input::Ended),
        ["watch ended, watching on from the last version", "watch rv=10"]
    );
}

#[test]
fn the_pause_starts_over_only_after_progress() {
    let mut bench = Bench::watching(list_only(), "10");
    for _ in 0..3 {
        bench.tell(Input::Failed(&broken()));
        bench.wake();
    }
    bench.tell(Input::Progress);
    assert_eq!(
        bench.tell(Input::Failed(&broken())),
        ["watch ended, watching on from the last version in 6.4 s"]
    );
    bench.wake();

    bench.event(EventKind::Modified, "11");
    assert_eq!(
        bench.tell(Input::Failed(&broken())),
        ["watch ended, watching on from the last version in 0.8 s"]
    );
}

#[test]
fn f24_retry_after_is_respected() {
    let mut bench = Bench::watching(list_only(), "10");
    let error = ApiError {
        retry_after: Some(Duration::from_secs(17)),
        ..ApiError::new(429, "", "")
    };

    assert_eq!(
        bench.tell(Input::Failed(&SourceError::Api(error))),
        ["watch ended, watching on from the last version in 17.0 s"]
    );
}

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
    assert_eq!(bench.patience(), Duration::from_secs(20));
    bench.pass(Duration::from_secs(18));
    bench.event(EventKind::Added, "3");
    assert_eq!(
        bench.patience(),
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

#[test]
fn f01_a_list_older_than_asked_for_is_not_used() {
    let mut bench = Bench::watching(list_only(), "50");
    bench.tell(Input::ErrorEvent(&ApiError::new(410, "Expired", "")));
    assert_eq!(bench.wake(), ["list rv=50+"]);

    assert_eq!(
        bench.tell(Input::PageEnd(&page("30", ""))),
        ["discard", "list ended, trying again in 0.8 s"]
    );
    assert_eq!(
        bench.wake(),
        ["list rv=- limit=500"],
        "then it insists on the newest"
    );
}

#[test]
fn f03_the_newest_list_being_older_is_a_rewind() {
    let mut bench = Bench::watching(list_only(), "1200");
    bench.tell(Input::Failed(&api(400, "BadRequest")));
    bench.wake();

    let actions = bench.tell(Input::PageEnd(&page("1000", "")));

    assert_eq!(actions.last().map(String::as_str), Some("watch rv=1000"));
    assert!(actions.contains(&"commit 1000".to_owned()));
    assert_eq!(bench.machine.rewinds(), 1);
}

#[test]
fn f10_bookmarks_that_go_back_or_say_nothing_are_ignored() {
    let mut bench = Bench::watching(list_only(), "50");

    for version in [Some("45"), None, Some("")] {
        let bookmark = Input::Bookmark {
            resource_version: version,
            initial_events_end: false,
        };
        assert_eq!(bench.tell(bookmark), [""; 0]);
    }
    assert_eq!(bench.machine.last_version(), Some("50"));
    assert_eq!(bench.machine.ignored_bookmarks(), 3);

    let bookmark = Input::Bookmark {
        resource_version: Some("51"),
        initial_events_end: false,
    };
    assert_eq!(bench.tell(bookmark), ["bookmark 51"]);
    assert_eq!(bench.machine.last_version(), Some("51"));
}

#[test]
fn f15_silence_is_bounded_by_the_observed_bookmark_interval() {
    let bookmark = || Input::Bookmark {
        resource_version: Some("10"),
        initial_events_end: false,
    };
    let mut bench = Bench::watching(list_only(), "10");
    assert_eq!(
        bench.patience(),
        Duration::from_secs(305),
        "before bookmarks: time-out and 5 s"
    );

    bench.tell(bookmark());
    assert_eq!(
        bench.patience(),
        Duration::from_secs(150),
        "one bookmark: the cap"
    );
    bench.pass(Duration::from_secs(20));
    bench.tell(bookmark());
    assert_eq!(
        bench.patience(),
        Duration::from_secs(50),
        "two and a half times 20 s"
    );
    bench.pass(Duration::from_secs(1));
    bench.tell(bookmark());
    assert_eq!(
        bench.patience(),
        Duration::from_secs(50),
        "the longest gap counts"
    );
    bench.pass(Duration::from_secs(50));

    assert_eq!(
        bench.tell(Input::DeadlinePassed),
        ["watch ended, watching on from the last version in 0.8 s"]
    );
}

#[test]
fn list_deadlines_are_sixty_seconds_to_begin_and_thirty_between_pieces() {
    let mut bench = Bench::new(list_only());
    bench.tell(Input::Start);
    assert_eq!(bench.patience(), Duration::from_secs(60));
    bench.pass(Duration::from_secs(59));
    bench.tell(Input::Progress);
    assert_eq!(bench.patience(), Duration::from_secs(30));

    bench.tell(Input::PageEnd(&page("7", "c1")));
    assert_eq!(
        bench.patience(),
        Duration::from_secs(60),
        "each page is a new request"
    );
}

/// Upstream: TestWatchTimeout
#[test]
fn watches_last_between_once_and_twice_the_minimum() {
    let timeouts = |minimum: u64| {
        [0.0, 0.5, 0.999].map(|dice| {
            let min_watch_timeout = Duration::from_secs(minimum);
            let mut machine = Machine::new(
                ReflectorConfig {
                    min_watch_timeout,
                    ..list_only()
                },
                true,
            );
            let now = Instant::now();
            machine.step(now, dice, Input::Start);
            let actions = machine.step(now, dice, Input::PageEnd(&page("1", "")));
            match actions.last() {
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
    let mut bench = Bench::new(list_only());
    bench.tell(Input::Start);
    assert_eq!(
        bench.tell(Input::PageEnd(&ListMeta::default())),
        ["commit -", "watch rv=-"]
    );

    bench.event(EventKind::Added, "90");
    bench.event(EventKind::Added, "10");
    assert_eq!(bench.machine.last_version(), None);
    bench.event(EventKind::Modified, "91");
    assert_eq!(bench.machine.last_version(), Some("91"));
    bench.event(EventKind::Added, "92");
    assert_eq!(bench.machine.last_version(), Some("92"));
}
