//! No public function panics on any duration or float.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::handler::HandlerOptions;
use kube_informers::reflector::{BackoffConfig, InitialList, Jitter, ReflectorConfig};
use kube_informers::source::{ApiError, ListAnswer, Script, WatchAnswer};
use kube_informers::{Event, Informer, SharedInformerFactory};
use kube_testserver::TestServer;

use crate::support::{pass, pod_at, seconds, within};

const DURATIONS: [Duration; 8] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_secs(1),
    Duration::from_secs(30 * 365 * 24 * 3600),
    Duration::from_secs(i64::MAX as u64),
    Duration::from_secs(u64::MAX),
    Duration::from_millis(u64::MAX),
    Duration::MAX,
];

const FLOATS: [f64; 12] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f64::MIN_POSITIVE,
    f64::EPSILON,
    1e300,
    f64::MAX,
    f64::MIN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

fn script() -> Script<Pod> {
    let script = Script::new();
    script.add(pod_at("a", "1"));
    script
}

#[tokio::test(start_paused = true)]
async fn waits_accept_any_duration() {
    for duration in DURATIONS {
        let informer = Informer::from_source(script()).start();
        informer.synced().await.unwrap();
        within(seconds(1), informer.synced_within(duration))
            .await
            .unwrap();
        let version = informer.store().resource_version().unwrap();
        within(seconds(1), informer.wait_for_within(&version, duration))
            .await
            .unwrap();
        within(seconds(1), informer.drain_within(duration)).await;
        assert!(informer.is_stopped());

        let server = TestServer::new();
        let factory = SharedInformerFactory::new(server.client());
        let _pods = factory.informer::<Pod>();
        factory.start();
        factory.wait_for_sync().await.unwrap();
        within(seconds(1), factory.wait_for_sync_within(duration))
            .await
            .unwrap();
        factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_cannot_succeed_pends_or_times_out_for_any_duration() {
    for duration in DURATIONS {
        let source = Script::<Pod>::new();
        let informer = Informer::from_source(source).start();
        let waits = async {
            informer.synced_within(duration).await.ok();
            informer.wait_for_within("100", duration).await.ok();
        };
        tokio::time::timeout(seconds(5), waits).await.ok();
        informer.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn resync_periods_may_be_of_any_length() {
    for duration in DURATIONS {
        let informer = Informer::from_source(script())
            .configure(|config| config.resync = Some(duration))
            .start();
        let options = HandlerOptions::default().resync(duration);
        informer
            .add_event_handler_with(options, |_: Event<Pod>| {})
            .unwrap();
        informer.synced().await.unwrap();
        pass(seconds(10)).await;
        informer.shutdown().await;
    }
}

/// A configuration in which every duration and float has the same extreme value, in all phases of a reflector.
#[tokio::test(start_paused = true)]
async fn a_reflector_accepts_any_configuration() {
    let configs = DURATIONS
        .into_iter()
        .map(|duration| (duration, 2.0))
        .chain(FLOATS.into_iter().map(|float| (seconds(1), float)))
        .chain(FLOATS.into_iter().map(|float| (Duration::MAX, float)));
    for (duration, float) in configs {
        for watch_list in [false, true] {
            // Without any delay, requests that fail at once would be repeated in a loop.
            let pause = duration.max(Duration::from_millis(100));
            let mut config = ReflectorConfig {
                watch_list,
                initial_list: InitialList::Consistent,
                jitter: Jitter::Seeded(7),
                min_watch_timeout: duration,
                internal_error_window: duration,
                resync: Some(duration),
                backoff: BackoffConfig {
                    initial: pause,
                    factor: float,
                    max: pause,
                    jitter: float,
                },
                ..Default::default()
            };
            let deadlines = &mut config.deadlines;
            for deadline in [
                &mut deadlines.list_headers,
                &mut deadlines.list_idle,
                &mut deadlines.list_total,
                &mut deadlines.watch_idle,
                &mut deadlines.end_marker,
                &mut deadlines.end_marker_quiet,
                &mut deadlines.watch_list_refused,
            ] {
                *deadline = duration;
            }
            deadlines.min_throughput = u32::MAX;
            config.limits.wasted_bytes = u64::MAX;
            config.limits.objects = Some(usize::MAX);
            config.limits.bytes = Some(u64::MAX);

            let source = script().with_watch_list();
            for code in [500, 410, 429, 503] {
                source.on_list(ListAnswer::error(ApiError {
                    retry_after: Some(duration),
                    ..ApiError::new(code, "", "")
                }));
                source.on_watch(WatchAnswer::new().failure(ApiError {
                    retry_after: Some(duration),
                    ..ApiError::new(code, "", "")
                }));
            }
            let informer = Informer::from_source(source).config(config).start();
            pass(seconds(30)).await;
            informer.shutdown().await;
        }
    }
}
