//! Kubernetes' sample-controller: a kind `Foo` whose objects each own a Deployment.
//!
//! `cargo run --example sample_controller` runs a script against the embedded server and checks every step.
//! `cargo run --example sample_controller -- --kubeconfig ~/.kube/config --install` runs in a cluster until a signal.

#![allow(clippy::disallowed_names, reason = "the kind is called Foo")]

mod controller;
mod flags;
mod foo;
mod recorder;
mod scene;
mod signals;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use kube_controller::{Controller, Watch, predicates};
use kube_informers::{ObjectKey, SharedInformerFactory};
use kube_workqueue::limiter::{Bucket, ExponentialBackoff, MaxOf};
use kube_workqueue::{WorkQueue, limiter};

use crate::controller::SampleController;
use crate::flags::Flags;
use crate::foo::Foo;
use crate::recorder::Recorder;
use crate::signals::Signals;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter("kube_controller=info,sample_controller=info")
        .init();
    let flags = match Flags::from_arguments(std::env::args().skip(1)) {
        Ok(flags) => flags,
        Err(help) => {
            eprintln!("{help}");
            return ExitCode::from(2);
        }
    };
    match start(flags).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn start(flags: Flags) -> Result<(), Error> {
    let Some(path) = flags.kubeconfig.clone() else {
        return scene::play(flags).await;
    };
    let kubeconfig = Kubeconfig::read_from(path)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = kube_informers::client(config)?;
    if flags.install {
        foo::install(&client).await?;
    }
    run(client, &flags).await
}

/// Runs until a signal.
async fn run(client: Client, flags: &Flags) -> Result<(), Error> {
    // Two factories, because Go generates one for the built-in kinds and one for Foo. Here one would suffice.
    let resync = Duration::from_secs(30);
    let kube_factory = SharedInformerFactory::builder(client.clone())
        .resync(resync)
        .build();
    let foo_factory = SharedInformerFactory::builder(client.clone())
        .resync(resync)
        .build();
    let deployments = kube_factory.apps().v1().deployments();
    let foos = foo_factory.informer::<Foo>();

    // Per key 5 ms, doubling up to 1000 s; over all keys 50 a second after a burst of 300.
    let limiter: MaxOf<ObjectKey> = limiter::MaxOf::new()
        .and(ExponentialBackoff::new(
            Duration::from_millis(5),
            Duration::from_secs(1000),
        ))
        .and(Bucket::new(50.0, 300));
    let queue = WorkQueue::builder().name("Foos").limiter(limiter).build();

    // Events are written concurrently: a slow server must not delay the work.
    let (recorder, recording) = Recorder::new(client.clone(), "sample-controller");
    let sample = Arc::new(SampleController {
        client,
        foos: foos.lister(),
        deployments: deployments.lister(),
        recorder,
    });

    let controller = Controller::with_queue("sample-controller", queue)
        .watches(Watch::object(&foos))
        // Deployments map to their owner; resyncs of them carry no news.
        .watches(Watch::owner::<Foo>(&deployments).when(predicates::resource_version_changed))
        .workers(flags.workers)
        .grace(Duration::from_secs(20));
    kube_factory.start();
    foo_factory.start();

    // The first signal shuts down gracefully, the second exits at once.
    let (mut first, mut second) = (Signals::new()?, Signals::new()?);
    let stop = async move { first.next().await };
    let second_signal = async move {
        second.next().await;
        second.next().await;
    };

    let working = controller.run_until(stop, move |key: ObjectKey| {
        let sample = sample.clone();
        async move { sample.sync(&key).await }
    });
    // The controller drops the last recorder when it is done, which ends the recording after the last event.
    let (outcome, ()) = tokio::select! {
        finished = async { tokio::join!(working, recording) } => finished,
        () = second_signal => return Err("terminated by a second signal".into()),
    };
    kube_factory.shutdown().await;
    foo_factory.shutdown().await;
    Ok(outcome?)
}
