//! Events on the embedded server.

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use kube_controller::{Note, Recorder};
use kube_testserver::builders::{node, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};

use crate::support::*;

fn recorder(server: &TestServer) -> Recorder {
    Recorder::start(server.client(), "example.dev/test", "test-0")
}

/// As a client reads them. The server stores Events of both API groups as one kind.
async fn events(server: &TestServer) -> Vec<Event> {
    let api = Api::<Event>::all(server.client());
    api.list(&ListParams::default()).await.unwrap().items
}

#[tokio::test(start_paused = true)]
async fn event_names_object_reason_and_reporter() {
    let server = TestServer::new();
    let recorder = recorder(&server);
    let cart = server.create(pod("shop", "cart"));

    recorder.warning(&cart, "QuotaExceeded", "Scaling", "no more pods");
    recorder.normal(&server.create(node("n1")), "Cordoned", "Cordoning", "cordoned");
    assert!(recorder.flush_within(secs(5)).await);

    let mut all = events(&server).await;
    all.sort_by_key(|event| event.reason.clone());
    let [cordoned, quota] = all.try_into().unwrap();
    assert_eq!(cordoned.metadata.namespace.as_deref(), Some("default"));
    let regarding = quota.regarding.unwrap();
    assert_eq!(
        (regarding.kind.as_deref(), regarding.name.as_deref()),
        (Some("Pod"), Some("cart"))
    );
    assert_eq!(
        (regarding.uid, regarding.api_version.as_deref()),
        (cart.metadata.uid, Some("v1"))
    );
    assert_eq!(
        (quota.type_.as_deref(), quota.reason.as_deref()),
        (Some("Warning"), Some("QuotaExceeded"))
    );
    assert_eq!(
        (quota.action.as_deref(), quota.note.as_deref()),
        (Some("Scaling"), Some("no more pods"))
    );
    assert_eq!(quota.reporting_controller.as_deref(), Some("example.dev/test"));
    assert_eq!(quota.reporting_instance.as_deref(), Some("test-0"));
    assert!(quota.event_time.is_some() && quota.series.is_none());
}

#[tokio::test(start_paused = true)]
async fn repetitions_are_one_object_with_a_count() {
    let server = TestServer::new();
    let recorder = recorder(&server);
    let cart = server.create(pod("shop", "cart"));
    for round in 0..500 {
        recorder.normal(&cart, "Pulled", "Pulling", format!("attempt {round}"));
        settle().await;
    }
    assert_eq!(
        events(&server).await[0].series.as_ref().unwrap().count,
        2,
        "the beginning of the series"
    );

    pass(secs(7 * 60)).await;

    let all = events(&server).await;
    assert_eq!((all.len(), all[0].series.as_ref().unwrap().count), (1, 500));
    let writes = server.count_requests(Verb::Create, "events") + server.count_requests(Verb::Patch, "events");
    assert_eq!(writes, 3, "create, begin, end");
}

#[tokio::test(start_paused = true)]
async fn outage_delays_events_and_loses_none() {
    let server = TestServer::new();
    let recorder = recorder(&server);
    let cart = server.create(pod("shop", "cart"));
    let down = server.fault(RequestMatcher::resource("events").forever(), Fault::refuse());

    for reason in ["Pulled", "Started", "Pulled"] {
        recorder.normal(&cart, reason, "Testing", "note");
    }
    pass(secs(600)).await;
    assert_eq!(server.count("events"), 0);
    assert!(recorder.stats().failed <= 30, "gentle: {:?}", recorder.stats());

    down.clear();
    pass(secs(60)).await;
    let mut counts: Vec<_> = events(&server)
        .await
        .into_iter()
        .map(|event| {
            (
                event.reason.unwrap(),
                event.series.map_or(1, |series| series.count),
            )
        })
        .collect();
    counts.sort();
    assert_eq!(counts, [("Pulled".to_owned(), 2), ("Started".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn recording_never_blocks_and_what_does_not_fit_is_counted() {
    let server = TestServer::new();
    server.fault(RequestMatcher::resource("events").forever(), Fault::hang());
    let recorder = recorder(&server);
    let cart = server.create(pod("shop", "cart"));
    for n in 0..1500 {
        recorder.normal(&cart, &format!("Reason{n}"), "Testing", "note");
    }
    settle().await;

    let stats = recorder.stats();
    assert_eq!((stats.recorded, stats.spam, stats.dropped), (25, 975, 500));
    assert!(!recorder.flush_within(secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn rejected_event_is_dropped_and_the_next_one_is_written() {
    let server = TestServer::new();
    server.fault(RequestMatcher::create("events"), Fault::status(403));
    let recorder = recorder(&server);
    let cart = server.create(pod("shop", "cart"));

    recorder.normal(&cart, "Pulled", "Pulling", "note");
    settle().await;
    recorder.record(
        kube::Resource::object_ref(&cart, &()),
        Note::normal("Started", "Starting", "note"),
    );
    recorder.clone().shutdown_within(secs(5)).await;

    assert_eq!((recorder.stats().rejected, recorder.stats().written), (1, 1));
    assert_eq!(events(&server).await[0].reason.as_deref(), Some("Started"));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_recorder_writes_what_is_left_and_ends_its_task() {
    let server = TestServer::new();
    let cart = server.create(pod("shop", "cart"));
    let recorder = recorder(&server);
    for _ in 0..3 {
        recorder.normal(&cart, "Pulled", "Pulling", "note");
        settle().await;
    }

    drop(recorder);
    pass(secs(6)).await;

    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    assert_eq!(events(&server).await[0].series.as_ref().unwrap().count, 3);
}
