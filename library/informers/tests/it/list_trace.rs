//! The trace of a list that takes more than 10 s.

use std::time::Duration;

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube_informers::{Informer, Scope};
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer};

use crate::support::*;

/// User code that takes this long. The paused clock advances without waiting.
fn work(time: Duration) {
    tokio::time::advance(time).now_or_never();
}

/// The seconds of a stage in a log line: `decode 2.0 s`.
fn stage(line: &str, name: &str) -> f64 {
    let start = format!("{name} ");
    let (_, rest) = line
        .split_once(&start)
        .unwrap_or_else(|| panic!("no {name} in {line}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

async fn traced(watch_list: bool) -> Vec<String> {
    let (lines, _guard) = CapturedLogs::of_this_thread(tracing::Level::WARN);
    let server = TestServer::new();
    for namespace in ["a", "b"] {
        for name in ["one", "two"] {
            server.create(pod(namespace, name));
        }
    }
    server.fault(RequestMatcher::any().times(2), Fault::delay(secs(9)));
    let informer = Informer::<Pod>::scoped(server.client(), Scope::namespaces(["a", "b"]))
        .configure(|config| config.watch_list = watch_list)
        .transform(|_: &mut Pod| work(ms(1000)))
        .start();
    informer.synced_within(minutes(2)).await.unwrap();
    let text = lines.text();
    let slow = text.lines().filter(|line| line.contains("slow "));
    slow.map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn a_slow_list_is_logged_with_the_time_of_each_stage() {
    for watch_list in [false, true] {
        let lines = traced(watch_list).await;
        let what = format!("watch-list: {watch_list}: {lines:#?}");
        assert_eq!(lines.len(), 2, "one line for each watch: {what}");
        for line in &lines {
            let by = if watch_list {
                "slow watch-list: "
            } else {
                "slow list: "
            };
            assert!(line.contains(by) && line.contains("objects=2"), "{what}");
            assert!(stage(line, "request") >= 9.0, "{what}");
            assert!(stage(line, "decode") >= 2.0, "two transforms: {what}");
            let stages = ["request", "receive", "decode"];
            let total: f64 = stages.iter().map(|name| stage(line, name)).sum();
            // Nothing is counted twice: 9 s, and at most the work of both watches.
            assert!(total <= 9.0 + 4.0 + 0.5, "{total}: {what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_empty_list_is_logged() {
    let (lines, _guard) = CapturedLogs::of_this_thread(tracing::Level::WARN);
    let server = TestServer::new();
    server.fault(RequestMatcher::any().times(1), Fault::delay(secs(12)));
    let informer = paged_pods(&server).start();
    informer.synced_within(minutes(2)).await.unwrap();

    let text = lines.text();
    assert!(text.contains("slow list: request 12.0 s"), "{text}");
    assert!(text.contains("objects=0"), "{text}");
}
