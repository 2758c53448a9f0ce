//! Indexes by node and by owner, with one or many values per object.

use k8s_openapi::api::core::v1::Pod;
use kube_informers::{Informer, Object};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod};

pub async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    for number in 0..12 {
        server.create(on_node(
            pod("shop", &format!("cart-{number}")),
            &format!("worker-{}", number % 3),
        ));
    }

    let pods = Informer::<Pod>::all(server.client()).start();
    let by_node = pods.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
    let by_label = pods.add_index("label", |pod: &Pod| {
        pod.object_labels()
            .map(|(key, value)| format!("{key}={value}"))
            .collect::<Vec<_>>()
    })?;
    pods.synced().await?;

    for node in by_node.values() {
        let names: Vec<String> = by_node
            .get(&node)
            .iter()
            .map(|pod| pod.object_name().to_owned())
            .collect();
        println!("{node}: {}", names.join(", "));
    }
    println!("{} pods of the shop", by_label.get("app=shop").len());

    assert_eq!(by_node.get("worker-1").len(), 4);
    assert_eq!(by_label.get("app=shop").len(), 12);
    assert_eq!(pods.store().namespace("shop").len(), 12);
    pods.shutdown().await;
    Ok(())
}

fn on_node(pod: Pod, node: &str) -> Pod {
    let mut pod = Build::label(pod, "app", "shop");
    pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
    pod
}
