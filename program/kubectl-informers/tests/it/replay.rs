//! `replay`, and `--recording` instead of a cluster.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::http::{get, raw};
use crate::program::{Cluster, Program};
use crate::recording::{Recorded, stop, time_of};

/// The address of a replay, as it prints it.
async fn address_of(server: &mut Program) -> SocketAddr {
    let line = server.line_with("Replaying ").await;
    let url = line
        .split_whitespace()
        .find(|word| word.starts_with("http://"))
        .unwrap();
    url.trim_start_matches("http://")
        .trim_end_matches(':')
        .parse()
        .unwrap()
}

/// The label of a pod in an event with its object.
fn step(event: &Value) -> Option<&str> {
    event["object"]["metadata"]["labels"]["step"].as_str()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_serves_the_recording_at_a_moment_and_onwards() {
    let recorded = Recorded::story().await;
    let lines = recorded.history(&[]).await;
    let uid = lines[1]["uid"].clone();
    let config = recorded.cluster.home().path().join("replay.yaml");
    let config = config.to_str().unwrap();

    let first = time_of(&lines, "updated", 0);
    let replay = &[
        "replay",
        recorded.path(),
        "--speed",
        "0",
        "--from",
        first,
        "--write-kubeconfig",
        config,
    ];
    let mut server = recorded.cluster.start(replay);
    let line = server.line().await;
    assert!(
        line.starts_with("Replaying ") && line.ends_with("and stays there"),
        "{line}"
    );
    server.line_with(config).await;
    let watch = &[
        "watch",
        "po",
        "-A",
        "-o",
        "json",
        "--with-object",
        "--kubeconfig",
        config,
    ];
    let mut watching = recorded.cluster.start(watch);
    let event = watching.event().await;
    assert_eq!((step(&event), &event["uid"]), (Some("one"), &uid));
    assert_eq!(watching.event().await["objects"], 1);
    server.signal("INT").await;
    assert_eq!(server.exit_code().await, Some(130));

    let mut server = recorded
        .cluster
        .start(&["replay", recorded.path(), "--write-kubeconfig", config]);
    server.line_with(config).await;
    let mut watching = recorded.cluster.start(watch);
    while step(&watching.event().await) != Some("two") {}
    server.says("The recording ends here").await;
}

/// Slower than recorded, because a test cannot wait for less time than nothing.
#[tokio::test(flavor = "multi_thread")]
async fn changes_are_replayed_in_their_intervals_divided_by_the_speed() {
    let recorded = Recorded::story().await;
    let lines = recorded.history(&[]).await;
    let time = |event: &str, number| -> jiff::Timestamp { time_of(&lines, event, number).parse().unwrap() };
    let interval = time("deleted", 0)
        .duration_until(time("updated", 1))
        .as_secs_f64();
    // Slow enough for the program to list the objects before the first change.
    for speed in [0.125, 0.25] {
        let slow = speed.to_string();
        let arguments = [
            "watch",
            "po",
            "-o",
            "json",
            "--recording",
            recorded.path(),
            "--replay-speed",
            &slow,
        ];
        let mut watching = recorded.cluster.start(&arguments);
        watching.event_of("deleted").await;
        let first = tokio::time::Instant::now();
        watching.event_of("updated").await;
        let passed = first.elapsed().as_secs_f64();
        // The first line may have been late itself.
        assert!(
            passed > 0.5 * interval / speed,
            "{passed} s instead of {interval} s at speed {speed}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_rejects_writes_and_says_why() {
    let recorded = Recorded::story().await;
    let mut server = recorded.cluster.start(&["replay", recorded.path()]);
    let address = address_of(&mut server).await;

    for (method, path) in [
        ("POST", "/api/v1/namespaces/shop/pods"),
        ("PUT", "/api/v1/namespaces/shop/pods/cart"),
        ("PATCH", "/api/v1/namespaces/shop/pods/cart"),
        ("DELETE", "/api/v1/namespaces/shop/pods/cart"),
        ("DELETE", "/api/v1/namespaces/shop/pods"),
    ] {
        let request = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n");
        let answer = raw(address, &request).await;
        let status = answer.json();
        assert_eq!(
            (answer.code, &status["reason"]),
            (405, &json!("MethodNotAllowed"))
        );
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("a replay is read-only"), "{message}");
    }
    let pod = get(address, "/api/v1/namespaces/shop/pods/cart").await;
    assert_eq!(pod.json()["metadata"]["name"], "cart");

    // What one may do is a question, although it is sent as a POST.
    let review = r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}"#;
    let request = format!(
        "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews HTTP/1.0\r\nHost: {address}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{review}",
        review.len()
    );
    assert_eq!(raw(address, &request).await.json()["status"]["allowed"], true);
    server.signal("INT").await;
    assert_eq!(server.exit_code().await, Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_writes_a_temporary_kubeconfig_and_removes_it() {
    let recorded = Recorded::story().await;
    let mut server = recorded.cluster.start(&["replay", recorded.path()]);
    let line = server.line_with("--kubeconfig").await;
    let path = line.split_whitespace().nth(2).unwrap().to_owned();
    assert!(std::fs::read_to_string(&path).unwrap().contains("127.0.0.1"));
    server.signal("TERM").await;
    assert_eq!(server.exit_code().await, Some(143));
    assert!(!Path::new(&path).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_top_and_serve_accept_a_recording() {
    let recorded = Recorded::story().await;
    let watch = [
        "watch",
        "po",
        "-o",
        "json",
        "--with-object",
        "--recording",
        recorded.path(),
    ];
    let mut watching = recorded.cluster.start(&watch);
    while step(&watching.event().await) != Some("two") {}
    watching.says("Replaying ").await;

    let mut paused = watch.to_vec();
    let lines = recorded.history(&[]).await;
    paused.extend([
        "--replay-speed",
        "0",
        "--replay-from",
        time_of(&lines, "updated", 0),
    ]);
    let event = recorded.cluster.start(&paused).event().await;
    assert_eq!(step(&event), Some("one"));

    let top = [
        "top",
        "pods",
        "--plain",
        "--every",
        "1",
        "--recording",
        recorded.path(),
    ];
    let mut top = recorded.cluster.start(&top);
    top.line_with("1 objects").await;

    let (_serving, address) =
        crate::serve::synced(&recorded.cluster, &["pods", "--recording", recorded.path()]).await;
    let status = get(address, "/").await;
    assert_eq!(status.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_kinds_are_recorded_and_replayed() {
    use kube_testserver::TestServer;
    use kube_testserver::kinds::Kind;
    let widgets = Kind::new("example.com", "v1", "Widget")
        .short_name("wd")
        .cluster_scoped();
    let cluster = Cluster::with(TestServer::builder().kind(widgets)).await;
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": { "size": 3 },
    });
    cluster.server.create(widget);
    let file = cluster.home().path().join("test.rec");
    let recorded = Recorded { cluster, file };
    // Every kind, because none is named.
    let recorder = recorded.record_with(&["record", recorded.path()]).await;
    stop(recorder).await;

    let found = recorded
        .run(&["at", "end", recorded.path(), "wd", "-o", "json"])
        .await;
    assert!(found.out.contains("\"size\":3"), "{}{}", found.out, found.err);
    let watch = [
        "watch",
        "wd",
        "-o",
        "json",
        "--with-object",
        "--recording",
        recorded.path(),
    ];
    let event = recorded.cluster.start(&watch).event().await;
    assert_eq!(event["object"]["spec"]["size"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_of_a_recording_have_their_columns_and_schemas() {
    let cluster = Cluster::new().await;
    let widgets = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": { "type": "object", "properties": {
                        "size": { "type": "integer", "description": "How large it is." },
                    } } },
                } },
                "additionalPrinterColumns": [{ "name": "Size", "type": "integer", "jsonPath": ".spec.size" }],
            }],
        },
    });
    cluster.server.create(widgets);
    cluster.server.create(json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": { "size": 37 },
    }));
    let file = cluster.home().path().join("test.rec");
    let recorded = Recorded { cluster, file };
    let recorder = recorded.record_with(&["record", recorded.path()]).await;
    stop(recorder).await;

    let watch = ["watch", "widgets", "--recording", recorded.path()];
    let mut watching = recorded.cluster.start(&watch);
    let head = watching.line_with("NAME").await;
    assert!(head.contains("SIZE"), "{head}");
    let row = watching.line_with("w ").await;
    assert!(row.contains("37"), "{row}");

    let config = recorded.cluster.home().path().join("replay.yaml");
    let config = config.to_str().unwrap();
    let mut server = recorded
        .cluster
        .start(&["replay", recorded.path(), "--write-kubeconfig", config]);
    let address = address_of(&mut server).await;
    let schema = get(address, "/openapi/v3/apis/example.com/v1").await;
    assert!(schema.body.contains("How large it is."), "{}", schema.body);
}
