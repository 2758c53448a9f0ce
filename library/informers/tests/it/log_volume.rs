//! Objects and handlers that keep failing do not fill the log.

use k8s_openapi::api::core::v1::Pod;
use kube_informers::Event;
use kube_testserver::builders::pod;
use kube_testserver::{Poison, TestServer};
use serde_json::json;

use crate::support::*;

fn unreadable() -> Poison {
    Poison::edit(|object| object["spec"] = json!("not an object"))
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_is_logged_once_and_the_message_says_whether_an_older_version_is_cached() {
    let (logs, _capture) = CapturedLogs::of_this_thread(tracing::Level::WARN);
    let server = TestServer::new();
    server.create(pod("shop", "never-good"));
    server.create(pod("shop", "once-good"));
    server.poison("pods", "shop/never-good", unreadable());
    let informer = synced_pods(&server).await;
    assert_eq!(informer.store().len(), 1);

    server.poison("pods", "shop/once-good", unreadable());
    server.modify("shop", "once-good", |pod: &mut Pod| {
        pod.metadata
            .labels
            .get_or_insert_default()
            .insert("a".to_owned(), "b".to_owned());
    });
    wait_for("both are in quarantine", || informer.quarantine().len() == 2).await;
    // The same versions are listed again, because the last one has expired.
    for number in 0..3 {
        server.refuse_connections(true);
        server.break_watches();
        server.create(pod("shop", &format!("other-{number}")));
        server.restart();
        server.refuse_connections(false);
        pass(minutes(1)).await;
    }

    let text = logs.text();
    let lines = |name: &str| -> Vec<&str> { text.lines().filter(|line| line.contains(name)).collect() };
    let (never, once) = (lines("shop/never-good"), lines("shop/once-good"));
    assert_eq!((never.len(), once.len()), (1, 1), "{text}");
    assert!(never[0].contains("; it is not cached"), "{text}");
    assert!(once[0].contains("; its last good version stays"), "{text}");
    assert!(
        informer.stats().members[0].reflector.lists > 1,
        "it was listed again"
    );
}

/// Without the message of the panic hook.
fn panics(_: Event<Pod>) {
    std::panic::resume_unwind(Box::new("a deliberate panic"))
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_always_panics_logs_ten_lines_a_minute_and_counts_the_others() {
    let (logs, _capture) = CapturedLogs::of_this_thread(tracing::Level::ERROR);
    let server = TestServer::new();
    let informer = synced_pods(&server).await;
    let handler = informer.add_event_handler(panics).unwrap();
    let panicked = || logs.text().matches("handler panicked").count();
    for number in 0..1000 {
        server.create(pod("shop", &format!("a{number}")));
    }
    settle().await;
    assert_eq!(panicked(), 10);

    pass(minutes(1)).await;
    server.create(pod("shop", "b"));
    settle().await;

    assert_eq!(panicked(), 11);
    assert!(
        logs.text().contains("990 more panics since the last message"),
        "{}",
        logs.text()
    );
    drop(handler);
}
