//! Durations at the ends of their range: no public function panics.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube_controller::{Action, Controller, LoopDetector, LoopOptions, OwnWrites, Recorder, RunError, Watch};
use kube_informers::{Event, ObjectKey};
use kube_testserver::builders::{Build, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer, Which};

use crate::support::*;

const DURATIONS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_secs(u64::MAX / 2),
    Duration::from_secs(u64::MAX),
    Duration::MAX,
];

/// One controller with the same duration in every setting. A timeout of zero passes before the caches are synced.
#[tokio::test(start_paused = true)]
async fn controller_accepts_any_duration() {
    for duration in DURATIONS {
        let server = TestServer::new();
        server.create(pod("shop", "cart"));
        let (pods, runs) = (pods(&server), Runs::new());
        pods.synced().await.unwrap();
        let detector = LoopDetector::new(LoopOptions {
            window: duration,
            ..LoopOptions::default()
        });
        let log = runs.clone();
        let controller = Controller::new("test")
            .watches(
                Watch::object(&pods)
                    .resync(duration)
                    .detect_loops(&detector, Some(duration)),
            )
            .grace(duration)
            .own_writes(&OwnWrites::with_timeout(duration))
            .start(async move |key: ObjectKey| {
                let _inside = log.enter(&key);
                // Once: with a delay of zero, no time would pass on a paused clock.
                Ok::<_, String>(match log.count() {
                    1 => Action::RequeueAfter(duration),
                    _ => Action::Done,
                })
            })
            .unwrap();
        runs.wait_for_count(1).await;
        for change in 0..20 {
            server.modify::<Pod>("shop", "cart", |pod| {
                *pod = pod.clone().label("change", &change.to_string());
            });
            settle().await;
        }
        let expects_loop = duration > secs(1);
        assert_eq!(
            detector.is_looping(&ObjectKey::namespaced("shop", "cart")),
            expects_loop,
            "{duration:?}"
        );
        controller.shutdown_within(duration).await.ok();
    }
}

#[tokio::test(start_paused = true)]
async fn any_time_to_sync_is_accepted() {
    for duration in DURATIONS {
        let server = TestServer::new();
        server.fault(RequestMatcher::resource("pods").forever(), Fault::status(403));
        let (pods, runs) = (pods(&server), Runs::new());
        let running = Controller::new("test")
            .watches(Watch::object(&pods))
            .sync_within(duration)
            .run_until(pass(secs(60)), runs.reconciler());

        let ended = soon("it ends", running).await;

        let gave_up = matches!(ended, Err(RunError::NotSynced { .. }));
        assert_eq!(gave_up, duration < secs(60), "{duration:?}: {ended:?}");
    }
}

/// The cache holds the write after half a second.
#[tokio::test(start_paused = true)]
async fn wait_for_own_writes_accepts_any_timeout() {
    for timeout in DURATIONS {
        let server = TestServer::new();
        server.fault(
            RequestMatcher::watch("pods").forever(),
            Fault::delay_events(Which::All, ms(500)),
        );
        let pods = pods(&server);
        pods.synced().await.unwrap();
        let writes = OwnWrites::with_timeout(timeout);
        let key = ObjectKey::namespaced("shop", "cart");
        let api = writes.api(&key, Api::<Pod>::namespaced(server.client(), "shop"), &pods);
        api.create(&PostParams::default(), &pod("shop", "cart"))
            .await
            .unwrap();

        let seen = soon("it returns", writes.wait_for_caches(&key)).await;

        assert_eq!(seen.is_ok(), timeout > secs(1), "{timeout:?}: {seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn recorder_accepts_any_timeout() {
    for timeout in DURATIONS {
        let server = TestServer::new();
        let recorder = Recorder::start(server.client(), "example.dev/test", "test-0");
        recorder.normal(&server.create(pod("shop", "cart")), "Pulled", "Pulling", "note");

        let flushed = soon("it returns", recorder.flush_within(timeout)).await;

        assert!(flushed || timeout < secs(1), "{timeout:?}");
        soon("it stops", recorder.shutdown_within(timeout)).await;
    }
}

/// The window of a detector bounds what it remembers, and nothing else depends on it.
#[tokio::test(start_paused = true)]
async fn loop_detector_accepts_any_window_and_count() {
    for window in DURATIONS {
        for changes in [0, 1, usize::MAX] {
            let detector = LoopDetector::new(LoopOptions { changes, window });
            for change in 0..4 {
                let versions =
                    [change, change + 1].map(|number| pod("shop", "cart").label("n", &number.to_string()));
                let [old, new] = versions.map(Into::into);
                detector.observe(&Event::Updated {
                    old,
                    new,
                    resync: false,
                });
                settle().await;
            }
            detector.findings();
        }
    }
}
