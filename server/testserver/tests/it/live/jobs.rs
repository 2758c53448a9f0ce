//! Jobs.

use std::cell::Cell;
use std::time::Duration;

use kube_testserver::{PodRule, TestServer};
use serde_json::{Value, json};

use super::{cluster, condition, delete, idle, names, object, patch, post, status};

fn job(spec: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "load" },
        "spec": { "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "main", "image": "main:1" }],
        } } },
    });
    if let (Some(all), Value::Object(given)) = (job["spec"].as_object_mut(), spec) {
        all.extend(given);
    }
    job
}

fn state(server: &TestServer, kind: &str) -> String {
    condition(&object(server, "jobs.batch", "load"), kind)
}

#[tokio::test(start_paused = true)]
async fn job_runs_as_many_pods_as_it_needs() {
    let server = cluster(&["n1"]);
    post(
        &server,
        "jobs.batch",
        &job(json!({ "completions": 5, "parallelism": 2 })),
    )
    .await;
    let most = Cell::new(0);
    server
        .wait_for("the job is complete", |server| {
            let pods = server.objects("pods");
            let active = pods
                .iter()
                .filter(|pod| pod["status"]["phase"] != "Succeeded")
                .count();
            most.set(most.get().max(active));
            state(server, "Complete") == "True CompletionsReached"
        })
        .await;

    assert_eq!(most.get(), 2);
    let result = status(&server, "jobs.batch", "load");
    assert_eq!(
        (&result["succeeded"], &result["active"]),
        (&json!(5), &Value::Null)
    );
    assert!(result["startTime"].is_string() && result["completionTime"].is_string());
    assert_eq!(server.count("pods"), 5);
    for pod in server.objects("pods") {
        assert_eq!(pod["metadata"]["labels"]["batch.kubernetes.io/job-name"], "load");
        assert!(
            pod["metadata"].get("finalizers").is_none(),
            "counted pods are released"
        );
    }

    delete(&server, "jobs.batch", "load").await;
    idle(&server).await;
}

#[tokio::test(start_paused = true)]
async fn deleted_pods_stay_counted() {
    let server = cluster(&["n1"]);
    post(
        &server,
        "jobs.batch",
        &job(json!({ "completions": 2, "parallelism": 1 })),
    )
    .await;
    server
        .wait_for("the first pod succeeded", |server| {
            status(server, "jobs.batch", "load")["succeeded"] == 1
        })
        .await;
    let first = server
        .objects("pods")
        .into_iter()
        .find(|pod| pod["status"]["phase"] == "Succeeded")
        .unwrap();
    delete(&server, "pods", first["metadata"]["name"].as_str().unwrap()).await;

    server
        .wait_for("the job is complete", |server| {
            state(server, "Complete").starts_with("True")
        })
        .await;
    assert_eq!(status(&server, "jobs.batch", "load")["succeeded"], 2);
    assert_eq!(server.count("pods"), 1);
}

#[tokio::test(start_paused = true)]
async fn job_fails_after_its_back_off_limit_with_growing_pauses() {
    let server = cluster(&["n1"]);
    server.pod_rule(PodRule::all().fail_after(Duration::ZERO));
    post(&server, "jobs.batch", &job(json!({ "backoffLimit": 2 }))).await;
    let start = tokio::time::Instant::now();
    server
        .wait_for_within(Duration::from_secs(300), "the job failed", |server| {
            state(server, "Failed") == "True BackoffLimitExceeded"
        })
        .await;

    assert_eq!(server.count("pods"), 3);
    assert_eq!(status(&server, "jobs.batch", "load")["failed"], 3);
    let seconds = start.elapsed().as_secs();
    assert!(
        (28..35).contains(&seconds),
        "10 + 20 seconds of back-off, not {seconds}"
    );
}

#[tokio::test(start_paused = true)]
async fn restarts_count_for_pods_that_are_restarted_on_failure() {
    let server = cluster(&["n1"]);
    server.pod_rule(PodRule::all().crash_loop());
    let mut failing = job(json!({ "backoffLimit": 3 }));
    failing["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    post(&server, "jobs.batch", &failing).await;
    server
        .wait_for_within(Duration::from_secs(300), "the job failed", |server| {
            state(server, "Failed") == "True BackoffLimitExceeded"
        })
        .await;

    assert_eq!(server.count("pods"), 0, "its pod was deleted");
}

#[tokio::test(start_paused = true)]
async fn job_fails_at_its_deadline_and_is_removed_after_its_time_to_live() {
    let server = cluster(&["n1"]);
    server.pod_rule(PodRule::all().run_forever());
    let limits = json!({ "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 100 });
    post(&server, "jobs.batch", &job(limits)).await;
    server
        .wait_for_within(Duration::from_secs(62), "the job failed", |server| {
            state(server, "Failed") == "True DeadlineExceeded"
        })
        .await;
    assert_eq!(server.count("pods"), 0);

    server
        .wait_for_within(Duration::from_secs(103), "the job is removed", |server| {
            server.count("jobs.batch") == 0
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn indexed_job_completes_every_index_once() {
    let server = cluster(&["n1"]);
    let spec = json!({ "completions": 4, "parallelism": 4, "completionMode": "Indexed" });
    post(&server, "jobs.batch", &job(spec)).await;
    server
        .wait_for("the job is complete", |server| {
            state(server, "Complete").starts_with("True")
        })
        .await;

    assert_eq!(status(&server, "jobs.batch", "load")["completedIndexes"], "0-3");
    let index = "batch.kubernetes.io/job-completion-index";
    let mut indexes: Vec<String> = server
        .objects("pods")
        .iter()
        .map(|pod| pod["metadata"]["annotations"][index].as_str().unwrap().to_owned())
        .collect();
    indexes.sort();
    assert_eq!(indexes, ["0", "1", "2", "3"]);
    let variable = &server.objects("pods")[0]["spec"]["containers"][0]["env"][0];
    assert_eq!(variable["name"], "JOB_COMPLETION_INDEX");
}

#[tokio::test(start_paused = true)]
async fn suspended_job_has_no_pods_until_it_is_resumed() {
    let server = cluster(&["n1"]);
    server.pod_rule(PodRule::all().run_forever());
    post(&server, "jobs.batch", &job(json!({ "parallelism": 2 }))).await;
    idle(&server).await;
    assert_eq!(server.count("pods"), 2);

    patch(
        &server,
        "jobs.batch",
        "load",
        &json!({ "spec": { "suspend": true } }),
    )
    .await;
    idle(&server).await;
    assert_eq!(
        (server.count("pods"), state(&server, "Suspended")),
        (0, "True JobSuspended".to_owned())
    );

    patch(
        &server,
        "jobs.batch",
        "load",
        &json!({ "spec": { "suspend": false } }),
    )
    .await;
    idle(&server).await;
    assert_eq!(
        (server.count("pods"), state(&server, "Suspended")),
        (2, "False JobResumed".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn deleted_job_leaves_no_pods() {
    let server = cluster(&["n1"]);
    server.pod_rule(PodRule::all().run_forever());
    post(
        &server,
        "jobs.batch",
        &job(json!({ "parallelism": 2, "completions": 2 })),
    )
    .await;
    idle(&server).await;
    assert_eq!(names(&server, "pods").len(), 2);

    // As kubectl deletes it: other clients keep the pods of a job by default.
    let background = json!({ "propagationPolicy": "Background" });
    crate::common::send(
        &server,
        http::Method::DELETE,
        &super::path("jobs.batch", "load"),
        &background,
    )
    .await;
    idle(&server).await;
    assert_eq!(server.count("pods"), 0);
}
