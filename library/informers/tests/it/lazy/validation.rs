//! Objects that cannot be decoded: quarantined on arrival, or reported on access.

use k8s_openapi::api::core::v1::Pod;
use kube_informers::error::LazyError;
use kube_informers::lazy::Lazy;
use kube_informers::lazy::Validate;
use kube_informers::source::{Encoding, SourceOptions};
use kube_informers::{Informer, Object};
use kube_testserver::builders::pod;
use kube_testserver::{Poison, TestServer};

use super::{encoded_as, lazy_pods};
use crate::support::*;

async fn on_access(server: &TestServer) -> Informer<Lazy<Pod>> {
    let options = SourceOptions {
        validate: Validate::OnAccess,
        ..encoded_as(Encoding::Json)
    };
    synced(Informer::all(server.client()).source(options).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn by_default_an_object_that_cannot_be_decoded_is_quarantined() {
    let server = TestServer::new();
    for name in ["a", "b"] {
        server.create(pod("ns", name));
    }
    server.poison("pods", "ns/b", Poison::WrongType);
    let informer = synced(lazy_pods(&server, Encoding::Json)).await;
    assert_eq!(names(&informer), ["a"]);
    let quarantine = informer.quarantine();
    assert_eq!(quarantine[0].key.as_str(), "ns/b");
    assert!(
        quarantine[0].object.to_string().contains("spec"),
        "{}",
        quarantine[0].object
    );

    server.clear_faults();
    force_relist(&server);
    wait_for("it recovers", || informer.quarantine().is_empty()).await;
    assert_eq!(names(&informer), ["a", "b"]);
    assert_eq!(informer.stats().access_errors, 0);
}

#[tokio::test(start_paused = true)]
async fn on_access_the_error_names_key_and_path_and_is_counted() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    server.poison("pods", "ns/a", Poison::WrongType);
    let informer = on_access(&server).await;
    assert!(informer.quarantine().is_empty());

    let object = informer.store().get("ns/a").unwrap();
    let error = object.get().unwrap_err();
    let LazyError::Undecodable { key, problem, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(key.as_str(), "ns/a");
    assert!(
        problem.contains("spec") && !error.to_string().contains("42"),
        "{error}"
    );
    assert!(object.get().is_err());
    // What can be read is read.
    assert_eq!(object.text("metadata.name").unwrap().as_deref(), Some("a"));
    assert_eq!(informer.stats().access_errors, 2);
}

#[tokio::test(start_paused = true)]
async fn failed_accesses_to_an_object_are_logged_once() {
    let (lines, capture) = CapturedLogs::of_this_thread(tracing::Level::WARN);
    let server = TestServer::new();
    for name in ["a", "b"] {
        server.create(pod("ns", name));
        server.poison("pods", &format!("ns/{name}"), Poison::WrongType);
    }
    let informer = on_access(&server).await;
    let logged = |key: &str| {
        let text = lines.text();
        text.lines().filter(|line| line.contains(key)).count()
    };
    assert_eq!(logged("ns/"), 0, "nothing was accessed");

    for _ in 0..3 {
        assert!(informer.store().get("ns/a").unwrap().get().is_err());
    }
    assert!(informer.store().get("ns/a").unwrap().project::<Pod>().is_err());

    assert_eq!(logged("ns/a"), 1, "{}", lines.text());
    assert_eq!(logged("ns/b"), 0, "{}", lines.text());
    assert!(informer.store().get("ns/b").unwrap().get().is_err());
    assert_eq!(logged("ns/b"), 1, "{}", lines.text());
    assert!(informer.stats().access_errors >= 4);
    // A new version is a new object.
    server.modify::<Pod>("ns", "a", |pod| {
        pod.metadata.labels = Some([("x".to_owned(), "1".to_owned())].into());
    });
    wait_for("the new version arrives", || {
        let object = informer.store().get("ns/a");
        object.is_some_and(|object| object.object_label("x").is_some())
    })
    .await;
    assert!(informer.store().get("ns/a").unwrap().get().is_err());
    assert_eq!(logged("ns/a"), 2, "{}", lines.text());
    drop(capture);
}

#[tokio::test(start_paused = true)]
async fn unreadable_metadata_and_syntax_are_quarantined_on_arrival_in_any_case() {
    let server = TestServer::new();
    for (name, poison) in [
        (
            "labels",
            Poison::edit(|pod| pod["metadata"]["labels"] = serde_json::json!({"x": 1})),
        ),
        (
            "owners",
            Poison::edit(|pod| pod["metadata"]["ownerReferences"] = serde_json::json!("x")),
        ),
    ] {
        server.create(pod("ns", name));
        server.poison("pods", &format!("ns/{name}"), poison);
    }
    server.create(pod("ns", "good"));
    let informer = on_access(&server).await;
    assert_eq!(names(&informer), ["good"]);
    assert_eq!(informer.quarantine().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_index_by_a_field_that_cannot_be_decoded_has_no_value_and_is_counted() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    server.poison("pods", "ns/a", Poison::TooDeep(500));
    let informer = on_access(&server).await;
    let by_node = informer.index_by_path("spec.nodeName").unwrap();
    assert_eq!(by_node.count("n1"), 0);
    assert_eq!(informer.store().len(), 1);
    // The depth of a tree is bounded.
    assert!(
        informer
            .store()
            .get("ns/a")
            .unwrap()
            .project::<serde_json::Value>()
            .is_err()
    );
    assert!(informer.stats().access_errors > 0);
}

#[tokio::test(start_paused = true)]
async fn errors_and_debug_output_quote_no_value() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    server.poison(
        "pods",
        "ns/a",
        Poison::edit(|pod| pod["spec"]["containers"] = serde_json::json!("canary")),
    );
    let informer = on_access(&server).await;
    let object = informer.store().get("ns/a").unwrap();
    let texts = [
        format!("{object:?}"),
        format!("{:?}", object.get().unwrap_err()),
        object.get().unwrap_err().to_string(),
        format!("{:?}", object.path("spec.containers").unwrap()),
        format!("{:?}", object.path("spec.containers.x")),
    ];
    for text in texts {
        assert!(!text.contains("canary"), "{text}");
    }
}
