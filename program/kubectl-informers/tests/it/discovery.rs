//! Kinds by every name, custom ones too, and the cache that is shared with kubectl.

use kube_testserver::Verb;
use kube_testserver::kinds::Kind;
use serde_json::json;

use crate::program::Cluster;

pub fn definition() -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wi"] },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}

pub fn widget(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": { "name": name, "namespace": "default" }, "spec": { "size": 1 },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_are_found_by_each_of_their_names() {
    let cluster = Cluster::new().await;
    for (name, kind, version) in [
        ("pods", "Pod", "v1"),
        ("pod", "Pod", "v1"),
        ("po", "Pod", "v1"),
        ("Pod", "Pod", "v1"),
        ("pods.v1.", "Pod", "v1"),
        ("deployments.apps", "Deployment", "apps/v1"),
        ("deployment.apps", "Deployment", "apps/v1"),
        ("deploy", "Deployment", "apps/v1"),
        ("deployments.v1.apps", "Deployment", "apps/v1"),
        ("events", "Event", "v1"),
        ("events.events.k8s.io", "Event", "events.k8s.io/v1"),
        ("crd", "CustomResourceDefinition", "apiextensions.k8s.io/v1"),
        ("no", "Node", "v1"),
    ] {
        let mut program = cluster.start(&["watch", name, "-o", "json"]);
        let synced = program.event_of("synced").await;
        assert_eq!(
            (&synced["kind"], &synced["apiVersion"]),
            (&json!(kind), &json!(version)),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_kinds_are_watched_like_any_other() {
    let cluster = Cluster::new().await;
    cluster.server.create(definition());
    cluster.server.create(widget("a"));
    for name in [
        "widgets",
        "widget",
        "wi",
        "widgets.example.com",
        "widgets.v1.example.com",
    ] {
        let mut program = cluster.start(&["watch", name, "-o", "json"]);
        let added = program.event().await;
        assert_eq!(
            (&added["kind"], &added["name"]),
            (&json!("Widget"), &json!("a")),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_is_cached_where_kubectl_caches_it() {
    let cluster = Cluster::new().await;
    cluster
        .start(&["watch", "deploy", "-o", "json"])
        .event_of("synced")
        .await;
    let asked = || {
        cluster
            .server
            .requests()
            .iter()
            .filter(|seen| seen.path.starts_with("/apis") && seen.verb == Verb::Other)
            .count()
    };
    let after_first = asked();
    assert!(after_first > 0);
    let host = cluster
        .server
        .url()
        .unwrap()
        .replace("http://", "")
        .replace(':', "_");
    let directory = cluster.home().path().join(".kube/cache/discovery").join(host);
    for file in [
        "servergroups.json",
        "v1/serverresources.json",
        "apps/v1/serverresources.json",
    ] {
        assert!(directory.join(file).exists(), "{file}");
    }

    cluster
        .start(&["watch", "deploy", "-o", "json"])
        .event_of("synced")
        .await;
    assert_eq!(asked(), after_first, "the second time nothing is asked");

    // A kind that came later is not in the cache: asked once more.
    cluster.server.create(definition());
    cluster.server.create(widget("a"));
    let mut program = cluster.start(&["watch", "widgets", "-o", "json"]);
    assert_eq!(program.event().await["name"], "a");
    assert!(asked() > after_first);

    // A broken file is as good as none.
    std::fs::write(directory.join("servergroups.json"), "{").unwrap();
    cluster
        .start(&["watch", "deploy", "-o", "json"])
        .event_of("synced")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discovery_document_beyond_the_limit_is_rejected() {
    use kube_testserver::{Fault, RequestMatcher};
    for code in [200, 500] {
        let cluster = Cluster::new().await;
        let body = format!("{{\"padding\":\"{}\"}}", "x".repeat(40 << 20));
        cluster.server.fault(
            RequestMatcher::path("/api").forever(),
            Fault::status(code).body("application/json", body),
        );
        let ended = cluster.run(&["watch", "pods"]).await;
        assert_eq!(ended.code, Some(1));
        assert!(
            ended.err.contains("/api is larger than 32 MiB"),
            "{code}: {}",
            ended.err
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_discovery_error_does_not_control_the_terminal() {
    use kube_testserver::{Fault, RequestMatcher};
    let hostile = "no \u{1b}]52;c;aGk=\u{7} \u{9b}31m \u{202e} \u{200b} \u{2028}";
    let status = json!({ "kind": "Status", "reason": hostile, "message": hostile }).to_string();
    for (content_type, body) in [("text/plain", hostile.to_owned()), ("application/json", status)] {
        let cluster = Cluster::new().await;
        cluster.server.fault(
            RequestMatcher::path("/api").forever(),
            Fault::status(500).body(content_type, body),
        );
        let ended = cluster.run(&["watch", "pods"]).await;
        assert_eq!(ended.code, Some(1));
        assert!(ended.err.contains("Error from server"), "{}", ended.err);
        let unsafe_characters = ['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}', '\u{200b}', '\u{2028}'];
        assert!(!ended.err.contains(unsafe_characters), "{:?}", ended.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cache_directory_can_be_set() {
    let cluster = Cluster::new().await;
    let directory = cluster.home().path().join("elsewhere");
    let mut program = cluster.start(&[
        "watch",
        "pods",
        "-o",
        "json",
        "--cache-dir",
        directory.to_str().unwrap(),
    ]);
    program.event_of("synced").await;
    assert!(directory.join("discovery").exists());
    assert!(!cluster.home().path().join(".kube/cache").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_aggregated_discovery_each_version_is_requested() {
    use kube_testserver::{Fault, RequestMatcher};
    let cluster =
        Cluster::with(kube_testserver::TestServer::builder().kind(Kind::new("example.com", "v1", "Gadget")))
            .await;
    // An old server answers in the old form whatever is asked for.
    let core = json!({ "kind": "APIVersions", "versions": ["v1"] }).to_string();
    cluster.server.fault(
        RequestMatcher::path("/api").nth(1),
        Fault::status(200).body("application/json", core),
    );
    let mut program = cluster.start(&["watch", "gadgets.example.com", "-o", "json"]);

    assert_eq!(program.event_of("synced").await["kind"], "Gadget");
    let paths: Vec<String> = cluster
        .server
        .requests()
        .iter()
        .map(|seen| seen.path.clone())
        .collect();
    assert!(paths.contains(&"/apis/apps/v1".to_owned()), "{paths:?}");
}
