//! A controller migrated from kube-runtime, in the three stages of the migration; the same script runs with each.
//!
//! 1. `before.rs`: with kube-runtime only.
//! 2. `between.rs`: the same reconciler, fed from informers. Only the construction has changed.
//! 3. `after.rs`: the reconciler receives a key. kube-runtime is gone.
//!
//! For each Deployment it maintains a ConfigMap `<name>-facts` with the number of replicas.

mod after;
mod before;
mod between;
mod facts;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_testserver::TestServer;
use kube_testserver::builders::deployment;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = new_server();
    tokio::select! {
        () = before::run(server.client()) => return Err("the controller has ended".into()),
        () = scene(&server) => println!("before: works"),
    }

    let server = new_server();
    tokio::select! {
        () = between::run(server.client()) => return Err("the controller has ended".into()),
        () = scene(&server) => println!("between: works"),
    }

    let server = new_server();
    let deletions = after::Deletions::default();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let playing = async {
        scene(&server).await;
        deletions.first().await;
        end.send(()).ok();
    };
    let running = after::run(server.client(), &deletions, async { ended.await.unwrap_or(()) });
    let (outcome, ()) = tokio::join!(running, playing);
    outcome?;
    println!("after: works, and sees deletions");
    server.assert_nothing_open();
    Ok(())
}

fn new_server() -> TestServer {
    TestServer::builder().garbage_collection().build()
}

/// Creates a Deployment, changes it, and interferes with its ConfigMap.
async fn scene(server: &TestServer) {
    let facts = |server: &TestServer| {
        let facts = server.get::<ConfigMap>("shop", "cart-facts")?;
        facts.data?.get("replicas").cloned()
    };
    let replicas = |server: &TestServer, replicas: i32| {
        server.modify::<Deployment>("shop", "cart", |it| it.spec.replicas = Some(replicas));
    };
    server.create(deployment("shop", "cart"));
    replicas(server, 2);
    server
        .wait_for("the facts exist", |server| facts(server).as_deref() == Some("2"))
        .await;

    replicas(server, 5);
    server
        .wait_for("they follow", |server| facts(server).as_deref() == Some("5"))
        .await;

    server.modify::<ConfigMap>("shop", "cart-facts", |facts| {
        facts.data = Some([("replicas".to_owned(), "a lie".to_owned())].into());
    });
    server
        .wait_for("they are corrected", |server| {
            facts(server).as_deref() == Some("5")
        })
        .await;

    server.delete::<ConfigMap>("shop", "cart-facts");
    server
        .wait_for("they are recreated", |server| {
            facts(server).as_deref() == Some("5")
        })
        .await;

    server.delete::<Deployment>("shop", "cart");
    server
        .wait_for("they are deleted with it", |server| facts(server).is_none())
        .await;
}
