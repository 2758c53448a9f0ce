//! The replicator under perturbations. Generated names make it the hardest of the examples: a create that is repeated is one too
//! many.

mod replicator;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_controller::{Controller, OwnWrites, Watch};
use kube_informers::Informer;
use kube_perturb::{Cluster, Scenario, perturb};
use serde_json::json;

use self::replicator::Replicator;

type Error = Box<dyn std::error::Error + Send + Sync>;

async fn run(cluster: Cluster) -> Result<(), String> {
    let client = cluster.client();
    let sets = Informer::<ConfigMap>::all(client.clone()).start();
    let pods = Informer::<Pod>::all(client.clone()).start();
    let replicator = Replicator {
        client,
        sets: sets.store(),
        pods: pods.clone(),
        writes: OwnWrites::new(),
    };
    Controller::new("replicator")
        .watches(Watch::object(&sets))
        .watches(Watch::owner::<ConfigMap>(&pods))
        .own_writes(&replicator.writes)
        .run_until(std::future::pending(), replicator)
        .await
        .map_err(|error| error.to_string())
}

#[test]
fn replicator_survives_perturbations() {
    let replicas = |count: &str| json!({"data": {"replicas": count}});
    let scenario = Scenario::new()
        .apply(
            "create the set",
            "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: cart}, data: {replicas: \"2\"}}",
        )
        .patch("scale up", "configmaps", "shop/cart", replicas("4"))
        .patch("scale down", "configmaps", "shop/cart", replicas("1"));

    let report = perturb(scenario, run).check(|end| assert_eq!(end.server().count("pods"), 1));
    println!("{report}");
}
