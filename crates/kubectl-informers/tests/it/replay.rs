//! `replay`, and `--recording` instead of a cluster.

use std::path::Path;

use serde_json::{Value, json};

use crate::program::Cluster;
use crate::recording::{Recorded, stop, time_of};

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
    let status = crate::http::get(address, "/").await;
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
