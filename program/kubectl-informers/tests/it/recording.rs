//! `record`, `history` and `at`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube_testserver::builders::{Build, pod, secret};
use serde_json::{Value, json};

use crate::health::{becomes, becomes_unready};
use crate::program::{Cluster, Ended, Program, within};

/// A recording of a cluster in progress.
pub struct Recorded {
    pub cluster: Cluster,
    pub file: PathBuf,
}

impl Recorded {
    pub async fn new() -> Self {
        let cluster = Cluster::new().await;
        let file = cluster.home().path().join("test.rec");
        Self { cluster, file }
    }

    pub fn path(&self) -> &str {
        self.file.to_str().unwrap()
    }

    /// Starts to record these kinds, and waits until they are listed.
    pub async fn record(&self, kinds: &str) -> Program {
        self.record_with(&["record", self.path(), kinds]).await
    }

    pub async fn record_with(&self, arguments: &[&str]) -> Program {
        let mut program = self.cluster.start(arguments);
        program.says("recording changes").await;
        program
    }

    pub async fn run(&self, arguments: &[&str]) -> Ended {
        self.cluster.run(arguments).await
    }

    /// The history as JSON lines.
    pub async fn history(&self, options: &[&str]) -> Vec<Value> {
        let mut arguments = vec!["history", "-o", "json"];
        arguments.extend_from_slice(options);
        arguments.push(self.path());
        let ended = self.run(&arguments).await;
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let lines = ended.out.lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until the history has this many events of this type.
    pub async fn has(&self, event: &str, count: usize) -> Vec<Value> {
        within(event, async {
            let mut look = tokio::time::interval(Duration::from_millis(100));
            loop {
                look.tick().await;
                let lines = self.history(&[]).await;
                if lines.iter().filter(|line| line["event"] == event).count() >= count {
                    return lines;
                }
            }
        })
        .await
    }

    pub fn label(&self, name: &str, value: &str) {
        self.cluster.server.modify("shop", name, |pod: &mut Pod| {
            let labels = pod.metadata.labels.get_or_insert_default();
            labels.insert("step".to_owned(), value.to_owned());
        });
    }

    /// A recording of a pod that is labelled twice, and of another one that comes and goes. Stopped.
    pub async fn story() -> Self {
        let recorded = Self::new().await;
        recorded
            .cluster
            .server
            .create(pod("shop", "cart").label("step", "zero"));
        let recorder = recorded.record("pods").await;
        recorded.label("cart", "one");
        recorded.has("updated", 1).await;
        recorded.cluster.server.create(pod("shop", "web"));
        recorded.cluster.server.delete::<Pod>("shop", "web");
        recorded.has("deleted", 1).await;
        recorded.label("cart", "two");
        recorded.has("updated", 2).await;
        stop(recorder).await;
        recorded
    }
}

pub async fn stop(recorder: Program) -> Ended {
    recorder.signal("INT").await;
    let ended = recorder.end().await;
    assert_eq!(ended.code, Some(130), "{}", ended.err);
    assert!(ended.err.contains("Recorded "), "{}", ended.err);
    ended
}

pub fn time_of<'a>(lines: &'a [Value], event: &str, number: usize) -> &'a str {
    let mut events = lines.iter().filter(|line| line["event"] == event);
    events.nth(number).unwrap()["time"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn history_has_every_change_with_diff_author_and_time() {
    let recorded = Recorded::story().await;

    let lines = recorded.history(&[]).await;

    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(
        events,
        ["began", "updated", "added", "deleted", "updated"],
        "{lines:#?}"
    );
    assert_eq!(
        lines[1]["diff"],
        json!([{
            "path": "/metadata/labels/step", "field": "metadata.labels.step", "old": "zero", "new": "one",
        }])
    );
    assert_eq!(
        (&lines[1]["kind"], &lines[1]["name"]),
        (&json!("Pod"), &json!("cart"))
    );

    let text = recorded
        .run(&["history", "po", "cart", recorded.path()])
        .await
        .out;
    assert!(
        text.contains("UPDATED pod shop/cart") && text.contains("~ metadata.labels.step  one → two"),
        "{text}"
    );
    assert!(!text.contains("shop/web"), "{text}");
    let brief = recorded
        .run(&["history", "-o", "brief", "pod/web", recorded.path()])
        .await
        .out;
    assert!(
        brief.contains("pod shop/web  added") && brief.contains("pod shop/web  deleted"),
        "{brief}"
    );

    let deleted = time_of(&lines, "deleted", 0);
    let later = recorded.history(&["--from", deleted]).await;
    assert_eq!(later.len(), 2, "{later:#?}");
    assert_eq!(later[1]["diff"][0]["old"], "one");
    let earlier = recorded
        .history(&["--to", time_of(&lines, "updated", 0), "--only", "metadata"])
        .await;
    assert_eq!(earlier.len(), 2, "{earlier:#?}");
    assert_eq!(recorded.history(&["-n", "other"]).await.len(), 1);
    assert_eq!(recorded.history(&["-l", "step=two"]).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn authors_are_recorded() {
    let recorded = Recorded::new().await;
    recorded.cluster.server.create(pod("shop", "cart"));
    let recorder = recorded.record("pods").await;
    let pods: kube::Api<Pod> = kube::Api::namespaced(recorded.cluster.server.client(), "shop");
    let patch = kube::api::Patch::Merge(json!({ "metadata": { "labels": { "step": "one" } } }));
    let manager = kube::api::PatchParams {
        field_manager: Some("night-shift".to_owned()),
        ..Default::default()
    };
    pods.patch("cart", &manager, &patch).await.unwrap();
    recorded.has("updated", 1).await;
    stop(recorder).await;

    let text = recorded.run(&["history", recorded.path()]).await.out;
    assert!(text.contains("by night-shift"), "{text}");
    assert!(!text.contains("managedFields"), "{text}");
    let by = recorded.history(&["--by", "nobody"]).await;
    assert!(by.iter().all(|line| line["event"] == "began"), "{by:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_printed_as_they_were() {
    let recorded = Recorded::story().await;
    let lines = recorded.history(&[]).await;
    for (time, step) in [
        (time_of(&lines, "updated", 0), "one"),
        (time_of(&lines, "deleted", 0), "one"),
        (time_of(&lines, "updated", 1), "two"),
        ("end", "two"),
    ] {
        let json = recorded
            .run(&["at", time, recorded.path(), "po", "cart", "-o", "json"])
            .await;
        let object: Value = serde_json::from_str(&json.out).unwrap();
        assert_eq!(object["metadata"]["labels"]["step"], step, "{time}");
    }
    let yaml = recorded.run(&["at", "end", recorded.path()]).await;
    assert!(
        yaml.out.starts_with("apiVersion: v1\nkind: Pod\n"),
        "{}",
        yaml.out
    );
    assert!(
        yaml.out.contains("step: two") && !yaml.out.contains("managedFields"),
        "{}",
        yaml.out
    );
    let gone = recorded.run(&["at", "end", recorded.path(), "pod/web"]).await;
    assert_eq!(gone.code, Some(1));
    assert!(gone.err.contains("\"web\" did not exist at"), "{}", gone.err);
    let added = time_of(&lines, "added", 0);
    let names = recorded
        .run(&["at", added, recorded.path(), "-o", "name"])
        .await
        .out;
    assert_eq!(names, "pod/shop/cart\npod/shop/web\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_secrets_are_not_in_the_recording_and_their_change_is() {
    let recorded = Recorded::new().await;
    let mut object = secret("shop", "db");
    let value = |text: &str| Some([("password".to_owned(), ByteString(text.into()))].into());
    object.data = value("canary-7f3a-value");
    recorded.cluster.server.create(object);
    let recorder = recorded.record("secrets").await;
    recorded
        .cluster
        .server
        .modify("shop", "db", |secret: &mut Secret| {
            secret.data = value("canary-7f3a-other");
        });
    recorded.has("updated", 1).await;
    stop(recorder).await;

    let lines = recorded
        .history(&["--with-object", "--show-noise", "--show-secrets"])
        .await;
    let at = recorded
        .run(&["at", "end", recorded.path(), "--show-secrets", "--show-noise"])
        .await;
    let everything = format!("{lines:?}{}", at.out);
    for part in ["canary-7f3a", "Y2FuYXJ5LTdmM2"] {
        assert!(!everything.contains(part), "{everything}");
    }
    assert!(
        at.out.contains("password: <17 bytes>") || at.out.contains("password: \"<17 bytes>\""),
        "{}",
        at.out
    );
    let change = lines.iter().find(|line| line["event"] == "updated").unwrap();
    assert!(
        change["diff"].to_string().contains("<17 bytes, another value>"),
        "{change}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_that_were_recorded_on_request_are_still_masked_by_default() {
    let recorded = Recorded::new().await;
    let mut object = secret("shop", "db");
    object.data = Some([("password".to_owned(), ByteString("canary-7f3a-value".into()))].into());
    recorded.cluster.server.create(object);
    let recorder = recorded
        .record_with(&["record", recorded.path(), "secrets", "--show-secrets"])
        .await;
    assert!(
        recorder.err().contains("contains the values of Secrets"),
        "{}",
        recorder.err()
    );
    stop(recorder).await;

    let masked = recorded
        .run(&["at", "end", recorded.path(), "-o", "json"])
        .await
        .out;
    assert!(
        masked.contains("<17 bytes>") && !masked.contains("Y2FuYXJ5"),
        "{masked}"
    );
    let shown = recorded
        .run(&["at", "end", recorded.path(), "-o", "json", "--show-secrets"])
        .await
        .out;
    assert!(shown.contains("Y2FuYXJ5LTdmM2EtdmFsdWU="), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_rotated_by_age() {
    let recorded = Recorded::new().await;
    recorded.cluster.server.create(pod("shop", "cart"));
    let recorder = recorded
        .record_with(&["record", recorded.path(), "pods", "--max-age", "1s"])
        .await;
    let earlier = format!("{}.1", recorded.path());
    let mut step = 0;
    within("another file", async {
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        while !Path::new(&earlier).exists() {
            step += 1;
            recorded.label("cart", &step.to_string());
            pace.tick().await;
        }
    })
    .await;
    // A change that is still on its way is not recorded after the signal.
    recorded.has("updated", step).await;
    stop(recorder).await;
    let lines = recorded.history(&[]).await;
    let updates = lines.iter().filter(|line| line["event"] == "updated").count();
    assert_eq!(updates, step, "both files are one recording");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_part_of_the_recording() {
    let recorded = Recorded::new().await;
    recorded
        .cluster
        .server
        .create(pod("shop", "cart").label("step", "zero"));
    let recorder = recorded.record("pods").await;
    let server = &recorded.cluster.server;
    let address = server.url().unwrap().replace("http://", "");
    server.shutdown().await;
    recorded.has("interrupted", 1).await;
    recorded.label("cart", "one");
    // Another test may have been given the port for a moment.
    let again = within("the port is free", async {
        let mut look = tokio::time::interval(Duration::from_millis(20));
        loop {
            look.tick().await;
            if let Ok(again) = server.listen(&address).await {
                return again;
            }
        }
    })
    .await;
    let lines = recorded.has("recovered", 1).await;
    stop(recorder).await;

    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(
        events,
        ["began", "interrupted", "updated", "recovered"],
        "{lines:#?}"
    );
    let text = recorded.run(&["history", recorded.path()]).await.out;
    assert!(
        text.contains("INTERRUPTED watch of pods in all namespaces failed"),
        "{text}"
    );
    again.shutdown().await;
    replayed_outage_is_shown(&recorded).await;
}

/// As that of a cluster: in `watch`, in `top`, and by `serve`.
async fn replayed_outage_is_shown(recorded: &Recorded) {
    let watch = ["watch", "po", "--recording", recorded.path()];
    let mut watching = recorded.cluster.start(&watch);
    watching.says("interrupted: watch of pods").await;
    watching.says(" again after ").await;
    assert_eq!(
        watching.err().matches("(recorded at ").count(),
        2,
        "{}",
        watching.err()
    );

    let top = ["top", "po", "--plain", "--recording", recorded.path()];
    let mut top = recorded.cluster.start(&top);
    top.line_with("interrupted: watch of pods").await;
    top.line_with(" again after ").await;

    // Slowly, so that the outage is not over before it can be seen.
    let arguments = [
        "serve",
        "po",
        "--port",
        "0",
        "--replay-speed",
        "0.2",
        "--recording",
        recorded.path(),
    ];
    let mut serving = recorded.cluster.start(&arguments);
    let line = serving.line_with("Serving http://").await;
    let address = line.trim_start_matches("Serving http://").trim_end_matches('/');
    let address = address.parse().unwrap();
    becomes_unready(address, "the outage is replayed", |body| {
        body.contains("disconnected for")
    })
    .await;
    becomes(address, "/readyz", 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recording_ends_after_the_given_time_and_rotates() {
    let recorded = Recorded::new().await;
    recorded.cluster.server.create(pod("shop", "cart"));
    let mut arguments = vec!["record", recorded.path(), "pods", "--for", "8s"];
    arguments.extend(["--max-size", "700", "--keep", "2"]);
    let recorder = recorded.record_with(&arguments).await;
    for step in 0..200 {
        recorded.label("cart", &step.to_string());
    }
    let ended = recorder.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(
        Path::new(&format!("{}.1", recorded.path())).exists(),
        "{}",
        ended.err
    );
    let last = recorded.run(&["at", "end", recorded.path(), "-o", "json"]).await;
    assert!(last.out.contains("\"step\":\"199\""), "{}", last.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_named() {
    let recorded = Recorded::story().await;
    let file = recorded.path();
    let notes = recorded.cluster.home().write("notes.txt", "my notes");
    let notes = notes.to_str().unwrap();
    let cases: [(&[&str], &str); 11] = [
        (
            &["history", "missing.rec"],
            "cannot read missing.rec: No such file or directory",
        ),
        (&["history", notes], "it is not a recording"),
        (&["record", notes, "pods"], "it is not a recording"),
        (
            &["at", "noon", file],
            "\"noon\" is not a time: write 2026-01-31T12:00:00Z",
        ),
        (&["at", "2020-01-01", file], "is before the recording: it covers"),
        (
            &["history", "nodes", file],
            "the recording has no kind \"nodes\": it contains pods",
        ),
        (
            &["history", "--from", "end", "--to", "start", file],
            "--from is after --to",
        ),
        (
            &["history", "--field-selector", "a=b", file],
            "--field-selector needs a server",
        ),
        (
            &["replay", file, "--from", "2020-01-01"],
            "is outside the recording",
        ),
        (
            &["replay", file, "--bind", "0.0.0.0"],
            "is not a loopback address",
        ),
        (&["watch", "pods", "--recording", notes], "it is not a recording"),
    ];
    for (arguments, message) in cases {
        let ended = recorded.run(arguments).await;
        assert_eq!(ended.code, Some(1), "{arguments:?}");
        assert!(ended.err.contains(message), "{arguments:?}: {}", ended.err);
    }
    assert_eq!(std::fs::read_to_string(notes).unwrap(), "my notes");
}
