//! Lists: versions, pages, and failures.

use super::*;

#[test]
fn the_first_list_is_consistent_and_paged() {
    let mut harness = Harness::new(list_only());

    assert_eq!(harness.step(Input::Start), ["list rv=- limit=500"]);
    assert_eq!(
        harness.step(Input::PageEnd(&page("7", "c1"))),
        ["list rv=- token=c1 limit=500"]
    );
    assert_eq!(
        harness.step(Input::PageEnd(&page("7", ""))),
        ["commit 7", "watch rv=7"]
    );
}

#[test]
fn an_any_cached_list_starts_at_zero_and_remembers_pages() {
    let mut harness = Harness::new(ReflectorConfig {
        initial_list: InitialList::AnyCached,
        ..list_only()
    });

    assert_eq!(harness.step(Input::Start), ["list rv=0 limit=500"]);
    harness.step(Input::PageEnd(&page("7", "c1")));
    harness.step(Input::PageEnd(&page("7", "")));

    // The server has no watch cache: later lists are paged too.
    let expired = ApiError::new(410, "Expired", "");
    assert_eq!(
        harness.request_after(Input::ErrorEvent(&expired)),
        "list rv=7+ limit=500"
    );
}

#[test]
fn a_relist_asks_for_at_least_the_last_version_and_not_for_pages() {
    let mut harness = Harness::watching(list_only(), "10");

    assert_eq!(
        harness.step(Input::ErrorEvent(&ApiError::new(410, "Expired", ""))),
        [
            "watch ended, listing again because the last version has expired",
            "list rv=10+"
        ]
    );
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
        let mut harness = Harness::watching(list_only(), "10");
        harness.step(Input::ErrorEvent(&ApiError::new(410, "Expired", "")));

        assert_eq!(
            harness.step(Input::Failed(&error)),
            [
                "discard",
                "list ended, requesting the newest version instead",
                "list rv=- limit=500"
            ]
        );
        assert_eq!(
            harness.step(Input::Failed(&error)),
            ["discard", "list ended, trying again in 0.8 s"],
            "the second time it backs off"
        );
    }
}

#[test]
fn f22_an_expired_page_leads_to_one_whole_list() {
    let mut harness = Harness::new(ReflectorConfig {
        page_size: Some(4),
        ..list_only()
    });
    harness.step(Input::Start);
    harness.step(Input::PageEnd(&page("7", "c1")));

    assert_eq!(
        harness.step(Input::Failed(&api(410, "Expired"))),
        [
            "discard",
            "list ended, requesting the list without pages",
            "list rv=-"
        ]
    );
}

#[test]
fn f23_pages_of_different_versions_and_repeated_tokens_are_no_list() {
    let mut harness = Harness::new(list_only());
    harness.step(Input::Start);
    harness.step(Input::PageEnd(&page("7", "c1")));
    assert_eq!(
        harness.step(Input::PageEnd(&page("8", ""))),
        ["discard", "list ended, trying again in 0.8 s"]
    );

    harness.wake();
    harness.step(Input::PageEnd(&page("7", "c1")));
    assert_eq!(
        harness.step(Input::PageEnd(&page("7", "c1"))),
        ["discard", "list ended, trying again in 1.6 s"]
    );
}

#[test]
fn failing_lists_really_back_off() {
    let mut harness = Harness::new(list_only());
    harness.step(Input::Start);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        harness.step(Input::Failed(&api(500, "InternalError")));
        let before = harness.now;
        harness.wake();
        pauses.push((harness.now - before).as_secs_f64());
    }

    assert_eq!(pauses, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]);
}

#[test]
fn f01_a_list_older_than_asked_for_is_not_used() {
    let mut harness = Harness::watching(list_only(), "50");
    let expired = ApiError::new(410, "Expired", "");
    assert_eq!(harness.request_after(Input::ErrorEvent(&expired)), "list rv=50+");

    assert_eq!(
        harness.step(Input::PageEnd(&page("30", ""))),
        ["discard", "list ended, trying again in 0.8 s"]
    );
    assert_eq!(
        harness.wake(),
        ["list rv=- limit=500"],
        "then it insists on the newest"
    );
}

#[test]
fn list_deadlines_are_sixty_seconds_to_begin_and_thirty_between_pieces() {
    let mut harness = Harness::new(list_only());
    harness.step(Input::Start);
    assert_eq!(harness.timeout(), Duration::from_secs(60));
    harness.advance(Duration::from_secs(59));
    harness.step(Input::Progress { bytes: 0 });
    assert_eq!(harness.timeout(), Duration::from_secs(30));

    harness.step(Input::PageEnd(&page("7", "c1")));
    assert_eq!(
        harness.timeout(),
        Duration::from_secs(60),
        "each page is a new request"
    );
}
