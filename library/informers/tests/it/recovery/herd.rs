//! Many watches that break at the same time while the server is up.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_informers::reflector::RecoveryGroup;
use kube_informers::{Informer, Scope, SharedInformerFactory};
use kube_testserver::builders::{config_map, pod};
use kube_testserver::{TestServer, Verb};

use crate::support::*;

const INFORMERS: usize = 200;
const WINDOW: Duration = Duration::from_millis(100);

fn namespace(number: usize) -> String {
    format!("ns-{number}")
}

/// Makes every watch productive.
async fn change_all(server: &TestServer, informers: &[Informer<Pod>], name: &str) {
    let before = informers[0].store().len();
    for number in 0..INFORMERS {
        server.create(pod(&namespace(number), name));
    }
    wait_for("all receive the change", || {
        informers
            .iter()
            .all(|informer| informer.store().len() == before + 1)
    })
    .await;
}

/// The times of the watches requested after `first` requests, relative to the first of them, and the most of all requests
/// in any window.
fn resumed(server: &TestServer, first: usize) -> (Vec<Duration>, usize) {
    let requests = server.requests();
    let after = &requests[first..];
    let begin = after[0].at;
    let all: Vec<Duration> = after.iter().map(|request| request.at - begin).collect();
    let peak = (0..all.len())
        .map(|from| {
            all[from..]
                .iter()
                .take_while(|at| **at - all[from] < WINDOW)
                .count()
        })
        .max();
    let watches = after.iter().filter(|request| request.verb == Verb::Watch);
    (watches.map(|request| request.at - begin).collect(), peak.unwrap())
}

/// Prints the most requests within 100 ms, with a group for each informer and with a common one:
/// `cargo test -p kube-informers --test it watches_that_break_together -- --nocapture`
#[tokio::test(start_paused = true)]
async fn watches_that_break_together_resume_within_five_seconds_but_not_at_once() {
    for breaks in [TestServer::break_watches, TestServer::close_watches] {
        for together in [false, true] {
            let server = TestServer::new();
            let group = RecoveryGroup::new();
            let informers: Vec<Informer<Pod>> = (0..INFORMERS)
                .map(|number| {
                    let builder = Informer::<Pod>::namespaced(server.client(), &namespace(number));
                    let group = together.then(|| group.clone());
                    builder.configure(|config| config.recovery = group).start()
                })
                .collect();
            for informer in &informers {
                informer.synced_within(minutes(1)).await.unwrap();
            }
            change_all(&server, &informers, "a").await;
            let before = server.requests().len();

            assert_eq!(breaks(&server), INFORMERS);
            // Otherwise the changes would still be delivered by watches that are closed normally.
            settle().await;
            change_all(&server, &informers, "b").await;

            let (watches, peak) = resumed(&server, before);
            let last = *watches.last().unwrap();
            println!(
                "in one group: {together}: at most {peak} requests in 100 ms, the last watch after {last:?}"
            );
            assert_eq!(watches.len(), INFORMERS, "one watch each");
            match together {
                true => {
                    assert!(peak <= 20, "{peak} requests in 100 ms");
                    assert!(last <= secs(5), "{last:?}");
                }
                false => assert_eq!((peak, last), (INFORMERS, Duration::ZERO), "the herd"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_watch_of_a_large_factory_resumes_at_once() {
    let server = TestServer::new();
    let factory = SharedInformerFactory::new(server.client());
    let informers: Vec<Informer<Pod>> = (0..INFORMERS)
        .map(|number| factory.scoped(Scope::namespace(namespace(number))).informer())
        .collect();
    let config_maps = factory.informer::<ConfigMap>();
    factory.start();
    factory.wait_for_sync().await.unwrap();
    change_all(&server, &informers, "a").await;
    server.create(config_map("shop", "a"));
    wait_for("its watch is productive", || config_maps.store().len() == 1).await;

    for round in 0..3 {
        let before = server.requests().len();
        assert_eq!(server.close_watches_of("configmaps"), 1);
        let name = format!("b{round}");
        server.create(config_map("shop", &name));
        settle().await;
        assert_eq!(server.requests().len(), before + 1, "at once");
        wait_for("it continues", || config_maps.store().len() == 2 + round).await;
        pass(minutes(1)).await;
    }
    factory.shutdown().await;
}
