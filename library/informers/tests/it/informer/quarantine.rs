//! Quarantine: what it lists, when it ends, and what the cache serves meanwhile.

use k8s_openapi::api::core::v1::Pod;
use kube_informers::quarantine::Problem;
use kube_informers::store::Served;
use kube_testserver::builders::{Build, pod};
use kube_testserver::{Poison, TestServer};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_bad_version_is_listed_and_a_good_one_recovers_it_by_watch_or_by_list() {
    for by_list in [false, true] {
        let server = TestServer::new();
        for name in ["a", "b"] {
            server.create(pod("ns", name));
        }
        server.poison("pods", "ns/b", Poison::WrongType);
        let informer = synced(pods(&server)).await;
        server.poison("pods", "ns/a", Poison::BadEnum);
        server.modify::<Pod>("ns", "a", |pod| *pod = pod.clone().label("x", "1"));
        wait_for("both are listed", || informer.quarantine().len() == 2).await;

        let quarantine = informer.quarantine();
        let served: Vec<_> = quarantine
            .iter()
            .map(|bad| (bad.key.as_str(), bad.served))
            .collect();
        assert!(served.contains(&("ns/a", Served::OlderVersion)), "{served:?}");
        assert!(served.contains(&("ns/b", Served::Nothing)), "{served:?}");
        for bad in &quarantine {
            assert!(matches!(bad.object.problem, Problem::Decode(_)), "{}", bad.object);
        }
        assert_eq!(informer.stats().quarantined, 2);
        assert_eq!(informer.stats().totals.quarantined, 2);

        server.clear_faults();
        if by_list {
            force_relist(&server);
        } else {
            for name in ["a", "b"] {
                server.modify::<Pod>("ns", name, |pod| *pod = pod.clone().label("x", "2"));
            }
        }
        wait_for("both have recovered", || informer.quarantine().is_empty()).await;
        assert_eq!(cached(&informer), stored(&server, "pods"));
        assert_eq!(informer.stats().totals.recovered, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_relist_that_lacks_a_quarantined_key_ends_its_quarantine() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    server.poison("pods", "ns/a", Poison::WrongType);
    let informer = synced_pods(&server).await;
    assert_eq!(informer.quarantine().len(), 1);

    server.break_watches();
    server.delete::<Pod>("ns", "a");
    server.compact();
    wait_for("the quarantine ends", || informer.quarantine().is_empty()).await;
}

/// A quarantined object causes no request: its next version arrives when it changes.
#[tokio::test(start_paused = true)]
async fn a_quarantine_causes_no_requests() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    server.poison("pods", "ns/a", Poison::WrongType);
    let informer = synced_pods(&server).await;
    pass(minutes(60)).await;

    let stats = informer.stats().members[0].reflector.clone();
    assert_eq!((stats.lists, stats.errors.len()), (1, 0));
    assert!(stats.watches <= 13, "{}", stats.watches);
}
