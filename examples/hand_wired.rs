//! The parts of an informer wired by hand, as Go's tutorials do it: a reflector fills a `DeltaFifo`, a loop pops it, a process
//! function updates an indexer.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::delta::Delta;
use kube_informers::queue::{DeltaFifo, DeltaQueue, Failure};
use kube_informers::reflector::Reflector;
use kube_informers::store::StoreWriter;
use kube_informers::{ListWatch, Object, ObjectKey, Scope};
use kube_testserver::TestServer;
use kube_testserver::builders::pod;
use tokio_util::sync::CancellationToken;

/// Applies the deltas of one key to the indexer.
fn process(indexer: &mut StoreWriter<Pod>, deltas: &[Delta<Pod>]) -> Result<(), Failure> {
    for delta in deltas {
        println!("{delta:?}");
        match delta {
            Delta::Added(pod) | Delta::Updated(pod) | Delta::Replaced(pod) | Delta::Sync(pod) => {
                indexer.insert(pod.clone())?;
            }
            delta if delta.is_deletion() => {
                if let Some(key) = delta.key() {
                    indexer.remove(&key);
                }
            }
            // The newest state could not be read: the last one stays. Or all changes up to a version were popped.
            _ => {}
        }
    }
    Ok(())
}

/// Pops and processes one key.
async fn pop(
    queue: &DeltaFifo<Pod>,
    indexer: &mut StoreWriter<Pod>,
) -> Result<(), Box<dyn std::error::Error>> {
    queue.pop(|deltas, _| process(indexer, deltas)).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    for name in ["cart", "till", "shelf"] {
        server.create(pod("shop", name));
    }

    let mut indexer = StoreWriter::new();
    let pods = indexer.store();
    let by_initial = pods.add_index("initial", |pod: &Pod| {
        pod.object_name().get(..1).map(str::to_owned)
    })?;
    // The store says which objects are known, so that a list reveals what was deleted meanwhile.
    let queue = Arc::new(DeltaFifo::new().known(pods.clone()));
    let source = ListWatch::<Pod>::new(server.client(), Scope::all());
    let reflector = Reflector::new(source, queue.clone());
    let stop = CancellationToken::new();

    let popping = async {
        while !queue.has_synced() {
            pop(&queue, &mut indexer).await?;
        }
        assert_eq!(pods.len(), 3);
        assert_eq!(by_initial.get("c").len(), 1);

        server.create(pod("shop", "crate"));
        while by_initial.get("c").len() < 2 {
            pop(&queue, &mut indexer).await?;
        }

        // The watch breaks, and its version expires. The reflector lists again, and the deletion is found.
        server.break_watches();
        server.delete::<Pod>("shop", "till");
        server.skip_versions(5);
        server.compact();
        while pods.contains(("shop", "till")) {
            pop(&queue, &mut indexer).await?;
        }
        stop.cancel();
        Ok::<(), Box<dyn std::error::Error>>(())
    };
    let ((), popped) = tokio::join!(reflector.run(stop.clone()), popping);
    popped?;

    let mut keys: Vec<String> = pods.keys().iter().map(ObjectKey::to_string).collect();
    keys.sort();
    assert_eq!(keys, ["shop/cart", "shop/crate", "shop/shelf"]);
    println!("{keys:?}");
    Ok(())
}
