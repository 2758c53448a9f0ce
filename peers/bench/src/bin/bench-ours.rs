//! The peer with this library: an `Informer<Pod>` with one handler and one index.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::store::{Index, Store};
use kube_informers::{Event, Informer, ListWatch, Scope};
use kube_informers_bench::peer::{self, Meter, Options};

struct Ours {
    pods: Store<Pod>,
    by_node: Index<Pod>,
}

impl peer::Cache for Ours {
    fn get(&self, namespace: &str, name: &str) -> bool {
        self.pods.get((namespace, name)).is_some()
    }

    fn on_node(&self, node: &str) -> Option<usize> {
        Some(self.by_node.get(node).len())
    }

    fn list(&self) -> usize {
        self.pods
            .list()
            .iter()
            .filter(|pod| pod.metadata.name.is_some())
            .count()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::from_arguments()?;
    let client = kube_informers::client(options.config().await?)?;
    let source = ListWatch::<Pod>::new(client, Scope::all()).drop_managed_fields(options.drop_managed_fields);
    let pods = Informer::from_list_watch(source).start();
    let by_node = pods.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
    let meter = Arc::new(Meter::default());
    let handler = pods.add_event_handler({
        let meter = meter.clone();
        move |event: Event<Pod>| match event {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => meter.saw(&object),
            Event::Deleted { .. } => {}
        }
    })?;
    handler.synced().await?;
    let store = pods.store();
    peer::synced(store.len());
    let cache = Ours { pods: store, by_node };
    peer::run_commands(cache, meter).await
}
