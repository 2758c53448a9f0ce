//! An operator with everything a Go operator has: an owner with a child, a finalizer, Events, status conditions, leader
//! election, metrics and a graceful shutdown. Twice: with `kube-controller`, and in the style of kube-runtime.
//!
//! The same script runs with each and checks every effect on the embedded server.

mod site;
mod with_informers;
mod with_kube_runtime;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_testserver::TestServer;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::site::{Dns, Error, FINALIZER, Site, definition};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let (server, dns, stop) = (new_server(), Dns::default(), CancellationToken::new());
    let running = with_informers::run(server.client(), dns.clone(), stop.clone());
    let (metrics, ()) = tokio::join!(running, script(&server, &dns, stop));
    let metrics = metrics?;
    for metric in [
        "controller_runtime_reconcile_total{controller=\"sites\",result=\"success\"}",
        "workqueue_adds_total{name=\"sites\"}",
        "informer_synced{name=\"sites.example.dev in all namespaces\"} 1.0",
        "event_recorder_events_total{controller=\"sites\",outcome=\"written\"}",
    ] {
        assert!(metrics.contains(metric), "no {metric} in\n{metrics}");
    }
    server.assert_nothing_open();
    println!("with informers: works, {} metrics", samples(&metrics));

    let (server, dns, stop) = (new_server(), Dns::default(), CancellationToken::new());
    let running = with_kube_runtime::run(server.client(), dns.clone(), stop.clone());
    let (metrics, ()) = tokio::join!(running, script(&server, &dns, stop));
    let metrics = metrics?;
    assert!(metrics.contains("site_reconciliations_total"), "{metrics}");
    println!("with kube-runtime: works, {} metrics", samples(&metrics));
    Ok(())
}

fn samples(metrics: &str) -> usize {
    metrics.lines().filter(|line| !line.starts_with('#')).count()
}

fn new_server() -> TestServer {
    let server = TestServer::builder().garbage_collection().build();
    server.create(definition());
    server
}

fn ready(server: &TestServer) -> Option<Condition> {
    let site = server.get::<Site>("shop", "blog")?;
    let conditions = site.conditions();
    conditions
        .into_iter()
        .find(|condition| condition.type_ == "Ready")
}

fn text(server: &TestServer) -> Option<String> {
    let page = server.get::<ConfigMap>("shop", "blog-page")?;
    page.data?.get("text").cloned()
}

fn has_event(server: &TestServer, reason: &str) -> bool {
    let events = server.objects("events.events.k8s.io");
    events.iter().any(|event| event["reason"] == reason)
}

fn leader(server: &TestServer) -> Option<String> {
    let lease = server.get::<Lease>("shop", "site-operator")?;
    lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
}

/// The life of a Site. Every step waits for its effect and panics if there is none.
async fn script(server: &TestServer, dns: &Dns, stop: CancellationToken) {
    server.create(json!({
        "apiVersion": "example.dev/v1", "kind": "Site",
        "metadata": {"namespace": "shop", "name": "blog"}, "spec": {"text": "hello"},
    }));
    server
        .wait_for("the page exists", |server| {
            text(server).as_deref() == Some("hello")
        })
        .await;
    server
        .wait_for("it is ready", |server| {
            ready(server).is_some_and(|ready| ready.status == "True" && ready.reason == "Published")
        })
        .await;
    let since = ready(server).map(|ready| ready.last_transition_time);
    assert_eq!(leader(server).as_deref(), Some("replica-1"));
    assert_eq!(dns.list(), ["blog.shop"]);
    let finalizers = server
        .get::<Site>("shop", "blog")
        .and_then(|site| site.metadata.finalizers);
    assert_eq!(finalizers, Some(vec![FINALIZER.to_owned()]));
    server
        .wait_for("an Event is written", |server| has_event(server, "Published"))
        .await;

    server.modify::<Site>("shop", "blog", |site| site.spec.text = "good bye".to_owned());
    let generation = server
        .get::<Site>("shop", "blog")
        .and_then(|site| site.metadata.generation);
    server
        .wait_for("the page follows", |server| {
            text(server).as_deref() == Some("good bye")
        })
        .await;
    server
        .wait_for("the status follows", |server| {
            ready(server).is_some_and(|ready| ready.observed_generation == generation)
        })
        .await;
    assert_eq!(
        ready(server).map(|ready| ready.last_transition_time),
        since,
        "it was ready all the time"
    );

    server.delete::<ConfigMap>("shop", "blog-page");
    server
        .wait_for("the page is recreated", |server| text(server).is_some())
        .await;

    server.delete::<Site>("shop", "blog");
    server
        .wait_for("the site is gone", |server| {
            server.get::<Site>("shop", "blog").is_none()
        })
        .await;
    assert_eq!(dns.list(), [""; 0], "the finalizer has cleaned up");
    server
        .wait_for("the page is gone", |server| text(server).is_none())
        .await;
    server
        .wait_for("an Event is written", |server| has_event(server, "Removed"))
        .await;

    stop.cancel();
    server
        .wait_for("the Lease is released", |server| leader(server).is_none())
        .await;
}
