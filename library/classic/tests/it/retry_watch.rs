//! A watch that resumes without a cache.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::Object;
use kube_informers::reflector::ReflectorConfig;
use kube_informers::source::{ApiError, SourceError, WatchAnswer};
use kube_informers_classic::RetryWatch;

use crate::support::{
    Recorded, Tasks, api, broken, list_first, not_within, pod, pod_at, refused, seconds, within,
};

fn watch(source: &Recorded) -> RetryWatch<Pod> {
    RetryWatch::with_config(source.clone(), "1", list_first()).unwrap()
}

/// `Added a@2`.
async fn next(changes: &mut RetryWatch<Pod>) -> String {
    let delta = within(seconds(600), changes.next()).await.unwrap().unwrap();
    let pod = delta.object().unwrap();
    format!(
        "{} {}@{}",
        delta.name(),
        pod.object_name(),
        pod.object_version().unwrap()
    )
}

async fn end(changes: &mut RetryWatch<Pod>) -> SourceError {
    let error = within(seconds(600), changes.next()).await.unwrap().unwrap_err();
    assert!(changes.next().await.is_none(), "an error ends the stream");
    error
}

/// Upstream: TestNewRetryWatcher
#[test]
fn a_watch_starts_at_a_real_version_only() {
    for version in ["", "0"] {
        let error = RetryWatch::new(Recorded::new().script().clone(), version).unwrap_err();
        assert!(error.to_string().contains("list the collection first"), "{error}");
    }
}

/// Upstream: TestRetryWatcher
#[tokio::test(start_paused = true)]
async fn every_change_is_delivered_once_through_all_kinds_of_interruptions() {
    let source = Recorded::new();
    source
        .on_watch(WatchAnswer::error(refused()))
        .on_watch(WatchAnswer::new().added(pod_at("a", "2")).bookmark("5"))
        .on_watch(WatchAnswer::new().modified(pod_at("a", "6")).broken(broken()))
        .on_watch(WatchAnswer::new().failure(api(500, "InternalError")))
        .on_watch(WatchAnswer::error(api(504, "Timeout")))
        .on_watch(WatchAnswer::new().failure(api(666, "Unheard")))
        .on_watch(WatchAnswer::new())
        .on_watch(WatchAnswer::new().deleted(pod_at("a", "9")).hang());
    let mut changes = watch(&source);

    assert_eq!(next(&mut changes).await, "Added a@2");
    assert_eq!(next(&mut changes).await, "Updated a@6");
    assert_eq!(next(&mut changes).await, "Deleted a@9");
    assert_eq!(changes.resource_version(), "9");
    assert_eq!(
        source.requests(),
        [
            "watch rv=1",
            "watch rv=1",
            "watch rv=5",
            "watch rv=6",
            "watch rv=6",
            "watch rv=6",
            "watch rv=6",
            "watch rv=6"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_productive_watch_resumes_at_once_and_others_are_paced() {
    let source = Recorded::new();
    source.on_watch(WatchAnswer::new().added(pod_at("a", "2")));
    for _ in 0..200 {
        source.on_watch(WatchAnswer::new());
    }
    let mut changes = watch(&source);
    next(&mut changes).await;
    not_within(seconds(600), changes.next()).await;

    let times = source.times();
    assert_eq!(times[..2], [seconds(0), seconds(0)]);
    let per_minute = (0..10).map(|minute| {
        let range = seconds(60 * minute)..seconds(60 * (minute + 1));
        times.iter().filter(|time| range.contains(*time)).count()
    });
    assert!(per_minute.max().unwrap() <= 30, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_resync_period_is_not_for_a_watch_without_a_cache() {
    let source = Recorded::new();
    source.on_watch(WatchAnswer::new().added(pod_at("a", "2")).hang());
    let config = ReflectorConfig {
        resync: Some(seconds(10)),
        ..list_first()
    };
    let mut changes = RetryWatch::with_config(source.clone(), "1", config).unwrap();

    assert_eq!(next(&mut changes).await, "Added a@2");
    not_within(seconds(60), changes.next()).await;
}

#[tokio::test(start_paused = true)]
async fn a_requested_delay_is_respected() {
    let source = Recorded::new();
    source.on_watch(WatchAnswer::error(ApiError {
        retry_after: Some(seconds(17)),
        ..api(429, "TooManyRequests")
    }));
    source.on_watch(WatchAnswer::new().added(pod_at("a", "2")).hang());
    let mut changes = watch(&source);

    next(&mut changes).await;
    assert_eq!(source.times(), [seconds(0), seconds(17)]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_opened_again() {
    let source = Recorded::new();
    source.on_watch(WatchAnswer::silence());
    source.on_watch(WatchAnswer::new().added(pod_at("a", "2")).hang());
    let mut changes = watch(&source);

    next(&mut changes).await;
    // Without a response for 90 s, and after the first delay.
    assert_eq!(source.times(), [seconds(0), Duration::from_millis(90_800)]);
}

/// Upstream: TestRetryWatcher
#[tokio::test(start_paused = true)]
async fn errors_that_no_retry_repairs_end_the_watch() {
    for code in [400, 401, 403, 404, 410, 422] {
        let source = Recorded::new();
        source.on_watch(WatchAnswer::error(api(code, "")));
        let error = end(&mut watch(&source)).await;
        assert_eq!(error.api().unwrap().code, code);
        assert_eq!(source.script().open_watches(), 0);
    }

    let source = Recorded::new();
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("a", "2"))
            .failure(api(410, "Expired")),
    );
    let mut changes = watch(&source);
    next(&mut changes).await;
    assert!(end(&mut changes).await.api().unwrap().is_expired());

    let source = Recorded::new();
    source.on_watch(WatchAnswer::new().added(pod("a")).hang());
    let error = end(&mut watch(&source)).await;
    assert!(error.to_string().contains("no resource version"), "{error}");
}

/// Upstream: TestRetryWatcherToFinishWithUnreadEvents
#[tokio::test(start_paused = true)]
async fn dropping_the_stream_closes_the_watch() {
    let tasks = Tasks::now();
    let source = Recorded::new();
    source.on_watch(
        WatchAnswer::new()
            .added(pod_at("a", "2"))
            .added(pod_at("b", "3"))
            .hang(),
    );
    let mut changes = watch(&source);
    next(&mut changes).await;
    assert_eq!(source.script().open_watches(), 1);

    drop(changes);
    assert_eq!(source.script().open_watches(), 0);
    tasks.assert_gone();
}
