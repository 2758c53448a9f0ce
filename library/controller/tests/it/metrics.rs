//! The text that Prometheus scrapes.

use k8s_openapi::api::core::v1::Pod;
use kube_controller::metrics::Metrics;
use kube_controller::{Controller, LoopDetector, Recorder, Watch};
use kube_informers::{Informer, Scope};
use kube_testserver::TestServer;
use kube_testserver::builders::pod;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn names_of_client_go_carry_the_numbers_of_the_parts() {
    let server = TestServer::new();
    for name in ["a", "b", "c"] {
        server.create(pod("shop", name));
    }
    let (pods, runs) = (pods(&server), Runs::new());
    let recorder = Recorder::start(server.client(), "example.dev/test", "test-0");
    let controller = Controller::new("cart")
        .watches(Watch::object(&pods))
        .start(runs.taking(ms(100)))
        .unwrap();
    runs.wait_for_count(3).await;
    pass(secs(1)).await;

    let mut registry = Registry::default();
    registry.register_collector(Box::new(
        Metrics::new()
            .informer(&pods)
            .informer_as("cached pods", &pods)
            .controller(&controller)
            .leader("cart", || true)
            .recorder("cart", &recorder)
            .loops("cart", &LoopDetector::default()),
    ));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();

    for line in [
        "workqueue_depth{name=\"cart\"} 0.0",
        "workqueue_adds_total{name=\"cart\"} 3.0",
        "workqueue_work_duration_seconds_count{name=\"cart\"} 3",
        "workqueue_work_duration_seconds_bucket{le=\"0.01\",name=\"cart\"} 0",
        "workqueue_work_duration_seconds_bucket{le=\"0.1\",name=\"cart\"} 3",
        "controller_runtime_reconcile_total{controller=\"cart\",result=\"success\"} 3.0",
        "informer_objects{name=\"pods in all namespaces\"} 3.0",
        "informer_objects{name=\"cached pods\"} 3.0",
        "reflector_lists_total{name=\"pods in all namespaces\"} 1.0",
        "reflector_list_duration_seconds_count{name=\"pods in all namespaces\"} 1",
        "reflector_list_duration_seconds_bucket{le=\"0.01\",name=\"pods in all namespaces\"} 1",
        "leader_election_master_status{name=\"cart\"} 1.0",
        "event_recorder_events_total{controller=\"cart\",outcome=\"dropped\"} 0.0",
        "kube_controller_loops_total{controller=\"cart\",kind=\"fight\"} 0.0",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in:\n{text}"
        );
    }
    assert!(
        text.contains("kube_controller_key_seconds_total{controller=\"cart\",key="),
        "{text}"
    );
    assert_eq!(text.matches("# TYPE workqueue_depth gauge").count(), 1);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn values_of_labels_are_escaped_and_watches_of_one_informer_are_added_up() {
    let server = TestServer::new();
    server.create(pod("shop", "a"));
    let scope = Scope::namespaces(["shop", "search"]);
    let pods = Informer::<Pod>::scoped(server.client(), scope).start();
    pods.synced().await.unwrap();
    // Both watches find that their version has expired.
    server.create(pod("other", "b"));
    server.compact();
    server.break_watches();
    pass(secs(60)).await;

    let metrics = Metrics::new().informer(&pods).custom(|scrape| {
        scrape.gauge("shop_open", "Open shops", &[("name", "a \"b\" \\ c\nd")], 2.0);
        scrape.counter("shop_orders", "Orders", &[], 3);
        scrape.seconds("shop_work_seconds", "Work", &[], secs(4));
    });
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();

    for line in [
        "shop_open{name=\"a \\\"b\\\" \\\\ c\\nd\"} 2.0",
        "shop_orders_total 3.0",
        "shop_work_seconds_total 4.0",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in:\n{text}"
        );
    }
    let relists = text
        .lines()
        .filter(|line| line.starts_with("reflector_relists_total{"));
    assert_eq!(relists.count(), 1, "{text}");
    let mut samples: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(sample, _)| sample)
        .collect();
    let all = samples.len();
    samples.sort_unstable();
    samples.dedup();
    assert_eq!(samples.len(), all, "two samples with the same labels:\n{text}");
}

/// The table in the documentation lists what is exported.
#[test]
fn table_of_metrics_names_every_metric() {
    let source = include_str!("../../src/metrics/mod.rs");
    let (docs, code) = source.split_once("use std::collections").unwrap();
    let names = code.split('"').filter(|text| {
        let prefixes = [
            "workqueue_",
            "controller_runtime_",
            "kube_controller_",
            "reflector_",
            "informer_",
        ];
        prefixes.iter().any(|prefix| text.starts_with(prefix))
    });
    let mut count = 0;
    for name in names {
        count += 1;
        let listed = docs.contains(&format!("`{name}`")) || docs.contains(&format!("`{name}_total`"));
        assert!(listed, "{name} is missing in the table");
    }
    assert!(count > 25, "{count}");
}
