//! Pacing: no loop of requests exceeds the ceiling, and the pages of a healthy list are not delayed.

use super::*;

/// The ceiling: 30 requests in any minute.
const CEILING: usize = 30;

/// Runs the machine for half an hour against a server, and asserts that no minute exceeds the ceiling. `respond`
/// is called for each request, as text.
fn assert_ceiling(config: ReflectorConfig, respond: impl FnMut(&mut Harness, &str) -> Vec<String>) {
    assert_ceiling_after(0, config, respond);
}

/// The same, without the first requests.
fn assert_ceiling_after(
    skipped: usize,
    config: ReflectorConfig,
    mut respond: impl FnMut(&mut Harness, &str) -> Vec<String>,
) {
    let mut harness = Harness::new(config);
    let start = harness.now;
    let mut sent = Vec::new();
    let mut actions = harness.step(Input::Start);
    while harness.now - start < Duration::from_secs(1800) {
        let is_request = |action: &String| action.contains("rv=");
        actions = match actions.into_iter().find(is_request) {
            Some(request) => {
                sent.push(harness.now);
                assert!(sent.len() < 2000, "a tight loop");
                respond(&mut harness, &request)
            }
            None => harness.wake(),
        };
    }
    for (from, first) in sent.iter().enumerate().skip(skipped) {
        let minute = sent[from..]
            .iter()
            .take_while(|at| **at - *first < Duration::from_secs(60));
        let count = minute.count();
        assert!(count <= CEILING, "{count} requests in one minute");
    }
    assert!(sent.len() > 20, "it gave up after {} requests", sent.len());
}

#[test]
fn a_second_page_that_always_expires_obeys_the_ceiling() {
    assert_ceiling(list_only(), |harness, request| match request.contains("token") {
        true => harness.step(Input::Failed(&api(410, "Expired"))),
        false => harness.page_with_object("7", "c"),
    });
}

#[test]
fn a_second_page_that_always_breaks_obeys_the_ceiling_after_three_lists() {
    let mut lists = 0;
    // The second pages of the first three lists follow a page that made progress.
    assert_ceiling_after(3, list_only(), |harness, request| {
        match request.contains("token") {
            true => harness.step(Input::Failed(&broken())),
            false => {
                lists += 1;
                assert_eq!(
                    request.contains("limit"),
                    lists <= 3,
                    "then without pages: {request}"
                );
                harness.page_with_object("7", "c")
            }
        }
    });
}

#[test]
fn endless_empty_pages_obey_the_ceiling() {
    let mut page_number = 0;
    assert_ceiling(list_only(), |harness, _| {
        page_number += 1;
        harness.step(Input::PageEnd(&page("7", &format!("c{page_number}"))))
    });
}

#[test]
fn endless_pages_that_start_with_the_same_object_obey_the_ceiling() {
    let mut page_number = 0;
    assert_ceiling(list_only(), |harness, _| {
        page_number += 1;
        harness.step(Input::ListedObject { first_key: Some(1) });
        harness.step(Input::PageEnd(&page("7", &format!("c{page_number}"))))
    });
}

#[test]
fn alternating_tokens_are_reported_and_obey_the_ceiling() {
    let mut page_number = 0;
    let mut seen = false;
    assert_ceiling(list_only(), |harness, _| {
        page_number += 1;
        let actions = harness.page_with_object("7", ["a", "b"][page_number % 2]);
        seen |= actions.iter().any(|action| action.starts_with("list ended"));
        actions
    });
    assert!(seen, "the list was abandoned");
}

#[test]
fn an_expired_list_followed_by_an_expired_watch_obeys_the_ceiling() {
    assert_ceiling(ReflectorConfig::default(), |harness, request| {
        match request.starts_with("list") {
            true => harness.step(Input::PageEnd(&page("7", ""))),
            false => harness.step(Input::Failed(&api(410, "Expired"))),
        }
    });
}

#[test]
fn a_healthy_list_of_400_pages_is_not_delayed() {
    let mut harness = Harness::new(list_only());
    harness.step(Input::Start);
    for page_number in 1..400 {
        let token = format!("c{page_number}");
        assert_eq!(
            harness.page_with_object("7", &token),
            [format!("list rv=- token={token} limit=500")]
        );
    }
    assert_eq!(harness.page_with_object("7", ""), ["commit 7", "watch rv=7"]);
}

#[test]
fn a_list_with_too_many_pages_is_abandoned_and_the_next_one_is_paced() {
    let mut harness = Harness::new(ReflectorConfig {
        max_pages: 10,
        ..list_only()
    });
    harness.step(Input::Start);
    for page_number in 1..10 {
        harness.page_with_object("7", &format!("c{page_number}"));
    }

    assert_eq!(
        harness.page_with_object("7", "c10"),
        ["discard", "list ended, trying again in 0.8 s"]
    );
    let mut actions = harness.wake();
    let start = harness.now;
    for page_number in 1..10 {
        while !actions.iter().any(|action| action.starts_with("list rv")) {
            actions = harness.wake();
        }
        actions = harness.page_with_object("7", &format!("c{page_number}"));
    }
    assert!(
        harness.now - start > Duration::from_secs(10),
        "pages were sent at full speed"
    );
    assert!(harness.machine.paced_pages() > 0);
}

#[test]
fn a_user_can_end_a_pause_but_not_the_pacing() {
    let mut harness = Harness::watching(list_only(), "10");
    let start = harness.now;
    let mut watches = 0;
    for _ in 0..40 {
        harness.step(Input::Failed(&api(429, "TooManyRequests")));
        let mut actions = harness.step(Input::RetryNow);
        while !actions.iter().any(|action| action.starts_with("watch rv")) {
            let pause = format!("{:?}", harness.machine.next(harness.now));
            assert_eq!(harness.step(Input::RetryNow), [""; 0], "the pacing holds");
            let after = format!("{:?}", harness.machine.next(harness.now));
            assert_eq!(after, pause, "the pacing takes no longer");
            actions = harness.wake();
        }
        watches += 1;
    }
    let minutes = (harness.now - start).as_secs_f64() / 60.0;
    assert!(
        f64::from(watches) <= 5.0 + minutes * 24.0 + 1.0,
        "{watches} in {minutes} min"
    );
}

#[test]
fn reaching_the_server_ends_pauses_of_failed_connections_only() {
    let reached = |harness: &mut Harness, jitter: f64| {
        let mut context = Context::new(harness.now, jitter);
        harness.machine.step(Input::ServerReached, &mut context);
        match harness.machine.next(harness.now) {
            Next::Sleep { until } => until - harness.now,
            next => panic!("expected a pause, not {next:?}"),
        }
    };
    let mut harness = Harness::watching(list_only(), "10");
    for _ in 0..5 {
        harness.request_after(Input::Failed(&refused()));
    }
    harness.step(Input::Failed(&refused()));
    assert_eq!(
        reached(&mut harness, 0.9),
        Duration::from_millis(2500),
        "never later"
    );
    assert_eq!(
        reached(&mut harness, 0.1),
        Duration::from_millis(500),
        "spread over five seconds"
    );

    let mut harness = Harness::watching(list_only(), "10");
    harness.step(Input::Failed(&api(429, "TooManyRequests")));
    assert_eq!(reached(&mut harness, 0.0), Duration::from_millis(800));
}
