//! `--where` and `--until`.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube_testserver::builders::pod;
use serde_json::json;

use crate::program::Cluster;

async fn label(cluster: &Cluster, name: &str, value: &str) {
    let pods: Api<Pod> = Api::namespaced(cluster.server.client(), "shop");
    let patch = json!({ "metadata": { "labels": { "colour": value } } });
    pods.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_changes_that_meet_the_condition_are_printed() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("shop", "cart"));
    let condition =
        "old.metadata.labels.colour != new.metadata.labels.colour && new.metadata.labels.colour == 'green'";
    let mut program = cluster.start(&["watch", "pods", "-n", "shop", "-o", "json", "--where", condition]);
    // The initial object does not meet it: there is no state before.
    assert_eq!(program.event().await["event"], "synced");
    for colour in ["red", "blue", "green", "yellow"] {
        label(&cluster, "cart", colour).await;
    }
    let event = program.event().await;
    assert_eq!(event["diff"][0]["new"], "green");
    assert_eq!(event["diff"][0]["old"], "blue");
    // The first change had no old label. As CEL has it, an error does not matter if the other side is false.
    assert!(
        !program.err().contains("cannot be evaluated"),
        "{}",
        program.err()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_expression_is_an_error_that_points_at_the_column() {
    let cluster = Cluster::new().await;
    for (expression, parts) in [
        ("new.status.phase = 'a'", ["column 18", "                 ^"]),
        (
            "pod.status.phase == 'a'",
            ["unknown variable \"pod\"", "column 1"],
        ),
        (
            "new.spec.all(c, begins(c))",
            ["unknown function \"begins\"", "column"],
        ),
    ] {
        for option in ["--where", "--until"] {
            let ended = cluster.run(&["watch", "pods", option, expression]).await;
            assert_eq!(ended.code, Some(1), "{}", ended.err);
            for part in parts {
                assert!(ended.err.contains(part), "{part}: {}", ended.err);
            }
        }
    }
    assert_eq!(
        cluster.server.requests().len(),
        0,
        "nothing was asked of the server"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_ends_once_the_condition_holds_for_every_object() {
    let cluster = Cluster::new().await;
    for name in ["cart-1", "cart-2", "other"] {
        cluster.server.create(pod("shop", name));
    }
    let program = cluster.start(&[
        "watch",
        "pods",
        "-n",
        "shop",
        "--name",
        "^cart-",
        "-o",
        "brief",
        "--until",
        "has(new.metadata.labels) && new.metadata.labels.colour == 'green'",
    ]);
    label(&cluster, "cart-1", "green").await;
    label(&cluster, "cart-2", "green").await;
    let ended = program.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(
        ended.err.contains("the condition holds for 2 objects"),
        "{}",
        ended.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_that_does_not_hold_in_time_has_its_own_exit_code() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("shop", "cart"));
    let ended = cluster
        .run(&[
            "watch",
            "pods",
            "-n",
            "shop",
            "--until",
            "new.spec == null",
            "--timeout",
            // Long enough for the list, on a machine under load.
            "8s",
        ])
        .await;
    assert_eq!(ended.code, Some(124), "{}", ended.err);
    assert!(
        ended.err.contains(
            "error: timed out after 8s: the condition does not hold for 1 of 1 objects: pods shop/cart"
        ),
        "{}",
        ended.err
    );
    let ended = cluster.run(&["watch", "pods", "--timeout", "1s"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("--until"), "{}", ended.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_can_be_waited_for() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("shop", "cart"));
    let mut program = cluster.start(&[
        "watch",
        "pod/cart",
        "-n",
        "shop",
        "-o",
        "json",
        "--until",
        "new == null",
    ]);
    program.event_of("synced").await;
    let pods: Api<Pod> = Api::namespaced(cluster.server.client(), "shop");
    let now = DeleteParams::default().grace_period(0);
    pods.delete("cart", &now).await.unwrap();
    let ended = program.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);

    let ended = cluster
        .run(&["watch", "pod/cart", "-n", "shop", "--until", "new == null"])
        .await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_see_secrets_redacted() {
    let cluster = Cluster::new().await;
    let secrets: Api<Secret> = Api::namespaced(cluster.server.client(), "shop");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "db" }, "stringData": { "password": "correct-horse" },
    });
    secrets
        .create(&PostParams::default(), &serde_json::from_value(secret).unwrap())
        .await
        .unwrap();
    let ended = cluster
        .run(&[
            "watch",
            "secrets",
            "-n",
            "shop",
            "-o",
            "json",
            "--until",
            "new.data.password == '<13 bytes>'",
        ])
        .await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    // An error about the value does not show it either.
    let ended = cluster
        .run(&[
            "watch",
            "secrets",
            "-n",
            "shop",
            "--show-secrets",
            "--until",
            "int(new.data.password) == 1",
            "--timeout",
            "8s",
        ])
        .await;
    assert_eq!(ended.code, Some(124), "{}", ended.err);
    assert!(ended.err.contains("int() failed"), "{}", ended.err);
    assert!(!ended.err.contains("Y29y"), "{}", ended.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_for_which_it_cannot_be_evaluated_are_named_and_counted() {
    let cluster = Cluster::new().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.server.client(), "shop");
    for number in 0..15 {
        let map = json!({ "metadata": { "name": format!("settings-{number:02}") } });
        maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap())
            .await
            .unwrap();
    }
    let mut program = cluster.start(&["watch", "cm", "-n", "shop", "--where", "new.data.colour == 'red'"]);
    program
        .says("--where cannot be evaluated for configmap shop/settings-00: it has no field \"data\"")
        .await;
    program
        .says("--where cannot be evaluated for 5 more objects")
        .await;
}
