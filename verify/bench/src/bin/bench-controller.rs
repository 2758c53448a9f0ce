//! A controller of this library that reconciles each change of a ConfigMap with one write.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_controller::{Action, Controller, Watch};
use kube_informers::source::SourceOptions;
use kube_informers::{Informer, ObjectKey, Scope};
use kube_informers_bench::controller::{NoCache, Progress, SOURCES, WORKERS, answer};
use kube_informers_bench::peer::{self, Meter, Options};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::from_arguments()?;
    let client = kube::Client::try_from(options.config().await?)?;
    let sources = Informer::<ConfigMap>::scoped(client.clone(), Scope::all().labels(SOURCES)?)
        .source(SourceOptions {
            drop_managed_fields: Some(true),
            ..Default::default()
        })?
        .start();
    sources.synced().await?;
    let store = sources.store();
    let progress = Arc::new(Progress::new(store.len()));
    let meter = Arc::new(Meter::default());
    let reconcile = {
        let meter = meter.clone();
        move |key: ObjectKey| {
            let (source, client) = (store.get(&key), client.clone());
            let (meter, progress) = (meter.clone(), progress.clone());
            async move {
                if let Some(source) = source {
                    answer(&client, &source).await?;
                    meter.saw_metadata(&source.metadata);
                    progress.finished();
                }
                Ok::<_, kube::Error>(Action::Done)
            }
        }
    };
    let controller = Controller::new("bench")
        .watches(Watch::object(&sources))
        .workers(WORKERS)
        .start(reconcile)?;
    peer::run_commands(NoCache, meter).await?;
    controller.shutdown().await?;
    Ok(())
}
