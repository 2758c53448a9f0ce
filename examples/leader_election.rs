//! One of two replicas leads and counts. It is asked to stop, and the other one goes on at once.
//!
//! With `--cluster NAMESPACE` the Lease is in the current cluster; without, in the embedded server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::Client;
use kube_informers_examples::cluster_to_write_to;
use kube_leases::{Election, ElectionConfig, Ended, LeaseName};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Short, so that the example is; the defaults are 15 s, 10 s and 2 s.
fn timings() -> ElectionConfig {
    ElectionConfig {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(300),
        ..ElectionConfig::default()
    }
}

/// Competes, and counts while it leads. Says how far it came.
async fn replica(
    client: Client,
    lease: LeaseName,
    name: &'static str,
    leaders: Arc<AtomicUsize>,
    stop: CancellationToken,
) -> Result<usize, kube_leases::ConfigError> {
    let ended = Election::new(client, lease, format!("{name}-{}", std::process::id()))
        .config(timings())
        .stop_on(stop)
        .run_while_leading(async |leadership| {
            println!("{name} leads");
            assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0, "two lead at once");
            let mut count = 0;
            while timeout(Duration::from_millis(50), leadership.lost())
                .await
                .is_err()
            {
                count += 1;
            }
            leaders.fetch_sub(1, Ordering::SeqCst);
            println!("{name} has ended its work");
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
    let leaders = Arc::new(AtomicUsize::new(0));
    let (stop_first, stop_second) = (CancellationToken::new(), CancellationToken::new());

    let first = replica(
        cluster.client.clone(),
        lease.clone(),
        "first",
        leaders.clone(),
        stop_first.clone(),
    );
    let second = async {
        sleep(Duration::from_secs(1)).await;
        replica(
            cluster.client.clone(),
            lease.clone(),
            "second",
            leaders.clone(),
            stop_second.clone(),
        )
        .await
    };
    let script = async {
        sleep(Duration::from_secs(2)).await;
        println!("the first is asked to stop");
        stop_first.cancel();
        let asked = Instant::now();
        sleep(Duration::from_millis(200)).await;
        while leaders.load(Ordering::SeqCst) == 0 {
            sleep(Duration::from_millis(10)).await;
            assert!(
                asked.elapsed() < Duration::from_secs(2),
                "the second does not lead, although the lease is free"
            );
        }
        sleep(Duration::from_secs(1)).await;
        stop_second.cancel();
    };
    let (first, second, ()) = tokio::join!(first, second, script);
    let (first, second) = (first?, second?);
    println!("the first counted to {first}, the second to {second}");
    assert!(first > 0 && second > 0, "both have led");
    Ok(())
}
