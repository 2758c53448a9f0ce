//! The parts of an informer wired by hand, as Go's tutorials do it: a reflector fills a queue, a loop pops it and updates an indexer.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::queue::InOrderQueue;
use kube_informers::reflector::Reflector;
use kube_informers::store::StoreWriter;
use kube_informers::target::Target;
use kube_informers::{ListWatch, Object, ObjectKey, Scope};
use kube_testserver::TestServer;
use kube_testserver::builders::pod;
use tokio_util::sync::CancellationToken;

/// Pops a batch and applies it to the indexer.
async fn process(
    queue: &InOrderQueue<Pod>,
    indexer: &StoreWriter<Pod>,
) -> Result<(), Box<dyn std::error::Error>> {
    let batch = queue.pop_batch(100).await.ok_or("the queue is closed")?;
    for delta in batch.done() {
        println!("{delta:?}");
        indexer.accept(delta).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    for name in ["cart", "till", "shelf"] {
        server.create(pod("shop", name));
    }

    let indexer = StoreWriter::new();
    let pods = indexer.store();
    let by_initial = pods.add_index("initial", |pod: &Pod| {
        pod.object_name().get(..1).map(str::to_owned)
    })?;
    let queue = Arc::new(InOrderQueue::new());
    let source = ListWatch::<Pod>::new(server.client(), Scope::all());
    let reflector = Reflector::new(source, queue.clone());
    let stop = CancellationToken::new();

    let processing = async {
        while !queue.has_synced() {
            process(&queue, &indexer).await?;
        }
        assert_eq!(pods.len(), 3);
        assert_eq!(by_initial.get("c").len(), 1);

        server.create(pod("shop", "crate"));
        while by_initial.get("c").len() < 2 {
            process(&queue, &indexer).await?;
        }

        // The watch breaks, and its version expires. The reflector lists again, and the deletion is found.
        server.break_watches();
        server.delete::<Pod>("shop", "till");
        server.skip_versions(5);
        server.compact();
        while pods.contains(("shop", "till")) {
            process(&queue, &indexer).await?;
        }
        stop.cancel();
        Ok::<(), Box<dyn std::error::Error>>(())
    };
    let ((), processed) = tokio::join!(reflector.run(stop.clone()), processing);
    processed?;

    let mut keys: Vec<String> = pods.keys().iter().map(ObjectKey::to_string).collect();
    keys.sort();
    assert_eq!(keys, ["shop/cart", "shop/crate", "shop/shelf"]);
    println!("{keys:?}");
    Ok(())
}
