//! `bench` prints what it measured.

use serde_json::Value;

use crate::program::{Cluster, Home};

#[tokio::test(flavor = "multi_thread")]
async fn it_measures_the_embedded_server_in_a_separate_process() {
    let home = Home::new();
    let ended = home
        .run(&[
            "bench",
            "pods",
            "--objects",
            "300",
            "--churn",
            "200",
            "--seconds",
            "1",
            "--json",
        ])
        .await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["server"], "embedded");
    assert_eq!(report["kinds"], serde_json::json!(["pods"]));
    // Things happen while it lists.
    let objects = report["objects"].as_u64().unwrap();
    assert!((250..=350).contains(&objects), "{report}");
    for number in [
        "syncSeconds",
        "bytes",
        "objectsPerSecond",
        "events",
        "eventsPerSecond",
    ] {
        assert!(report[number].as_f64().unwrap() > 0.0, "{number}: {report}");
    }
    assert!(!home.path().join(".kube").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_measures_the_cluster_of_the_context() {
    let cluster = Cluster::new().await;
    for number in 0..20 {
        cluster
            .server
            .create(kube_testserver::builders::node(&format!("node-{number}")));
    }
    let ended = cluster.run(&["bench", "nodes", "--seconds", "0"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    for part in [
        "20 nodes from kube-testserver",
        "objects/s",
        "memory per object",
        "cpu",
    ] {
        assert!(ended.out.contains(part), "{part}:\n{}", ended.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_measures_a_recording() {
    let home = Home::new();
    let file = home.path().join("bench.rec");
    let file = file.to_str().unwrap();
    let arguments = [
        "bench",
        "pods",
        "--objects",
        "100",
        "--churn",
        "200",
        "--seconds",
        "2",
        "--json",
    ];
    let record = [&arguments[..], &["--record", file, "--changes", "3000"]].concat();
    let ended = home.run(&record).await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    let recording = &report["recording"];
    assert!(recording["changes"].as_u64().unwrap() >= 3000, "{report}");
    assert!(recording["seekSeconds"].as_f64().unwrap() > 0.0, "{report}");
    assert!(
        recording["bytesOfChanges"].as_u64() < recording["bytes"].as_u64(),
        "{report}"
    );
    let history = home.run(&["history", "-o", "brief", file]).await;
    assert!(history.out.contains("pod "), "{}", history.out);

    let again = home.run(&[&arguments[..], &["--record", file]].concat()).await;
    assert!(
        again.err.contains("exists: --record measures a new file"),
        "{}",
        again.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_the_embedded_server_cannot_create_are_reported() {
    let home = Home::new();
    let ended = home.run(&["bench", "gadgets", "--objects", "3"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("gadgets"), "{}", ended.err);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn it_counts_for_any_number_of_seconds_until_it_is_stopped() {
    let cluster = Cluster::new().await;
    cluster.server.create(kube_testserver::builders::node("a"));
    let mut program = cluster.start(&["bench", "nodes", "--seconds", "18446744073709551615"]);
    program.says("Counting events").await;
    program.signal("INT").await;
    let ended = program.end().await;
    assert_eq!(ended.code, Some(130), "{}", ended.err);
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
}
