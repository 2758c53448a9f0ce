//! What the tests share: a kube-runtime controller that keeps a log of its runs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::{Resource, ResourceExt};
use kube_runtime::Controller;
use kube_runtime::controller::{Action, Error};
use parking_lot::Mutex;
use tokio::time::timeout;

/// Lets so much virtual time pass.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Lets everything run that can run now.
pub async fn settle() {
    pass(Duration::from_millis(10)).await;
}

/// What `future` gives, or a panic after five virtual minutes.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(Duration::from_secs(300), future).await {
        Ok(outcome) => outcome,
        Err(_) => panic!("{what}: not so after five minutes"),
    }
}

/// Makes `owner` an owner of an object.
pub fn owned<K: Resource>(mut object: K, owner: &ReplicaSet) -> K {
    object.meta_mut().owner_references = Some(Vec::from_iter(owner.controller_owner_ref(&())));
    object
}

/// The runs of a controller.
#[derive(Clone, Default)]
pub struct Runs(Arc<Mutex<Vec<String>>>);

impl Runs {
    pub fn take(&self) -> Vec<String> {
        let mut names = std::mem::take(&mut *self.0.lock());
        names.sort();
        names.dedup();
        names
    }
}

/// Drives a controller while `test` looks at its runs; the controller's end is returned if it came by itself.
pub async fn driven(controller: Controller<ReplicaSet>, test: impl AsyncFnOnce(&Runs)) -> Vec<String> {
    let runs = Runs::default();
    let log = runs.clone();
    let errors = Arc::new(Mutex::new(Vec::new()));
    let kept = errors.clone();
    let driving = controller
        .run(
            |set: Arc<ReplicaSet>, log: Arc<Runs>| async move {
                log.0.lock().push(set.name_any());
                Ok::<_, kube::Error>(Action::await_change())
            },
            |_, _, _| Action::await_change(),
            Arc::new(log),
        )
        .for_each(move |outcome| {
            if let Err(error) = outcome {
                kept.lock().push(match error {
                    Error::ObjectNotFound(object) => format!("{} not found", object.name),
                    error => error.to_string(),
                });
            }
            std::future::ready(())
        });
    tokio::select! {
        () = driving => {}
        () = test(&runs) => {}
    }
    errors.lock().clone()
}
