//! The kube-runtime peer: a watcher into a reflector's store, and a loop over its events.

use std::fmt::Debug;
use std::hint::black_box;
use std::sync::Arc;

use futures_util::StreamExt;
use k8s_openapi::Metadata;
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, Resource};
use kube_informers_bench::kind::Kind;
use kube_informers_bench::peer::{self, Meter, Options};
use kube_runtime::reflector::{self, ObjectRef, Store};
use kube_runtime::watcher::{self, Event};
use kube_runtime::{WatchStreamExt, watcher as watch};
use serde::de::DeserializeOwned;

/// The kinds of the benchmark.
trait Object:
    Resource<DynamicType = ()>
    + Metadata<Ty = ObjectMeta>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl Object for Pod {}
impl Object for Secret {}
impl Object for ConfigMap {}
impl Object for CoreEvent {}

struct Reflected<K: Object>(Store<K>);

impl<K: Object> peer::Cache for Reflected<K> {
    type Key = ObjectRef<K>;

    fn key(&self, namespace: &str, name: &str) -> ObjectRef<K> {
        ObjectRef::new(name).within(namespace)
    }

    fn get(&self, key: &ObjectRef<K>) -> bool {
        self.0.get(key).is_some()
    }

    fn read(&self, key: &ObjectRef<K>) -> bool {
        let pod = self.0.get(key);
        pod.is_some_and(|pod| pod.metadata().name.as_ref().map(String::len) == Some(key.name.len()))
    }

    fn get_by_name(&self, namespace: &str, name: &str) -> bool {
        self.0.get(&self.key(namespace, name)).is_some()
    }

    fn on_node(&self, _: &str) -> Option<usize> {
        None
    }

    fn list(&self) -> usize {
        self.0
            .state()
            .iter()
            .filter(|pod| pod.metadata().name.is_some())
            .count()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::from_arguments()?;
    match options.kind {
        Kind::Pods => run::<Pod>(options).await,
        Kind::Secrets => run::<Secret>(options).await,
        Kind::ConfigMaps => run::<ConfigMap>(options).await,
        Kind::Events => run::<CoreEvent>(options).await,
    }
}

async fn run<K: Object>(options: Options) -> Result<(), Box<dyn std::error::Error>> {
    let api: Api<K> = Api::all(Client::try_from(options.config().await?)?);
    let (reader, writer) = reflector::store();
    let meter = Arc::new(Meter::default());
    let drop_managed_fields = options.drop_managed_fields;
    let events = watch(api, watcher::Config::default())
        .default_backoff()
        .modify(move |pod: &mut K| {
            if drop_managed_fields {
                pod.metadata_mut().managed_fields = None;
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
                    meter.saw_metadata(pod.metadata());
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
