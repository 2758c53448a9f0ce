//! F03: a server whose history was replaced, and versions that are absurdly high.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::{Informer, InformerBuilder, Scope};
use kube_testserver::builders::{Build, pod};
use kube_testserver::{Fault, Poison, RequestMatcher, TestServer, Verb};
use serde_json::json;
use tokio::time::Instant;

use crate::support::*;

fn stats(informer: &Informer<Pod>) -> (u64, u64, u64) {
    let member = informer.stats().members[0].clone();
    let relists = member.reflector.relists.get("rewind").copied().unwrap_or(0);
    (member.reflector.rewinds, relists, member.audit.probes)
}

/// 20 pods before the backup, 280 after it.
fn filled() -> (TestServer, u64) {
    let server = TestServer::new();
    for number in 0..20 {
        server.create(pod("ns", &format!("kept-{number:02}")).label("app", "web"));
    }
    let backup = server.resource_version();
    for number in 0..280 {
        server.create(pod("ns", &format!("lost-{number:03}")).label("app", "web"));
    }
    (server, backup)
}

async fn assert_rewind_is_repaired(
    builder: InformerBuilder<Pod>,
    server: &TestServer,
    restore: impl FnOnce(),
) {
    let informer = synced(builder).await;
    assert_eq!(informer.store().len(), 300);
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    handler.synced().await.unwrap();
    log.take();

    restore();
    server.break_watches();
    server
        .wait_for("the watch reconnects", |server| server.open_watches() == 1)
        .await;
    let reconnected = Instant::now();
    wait_for("the ghosts are gone", || informer.store().len() == 20).await;

    let elapsed = reconnected.elapsed();
    assert!(elapsed <= secs(60), "{elapsed:?}");
    measured(
        "F03",
        format!(
            "280 ghosts deleted {:.1} s after reconnecting",
            elapsed.as_secs_f64()
        ),
    );
    assert_eq!(cached(&informer), stored(server, "pods"));
    settle().await;
    let missed = log.take();
    assert_eq!(missed.len(), 280);
    assert!(
        missed
            .iter()
            .all(|event| event.starts_with("deleted ns/lost-") && event.ends_with("(missed)"))
    );
    let (rewinds, relists, probes) = stats(&informer);
    assert_eq!((rewinds, relists), (1, 1));
    assert!((1..=2).contains(&probes), "{probes} probes");

    // The watch continues in the new history.
    server.create(pod("ns", "new").label("app", "web"));
    wait_for("a new object is cached", || informer.store().len() == 21).await;
    pass(minutes(10)).await;
    assert_eq!(stats(&informer).0, 1);
    assert_gentle(server);
}

#[tokio::test(start_paused = true)]
async fn f03_a_restored_backup_with_lower_versions_is_detected_and_ghosts_are_deleted() {
    for build in [pods, paged_pods] {
        let (server, backup) = filled();
        assert_rewind_is_repaired(build(&server), &server, || server.rewind(backup)).await;
    }
}

/// The restored server has passed the version of the cache, and accepts it.
#[tokio::test(start_paused = true)]
async fn f03_a_restored_backup_with_higher_versions_is_detected_and_ghosts_are_deleted() {
    for build in [pods, paged_pods] {
        let (server, backup) = filled();
        assert_rewind_is_repaired(build(&server), &server, || {
            server.rewind(backup);
            server.skip_versions(5_000);
        })
        .await;
    }
}

/// With a selector, the server does not report the number of objects.
#[tokio::test(start_paused = true)]
async fn f03_a_restored_backup_is_detected_behind_a_selector() {
    let (server, backup) = filled();
    let scope = Scope::namespace("ns").labels("app=web").unwrap();
    let builder = Informer::<Pod>::scoped(server.client(), scope)
        .configure(|config| config.jitter = kube_informers::reflector::Jitter::Seeded(7));
    assert_rewind_is_repaired(builder, &server, || {
        server.rewind(backup);
        server.skip_versions(5_000);
    })
    .await;
}

/// Neither the first objects nor the number of objects differ, only the one that changed last.
#[tokio::test(start_paused = true)]
async fn f03_a_lost_update_is_detected_by_the_object_that_changed_last() {
    let server = TestServer::new();
    for number in 0..100 {
        server.create(pod("ns", &format!("p{number:02}")));
    }
    let backup = server.resource_version();
    server.modify::<Pod>("ns", "p77", |pod| *pod = pod.clone().label("state", "lost"));
    let informer = synced_pods(&server).await;

    server.rewind(backup);
    server.skip_versions(1_000);
    server.break_watches();
    wait_for("the update is taken back", || {
        cached(&informer) == stored(&server, "pods")
    })
    .await;

    assert_eq!(stats(&informer).0, 1);
    let drift = informer.stats().members[0].audit.last_drift.clone();
    assert_eq!(drift.len(), 1);
    assert_eq!(drift[0].key.as_str(), "ns/p77");
    assert!(drift[0].cached.is_some() && drift[0].server.is_some());
}

/// The watch stays open, but the server sends nothing until it passes the version of the watch.
#[tokio::test(start_paused = true)]
async fn f03_a_rewind_under_an_open_watch_is_detected_by_its_silence() {
    let (server, backup) = filled();
    let informer = synced_pods(&server).await;
    pass(minutes(3)).await;

    server.rewind(backup);
    let begin = Instant::now();
    wait_for("the ghosts are gone", || informer.store().len() == 20).await;

    assert!(begin.elapsed() <= secs(240), "{:?}", begin.elapsed());
    assert_eq!(cached(&informer), stored(&server, "pods"));
}

/// One event with an absurdly high version must not make every later event look old.
#[tokio::test(start_paused = true)]
async fn f03_an_event_with_an_absurdly_high_version_is_recovered_from() {
    for connection_breaks in [false, true] {
        let server = TestServer::new();
        server.create(pod("ns", "a"));
        let informer = synced_pods(&server).await;
        let absurd = Poison::Edit(Arc::new(|object: &mut serde_json::Value| {
            object["metadata"]["resourceVersion"] = json!("999999999999999999");
        }));
        server.poison("pods", "ns/odd", absurd);
        server.create(pod("ns", "odd"));
        wait_for("it is cached", || informer.store().len() == 2).await;
        server.cure("pods", "ns/odd");
        if connection_breaks {
            server.break_watches();
        }
        let begin = Instant::now();
        for number in 0..5 {
            server.create(pod("ns", &format!("later-{number}")));
        }
        wait_for("later events are cached", || {
            cached(&informer) == stored(&server, "pods")
        })
        .await;

        let elapsed = begin.elapsed();
        assert!(elapsed <= secs(60), "{elapsed:?}");
        measured(
            "F03",
            format!("an absurd version corrected after {:.1} s", elapsed.as_secs_f64()),
        );
        assert_eq!(stats(&informer).0, 1);
        assert_gentle(&server);
    }
}

#[tokio::test(start_paused = true)]
async fn f03_a_list_with_an_absurdly_high_version_is_recovered_from() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    server.fault(
        RequestMatcher::list("pods").times(1),
        Fault::list_version(1_000_000_000),
    );
    let informer = synced(paged_pods(&server)).await;
    server.create(pod("ns", "b"));
    // The watch at that version is accepted and silent.
    wait_for("later events are cached", || {
        cached(&informer) == stored(&server, "pods")
    })
    .await;
    assert_eq!(stats(&informer).0, 1);
}

/// A replica that lags is not a rewind, however far it lags and however the connection moves.
#[tokio::test(start_paused = true)]
async fn f03_lagging_replicas_are_no_false_alarm() {
    for build in [pods, paged_pods] {
        for freeze in [true, false] {
            let server = TestServer::builder().replicas(2).build();
            for number in 0..50 {
                server.create(pod("ns", &format!("p{number:02}")));
            }
            if freeze {
                server.replica(1).freeze();
            } else {
                server.replica(1).lag(30);
            }
            let informer = synced(build(&server)).await;
            for round in 0..6 {
                for number in 0..10 {
                    server.modify::<Pod>("ns", &format!("p{number:02}"), |pod| {
                        *pod = pod.clone().label("round", &round.to_string());
                    });
                }
                server.recreate("pods", "ns/p49");
                pass(secs(5)).await;
                server.switch_to_replica(1 - round % 2);
                server.break_watches();
                pass(minutes(2)).await;
            }
            server.replica(1).catch_up();
            wait_for("it catches up", || cached(&informer) == stored(&server, "pods")).await;

            let member = informer.stats().members[0].clone();
            assert!(member.audit.probes >= 5, "{:?}", member.audit);
            assert_eq!((member.audit.drifted, member.reflector.rewinds), (0, 0));
            assert_eq!(member.reflector.lists, 1, "{:?}", member.reflector.relists);
            assert_gentle(&server);
        }
    }
}

/// Objects that change while they are compared are not compared.
#[tokio::test(start_paused = true)]
async fn f03_a_busy_collection_is_no_false_alarm() {
    let server = TestServer::new();
    for number in 0..30 {
        server.create(pod("ns", &format!("p{number:02}")));
    }
    let informer = synced_pods(&server).await;
    server.fault(
        RequestMatcher::list("pods").forever(),
        Fault::delay(Duration::from_millis(500)),
    );
    for round in 0..600 {
        let name = format!("p{:02}", round % 30);
        if round % 7 == 0 {
            server.recreate("pods", &format!("ns/{name}"));
        } else {
            server.modify::<Pod>("ns", &name, |pod| {
                *pod = pod.clone().label("round", &round.to_string())
            });
        }
        if round % 100 == 50 {
            server.break_watches();
        }
        pass(Duration::from_millis(300)).await;
    }
    wait_for("it is current", || cached(&informer) == stored(&server, "pods")).await;

    let member = informer.stats().members[0].clone();
    assert!(
        member.audit.probes >= 3 && member.audit.objects > 0,
        "{:?}",
        member.audit
    );
    assert_eq!((member.audit.drifted, member.reflector.lists), (0, 1));
}

/// A probe reads metadata of a few objects, at most three times.
#[tokio::test(start_paused = true)]
async fn f03_a_probe_costs_the_server_next_to_nothing() {
    let (server, _) = filled();
    let informer = synced_pods(&server).await;
    server.clear_requests();
    server.break_watches();
    pass(minutes(1)).await;

    let lists: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.verb == Verb::List)
        .collect();
    assert_eq!(stats(&informer).2, 1);
    assert!((1..=3).contains(&lists.len()), "{lists:?}");
    for list in &lists {
        let limit: u32 = list.param("limit").unwrap().parse().unwrap();
        assert!(limit <= 10, "{list}");
        assert_eq!(list.param("resourceVersionMatch"), Some("Exact"), "{list}");
    }
}

#[tokio::test(start_paused = true)]
async fn f03_probes_can_be_disabled() {
    let (server, _) = filled();
    let informer = synced(pods(&server).configure(|config| config.audit.probe = false)).await;
    server.clear_requests();
    server.break_watches();
    pass(minutes(2)).await;

    assert_eq!(server.count_requests(Verb::List, "pods"), 0);
    assert_eq!(stats(&informer).2, 0);
}
