//! F04: the server's watch cache lost an event, so the cache differs from the collection for ever.

use k8s_openapi::api::core::v1::Pod;
use kube_informers::Informer;
use kube_testserver::builders::{Build, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb, Which};

use crate::support::*;

const fn hours(hours: u64) -> std::time::Duration {
    std::time::Duration::from_secs(hours * 3600)
}

fn audit(informer: &Informer<Pod>) -> kube_informers::stats::AuditStats {
    informer.stats().members[0].audit.clone()
}

#[tokio::test(start_paused = true)]
async fn f04_a_lost_deletion_is_found_by_the_audit_and_delivered() {
    for build in [pods, paged_pods] {
        let server = TestServer::new();
        for name in ["a", "b", "ghost"] {
            server.create(pod("ns", name));
        }
        let informer = synced(build(&server)).await;
        let log = Log::new();
        let handler = informer.add_event_handler(log.handler()).unwrap();
        handler.synced().await.unwrap();
        log.take();

        server.replica(0).lose_next("pods", "ns/ghost");
        server.delete::<Pod>("ns", "ghost");
        pass(minutes(50)).await;
        assert_eq!(informer.store().len(), 3, "the watch looks healthy");
        assert_eq!(audit(&informer).pages, 0, "the first audit is later");
        let version = informer
            .store()
            .get(("ns", "ghost"))
            .unwrap()
            .metadata
            .resource_version
            .clone();
        pass(hours(24)).await;

        assert_eq!(cached(&informer), stored(&server, "pods"));
        assert_eq!(log.take(), ["deleted ns/ghost (missed)"]);
        let audit = audit(&informer);
        assert_eq!(audit.drifted, 1);
        assert_eq!(audit.last_drift[0].key.as_str(), "ns/ghost");
        assert_eq!(
            (&audit.last_drift[0].cached, &audit.last_drift[0].server),
            (&version, &None)
        );
        assert_eq!(
            informer.stats().members[0].reflector.relists.get("drift"),
            Some(&1)
        );
        assert_gentle(&server);
    }
}

/// client-go lists a second time after each watch-list, and panics. Here the audit finds it and the cache is repaired.
///
/// Upstream: TestReflectorDataConsistencyDetector
#[tokio::test(start_paused = true)]
async fn f04_an_incomplete_watch_list_is_found_by_the_audit_and_completed() {
    let server = TestServer::new();
    for name in ["a", "b", "c"] {
        server.create(pod("ns", name));
    }
    server.fault(
        RequestMatcher::watch_list("pods").times(1),
        Fault::drop_events(Which::Object("ns/b".to_owned())),
    );
    let informer = synced(pods(&server).configure(|config| config.audit.period = Some(hours(1)))).await;
    assert_eq!(names(&informer), ["a", "c"]);
    pass(hours(2)).await;

    assert_eq!(names(&informer), ["a", "b", "c"]);
    let audit = audit(&informer);
    assert_eq!(audit.drifted, 1);
    assert_eq!(audit.last_drift[0].key.as_str(), "ns/b");
}

#[tokio::test(start_paused = true)]
async fn f04_a_lost_update_and_a_lost_addition_are_found() {
    let server = TestServer::new();
    for name in ["a", "b"] {
        server.create(pod("ns", name));
    }
    let informer = synced_pods(&server).await;
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    handler.synced().await.unwrap();
    log.take();

    server.replica(0).lose_next("pods", "ns/a");
    server.modify::<Pod>("ns", "a", |pod| *pod = pod.clone().label("state", "lost"));
    server.replica(0).lose_next("pods", "ns/c");
    server.create(pod("ns", "c"));
    pass(hours(25)).await;

    assert_eq!(cached(&informer), stored(&server, "pods"));
    assert_eq!(log.take(), ["updated ns/a", "added ns/c"]);
    assert_eq!(audit(&informer).drifted, 2);
}

/// A pass over more objects than one page: one page a minute.
#[tokio::test(start_paused = true)]
async fn f04_a_pass_reads_one_page_a_minute() {
    let server = TestServer::new();
    for number in 0..2_600 {
        server.create(pod("ns", &format!("p{number:04}")));
    }
    let informer = synced(pods(&server).configure(|config| config.audit.period = Some(hours(1)))).await;
    server.replica(0).lose_next("pods", "ns/p2300");
    server.delete::<Pod>("ns", "p2300");
    pass(minutes(59)).await;
    server.clear_requests();
    pass(minutes(8)).await;

    assert_eq!(audit(&informer).drifted, 1, "{:?}", audit(&informer));
    assert_eq!(cached(&informer), stored(&server, "pods"));
    assert_eq!(audit(&informer).pages, 5, "the ghost is on the fifth page");
    let pages: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.verb == Verb::List)
        .take(5)
        .collect();
    assert!(gaps(&pages).iter().all(|gap| *gap >= secs(60)), "{pages:?}");
    let limits: Vec<u32> = pages
        .iter()
        .map(|page| page.param("limit").unwrap().parse().unwrap())
        .collect();
    assert!(limits.iter().all(|limit| *limit <= 500), "{limits:?}");
    assert_gentle(&server);
}

/// The server compacts its history, so that tokens live for a few minutes.
#[tokio::test(start_paused = true)]
async fn f04_a_pass_survives_tokens_that_expire() {
    let server = TestServer::new();
    for number in 0..2_600 {
        server.create(pod("ns", &format!("p{number:04}")));
    }
    let informer = synced(pods(&server).configure(|config| config.audit.period = Some(hours(1)))).await;
    pass(minutes(59)).await;
    for _ in 0..5 {
        let old = server.resource_version();
        server.modify::<Pod>("ns", "p1000", |pod| {
            *pod = pod.clone().label("version", &old.to_string())
        });
        pass(minutes(2)).await;
        server.compact_to(old);
    }

    let audit = audit(&informer);
    assert_eq!(
        (audit.pages, audit.passes, audit.objects),
        (6, 1, 2_600),
        "{audit:?}"
    );
    assert_eq!((audit.drifted, audit.inconclusive), (0, 0));
    assert_eq!(informer.stats().members[0].reflector.lists, 1);
}

/// A year of audits on a healthy server that changes all the time.
///
/// Upstream: TestReflectorDataConsistencyDetector
#[tokio::test(start_paused = true)]
async fn f04_audits_of_a_healthy_server_never_list() {
    let server = TestServer::builder().replicas(2).build();
    for number in 0..1_200 {
        server.create(pod("ns", &format!("p{number:04}")));
    }
    server.replica(1).lag(20);
    let informer = synced(pods(&server).configure(|config| {
        config.audit.period = Some(hours(1));
    }))
    .await;
    for round in 0..1_500_u64 {
        let name = format!("p{:04}", round * 7 % 1_200);
        if round % 5 == 0 {
            server.recreate("pods", &format!("ns/{name}"));
        } else {
            server.modify::<Pod>("ns", &name, |pod| {
                *pod = pod.clone().label("round", &round.to_string())
            });
        }
        pass(secs(20)).await;
    }

    let audit = audit(&informer);
    assert!(audit.passes >= 6 && audit.objects >= 6_000, "{audit:?}");
    assert_eq!(audit.drifted, 0);
    assert_eq!(informer.stats().members[0].reflector.lists, 1);
    assert_eq!(cached(&informer), stored(&server, "pods"));
}

#[tokio::test(start_paused = true)]
async fn f04_audits_can_be_disabled() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    let informer = synced(pods(&server).configure(|config| config.audit.period = None)).await;
    pass(hours(72)).await;

    assert_eq!(server.count_requests(Verb::List, "pods"), 0);
    assert_eq!(audit(&informer), kube_informers::stats::AuditStats::default());
}

/// Objects that a transform drops are not in the cache, which is not drift.
#[tokio::test(start_paused = true)]
async fn f04_dropped_and_quarantined_objects_are_not_drift() {
    let server = TestServer::new();
    for name in ["a", "b", "c"] {
        server.create(pod("ns", name));
    }
    server.poison("pods", "ns/c", kube_testserver::Poison::WrongType);
    let informer = synced(
        pods(&server)
            .try_transform(|pod: Pod| Ok(Some(pod).filter(|pod| pod.metadata.name.as_deref() != Some("b")))),
    )
    .await;
    assert_eq!(names(&informer), ["a"]);
    pass(hours(49)).await;

    assert!(audit(&informer).passes >= 2, "{:?}", audit(&informer));
    assert_eq!(audit(&informer).drifted, 0);
    assert_eq!(informer.stats().members[0].reflector.lists, 1);
}
