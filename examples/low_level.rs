//! client-go's controller, without cache and handlers: a `DeltaFifo` and a custom process function, with a retried failure.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use kube_informers::{ListWatch, Scope};
use kube_informers_classic::{Controller, Delta, DeltaFifo, Failure};
use kube_testserver::TestServer;
use kube_testserver::builders::pod;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    for name in ["cart", "till", "shelf"] {
        server.create(pod("shop", name));
    }

    // Our own state: how often each pod was seen. The first attempt fails.
    let seen: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let stop = CancellationToken::new();
    let (counts, done) = (seen.clone(), stop.clone());
    let process = move |deltas: &[Delta<Pod>], _| {
        let mut counts = counts.lock().unwrap();
        let mut failed = false;
        for key in deltas.iter().filter_map(Delta::key) {
            let count = counts.entry(key.to_string()).or_default();
            *count += 1;
            println!("{key}: {count}");
            failed |= *count == 1;
        }
        if failed {
            return Err(Failure::requeue("not this time"));
        }
        if counts.len() == 3 && counts.values().all(|count| *count == 2) {
            done.cancel();
        }
        Ok(())
    };

    let source = ListWatch::<Pod>::new(server.client(), Scope::all());
    Controller::new(source, Arc::new(DeltaFifo::new()), process)
        .batch(1)
        .run(stop)
        .await;

    assert_eq!(seen.lock().unwrap().len(), 3);
    Ok(())
}
