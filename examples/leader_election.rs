//! Two replicas compete for leadership. The leader is stopped gracefully, and the other one takes over at once.
//!
//! With `--cluster NAMESPACE` the Lease is in the current cluster; without, in the embedded server.

use std::time::Duration;

use kube::Client;
use kube_informers_examples::cluster_to_write_to;
use kube_leases::{ConfigError, Election, ElectionConfig, Ended, LeaseName};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Competes, and counts while it leads. Returns the last number.
async fn replica(
    client: Client,
    lease: LeaseName,
    name: &'static str,
    leads: watch::Sender<Vec<&'static str>>,
    stop: CancellationToken,
) -> Result<usize, ConfigError> {
    let ended = Election::new(client, lease, format!("{name}-{}", std::process::id()))
        // Short for the example; the defaults are 15 s, 10 s and 2 s.
        .config(ElectionConfig {
            lease_duration: Duration::from_secs(3),
            renew_deadline: Duration::from_secs(2),
            retry_period: Duration::from_millis(300),
            ..ElectionConfig::default()
        })
        .stop_on(stop)
        .run_while_leading(async |leadership| {
            println!("{name} leads");
            leads.send_modify(|leaders| leaders.push(name));
            assert_eq!(*leads.borrow(), [name], "two leaders at once");
            let mut count = 0;
            while timeout(Duration::from_millis(50), leadership.lost())
                .await
                .is_err()
            {
                count += 1;
            }
            leads.send_modify(|leaders| leaders.retain(|leader| *leader != name));
            println!("{name} has finished its work");
            count
        })
        .await?;
    Ok(match ended {
        Ended::Finished(count) | Ended::Lost(Some(count)) => count,
        Ended::Lost(None) | Ended::NeverLed => 0,
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (cluster, namespace) = cluster_to_write_to().await?;
    let lease = LeaseName::new(namespace, "leader-election-example");
    let (leads, mut leader) = watch::channel(Vec::new());
    let (stop_first, stop_second) = (CancellationToken::new(), CancellationToken::new());
    let mut second_leader = leader.clone();

    let first = replica(
        cluster.client.clone(),
        lease.clone(),
        "first",
        leads.clone(),
        stop_first.clone(),
    );
    let second = async {
        // Only after the first leads, so that the second has to wait.
        second_leader
            .wait_for(|leaders| leaders.contains(&"first"))
            .await
            .ok();
        replica(
            cluster.client.clone(),
            lease.clone(),
            "second",
            leads.clone(),
            stop_second.clone(),
        )
        .await
    };
    let script = async {
        timeout(
            Duration::from_secs(20),
            leader.wait_for(|leaders| leaders.contains(&"first")),
        )
        .await??;
        sleep(Duration::from_secs(1)).await;
        println!("stopping the first");
        stop_first.cancel();
        // The Lease is released, so the second need not wait for the lease duration.
        let handover = leader.wait_for(|leaders| leaders.contains(&"second"));
        timeout(Duration::from_millis(2500), handover).await??;
        sleep(Duration::from_secs(1)).await;
        stop_second.cancel();
        Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    };
    let (first, second, scripted) = tokio::join!(first, second, async {
        let scripted = script.await;
        // Also after an error, so that both end.
        stop_first.cancel();
        stop_second.cancel();
        scripted
    });
    scripted?;
    let (first, second) = (first?, second?);
    println!("the first counted to {first}, the second to {second}");
    assert!(first > 0 && second > 0, "one of them never led");
    Ok(())
}
