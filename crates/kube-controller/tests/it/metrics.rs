//! The text that Prometheus scrapes.

use kube_controller::metrics::Metrics;
use kube_controller::{Controller, LoopDetector, Recorder, Watch};
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

/// The table in the documentation lists what is exported.
#[test]
fn table_of_metrics_names_every_metric() {
    let source = include_str!("../../src/metrics.rs");
    let (docs, code) = source.split_once("use std::fmt").unwrap();
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
