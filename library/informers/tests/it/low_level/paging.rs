//! Lists in pages, as a stream.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube_informers::Object;
use kube_informers::reflector::{Page, Pager};
use kube_informers::source::{
    Known, ListAnswer, ListRequest, ListStream, ListerWatcher, VersionMatch, WatchRequest, WatchStream,
};

use crate::support::{Recorded, Tasks, api, pod_at, seconds, settle};

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| pod.object_name()).collect()
}

/// Pages with one pod each: `p1` to `pN`.
fn pages(source: &Recorded, count: usize) {
    for number in 1..=count {
        let pod = [pod_at(&format!("p{number}"), "7")];
        source.on_list(match number == count {
            true => ListAnswer::page(pod, "7"),
            false => ListAnswer::page_before(pod, "7", &format!("t{number}")),
        });
    }
}

/// Upstream: TestListPager_List
#[tokio::test(start_paused = true)]
async fn all_pages_make_one_list_and_only_the_first_names_a_version() {
    let source = Recorded::new();
    pages(&source, 3);

    let pager = Pager::new(source.clone()).page_size(1);
    let list = pager.at("5", VersionMatch::NotOlderThan).list().await.unwrap();

    assert_eq!(names(&list.objects), ["p1", "p2", "p3"]);
    assert_eq!(list.resource_version.as_deref(), Some("7"));
    assert_eq!(
        source.requests(),
        [
            "list rv=5+ limit=1",
            "list rv=- token=t1 limit=1",
            "list rv=- token=t2 limit=1"
        ]
    );
}

/// Upstream: TestListPager_List
#[tokio::test(start_paused = true)]
async fn an_expired_token_leads_to_one_full_list_at_the_requested_version() {
    let answers = |source: &Recorded| {
        source
            .on_list(ListAnswer::page_before([pod_at("p1", "7")], "7", "t1"))
            .on_list(ListAnswer::error(api(410, "Expired")))
            .on_list(ListAnswer::page([pod_at("p1", "9"), pod_at("p2", "9")], "9"));
    };
    let source = Recorded::new();
    answers(&source);
    let pager = Pager::new(source.clone()).page_size(1);
    let list = pager.at("5", VersionMatch::NotOlderThan).list().await.unwrap();
    assert_eq!(names(&list.objects), ["p1", "p2"]);
    assert_eq!(list.resource_version.as_deref(), Some("9"));
    assert_eq!(source.requests()[2], "list rv=5+");

    let source = Recorded::new();
    answers(&source);
    let stream = Pager::new(source.clone()).page_size(1).pages();
    let pages: Vec<Page<Pod>> = stream.try_collect().await.unwrap();
    let restarted: Vec<bool> = pages.iter().map(|page| page.restarted).collect();
    assert_eq!(restarted, [false, true]);
    assert_eq!(names(&pages[1].objects), ["p1", "p2"]);

    let source = Recorded::new();
    answers(&source);
    let pager = Pager::new(source.clone()).full_list_if_expired(false);
    let error = pager.list().await.unwrap_err();
    assert!(error.api().unwrap().is_expired());
    assert_eq!(source.requests().len(), 2);
}

/// Upstream: TestListPager_List
#[tokio::test(start_paused = true)]
async fn an_expired_first_page_is_an_error() {
    let source = Recorded::new();
    source.on_list(ListAnswer::error(api(410, "Expired")));
    let error = Pager::new(source.clone()).list().await.unwrap_err();
    assert!(error.api().unwrap().is_expired());
    assert_eq!(source.requests().len(), 1);
}

/// Upstream: TestListPager_EachListItem
#[tokio::test(start_paused = true)]
async fn objects_are_streamed_up_to_the_first_error() {
    let source = Recorded::new();
    pages(&source, 4);
    let all: Vec<Arc<Pod>> = Pager::new(source).objects().try_collect().await.unwrap();
    assert_eq!(names(&all), ["p1", "p2", "p3", "p4"]);

    let source = Recorded::new();
    source
        .on_list(ListAnswer::page_before([pod_at("p1", "7")], "7", "t1"))
        .on_list(ListAnswer::error(api(410, "Expired")));
    let mut objects = Pager::new(source).objects();
    assert_eq!(objects.next().await.unwrap().unwrap().object_name(), "p1");
    assert!(
        objects
            .next()
            .await
            .unwrap()
            .unwrap_err()
            .api()
            .unwrap()
            .is_expired()
    );
    assert!(objects.next().await.is_none());
}

/// Upstream: TestListPager_eachListPageBuffered
#[tokio::test(start_paused = true)]
async fn at_most_the_page_buffer_is_fetched_ahead_of_the_reader() {
    for (buffer, listed) in [(0, 1), (1, 2), (3, 4), (usize::MAX, 5)] {
        let source = Recorded::new();
        pages(&source, 5);
        let mut stream = Pager::new(source.clone()).page_buffer(buffer).pages();
        assert_eq!(
            source.requests().len(),
            0,
            "nothing happens before the first poll"
        );
        stream.next().await.unwrap().unwrap();
        settle().await;
        assert_eq!(source.requests().len(), listed, "a buffer of {buffer}");

        let rest: Vec<Page<Pod>> = stream.try_collect().await.unwrap();
        assert_eq!(rest.len(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_ends_its_task() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page_before([pod_at("p1", "7")], "7", "t1"));
    source.on_list(ListAnswer::silence());
    let tasks = Tasks::now();
    let mut stream = Pager::new(source).pages();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    tasks.gone().await;
}

#[tokio::test(start_paused = true)]
async fn lists_that_never_end_are_errors() {
    let source = Recorded::new();
    for _ in 0..2 {
        source.on_list(ListAnswer::page_before([pod_at("p1", "7")], "7", "again"));
    }
    let error = Pager::new(source).list().await.unwrap_err();
    assert!(
        error.to_string().contains("continue token for the second time"),
        "{error}"
    );

    let source = Recorded::new();
    source.on_list(ListAnswer::silence());
    let error = Pager::new(source.clone()).list().await.unwrap_err();
    assert!(error.to_string().contains("within 60 s"), "{error}");
    assert_eq!(source.times(), [seconds(0)]);

    let source = Recorded::new();
    source.on_list(ListAnswer::new().objects([pod_at("p1", "7")]));
    let error = Pager::new(source).list().await.unwrap_err();
    assert!(
        error.to_string().contains("ended before it was complete"),
        "{error}"
    );
}

/// A source of a user's own, with a bug.
struct Panicking;

impl ListerWatcher<Pod> for Panicking {
    fn list(&self, _: ListRequest, _: Known<Pod>) -> ListStream<Pod> {
        panic!("a bug in the source");
    }

    fn watch(&self, _: WatchRequest, _: Known<Pod>) -> WatchStream<Pod> {
        panic!("a bug in the source");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_source_is_an_error_of_the_buffered_stream() {
    let mut stream = Pager::new(Panicking).pages();
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the source panicked");
    assert!(stream.next().await.is_none());
}
