//! Scripts, and the ports of client-go's tests of its fakes.

use std::time::Duration;

use futures_util::poll;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;
use crate::object::Object;
use crate::source::{Fetched, ListItem};

fn pod(name: &str) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        ..Default::default()
    }
}

fn name(fetched: &Fetched<Pod>) -> String {
    let pod = fetched.object();
    format!(
        "{}@{}",
        pod.object_name(),
        Object::object_version(pod).unwrap_or("-")
    )
}

fn watch_at(script: &Script<Pod>, version: &str) -> WatchStream<Pod> {
    let request = WatchRequest {
        resource_version: Some(version.to_owned()),
        ..Default::default()
    };
    script.watch(request, None)
}

/// All items that are available without waiting.
async fn drain(stream: &mut WatchStream<Pod>) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        match poll!(stream.next()) {
            std::task::Poll::Pending => return lines,
            std::task::Poll::Ready(None) => {
                lines.push("end".to_owned());
                return lines;
            }
            std::task::Poll::Ready(Some(item)) => match item {
                Ok(WatchItem::Progress { .. }) => {}
                Ok(WatchItem::Added(pod)) => lines.push(format!("added {}", name(&pod))),
                Ok(WatchItem::Modified(pod)) => lines.push(format!("modified {}", name(&pod))),
                Ok(WatchItem::Deleted(pod)) => lines.push(format!("deleted {}", name(&pod))),
                Ok(WatchItem::Unreadable { object, .. }) => lines.push(object.to_string()),
                Ok(WatchItem::Bookmark {
                    resource_version,
                    initial_events_end,
                }) => lines.push(format!("bookmark {resource_version:?} {initial_events_end}")),
                Ok(WatchItem::Outside { .. }) => lines.push("outside".to_owned()),
                Ok(WatchItem::Error(error)) => lines.push(error.to_string()),
                Err(error) => lines.push(error.to_string()),
            },
        }
    }
}

async fn list(script: &Script<Pod>) -> Vec<String> {
    let items = script.list(ListRequest::default(), None);
    let lines = items.filter_map(|item| {
        std::future::ready(match item {
            Ok(ListItem::Progress { .. }) => None,
            Ok(ListItem::Object(pod)) => Some(name(&pod)),
            Ok(ListItem::Unreadable(object)) => Some(object.to_string()),
            Ok(ListItem::Outside) => Some("outside".to_owned()),
            Ok(ListItem::End(meta)) => Some(format!("end {}", meta.resource_version.unwrap_or_default())),
            Err(error) => Some(error.to_string()),
        })
    });
    lines.collect().await
}

/// Upstream: TestRCNumber
#[tokio::test]
async fn a_watch_yields_what_is_later_than_its_version() {
    let script = Script::new();
    assert_eq!(script.add(pod("foo")), 1);
    assert_eq!(script.modify(pod("foo")), 2);
    assert_eq!(script.modify(pod("foo")), 3);

    assert_eq!(
        drain(&mut watch_at(&script, "1")).await,
        ["modified foo@2", "modified foo@3"]
    );
    assert_eq!(list(&script).await, ["foo@3", "end 3"]);
    assert_eq!(drain(&mut watch_at(&script, "2")).await, ["modified foo@3"]);
    assert!(drain(&mut watch_at(&script, "3")).await.is_empty());
}

/// Upstream: TestResetWatch
#[tokio::test]
async fn a_reset_ends_watches_and_forgets_the_history() {
    let script = Script::new();
    script.add(pod("foo"));
    script.modify(pod("foo"));
    script.modify(pod("foo"));
    let mut open = watch_at(&script, "3");
    assert!(drain(&mut open).await.is_empty());

    script.reset_watch();

    assert_eq!(drain(&mut open).await, ["end"]);
    assert_eq!(
        drain(&mut watch_at(&script, "1")).await,
        [
            "the server returned 410 Expired: too old resource version: 1 (3)",
            "end"
        ]
    );
    let mut fresh = watch_at(&script, "3");
    assert!(drain(&mut fresh).await.is_empty());
    script.modify(pod("foo"));
    assert_eq!(drain(&mut fresh).await, ["modified foo@4"]);
}

/// Upstream: TestToListWatcherWithWatchListSemantics
#[test]
fn a_source_is_asked_for_a_watch_list_unless_it_says_no() {
    struct Plain;
    impl ListerWatcher<Pod> for Plain {
        fn list(&self, _: ListRequest, _: Known<Pod>) -> ListStream<Pod> {
            Box::pin(stream::empty())
        }
        fn watch(&self, _: WatchRequest, _: Known<Pod>) -> WatchStream<Pod> {
            Box::pin(stream::empty())
        }
    }

    assert_eq!(Plain.watch_list(), WatchListSupport::Probe);
    assert_eq!(Script::<Pod>::new().watch_list(), WatchListSupport::Unsupported);
    assert_eq!(
        Script::<Pod>::new().with_watch_list().watch_list(),
        WatchListSupport::Probe
    );
}

#[tokio::test]
async fn a_dropped_change_is_in_the_state_and_in_the_history_only() {
    let script = Script::new();
    script.add(pod("a"));
    let mut open = watch_at(&script, "1");
    assert!(drain(&mut open).await.is_empty());

    script.add_drop_watch(pod("b"));
    script.modify_drop_watch(pod("b"));
    script.delete_drop_watch(pod("a"));
    script.send_bookmark();

    assert_eq!(drain(&mut open).await, ["bookmark Some(\"4\") false"]);
    assert_eq!(list(&script).await, ["b@3", "end 4"]);
    assert_eq!(
        drain(&mut watch_at(&script, "1")).await,
        ["added b@2", "modified b@3", "deleted a@4"]
    );
}

#[tokio::test]
async fn a_watch_list_sends_the_state_then_what_follows() {
    let script = Script::new().with_watch_list();
    script.add(pod("b"));
    script.add(pod("a"));
    let request = WatchRequest {
        initial_events: true,
        ..Default::default()
    };
    let mut stream = script.watch(request.clone(), None);

    assert_eq!(
        drain(&mut stream).await,
        ["added a@2", "added b@1", "bookmark Some(\"2\") true"]
    );
    script.delete(pod("a"));
    assert_eq!(drain(&mut stream).await, ["deleted a@3"]);

    let plain = Script::new();
    plain.add(pod("a"));
    let refused = drain(&mut plain.watch(request, None)).await;
    assert!(
        refused[0].starts_with("the server returned 422 Invalid"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn versions_that_cannot_be_served_are_refused() {
    let script = Script::new();
    script.add(pod("a"));

    let future = drain(&mut watch_at(&script, "9")).await;
    assert!(
        future[0].contains("Too large resource version: 9, current: 1"),
        "{future:?}"
    );
    let odd = drain(&mut watch_at(&script, "x")).await;
    assert!(odd[0].contains("400 BadRequest"), "{odd:?}");
}

#[tokio::test]
async fn queued_answers_come_first_and_in_order() {
    let script = Script::new();
    script.add(pod("live"));
    script
        .on_list(ListAnswer::page_before([pod("a")], "5", "more"))
        .on_list(ListAnswer::error(ApiError::new(500, "", "no")))
        .on_watch(
            WatchAnswer::new()
                .added(pod("w"))
                .bookmark("6")
                .failure(ApiError::new(410, "Expired", "old")),
        )
        .on_watch(WatchAnswer::error(ApiError::new(403, "Forbidden", "never")));

    assert_eq!(list(&script).await, ["a@-", "end 5"]);
    assert_eq!(list(&script).await, ["the server returned 500: no"]);
    assert_eq!(list(&script).await, ["live@1", "end 1"]);
    assert_eq!(
        drain(&mut watch_at(&script, "1")).await,
        [
            "added w@-",
            "bookmark Some(\"6\") false",
            "the server returned 410 Expired: old",
            "end"
        ]
    );
    assert_eq!(
        drain(&mut watch_at(&script, "1")).await,
        ["the server returned 403 Forbidden: never", "end"]
    );
    assert!(drain(&mut watch_at(&script, "1")).await.is_empty());
    assert_eq!(script.requests().len(), 6);
    assert!(matches!(script.requests()[5], Seen::Watch(_)));
}

#[tokio::test]
async fn lists_can_be_made_to_fail() {
    let script = Script::new();
    script.add(pod("a"));
    script.fail_lists(ApiError::new(503, "", "later"));
    assert_eq!(list(&script).await, ["the server returned 503: later"]);
    script.fail_lists(None);
    assert_eq!(list(&script).await, ["a@1", "end 1"]);
}

#[tokio::test(start_paused = true)]
async fn pauses_and_silence_are_on_the_clock_of_the_test() {
    let script = Script::<Pod>::new();
    script.on_list(ListAnswer::new().after(Duration::from_secs(60)).hang());
    script.on_list(ListAnswer::silence());
    let begin = tokio::time::Instant::now();

    let mut items = script.list(ListRequest::default(), None);
    assert!(matches!(
        items.next().await,
        Some(Ok(ListItem::Progress { bytes: 0 }))
    ));
    let waited = tokio::time::timeout(Duration::from_secs(3600), items.next()).await;
    assert!(waited.is_err());
    let mut silent = script.list(ListRequest::default(), None);
    assert!(
        tokio::time::timeout(Duration::from_secs(400), silent.next())
            .await
            .is_err()
    );

    assert_eq!(begin.elapsed(), Duration::from_secs(4000));
}

#[tokio::test]
async fn an_empty_script_says_so_and_watches_in_silence() {
    let script = Script::<Pod>::new();
    assert_eq!(
        list(&script).await,
        ["the script has no response to this list and no live collection"]
    );
    assert!(drain(&mut watch_at(&script, "1")).await.is_empty());
}

#[tokio::test]
async fn open_watches_are_counted_until_they_end_or_are_dropped() {
    let script = Script::<Pod>::new();
    script.on_watch(WatchAnswer::new());
    let mut ending = watch_at(&script, "1");
    let silent = watch_at(&script, "1");
    assert_eq!(script.open_watches(), 2);

    assert_eq!(drain(&mut ending).await, ["end"]);
    assert_eq!(script.open_watches(), 1);
    drop(silent);
    assert_eq!(script.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_test_can_wait_for_requests_and_watches() {
    let script = Script::<Pod>::new();
    let other = script.clone();
    let asking = async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let watch = watch_at(&other, "1");
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(watch);
    };
    let waiting = async {
        assert_eq!(script.seen(1).await.len(), 1);
        script.watched_by(1).await;
        script.watched_by(0).await;
    };
    tokio::join!(asking, waiting);
}
