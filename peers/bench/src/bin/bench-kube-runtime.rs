//! The kube-runtime peer: a watcher into a reflector's store, and a loop over its events.

use std::hint::black_box;
use std::sync::Arc;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use kube_informers_bench::peer::{self, Meter, Options};
use kube_runtime::reflector::{self, ObjectRef, Store};
use kube_runtime::watcher::{self, Event};
use kube_runtime::{WatchStreamExt, watcher as watch};

struct Reflected(Store<Pod>);

impl peer::Cache for Reflected {
    fn get(&self, namespace: &str, name: &str) -> bool {
        self.0.get(&ObjectRef::new(name).within(namespace)).is_some()
    }

    fn read(&self, namespace: &str, name: &str) -> bool {
        let pod = self.0.get(&ObjectRef::new(name).within(namespace));
        pod.is_some_and(|pod| pod.metadata.name.as_ref().map(String::len) == Some(name.len()))
    }

    fn on_node(&self, _: &str) -> Option<usize> {
        None
    }

    fn list(&self) -> usize {
        self.0
            .state()
            .iter()
            .filter(|pod| pod.metadata.name.is_some())
            .count()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::from_arguments()?;
    let api: Api<Pod> = Api::all(Client::try_from(options.config().await?)?);
    let (reader, writer) = reflector::store();
    let meter = Arc::new(Meter::default());
    let drop_managed_fields = options.drop_managed_fields;
    let events = watch(api, watcher::Config::default())
        .default_backoff()
        .modify(move |pod| {
            if drop_managed_fields {
                pod.metadata.managed_fields = None;
            }
        })
        .reflect(writer);
    let handling = {
        let (meter, reader) = (meter.clone(), reader.clone());
        let mut reported = false;
        events.for_each(move |event| {
            match event {
                Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                    black_box(ObjectRef::from_obj(&pod));
                    meter.saw(&pod);
                }
                Ok(Event::InitDone) if !reported => {
                    reported = true;
                    peer::synced(reader.len());
                }
                Ok(_) => {}
                Err(error) => eprintln!("kube-runtime: {error}"),
            }
            std::future::ready(())
        })
    };
    // The handler runs in its own task, as in a program.
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(handling);
    peer::run_commands(Reflected(reader), meter).await
}
