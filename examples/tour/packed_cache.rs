//! A cache of encoded pods: a tenth of the memory, and the same controller code with `.get()?`.

use k8s_openapi::api::core::v1::Pod;
use kube_controller::{Controller, Watch, predicates};
use kube_informers::lazy::Lazy;
use kube_informers::{Informer, ObjectKey};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod};
use tokio::sync::mpsc;

pub async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    for number in 0..12 {
        let mut pod = pod("shop", &format!("cart-{number}")).label("app", "cart");
        pod.spec.get_or_insert_default().node_name = Some(format!("worker-{}", number % 3));
        server.create(pod);
    }

    // `Informer::<Pod>::all(client)` in a typed program.
    let pods = Informer::<Lazy<Pod>>::all(server.client()).start();
    let by_node = pods.index_by_path("spec.nodeName")?;
    pods.synced().await?;

    // Single fields are read from the bytes.
    for pod in by_node.get("worker-1") {
        let image = pod.text("spec.containers[main].image")?;
        println!("{pod:?} runs {}", image.unwrap_or_default());
    }

    // Updates of the status are recognised without decoding anything.
    let (sender, mut reconciled) = mpsc::unbounded_channel();
    let lister = pods.lister();
    let controller = Controller::new("packed")
        .watches(Watch::object(&pods).when(predicates::path_changed("spec")))
        .start(move |key: ObjectKey| {
            let (lister, sender) = (lister.clone(), sender.clone());
            async move {
                // `lister.get(&key)` alone in a typed program.
                if let Some(pod) = lister.get(&key).map(|pod| pod.get()).transpose()? {
                    let containers = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
                    sender.send(containers).ok();
                }
                Ok::<(), kube_informers::error::LazyError>(())
            }
        })?;
    for _ in 0..12 {
        assert_eq!(reconciled.recv().await, Some(1));
    }
    controller.shutdown().await?;

    let memory = pods.stats().memory;
    println!(
        "{} pods in {} bytes, {} for keys and indexes",
        pods.store().len(),
        memory.objects.unwrap_or_default(),
        memory.keys + memory.indexes
    );
    assert_eq!(by_node.get("worker-1").len(), 4);
    pods.shutdown().await;
    Ok(())
}
