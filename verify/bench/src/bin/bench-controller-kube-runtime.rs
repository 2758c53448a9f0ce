//! A kube-runtime controller that reconciles each change of a ConfigMap with one write.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use kube_informers_bench::controller::{NoCache, Progress, SOURCES, WORKERS, answer};
use kube_informers_bench::peer::{self, Meter, Options};
use kube_runtime::controller::{Action, Config};
use kube_runtime::{Controller, watcher};

struct Context {
    client: Client,
    meter: Arc<Meter>,
    progress: Progress,
}

async fn reconcile(source: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, kube::Error> {
    answer(&context.client, &source).await?;
    context.meter.saw_metadata(&source.metadata);
    context.progress.finished();
    Ok(Action::await_change())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::from_arguments()?;
    let client = Client::try_from(options.config().await?)?;
    let api: Api<ConfigMap> = Api::all(client.clone());
    // Only to know when the first pass is over: an additional request, outside of the measurement.
    let selection = kube::api::ListParams::default().labels(SOURCES);
    let objects = api.list_metadata(&selection).await?.items.len();
    let meter = Arc::new(Meter::default());
    let context = Arc::new(Context {
        client,
        meter: meter.clone(),
        progress: Progress::new(objects),
    });
    let workers = u16::try_from(WORKERS)?;
    let running = Controller::new(api, watcher::Config::default().labels(SOURCES))
        .with_config(Config::default().concurrency(workers))
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_secs(1)),
            context,
        )
        .for_each(|result| {
            if let Err(error) = result {
                eprintln!("kube-runtime: {error}");
            }
            std::future::ready(())
        });
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(running);
    peer::run_commands(NoCache, meter).await
}
