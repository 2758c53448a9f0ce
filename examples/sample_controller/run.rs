//! The controller with its informers, queue and recorder.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube_controller::{Controller, Signals, Watch, predicates};
use kube_informers::{ObjectKey, SharedInformerFactory};
use kube_workqueue::limiter::{Bucket, ExponentialBackoff, MaxOf};
use kube_workqueue::{WorkQueue, limiter};

use super::Error;
use super::controller::SampleController;
use super::flags::Flags;
use super::foo::Foo;
use super::recorder::Recorder;

/// Runs until a signal.
pub async fn run(client: Client, flags: &Flags) -> Result<(), Error> {
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
    let (mut first, mut second) = (Signals::listen()?, Signals::listen()?);
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
