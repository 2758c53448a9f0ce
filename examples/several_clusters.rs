//! One controller over three clusters, of which one dies and one joins later.
//!
//! The key of a run names the cluster. Each cluster has its own informer and its own watch, added while the controller runs.
//! Such a watch is optional: a cluster that cannot be reached delays and ends nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_controller::{AddedWatch, Controller, ControllerHandle, Watch};
use kube_informers::{Informer, ObjectKey};
use kube_testserver::TestServer;
use kube_testserver::builders::pod;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClusterKey {
    cluster: Arc<str>,
    key: ObjectKey,
}

impl fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.key)
    }
}

/// A cluster while the controller watches it.
struct Member {
    pods: Informer<Pod>,
    _watch: AddedWatch,
}

fn join(
    controller: &ControllerHandle<ClusterKey>,
    name: &str,
    client: kube::Client,
) -> Result<Member, Error> {
    let cluster: Arc<str> = name.into();
    let pods = Informer::<Pod>::all(client)
        .name(format!("pods of {name}"))
        .start();
    let watch = Watch::object(&pods).with_key(move |key| ClusterKey {
        cluster: cluster.clone(),
        key,
    });
    Ok(Member {
        _watch: controller.add_watch(watch)?,
        pods,
    })
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Error> {
    let (log, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let controller = Controller::<ClusterKey>::new("fleet").start(async move |key: ClusterKey| {
        println!("reconciled {key}");
        log.send(key.to_string()).map_err(|_| "nobody listens")
    })?;
    let [east, west, south] = std::array::from_fn(|_| TestServer::new());
    for server in [&east, &west, &south] {
        server.create(pod("shop", "cart"));
    }
    let mut next = async || {
        let limit = Duration::from_secs(10);
        Ok::<_, Error>(
            tokio::time::timeout(limit, seen.recv())
                .await?
                .ok_or("the controller ended")?,
        )
    };

    let eastern = join(&controller, "east", east.client())?;
    assert_eq!(next().await?, "east/shop/cart");
    let western = join(&controller, "west", west.client())?;
    assert_eq!(next().await?, "west/shop/cart");

    println!("east dies, and the controller goes on");
    east.refuse_connections(true);
    east.break_watches();
    west.create(pod("shop", "order"));
    assert_eq!(next().await?, "west/shop/order");

    println!("south joins, and east leaves");
    let southern = join(&controller, "south", south.client())?;
    assert_eq!(next().await?, "south/shop/cart");
    println!(
        "east is {}; its last known pods: {}",
        eastern.pods.state(),
        eastern.pods.store().len()
    );
    drop(eastern);
    south.create(pod("shop", "order"));
    assert_eq!(next().await?, "south/shop/order");

    controller.shutdown().await?;
    for member in [western, southern] {
        member.pods.shutdown().await;
    }
    Ok(())
}
