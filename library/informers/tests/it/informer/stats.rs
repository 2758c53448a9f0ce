//! Observability: counters, state, the end of every stream.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::Event;
use kube_informers::reflector::{Operation, ReflectorState, RelistReason, Resume, StreamEnd};
use kube_testserver::builders::pod;
use kube_testserver::{ApiError, Fault, RequestMatcher, TestServer};
use parking_lot::Mutex;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn counters_match_the_operations() {
    let server = TestServer::new();
    for number in 0..5 {
        server.create(pod("ns", &format!("p{number}")));
    }
    let builder = paged_pods(&server).configure(|config| config.page_size = Some(2));
    let informer = synced(builder).await;
    informer
        .add_event_handler(|_: Event<Pod>| std::future::pending())
        .unwrap();
    settle().await;

    let stats = informer.stats();
    let reflector = &stats.members[0].reflector;
    assert_eq!((reflector.lists, reflector.watch_lists), (1, 0));
    assert_eq!((reflector.list_pages, reflector.list_items), (3, 5));
    assert_eq!(reflector.watches, 1);
    assert!(reflector.bytes > 1000, "{}", reflector.bytes);
    assert_eq!((stats.objects, stats.totals.added, stats.backlog()), (5, 5, 5));

    server.fault(RequestMatcher::plain_watch("pods").times(2), Fault::status(500));
    server.fault(
        RequestMatcher::plain_watch("pods").after(2).times(1),
        Fault::error_event(ApiError::expired("old")),
    );
    server.break_watches();
    server.delete::<Pod>("ns", "p0");
    wait_for("it has relisted", || {
        informer.stats().members[0].reflector.lists == 2
    })
    .await;
    server.create(pod("ns", "new"));
    wait_for("the watch continues", || informer.store().len() == 5).await;
    pass(minutes(5)).await;

    let stats = informer.stats();
    let reflector = &stats.members[0].reflector;
    assert_eq!(reflector.errors.get("500"), Some(&2));
    assert_eq!(reflector.errors.get("410"), Some(&1));
    assert_eq!(reflector.errors.get("transport"), Some(&1));
    assert_eq!(reflector.relists.get("expired"), Some(&1));
    assert_eq!(reflector.events, 1);
    assert_eq!(reflector.reused, 4);
    assert!(reflector.bookmarks >= 4);
    assert!(reflector.watches >= 5);
    assert_eq!(
        (stats.totals.deleted, stats.totals.missed, stats.totals.added),
        (1, 1, 6)
    );
    assert_eq!(stats.backlog(), 7, "five added, one deleted, one added");
    assert_eq!(
        stats.members[0].resource_version,
        informer.store().resource_version()
    );
    assert_eq!(stats.handlers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn durations_of_lists_and_watches_are_counted() {
    let server = TestServer::new();
    // Failed attempts and the pauses after them are not part of a list.
    let slow_failure = Fault::status(500).and(Fault::delay(secs(3)));
    server.fault(RequestMatcher::list("pods").times(2), slow_failure);
    server.fault(
        RequestMatcher::list("pods").after(2).times(1),
        Fault::delay(secs(7)),
    );
    let informer = synced(paged_pods(&server)).await;
    let reflector = informer.stats().members[0].reflector.clone();
    assert_eq!(reflector.last_list_duration.as_secs(), 7);
    assert_eq!(reflector.list_duration.as_secs(), 7);
    let ten_seconds = Some(secs(10));
    let bucket = reflector
        .list_durations
        .buckets()
        .find(|(bound, _)| *bound == ten_seconds);
    assert_eq!(bucket, Some((ten_seconds, 1)));
    assert_eq!(reflector.list_durations.count(), 1);
    pass(secs(100)).await;
    server.close_watches();
    settle().await;
    let reflector = informer.stats().members[0].reflector.clone();
    assert_eq!(reflector.watch_duration.as_secs(), 100);
}

#[tokio::test(start_paused = true)]
async fn state_shows_the_current_operation() {
    let server = TestServer::new();
    for number in 0..5 {
        server.create(pod("ns", &format!("p{number}")));
    }
    server.fault(
        RequestMatcher::list("pods").continued().forever(),
        Fault::delay(secs(10)),
    );
    let builder = paged_pods(&server).configure(|config| config.page_size = Some(2));
    let (informer, task) = builder.build();
    assert_eq!(informer.state().to_string(), "not started");
    let run = task.run();
    let test = async {
        settle().await;
        assert_eq!(informer.state().to_string(), "listing (2 of about 5 objects)");
        let error = informer.synced_within(secs(1)).await.unwrap_err();
        assert!(
            error.to_string().contains("listing (2 of about 5 objects)"),
            "{error}"
        );
        informer.synced().await.unwrap();
        assert_eq!(informer.state().to_string(), "watching");
        server.fault(RequestMatcher::resource("pods").forever(), Fault::status(503));
        server.break_watches();
        pass(secs(30)).await;
        let ReflectorState::BackingOff { attempts, error, .. } = informer.state() else {
            panic!("{}", informer.state());
        };
        assert!(attempts >= 3 && error.api().is_some_and(|error| error.code == 503));
        informer.shutdown().await;
        assert_eq!(informer.state().to_string(), "stopped");
    };
    let (ended, ()) = tokio::join!(run, test);
    ended.expect("no task died");
}

#[tokio::test(start_paused = true)]
async fn stream_end_hook_receives_every_end_and_what_follows() {
    let server = TestServer::new();
    let ends = Arc::new(Mutex::new(Vec::new()));
    let log = ends.clone();
    let hook = move |end: &StreamEnd<'_>| {
        let error = end.error.map(|error| error.class());
        log.lock().push((end.operation, error, end.resume));
    };
    let builder = pods(&server).configure(|config| config.on_stream_end = Some(Arc::new(hook)));
    server.fault(RequestMatcher::watch_list("pods"), Fault::refuse_watch_list());
    server.fault(RequestMatcher::list("pods"), Fault::status(500));
    let informer = synced(builder).await;
    let take = || std::mem::take(&mut *ends.lock());
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        take(),
        [
            (Operation::WatchList, some("422"), Resume::ListInstead),
            (Operation::List, some("500"), Resume::RetrySync),
        ]
    );

    // The normal end of a watch is reported too, without an error.
    pass(secs(60)).await;
    server.close_watches();
    pass(secs(5)).await;
    assert_eq!(take(), [(Operation::Watch, None, Resume::Rewatch)]);
    server.break_watches();
    pass(secs(5)).await;
    assert_eq!(take(), [(Operation::Watch, some("transport"), Resume::Rewatch)]);
    force_relist(&server);
    pass(secs(30)).await;
    let seen = take();
    assert_eq!(seen[0], (Operation::Watch, some("transport"), Resume::Rewatch));
    assert_eq!(
        seen[1],
        (
            Operation::Watch,
            some("410"),
            Resume::Relist(RelistReason::Expired)
        )
    );
    assert!(informer.has_synced());
}

#[tokio::test(start_paused = true)]
async fn panicking_hook_does_not_affect_the_informer() {
    let server = TestServer::new();
    let hook = |_: &StreamEnd<'_>| panic!("on purpose");
    let builder = pods(&server).configure(|config| config.on_stream_end = Some(Arc::new(hook)));
    let informer = synced(builder).await;
    server.break_watches();
    server.create(pod("ns", "a"));
    wait_for("the watch continues", || informer.store().len() == 1).await;
}
