//! What the tests share: a kube-runtime controller that keeps a log of its runs.

use std::sync::Arc;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::ResourceExt;
use kube_runtime::Controller;
use kube_runtime::controller::{Action, Error};
use kube_test_kit::ms;
pub use kube_test_kit::{owned, pass, soon};
use parking_lot::Mutex;

/// Lets everything run that can run now, also what kube-runtime schedules for a little later.
pub async fn settle() {
    pass(ms(10)).await;
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
