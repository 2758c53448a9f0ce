//! A live view of the pods of a cluster: every change, and a periodic summary.
//!
//! `cargo run --release --example watch_pods [-- --seconds N]`

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::reflector::{ReflectorConfig, StreamEnd};
use kube_informers::source::SourceOptions;
use kube_informers::{Event, Informer};
use kube_informers_examples::cluster;
use kube_testserver::churn::Churn;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = seconds()?;
    let cluster = cluster().await?;
    let pods = Informer::<Pod>::all(cluster.client.clone())
        .source(SourceOptions {
            drop_managed_fields: Some(true),
            ..Default::default()
        })?
        .config(ReflectorConfig {
            on_stream_end: Some(Arc::new(|end: &StreamEnd<'_>| {
                if end.error.is_some() {
                    println!("! {end}");
                }
            })),
            ..Default::default()
        })
        .start();
    pods.synced_within(Duration::from_secs(30)).await?;
    println!(
        "{} pods at version {}",
        pods.store().len(),
        pods.store().resource_version().unwrap_or_default()
    );
    pods.add_event_handler(|event: Event<Pod>| {
        if !event.is_initial() {
            println!("  {event}");
        }
    })?;

    let churn = async {
        match cluster.server {
            Some(server) => Churn::new(server, 1).run(10.0).await,
            None => std::future::pending().await,
        }
    };
    let end = async {
        match seconds {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => tokio::signal::ctrl_c().await.unwrap_or_default(),
        }
    };
    tokio::pin!(churn, end);
    let mut summary = tokio::time::interval(Duration::from_secs(5));
    loop {
        tokio::select! {
            () = &mut end => break,
            () = &mut churn => {}
            _ = summary.tick() => {
                let stats = pods.stats();
                println!(
                    "{} pods, {}: {} added, {} updated, {} deleted so far",
                    stats.objects, pods.state(), stats.totals.added, stats.totals.updated, stats.totals.deleted
                );
            }
        }
    }
    pods.shutdown().await;
    Ok(())
}

fn seconds() -> Result<Option<u64>, String> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => Ok(None),
        (Some("--seconds"), Some(number)) => number
            .parse()
            .map(Some)
            .map_err(|_| format!("--seconds takes a whole number, not {number:?}")),
        (Some(other), _) => Err(format!("unknown argument {other:?}; the only one is --seconds N")),
    }
}
