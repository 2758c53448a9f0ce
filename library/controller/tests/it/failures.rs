//! Failures are reported and retried.

use std::error::Error;
use std::fmt;
use std::io;

use kube_controller::{Action, Controller, Reconcile, reconcile_fn};
use kube_informers::ObjectKey;
use kube_workqueue::WorkQueue;
use kube_workqueue::limiter::ExponentialBackoff;

use crate::support::*;

/// A controller without informers.
fn controller() -> Controller {
    let limiter = ExponentialBackoff::new(secs(1), secs(60));
    let queue = WorkQueue::builder().limiter(limiter).build();
    queue.add(ObjectKey::namespaced("shop", "cart"));
    Controller::with_queue("test", queue)
}

/// A reconciler whose first runs return `outcome`, and all others succeed.
fn failing(
    runs: &Runs,
    times: usize,
    outcome: impl Fn(usize) -> Result<Action, String> + Copy + Send + Sync + 'static,
) -> impl Reconcile<ObjectKey> {
    let runs = runs.clone();
    reconcile_fn(async move |key: ObjectKey| {
        drop(runs.enter(&key));
        let count = runs.count();
        match count > times {
            true => Ok(Action::Done),
            false => outcome(count),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn errors_are_retried_with_backoff() {
    let runs = Runs::new();
    let controller = controller()
        .start(failing(&runs, 8, |_| Err("not yet".to_owned())))
        .unwrap();

    pass(secs(600)).await;

    assert_eq!(runs.gaps(), [1, 2, 4, 8, 16, 32, 60, 60].map(secs));
    assert_eq!(controller.stats().retries, 8);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn panics_are_retried_with_backoff() {
    let runs = Runs::new();
    let controller = controller()
        .start(failing(&runs, 4, |_| panic!("on purpose")))
        .unwrap();

    pass(secs(600)).await;

    assert_eq!(runs.gaps(), [1, 2, 4, 8].map(secs));
    assert_eq!(controller.stats().panics, 4);
    assert_eq!(controller.stats().running, 0);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn panic_before_the_first_await_is_retried() {
    let runs = Runs::new();
    let log = runs.clone();
    let controller = controller()
        .start(move |key: ObjectKey| {
            drop(log.enter(&key));
            assert!(log.count() > 2, "on purpose");
            async { Ok::<(), String>(()) }
        })
        .unwrap();

    pass(secs(600)).await;

    assert_eq!(runs.gaps(), [1, 2].map(secs));
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn panic_does_not_delay_other_keys() {
    let runs = Runs::new();
    let log = runs.clone();
    let controller = controller();
    controller.queue().add(ObjectKey::namespaced("shop", "till"));
    let controller = controller
        .start(move |key: ObjectKey| {
            drop(log.enter(&key));
            async move {
                assert_ne!(key.name(), "cart", "on purpose");
                Ok::<(), String>(())
            }
        })
        .unwrap();

    settle().await;

    assert_eq!(runs.take(), ["shop/cart", "shop/till"]);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn success_resets_the_backoff() {
    let runs = Runs::new();
    // Fails three times, requests another run, fails again.
    let controller = controller()
        .start(failing(&runs, 5, |count| match count {
            4 => Ok(Action::RequeueAfter(secs(100))),
            _ => Err("not yet".to_owned()),
        }))
        .unwrap();

    pass(secs(600)).await;

    assert_eq!(runs.gaps(), [1, 2, 4, 100, 1].map(secs));
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn key_is_dropped_after_max_retries_until_added_again() {
    for panics in [false, true] {
        let runs = Runs::new();
        let outcome = move |_| match panics {
            true => panic!("on purpose"),
            false => Err("never".to_owned()),
        };
        let controller = controller()
            .max_retries(3)
            .start(failing(&runs, usize::MAX, outcome))
            .unwrap();

        pass(secs(600)).await;
        assert_eq!(runs.gaps(), [1, 2, 4].map(secs));
        runs.take();

        controller.queue().add(ObjectKey::namespaced("shop", "cart"));
        pass(secs(600)).await;
        assert_eq!(runs.gaps(), [1, 2, 4].map(secs));
        assert_eq!(controller.stats().panics, if panics { 8 } else { 0 });
        controller.shutdown().await.unwrap();
    }
}

#[derive(Debug)]
struct CannotScale(io::Error);

impl fmt::Display for CannotScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot scale")
    }
}

impl Error for CannotScale {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_logged_with_the_key_and_without_the_message_of_a_panic() {
    let (logged, _guard) = CapturedLogs::of_this_thread(tracing::Level::INFO);
    let runs = Runs::new();
    let log = runs.clone();

    let controller = controller()
        .start(move |key: ObjectKey| {
            drop(log.enter(&key));
            let count = log.count();
            async move {
                match count {
                    1 => Err(CannotScale(io::Error::other("quota exceeded"))),
                    2 => panic!("the password is canary"),
                    _ => Ok(()),
                }
            }
        })
        .unwrap();
    pass(secs(600)).await;
    controller.shutdown().await.unwrap();

    let text = logged.text();
    let line = |what: &str| {
        let found = text.lines().find(|line| line.contains(what));
        found
            .unwrap_or_else(|| panic!("{what} is not in: {text}"))
            .to_owned()
    };
    let failed = line("reconcile failed");
    assert!(
        failed.contains("WARN") && failed.contains("shop/cart"),
        "{failed}"
    );
    assert!(failed.contains("cannot scale: quota exceeded"), "{failed}");
    let panicked = line("reconcile panicked");
    assert!(
        panicked.contains("ERROR") && panicked.contains("shop/cart"),
        "{panicked}"
    );
    assert!(!text.contains("canary"), "{text}");
}
