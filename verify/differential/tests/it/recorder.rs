//! client-go's event recorder and ours, on the same story.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use kube_controller::Recorder;
use kube_differential::go;
use kube_testserver::TestServer;
use kube_testserver::builders::pod;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, sleep, timeout};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Something that happens to a pod, and the series of its Event on the server afterwards: 0 for an Event without a series.
struct Occurrence {
    pod: &'static str,
    warning: bool,
    reason: &'static str,
    action: &'static str,
    note: &'static str,
    series: i64,
}

fn normal(pod: &'static str, reason: &'static str, action: &'static str, note: &'static str) -> Occurrence {
    Occurrence {
        pod,
        warning: false,
        reason,
        action,
        note,
        series: 0,
    }
}

fn story() -> Vec<Occurrence> {
    let again = |note: &'static str| Occurrence {
        series: 2,
        ..normal("cart", "Restarted", "Restarting", note)
    };
    vec![
        normal("cart", "Scaled", "Scaling", "scaled to 3"),
        // Another object, another action and another type are other events.
        normal("order", "Scaled", "Scaling", "scaled to 3"),
        normal("cart", "Scaled", "Updating", "scaled to 3"),
        Occurrence {
            warning: true,
            ..normal("cart", "Scaled", "Scaling", "scaled to 3")
        },
        // A repetition makes a series. Its count is written at once, and then when the series ends.
        normal("cart", "Restarted", "Restarting", "for the first time"),
        again("for the second time"),
        again("for the third time"),
        again("for the fourth time"),
    ]
}

trait Reporter {
    async fn report(&mut self, pod: &Pod, occurrence: &Occurrence);
}

struct GoRecorder {
    process: Child,
    input: ChildStdin,
}

impl GoRecorder {
    fn start(program: &Path, server: &TestServer) -> Self {
        let mut process = Command::new(program)
            .args(["-server", &server.url().unwrap()])
            .stdin(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        Self { process, input }
    }
}

impl Reporter for GoRecorder {
    async fn report(&mut self, pod: &Pod, occurrence: &Occurrence) {
        let fields = [
            if occurrence.warning { "Warning" } else { "Normal" },
            "shop",
            occurrence.pod,
            pod.metadata.uid.as_deref().unwrap(),
            occurrence.reason,
            occurrence.action,
            occurrence.note,
        ];
        let line = fields.join("\t") + "\n";
        self.input.write_all(line.as_bytes()).await.unwrap();
    }
}

impl Reporter for Recorder {
    async fn report(&mut self, pod: &Pod, occurrence: &Occurrence) {
        let Occurrence {
            reason, action, note, ..
        } = *occurrence;
        if occurrence.warning {
            self.warning(pod, reason, action, note);
        } else {
            self.normal(pod, reason, action, note);
        }
    }
}

/// The Events on a server, without what differs between any two runs, sorted.
async fn events(server: &TestServer) -> Vec<Value> {
    let api = Api::<Event>::all(server.client());
    let listed = api.list(&ListParams::default()).await.unwrap();
    let mut events: Vec<Value> = (listed.items.into_iter())
        .map(|event| serde_json::to_value(event).unwrap())
        .collect();
    for event in &mut events {
        let regarding = event["regarding"]["name"].as_str().unwrap_or_default().to_owned();
        let name = event["metadata"]["name"].as_str().unwrap_or_default();
        let is_named_after = name.starts_with(&format!("{regarding}."));
        event["metadata"] = json!({
            "namespace": event["metadata"]["namespace"], "named after the object": is_named_after,
        });
        // Go encodes the empty struct.
        if event["deprecatedSource"] == json!({})
            && let Some(fields) = event.as_object_mut()
        {
            fields.remove("deprecatedSource");
        }
        assert!(event["regarding"]["uid"].is_string(), "{event}");
        event["regarding"]["uid"] = json!("a UID");
        for time in ["/eventTime", "/series/lastObservedTime"] {
            if let Some(time) = event.pointer_mut(time) {
                assert!(time.is_string(), "{time}");
                *time = json!("a time");
            }
        }
        for reporter in ["reportingController", "reportingInstance"] {
            assert!(event[reporter].is_string(), "{event}");
            event[reporter] = json!(reporter);
        }
    }
    events.sort_by_key(Value::to_string);
    events
}

/// Whether an Event of the occurrence is on the server, with its series.
async fn is_written(server: &TestServer, occurrence: &Occurrence) -> bool {
    let kind = if occurrence.warning { "Warning" } else { "Normal" };
    events(server).await.iter().any(|event| {
        event["reason"] == occurrence.reason
            && event["action"] == occurrence.action
            && event["type"] == kind
            && event["regarding"]["name"] == occurrence.pod
            && event["series"]["count"].as_i64().unwrap_or_default() == occurrence.series
    })
}

/// Reports the story to a recorder, each occurrence after the previous one is on the server.
async fn play(server: &TestServer, reporter: &mut impl Reporter) {
    let pods = ["cart", "order"].map(|name| server.create(pod("shop", name)));
    for occurrence in story() {
        let pod = &pods[usize::from(occurrence.pod == "order")];
        reporter.report(pod, &occurrence).await;
        let deadline = Instant::now() + TIMEOUT;
        while !is_written(server, &occurrence).await {
            assert!(
                Instant::now() < deadline,
                "{} is not written: {:?}",
                occurrence.note,
                events(server).await
            );
            sleep(Duration::from_millis(10)).await;
        }
    }
}

pub async fn same_occurrences_lead_to_the_same_events() {
    let program = go::build("recorder");
    let theirs = TestServer::start().await.unwrap();
    let ours = TestServer::start().await.unwrap();

    let mut go = GoRecorder::start(&program, &theirs);
    play(&theirs, &mut go).await;
    let mut recorder = Recorder::start(ours.client(), "example.dev/rust", "rust-0");
    play(&ours, &mut recorder).await;

    let (go_events, our_events) = (events(&theirs).await, events(&ours).await);
    assert_eq!(our_events.len(), 5);
    for (ours, theirs) in our_events.iter().zip(&go_events) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(our_events.len(), go_events.len());

    // At a shutdown ours writes the count of a running series; client-go's drops it.
    recorder.shutdown_within(Duration::from_secs(10)).await;
    drop(go.input);
    timeout(TIMEOUT, go.process.wait()).await.unwrap().unwrap();
    let mut counts = Vec::new();
    for server in [&ours, &theirs] {
        let events = events(server).await;
        counts.extend(
            events
                .iter()
                .filter_map(|event| event["series"]["count"].as_i64()),
        );
    }
    assert_eq!(counts, [4, 2]);
}
