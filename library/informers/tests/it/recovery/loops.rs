//! Servers that would send a naive client into a loop of requests.

use kube_informers::reflector::StreamEnd;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube_informers::reflector::ReflectorStats;
use kube_informers::source::{
    Fetched, Known, ListItem, ListMeta, ListRequest, ListStream, ListerWatcher, SourceError,
    WatchListSupport, WatchRequest, WatchStream,
};
use kube_informers::{Informer, InformerBuilder};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::assert_ceiling;
use crate::support::*;

type Page = Result<(Vec<Pod>, &'static str, Option<String>), SourceError>;

/// A server that returns a page for the n-th request, and rejects every watch as expired.
struct Hostile<F> {
    page: F,
    started: Instant,
    sent: Arc<Mutex<Vec<Duration>>>,
}

impl<F: Fn(&ListRequest, usize) -> Page + Send + Sync + 'static> ListerWatcher<Pod> for Hostile<F> {
    fn list(&self, request: ListRequest, _: Known<Pod>) -> ListStream<Pod> {
        let number = self.note();
        let items = match (self.page)(&request, number) {
            Err(error) => vec![Err(error)],
            Ok((pods, version, token)) => {
                let objects = pods
                    .into_iter()
                    .map(|pod| Ok(ListItem::Object(Fetched::from(pod))));
                let end = ListItem::End(ListMeta {
                    resource_version: Some(version.to_owned()),
                    continue_token: token,
                    ..ListMeta::default()
                });
                objects.chain([Ok(end)]).collect()
            }
        };
        stream::iter(items).boxed()
    }

    fn watch(&self, _: WatchRequest, _: Known<Pod>) -> WatchStream<Pod> {
        self.note();
        stream::iter([Err(api(410, "Expired").into())]).boxed()
    }

    fn watch_list(&self) -> WatchListSupport {
        WatchListSupport::Unsupported
    }
}

impl<F> Hostile<F> {
    fn note(&self) -> usize {
        let mut sent = self.sent.lock();
        assert!(sent.len() < 50_000, "a tight loop");
        sent.push(self.started.elapsed());
        sent.len()
    }
}

/// The times of the requests of an informer during a quarter of an hour, its counters, and its last error.
async fn requests(
    page: impl Fn(&ListRequest, usize) -> Page + Send + Sync + 'static,
    configure: impl FnOnce(InformerBuilder<Pod>) -> InformerBuilder<Pod>,
) -> (Vec<Duration>, ReflectorStats, String) {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let server = Hostile {
        page,
        started: Instant::now(),
        sent: sent.clone(),
    };
    let ends = Arc::new(Mutex::new(String::new()));
    let log = ends.clone();
    let informer = configure(Informer::from_source(server))
        .configure(|config| {
            config.on_stream_end = Some(Arc::new(move |end: &StreamEnd<'_>| *log.lock() = end.to_string()));
        })
        .start();
    pass(minutes(15)).await;
    let stats = informer.stats().members[0].reflector.clone();
    informer.shutdown().await;
    let times = sent.lock().clone();
    let text = ends.lock().clone();
    (times, stats, text)
}

fn one_pod(number: usize) -> Vec<Pod> {
    vec![pod_at(&format!("p{number}"), "5")]
}

#[tokio::test(start_paused = true)]
async fn f22_a_second_page_that_always_expires_obeys_the_ceiling() {
    let (times, _, _) = requests(
        |request, number| match request.continue_token {
            Some(_) => Err(api(410, "Expired").into()),
            None => Ok((one_pod(number), "7", Some("c".to_owned()))),
        },
        |builder| builder,
    )
    .await;

    assert_ceiling(&times);
    assert!(times.len() > 20, "it keeps trying");
}

#[tokio::test(start_paused = true)]
async fn f23_endless_empty_pages_obey_the_ceiling() {
    let (times, stats, _) = requests(
        |_, number| Ok((Vec::new(), "7", Some(format!("c{number}")))),
        |builder| builder,
    )
    .await;

    assert_ceiling(&times);
    assert!(stats.paced_pages > 100, "{}", stats.paced_pages);
}

#[tokio::test(start_paused = true)]
async fn f23_endless_pages_with_the_same_object_obey_the_ceiling() {
    let (times, _, _) = requests(
        |_, number| Ok((one_pod(0), "7", Some(format!("c{number}")))),
        |builder| builder,
    )
    .await;

    // The second page is requested before it is known that it repeats the first.
    assert_ceiling(&times[1..]);
}

#[tokio::test(start_paused = true)]
async fn f23_alternating_tokens_obey_the_ceiling_and_are_reported() {
    let (times, stats, text) = requests(
        |_, number| {
            let token = ["a", "b"][number % 2];
            Ok((one_pod(number), "7", Some(token.to_owned())))
        },
        |builder| builder,
    )
    .await;

    // The first list has two pages that make progress.
    assert_ceiling(&times[2..]);
    assert!(stats.endless_lists > 5, "{}", stats.endless_lists);
    assert!(text.contains("continue token for the second time"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn f23_endless_pages_with_new_objects_end_at_the_limit_and_are_reported() {
    let (times, stats, text) = requests(
        |_, number| Ok((one_pod(number), "7", Some(format!("c{number}")))),
        |builder| builder.configure(|config| config.max_pages = 100),
    )
    .await;

    assert_ceiling(&times[100..]);
    assert!(stats.endless_lists >= 1, "{}", stats.endless_lists);
    assert!(
        text.contains("more than 100 pages") && text.contains("max_pages"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn f19_a_server_whose_watches_always_expire_obeys_the_ceiling() {
    let (times, stats, _) = requests(|_, number| Ok((one_pod(number), "7", None)), |builder| builder).await;

    assert_ceiling(&times);
    assert!(stats.lists > 20, "{}", stats.lists);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_200_000_objects_in_pages_of_500_runs_at_full_speed() {
    let (times, stats, _) = requests(
        |_, number| {
            let pods = (0..500).map(|pod| pod_at(&format!("p{number}-{pod}"), "5"));
            let token = (number < 400).then(|| format!("c{number}"));
            Ok((pods.collect(), "7", token))
        },
        |builder| builder,
    )
    .await;

    assert_eq!(times[399], Duration::ZERO, "400 pages without a delay");
    assert_eq!(stats.paced_pages, 0);
    assert!(stats.list_pages >= 400);
}
