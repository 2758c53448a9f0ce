//! Who changed what, as kubectl and controllers really write, and a recording of it.

use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube_informers_e2e::{Setup, TIMEOUT};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use super::place::{Place, Watching, err, finish, program};

/// Manager, operation, subresource and one of the fields.
type Author<'a> = (&'a str, &'a str, Option<&'a str>, &'a str);

/// Asserts that a change has this author, and that the author wrote this field.
fn assert_by(event: &Value, (manager, operation, subresource, path): Author<'_>) {
    let by = event["by"]
        .as_array()
        .unwrap_or_else(|| panic!("no author: {event:#}"));
    let author = by.iter().find(|one| one["manager"] == manager);
    let author = author.unwrap_or_else(|| panic!("not by {manager}: {event:#}"));
    assert_eq!(author["operation"], operation, "{event:#}");
    assert_eq!(author["subresource"].as_str(), subresource, "{event:#}");
    let paths = author["paths"].as_array().expect("paths");
    assert!(
        path.is_empty() || paths.iter().any(|one| one == path),
        "{event:#}"
    );
}

fn map(name: &str, colour: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "colour": colour } })
}

/// Every way of writing, and what the program must say about it.
async fn write(place: &Place, client: &kube::Client, watching: &mut Watching) {
    let server_side = ["apply", "--server-side", "-f", "-"];
    place
        .kubectl(&["apply", "-f", "-"], &map("client-side", "blue"))
        .await;
    let added = watching.change_of("client-side").await;
    assert_by(&added, ("kubectl-client-side-apply", "Update", None, ""));
    place
        .kubectl(&["apply", "-f", "-"], &map("client-side", "green"))
        .await;
    let applied = watching.change_of("client-side").await;
    assert_by(
        &applied,
        ("kubectl-client-side-apply", "Update", None, "data.colour"),
    );
    assert_eq!(applied["diff"][0]["new"], "green", "{applied:#}");

    place
        .kubectl(&["edit", "configmap/client-side"], &Value::Null)
        .await;
    let edited = watching.change_of("client-side").await;
    assert_by(&edited, ("kubectl-edit", "Update", None, "data.colour"));

    place.kubectl(&server_side, &map("server-side", "blue")).await;
    let added = watching.change_of("server-side").await;
    assert_by(&added, ("kubectl", "Apply", None, ""));
    place.kubectl(&server_side, &map("server-side", "green")).await;
    let applied = watching.change_of("server-side").await;
    assert_by(&applied, ("kubectl", "Apply", None, "data.colour"));

    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "web:1" }] },
            },
        },
    });
    place.kubectl(&["create", "-f", "-"], &web).await;
    assert_by(
        &watching.change_of("web").await,
        ("kubectl-create", "Update", None, ""),
    );
    place
        .kubectl(&["scale", "deployment/web", "--replicas", "3"], &Value::Null)
        .await;
    let scaled = watching.change_of("web").await;
    assert_by(&scaled, ("kubectl", "Update", Some("scale"), "spec.replicas"));

    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &place.namespace);
    let status = Patch::Merge(json!({ "status": { "replicas": 3, "readyReplicas": 2 } }));
    deployments
        .patch_status("web", &manager("deployment-controller"), &status)
        .await
        .expect("the status is written");
    let reported = watching.change_of("web").await;
    assert_by(
        &reported,
        (
            "deployment-controller",
            "Update",
            Some("status"),
            "status.readyReplicas",
        ),
    );

    // The server records times in whole seconds.
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &place.namespace);
    for (name, field) in [("first", "a"), ("second", "b"), ("first", "c"), ("second", "d")] {
        let patch = Patch::Merge(json!({ "data": { field: name } }));
        maps.patch("server-side", &manager(name), &patch)
            .await
            .expect("the patch is accepted");
    }
    for (name, path) in [
        ("first", "data.a"),
        ("second", "data.b"),
        ("first", "data.c"),
        ("second", "data.d"),
    ] {
        let change = watching.change_of("server-side").await;
        assert_by(&change, (name, "Update", None, path));
        assert_eq!(change["by"].as_array().map(Vec::len), Some(1), "{change:#}");
    }
}

fn manager(name: &str) -> PatchParams {
    PatchParams {
        field_manager: Some(name.to_owned()),
        ..PatchParams::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real API server: verify/scenarios/run starts one"]
async fn authors_of_a_real_server_are_watched_recorded_and_replayed() {
    let Some(place) = Place::new("the program on a real server", &Setup::shared()).await else {
        return;
    };
    let file = place.home.join("test.rec");
    let file = file.to_str().expect("UTF-8");

    let kinds = "configmaps,deployments.apps";
    let options = ["-n", &place.namespace];
    let record = [&["record", file, kinds][..], &options].concat();
    let mut recorder = place.command(program(), &record);
    recorder.stderr(Stdio::piped());
    let mut recorder = recorder.spawn().expect("the recorder");
    let mut said = BufReader::new(recorder.stderr.take().expect("its messages")).lines();
    timeout(TIMEOUT, async {
        while let Some(line) = said.next_line().await.expect("a line") {
            if line.contains("recording changes") {
                return;
            }
        }
        panic!("the recorder ended");
    })
    .await
    .expect("the recorder has listed everything");
    let watch = [&["watch", kinds, "-o", "json"][..], &options].concat();
    let mut watching = Watching::start(place.command(program(), &watch));
    for _ in 0..2 {
        while watching.event().await["event"] != "synced" {}
    }
    write(&place, &place.client, &mut watching).await;

    // The recording says the same.
    let history = ["history", "-o", "json", file];
    let recorded = timeout(TIMEOUT, async {
        let mut look = tokio::time::interval(Duration::from_millis(200));
        loop {
            look.tick().await;
            let output = place.run(&history).await;
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            let lines: Vec<Value> = text
                .lines()
                .map(|line| serde_json::from_str(line).expect("JSON"))
                .collect();
            let is_last = |line: &Value| line["diff"][0]["field"] == "data.d";
            if lines.iter().any(is_last) {
                return lines;
            }
        }
    })
    .await
    .expect("every change is recorded");
    let id = recorder.id().expect("it runs").to_string();
    let stopped = Command::new("kill").args(["-INT", &id]).status().await;
    assert!(stopped.expect("kill").success());
    let code = timeout(TIMEOUT, recorder.wait()).await.expect("it stops in time");
    assert_eq!(code.expect("its code").code(), Some(130));
    let of = |name: &str, number: usize| {
        let mut lines = recorded.iter().filter(|line| line["name"] == name);
        lines.nth(number).unwrap_or_else(|| panic!("{recorded:#?}"))
    };
    assert_by(
        of("client-side", 2),
        ("kubectl-edit", "Update", None, "data.colour"),
    );
    assert_by(
        of("web", 1),
        ("kubectl", "Update", Some("scale"), "spec.replicas"),
    );
    assert_by(of("server-side", 5), ("second", "Update", None, "data.d"));

    let edited = of("client-side", 2)["time"].as_str().expect("a time");
    let at = ["at", edited, file, "cm", "server-side"];
    let then = place.run(&at).await;
    assert!(
        err(&then).contains("server-side"),
        "it did not exist yet: {}",
        err(&then)
    );
    let then = place
        .run(&["at", edited, file, "cm", "client-side", "-o", "json"])
        .await;
    let then: Value = serde_json::from_slice(&then.stdout).expect("JSON");
    assert_eq!(then["data"]["colour"], "red");

    replayed(&place, file).await;
    place.leave().await;
}

/// kubectl sees the recording.
async fn replayed(place: &Place, file: &str) {
    let kubeconfig = place.home.join("replay.yaml");
    let path = kubeconfig.to_str().expect("UTF-8");
    let replay = [
        "replay",
        file,
        "--from",
        "end",
        "--speed",
        "0",
        "--write-kubeconfig",
        path,
    ];
    let mut replay = Watching::start(place.command(program(), &replay));
    timeout(TIMEOUT, async {
        while let Some(line) = replay.lines.next_line().await.expect("a line") {
            if line.contains("--kubeconfig") {
                return;
            }
        }
        panic!("the replay ended");
    })
    .await
    .expect("the replay starts");
    let mut get = place.command(
        "kubectl",
        &["get", "deployment/web", "-o", "json", "-n", &place.namespace],
    );
    get.env("KUBECONFIG", &kubeconfig);
    let web = finish(get).await;
    let web: Value = serde_json::from_slice(&web.stdout).unwrap_or_else(|_| panic!("{}", err(&web)));
    assert_eq!(web["spec"]["replicas"], 3);
    assert_eq!(web["status"]["readyReplicas"], 2);
}
