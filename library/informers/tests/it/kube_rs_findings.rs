//! Ten problems found in kube-runtime 5.0.0, as tests that they do not occur here.

use kube_informers::source::SourceOptions;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_informers::handler::Backlog;
use kube_informers::handler::HandlerOptions;
use kube_informers::reflector::{InitialList, ReflectorState};
use kube_informers::{Event, Informer, ListWatch, Scope};
use kube_testserver::builders::{Build, config_map, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};
use parking_lot::Mutex;
use serde_json::json;

use crate::support::*;

/// In kube-runtime, a subscriber that looks up a deleted object is never woken again, and its full buffer then
/// stops the root watch.
#[tokio::test(start_paused = true)]
async fn finding_01_a_create_delete_race_blocks_neither_subscriber_nor_cache() {
    let server = TestServer::new();
    let informer = synced_pods(&server).await;
    let mut every = informer.subscribe();
    let mut newest = informer.subscribe_with(HandlerOptions::default().backlog(Backlog::CoalesceByKey));

    server.create(pod("ns", "a"));
    server.delete::<Pod>("ns", "a");
    for number in 0..28 {
        server.create(pod("ns", &format!("p{number}")));
    }
    wait_for("the cache has them all", || informer.store().len() == 28).await;

    // Nothing has been read so far: an unread subscription delays nothing.
    assert_eq!((every.pending(), newest.pending()), (30, 28));
    assert_eq!(event_text(&every.next().await.unwrap()), "added ns/a");
    assert_eq!(event_text(&every.next().await.unwrap()), "deleted ns/a");
    for number in 0..28 {
        let expected = format!("added ns/p{number}");
        assert_eq!(event_text(&every.next().await.unwrap()), expected);
        assert_eq!(event_text(&newest.next().await.unwrap()), expected);
    }
    // Both are woken by the next event.
    server.create(pod("ns", "late"));
    assert_eq!(event_text(&every.next().await.unwrap()), "added ns/late");
    assert_eq!(event_text(&newest.next().await.unwrap()), "added ns/late");
}

/// In kube-runtime: 102 lists in 120 seconds, at most 1.6 s apart.
#[tokio::test(start_paused = true)]
async fn finding_02_failing_lists_back_off() {
    let server = TestServer::new();
    server.fault(RequestMatcher::resource("pods").forever(), Fault::status(500));
    let informer = paged_pods(&server).start();

    pass(secs(120)).await;

    let requests = server.requests();
    assert!((5..=9).contains(&requests.len()), "{} requests", requests.len());
    let gaps = gaps(&requests);
    assert!(
        gaps.iter().skip(5).all(|gap| *gap >= secs(25)),
        "the delays grow to half a minute: {gaps:?}"
    );
    let error = informer.synced_within(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.attempts() as usize, requests.len());

    // The same with watch-lists: one list per attempt.
    let server = TestServer::new();
    server.fault(RequestMatcher::resource("pods").forever(), Fault::status(500));
    let _informer = pods(&server).start();
    pass(secs(120)).await;
    assert!(
        server.requests().len() <= 18,
        "{} requests",
        server.requests().len()
    );
}

/// In kube-runtime: 600 seconds of watches at an expired version, and no list.
#[tokio::test(start_paused = true)]
async fn finding_03_http_410_at_the_start_of_a_watch_leads_to_a_list() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    let informer = synced_pods(&server).await;

    server.fault(RequestMatcher::plain_watch("pods"), Fault::status(410));
    server.break_watches();
    server.create(pod("ns", "b"));

    wait_for("the cache has both", || names(&informer) == ["a", "b"]).await;
    let stats = &informer.stats().members[0].reflector;
    assert_eq!(stats.relists.get("expired"), Some(&1));
    assert_eq!(stats.lists, 2);
}

/// In kube-runtime: 18 634 requests in 300 ms.
#[tokio::test(start_paused = true)]
async fn finding_04_short_watches_cause_neither_a_hot_loop_nor_a_list() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    server.fault(
        RequestMatcher::plain_watch("pods").forever(),
        Fault::close_after_events(0),
    );
    let informer = synced(paged_pods(&server)).await;

    pass(minutes(10)).await;

    assert_gentle(&server);
    assert_eq!(server.count_requests(Verb::List, "pods"), 1);
    assert_eq!(names(&informer), ["a"]);
    let watches = server.count_requests(Verb::Watch, "pods");
    assert!(watches <= 30, "{watches} watches in ten minutes");
}

/// In kube-runtime: one request in 24 virtual hours.
#[tokio::test(start_paused = true)]
async fn finding_05_a_list_or_watch_without_a_response_is_abandoned() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    let silence = server.fault(RequestMatcher::list("pods").forever(), Fault::hang());
    let informer = paged_pods(&server).start();

    let error = informer.synced_within(secs(61)).await.unwrap_err().to_string();
    assert!(
        error.contains("no response to the list request within 60 s"),
        "{error}"
    );
    pass(minutes(60 * 24)).await;
    let lists = server.count_requests(Verb::List, "pods");
    assert!((24 * 30..=24 * 60).contains(&lists), "{lists} lists in a day");

    silence.clear();
    informer.synced_within(minutes(3)).await.expect("it recovers");

    // A watch whose response does not start.
    server.fault(RequestMatcher::plain_watch("pods"), Fault::hang());
    server.break_watches();
    server.create(pod("ns", "b"));
    let asked = tokio::time::Instant::now();
    wait_for_an_hour("the watch is abandoned", || informer.store().len() == 2).await;
    assert!(asked.elapsed() <= secs(610), "{:?}", asked.elapsed());
}

/// Waits up to an hour of virtual time.
async fn wait_for_an_hour(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..3600 {
        if condition() {
            return;
        }
        pass(secs(1)).await;
    }
    panic!("{what}: not met after an hour");
}

/// In kube-runtime: `resourceVersion=0` is dropped because of the default page size.
#[tokio::test(start_paused = true)]
async fn finding_06_any_cached_requests_version_zero_with_the_default_page_size() {
    let server = TestServer::builder().replicas(2).build();
    server.create(pod("ns", "a"));
    server.replica(1).freeze();
    server.create(pod("ns", "b"));

    let behind = server.replica(1).client();
    let any = Informer::<Pod>::all(behind.clone()).configure(|config| {
        config.watch_list = false;
        config.initial_list = InitialList::AnyCached;
    });
    let any = synced(any).await;

    let list = server.requests().remove(0);
    assert_eq!(list.verb, Verb::List);
    assert_eq!(list.param("resourceVersion"), Some("0"));
    // It uses the state in the memory of the replica. The default does not.
    assert_eq!(names(&any), ["a"]);
    let consistent = Informer::<Pod>::all(behind).configure(|config| config.watch_list = false);
    assert_eq!(names(&synced(consistent).await), ["a", "b"]);
}

/// In kube-runtime: 18 rejected watches in 600 seconds and no list. It never syncs with a server without the feature.
#[tokio::test(start_paused = true)]
async fn finding_07_a_failed_watch_list_is_replaced_by_a_list_and_remembered() {
    for fault in [Fault::refuse_watch_list(), Fault::ignore_initial_events()] {
        let server = TestServer::new();
        server.create(pod("ns", "a"));
        server.fault(RequestMatcher::watch_list("pods").forever(), fault);
        let informer = pods(&server).start();

        informer
            .synced_within(secs(25))
            .await
            .expect("it syncs by a list");
        assert_eq!(names(&informer), ["a"]);

        // Relists within the next ten minutes do not try a watch-list.
        pass(minutes(1)).await;
        force_relist(&server);
        wait_for("it has relisted", || {
            informer.stats().members[0].reflector.lists == 2
        })
        .await;
        let watch_lists = |request: &kube_testserver::SeenRequest| {
            request.verb == Verb::Watch && request.param("sendInitialEvents") == Some("true")
        };
        assert_eq!(server.requests().into_iter().filter(watch_lists).count(), 1);
        assert_eq!(server.count_requests(Verb::List, "pods"), 2);
    }
}

/// In kube-runtime: neither an event nor a subscriber reports it.
#[tokio::test(start_paused = true)]
async fn finding_08_objects_missing_from_a_relist_are_delivered_as_deleted() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    server.create(pod("ns", "b"));
    let informer = synced_pods(&server).await;
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    let mut events = informer.subscribe();
    handler.synced().await.unwrap();
    log.take();

    server.fault(RequestMatcher::plain_watch("pods").times(1), Fault::refuse());
    server.break_watches();
    server.delete::<Pod>("ns", "b");
    server.compact();

    wait_for("the deletion is delivered", || log.len() > 0).await;
    assert_eq!(log.all(), ["deleted ns/b (missed)"]);
    assert_eq!(names(&informer), ["a"]);
    let last_three = [events.next().await, events.next().await, events.next().await];
    assert_eq!(
        event_text(last_three[2].as_ref().unwrap()),
        "deleted ns/b (missed)"
    );
}

/// In kube-runtime: one backoff covers all watches of a controller, and events of a healthy watch are 10 to 21 s late.
#[tokio::test(start_paused = true)]
async fn finding_09_a_failing_watch_does_not_delay_others() {
    let server = TestServer::new();
    server.fault(
        RequestMatcher::resource("configmaps").forever(),
        Fault::status(500),
    );
    let client = server.client();
    let failing = Informer::<ConfigMap>::all(client.clone()).start();
    let healthy = synced(Informer::<Pod>::all(client)).await;

    for number in 0..12 {
        pass(secs(10)).await;
        let created = server.create(pod("ns", &format!("p{number}")));
        let version = created.metadata.resource_version.unwrap();
        healthy
            .wait_for_within(&version, Duration::from_millis(100))
            .await
            .expect("it is delivered at once");
    }
    assert!(matches!(failing.state(), ReflectorState::BackingOff { .. }));
    assert_eq!(healthy.stats().members[0].reflector.errors.len(), 0);
}

/// In kube-runtime: most memory is managedFields, each event deep-clones the object, and a relist decodes everything.
#[tokio::test(start_paused = true)]
async fn finding_10_one_decoded_object_without_managed_fields_is_shared_by_all_and_survives_a_relist() {
    let server = TestServer::new();
    for name in ["a", "b"] {
        let mut config = config_map("ns", name).label("app", "x");
        config.metadata.managed_fields = serde_json::from_value(json!([
            {"manager": "test", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}}
        ]))
        .unwrap();
        server.create(config);
    }
    let stored: ConfigMap = server.get("ns", "a").unwrap();
    assert!(stored.metadata.managed_fields.is_some(), "the server sends them");

    let source = ListWatch::<ConfigMap>::new(server.client(), Scope::all()).options(SourceOptions {
        drop_managed_fields: Some(true),
        ..Default::default()
    });
    let informer = synced(Informer::from_list_watch(source)).await;
    let seen = [(); 2].map(|()| Arc::new(Mutex::new(Vec::new())));
    for seen in &seen {
        let seen = seen.clone();
        let handler = informer
            .add_event_handler(move |event: Event<ConfigMap>| seen.lock().push(event.object().clone()))
            .unwrap();
        handler.synced().await.unwrap();
    }
    let before = informer.store().get(("ns", "a")).unwrap();
    assert_eq!(before.metadata.managed_fields, None);
    assert_eq!(before.metadata.labels.as_ref().unwrap()["app"], "x");
    for seen in &seen {
        assert!(seen.lock().iter().any(|object| Arc::ptr_eq(object, &before)));
    }

    server.modify::<ConfigMap>("ns", "b", |config| config.data = Some(Default::default()));
    wait_for("the change is delivered", || {
        seen.iter().all(|seen| seen.lock().len() == 3)
    })
    .await;
    let changed = informer.store().get(("ns", "b")).unwrap();
    assert_eq!(changed.metadata.managed_fields, None);
    assert!(seen.iter().all(|seen| Arc::ptr_eq(&seen.lock()[2], &changed)));

    let reused = informer.stats().members[0].reflector.reused;
    force_relist(&server);
    wait_for("it has relisted", || {
        informer.stats().members[0].reflector.lists == 2
    })
    .await;
    settle().await;
    assert!(Arc::ptr_eq(&informer.store().get(("ns", "a")).unwrap(), &before));
    assert!(Arc::ptr_eq(&informer.store().get(("ns", "b")).unwrap(), &changed));
    // Nothing was decoded, and nothing was delivered.
    assert_eq!(informer.stats().members[0].reflector.reused, reused + 2);
    assert!(seen.iter().all(|seen| seen.lock().len() == 3));
}
