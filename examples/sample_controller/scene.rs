//! A script for the embedded server: it creates Foos, interferes with them, and checks every step.
//!
//! The embedded server runs no controllers, so the script also plays the deployment controller.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube_testserver::TestServer;
use kube_testserver::builders::deployment;
use serde_json::{Value, json};

use super::Error;
use super::flags::Flags;
use super::foo::{Foo, GROUP, VERSION, definition};
use super::run::run;

/// Runs the controller and the script, and ends both by a signal.
pub async fn play(flags: Flags) -> Result<(), Error> {
    let server = TestServer::builder().garbage_collection().build();
    server.create(definition());
    let playing = async {
        scene(&server).await;
        println!("the script is done: sending SIGTERM");
        terminate().await
    };
    let (outcome, sent) = tokio::join!(run(server.client(), &flags), playing);
    sent?;
    outcome?;
    server.assert_nothing_open();
    println!("everything has stopped");
    Ok(())
}

async fn scene(server: &TestServer) {
    println!("a Foo is created, and gets its Deployment");
    server.create(foo("example", "example-foo", 1));
    server
        .wait_for("the Deployment exists", |server| {
            replicas(server, "example-foo") == Some(1)
        })
        .await;
    let owned: Deployment = server.get("default", "example-foo").expect("it exists");
    let owner = owned
        .metadata
        .owner_references
        .into_iter()
        .flatten()
        .next()
        .expect("it has an owner");
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str(), owner.controller),
        ("Foo", "example", Some(true))
    );

    println!("its pods become ready, and the status of the Foo shows it");
    set_available(server, "example-foo", 1).await;
    server
        .wait_for("the status is written", |server| {
            available(server, "example") == Some(1)
        })
        .await;
    server
        .wait_for("the event is recorded", |server| events(server, "Synced") > 0)
        .await;

    println!("the Deployment is scaled by hand, and the controller restores it");
    server.modify::<Deployment>("default", "example-foo", |it| it.spec.replicas = Some(7));
    server
        .wait_for("it is repaired", |server| {
            replicas(server, "example-foo") == Some(1)
        })
        .await;

    println!("the Deployment is deleted, and the controller creates it again");
    server.delete::<Deployment>("default", "example-foo");
    server
        .wait_for("it is recreated", |server| {
            replicas(server, "example-foo") == Some(1)
        })
        .await;

    println!("the Foo is scaled");
    server.update(foo("example", "example-foo", 3));
    server
        .wait_for("it is scaled", |server| {
            replicas(server, "example-foo") == Some(3)
        })
        .await;

    println!("a Foo names a Deployment of another owner, and is rejected");
    let mut taken = deployment("default", "taken");
    taken.spec.replicas = Some(5);
    server.create(taken);
    server.create(foo("greedy", "taken", 1));
    server
        .wait_for("it is warned", |server| events(server, "ErrResourceExists") > 0)
        .await;
    assert_eq!(replicas(server, "taken"), Some(5));
    let warning = server
        .objects("events")
        .into_iter()
        .find(|event| event["reason"] == "ErrResourceExists");
    let warning = warning.expect("it exists");
    assert_eq!(warning["type"], "Warning");
    assert_eq!(warning["involvedObject"]["name"], "greedy");

    println!("it is retried, which is one event with a count");
    server
        .wait_for("it is counted", |server| count(server, "ErrResourceExists") > 1)
        .await;
    assert_eq!(events(server, "ErrResourceExists"), 1);

    println!("the other Deployment is deleted, and the Foo gets its own");
    server.delete::<Deployment>("default", "taken");
    server
        .wait_for("it is created", |server| replicas(server, "taken") == Some(1))
        .await;

    println!("the Foo is deleted, and its Deployment with it");
    server.delete::<Foo>("default", "example");
    server
        .wait_for("it is collected", |server| {
            replicas(server, "example-foo").is_none()
        })
        .await;
}

fn foo(name: &str, deployment: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Foo",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"deploymentName": deployment, "replicas": replicas},
    })
}

fn replicas(server: &TestServer, name: &str) -> Option<i32> {
    server.get::<Deployment>("default", name)?.spec.replicas
}

fn available(server: &TestServer, name: &str) -> Option<i32> {
    Some(server.get::<Foo>("default", name)?.status?.available_replicas)
}

fn events(server: &TestServer, reason: &str) -> usize {
    let events = server.objects("events");
    events.iter().filter(|event| event["reason"] == reason).count()
}

fn count(server: &TestServer, reason: &str) -> i64 {
    let events = server.objects("events");
    let counts = events.iter().filter(|event| event["reason"] == reason);
    counts.filter_map(|event| event["count"].as_i64()).sum()
}

async fn set_available(server: &TestServer, name: &str, available: i32) {
    let deployments = Api::<Deployment>::namespaced(server.client(), "default");
    let status = Patch::Merge(json!({"status": {"replicas": available, "availableReplicas": available}}));
    let outcome = deployments
        .patch_status(name, &PatchParams::default(), &status)
        .await;
    outcome.expect("the status can be written");
}

/// Like `kill` or a kubelet.
async fn terminate() -> Result<(), Error> {
    let kill = format!("kill -TERM {}", std::process::id());
    let status =
        tokio::task::spawn_blocking(move || std::process::Command::new("sh").args(["-c", &kill]).status());
    match status.await??.success() {
        true => Ok(()),
        false => Err("the signal could not be sent".into()),
    }
}
