//! Metrics for Prometheus (feature `metrics`).
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_controller::ControllerHandle;
//! use kube_controller::metrics::Metrics;
//! use kube_informers::{Informer, ObjectKey};
//! use prometheus_client::registry::Registry;
//!
//! # fn example(pods: &Informer<Pod>, controller: &ControllerHandle<ObjectKey>) -> Result<String, std::fmt::Error> {
//! let mut registry = Registry::default();
//! registry.register_collector(Box::new(Metrics::new().informer(pods).controller(controller)));
//!
//! let mut text = String::new(); // the body of `/metrics`
//! prometheus_client::encoding::text::encode(&mut text, &registry)?;
//! # Ok(text)
//! # }
//! ```
//!
//! Values are read when they are scraped; nothing runs in between. Names are client-go's and controller-runtime's where
//! those exist, so dashboards made for Go controllers work:
//!
//! | Metric | Labels | Meaning |
//! |---|---|---|
//! | `workqueue_depth` | `name` | keys that wait for a worker |
//! | `workqueue_adds_total` | `name` | keys added |
//! | `workqueue_retries_total` | `name` | delayed and rate-limited adds |
//! | `workqueue_queue_duration_seconds` | `name` | how long keys waited (histogram) |
//! | `workqueue_work_duration_seconds` | `name` | how long runs took (histogram) |
//! | `workqueue_unfinished_work_seconds` | `name` | time of the runs in flight |
//! | `workqueue_longest_running_processor_seconds` | `name` | the longest run in flight |
//! | `controller_runtime_reconcile_total` | `controller`, `result` | runs: `success`, `requeue_after`, `error`, `panic` |
//! | `controller_runtime_reconcile_errors_total` | `controller` | runs that failed |
//! | `controller_runtime_reconcile_panics_total` | `controller` | runs that panicked |
//! | `controller_runtime_terminal_reconcile_errors_total` | `controller` | keys given up |
//! | `controller_runtime_active_workers` | `controller` | runs in flight |
//! | `kube_controller_stale_runs_total` | `controller` | runs postponed for the controller's own writes |
//! | `kube_controller_key_seconds_total` | `controller`, `key` | time of the ten most expensive keys |
//! | `reflector_lists_total` | `name` | complete lists |
//! | `reflector_list_duration_seconds` | `name` | how long these lists took (histogram) |
//! | `reflector_list_items_total` | `name` | objects in these lists |
//! | `reflector_watches_total` | `name` | watches opened |
//! | `reflector_watch_duration_seconds_total` | `name` | time of these watches |
//! | `reflector_watch_events_total` | `name` | events of these watches |
//! | `reflector_relists_total` | `name`, `reason` | repeated lists |
//! | `reflector_errors_total` | `name`, `error` | failed lists and watches |
//! | `reflector_received_bytes_total` | `name` | bytes received |
//! | `reflector_last_resource_version` | `name` | the version of the cache, where it is a number |
//! | `informer_objects` | `name` | cached objects |
//! | `informer_quarantined_objects` | `name` | objects that could not be read |
//! | `informer_synced` | `name` | whether the initial list is cached |
//! | `informer_queued_items` | `name` | changes that are not cached yet |
//! | `informer_handler_backlog` | `name`, `handler` | events that a handler has not received yet |
//! | `informer_handler_panics_total` | `name`, `handler` | panics of a handler |
//! | `leader_election_master_status` | `name` | whether this process leads |
//! | `event_recorder_events_total` | `controller`, `outcome` | Events of a recorder: `written`, `dropped`, `spam`, `rejected`, `retried` |
//! | `kube_controller_loops_total` | `controller`, `kind` | objects found in a `loop` or `fight` |

mod scrape;

use std::collections::BTreeMap;
use std::fmt::{self, Debug};

use kube_informers::reflector::ListDurations;
use kube_informers::{Informer, Object};
use kube_workqueue::{Key, Stats, WorkQueue};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::handle::ControllerHandle;
use crate::loops::LoopDetector;
use crate::recorder::Recorder;

pub use scrape::Scrape;

/// The number of keys in `kube_controller_key_seconds_total`.
const EXPENSIVE_KEYS: usize = 10;

/// Writes the metrics of one part.
type MetricSource = Box<dyn Fn(&mut Scrape) + Send + Sync>;

/// The metrics of informers, queues, controllers, recorders and leases; see the [module](self).
///
/// It holds handles to everything it reports, so it keeps informers alive until it is dropped.
#[derive(Default)]
#[doc(alias = "MetricsProvider")]
#[must_use = "register it with a registry"]
pub struct Metrics {
    sources: Vec<MetricSource>,
}

impl Metrics {
    /// No metrics yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn source(mut self, read: impl Fn(&mut Scrape) + Send + Sync + 'static) -> Self {
        self.sources.push(Box::new(read));
        self
    }

    /// Adds an informer with its watches and handlers, under the name of the informer.
    pub fn informer<K: Object>(self, informer: &Informer<K>) -> Self {
        self.informer_as(informer.name(), informer)
    }

    /// Adds an informer under another name, which becomes the label of all its metrics. Names must be unique.
    pub fn informer_as<K: Object>(self, name: impl Into<String>, informer: &Informer<K>) -> Self {
        let (name, informer) = (name.into(), informer.clone());
        self.source(move |scrape| read_informer(&name, &informer, scrape))
    }

    /// Adds custom metrics, which are read at each scrape. They can share a family with those of other sources.
    ///
    /// ```
    /// use kube_controller::metrics::Metrics;
    ///
    /// # let licences = || 7u32;
    /// let metrics = Metrics::new().custom(move |scrape| {
    ///     scrape.gauge("shop_licences", "Licences in use", &[("product", "cart")], f64::from(licences()));
    /// });
    /// ```
    pub fn custom(self, read: impl Fn(&mut Scrape) + Send + Sync + 'static) -> Self {
        self.source(read)
    }

    /// Adds a controller with its queue.
    pub fn controller<T: Key + Sync + Debug>(self, controller: &ControllerHandle<T>) -> Self {
        let (name, queue, costs) = controller.parts();
        self.source(move |scrape| {
            let stats = queue.stats();
            read_queue(&name, &stats, scrape);
            let label = ("controller", &*name);
            let (counts, keys) = {
                let costs = costs.lock();
                (costs.counts, costs.top(EXPENSIVE_KEYS))
            };
            let failed = counts.errors + counts.panics + counts.requeued;
            for (result, count) in [
                ("success", counts.runs.saturating_sub(failed)),
                ("requeue_after", counts.requeued),
                ("error", counts.errors),
                ("panic", counts.panics),
            ] {
                scrape.counter(
                    "controller_runtime_reconcile",
                    "Runs by result",
                    &[label, ("result", result)],
                    count,
                );
            }
            scrape.counter(
                "controller_runtime_reconcile_errors",
                "Runs that failed",
                &[label],
                counts.errors,
            );
            scrape.counter(
                "controller_runtime_reconcile_panics",
                "Runs that panicked",
                &[label],
                counts.panics,
            );
            scrape.counter(
                "controller_runtime_terminal_reconcile_errors",
                "Keys given up",
                &[label],
                counts.exhausted,
            );
            scrape.gauge(
                "controller_runtime_active_workers",
                "Runs in flight",
                &[label],
                stats.running as f64,
            );
            scrape.counter(
                "kube_controller_stale_runs",
                "Runs postponed for own writes",
                &[label],
                counts.stale,
            );
            for cost in keys {
                let key = format!("{:?}", cost.key);
                scrape.seconds(
                    "kube_controller_key_seconds",
                    "Time of the most expensive keys",
                    &[label, ("key", &key)],
                    cost.busy,
                );
            }
        })
    }

    /// Adds a queue that does not belong to a controller.
    pub fn queue<T: Key>(self, queue: &WorkQueue<T>) -> Self {
        let queue = queue.clone();
        self.source(move |scrape| read_queue(queue.name().unwrap_or_default(), &queue.stats(), scrape))
    }

    /// Adds a lease: whether this process leads, for example `Candidate::is_leader` of `kube-leases`.
    pub fn leader(
        self,
        name: impl Into<String>,
        is_leader: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        self.source(move |scrape| {
            let leads = f64::from(u8::from(is_leader()));
            scrape.gauge(
                "leader_election_master_status",
                "Whether this process leads",
                &[("name", &name)],
                leads,
            );
        })
    }

    /// Adds a recorder of Events. `controller` is the label.
    pub fn recorder(self, controller: impl Into<String>, recorder: &Recorder) -> Self {
        let (controller, recorder) = (controller.into(), recorder.clone());
        self.source(move |scrape| {
            let stats = recorder.stats();
            for (outcome, count) in [
                ("written", stats.written),
                ("dropped", stats.dropped),
                ("spam", stats.spam),
                ("rejected", stats.rejected),
                ("retried", stats.failed),
            ] {
                let labels = [("controller", controller.as_str()), ("outcome", outcome)];
                scrape.counter("event_recorder_events", "Events by outcome", &labels, count);
            }
        })
    }

    /// Adds a detector of loops. `controller` is the label.
    pub fn loops(self, controller: impl Into<String>, detector: &LoopDetector) -> Self {
        let (controller, detector) = (controller.into(), detector.clone());
        self.source(move |scrape| {
            let (loops, fights) = detector.counts();
            for (kind, count) in [("loop", loops), ("fight", fights)] {
                let labels = [("controller", controller.as_str()), ("kind", kind)];
                scrape.counter(
                    "kube_controller_loops",
                    "Objects that change in a loop",
                    &labels,
                    count,
                );
            }
        })
    }
}

fn read_queue(name: &str, stats: &Stats, scrape: &mut Scrape) {
    let labels = &[("name", name)];
    scrape.gauge(
        "workqueue_depth",
        "Keys that wait for a worker",
        labels,
        stats.depth as f64,
    );
    scrape.counter("workqueue_adds", "Keys added", labels, stats.adds);
    scrape.counter(
        "workqueue_retries",
        "Delayed and rate-limited adds",
        labels,
        stats.retries,
    );
    scrape.add(
        "workqueue_queue_duration_seconds",
        "How long keys waited",
        labels,
        (&stats.queue_latency).into(),
    );
    scrape.add(
        "workqueue_work_duration_seconds",
        "How long runs took",
        labels,
        (&stats.work_duration).into(),
    );
    scrape.gauge(
        "workqueue_unfinished_work_seconds",
        "Time of the runs in flight",
        labels,
        stats.unfinished_work.as_secs_f64(),
    );
    scrape.gauge(
        "workqueue_longest_running_processor_seconds",
        "The longest run in flight",
        labels,
        stats.longest_running.as_secs_f64(),
    );
}

fn read_informer<K: Object>(name: &str, informer: &Informer<K>, scrape: &mut Scrape) {
    let stats = informer.stats();
    let label = ("name", name);
    let labels = &[label];
    scrape.gauge("informer_objects", "Cached objects", labels, stats.objects as f64);
    scrape.gauge(
        "informer_quarantined_objects",
        "Objects that could not be read",
        labels,
        stats.quarantined as f64,
    );
    let synced = f64::from(u8::from(informer.has_synced()));
    scrape.gauge(
        "informer_synced",
        "Whether the initial list is cached",
        labels,
        synced,
    );
    let queued: usize = stats.members.iter().map(|member| member.queue.len).sum();
    scrape.gauge(
        "informer_queued_items",
        "Changes that are not cached yet",
        labels,
        queued as f64,
    );
    for handler in &stats.handlers {
        let labels = &[label, ("handler", handler.name.as_str())];
        scrape.gauge(
            "informer_handler_backlog",
            "Events not received yet",
            labels,
            handler.pending as f64,
        );
        scrape.counter(
            "informer_handler_panics",
            "Panics of a handler",
            labels,
            handler.panics,
        );
    }
    let sum = |read: fn(&kube_informers::reflector::ReflectorStats) -> u64| -> u64 {
        stats.members.iter().map(|member| read(&member.reflector)).sum()
    };
    let lists = stats
        .members
        .iter()
        .map(|member| &member.reflector.list_durations);
    let durations: ListDurations = lists.sum();
    scrape.counter(
        "reflector_lists",
        "Complete lists",
        labels,
        sum(|member| member.lists),
    );
    scrape.add(
        "reflector_list_duration_seconds",
        "How long lists took",
        labels,
        (&durations).into(),
    );
    scrape.counter(
        "reflector_list_items",
        "Objects in lists",
        labels,
        sum(|member| member.list_items),
    );
    scrape.counter(
        "reflector_watches",
        "Watches opened",
        labels,
        sum(|member| member.watches),
    );
    let watched = stats.members.iter().map(|member| member.reflector.watch_duration);
    scrape.seconds(
        "reflector_watch_duration_seconds",
        "Time of watches",
        labels,
        watched.sum(),
    );
    scrape.counter(
        "reflector_watch_events",
        "Events of watches",
        labels,
        sum(|member| member.events),
    );
    scrape.counter(
        "reflector_received_bytes",
        "Bytes received",
        labels,
        sum(|member| member.bytes),
    );
    // Of all watches together: no two samples may have the same labels.
    let (mut relists, mut errors) = (BTreeMap::<&str, u64>::new(), BTreeMap::<&str, u64>::new());
    for member in &stats.members {
        for (reason, count) in &member.reflector.relists {
            *relists.entry(reason).or_default() += count;
        }
        for (error, count) in &member.reflector.errors {
            *errors.entry(error).or_default() += count;
        }
    }
    for (reason, count) in relists {
        let labels = &[label, ("reason", reason)];
        scrape.counter("reflector_relists", "Repeated lists", labels, count);
    }
    for (error, count) in errors {
        let labels = &[label, ("error", error)];
        scrape.counter("reflector_errors", "Failed lists and watches", labels, count);
    }
    // One number per informer: with several watches there is none.
    if let [member] = stats.members.as_slice()
        && let Some(Ok(version)) = member.resource_version.as_deref().map(str::parse::<u64>)
    {
        let help = "The version of the cache";
        scrape.gauge("reflector_last_resource_version", help, labels, version as f64);
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut scrape = Scrape::default();
        for read in &self.sources {
            read(&mut scrape);
        }
        scrape.encode(&mut encoder)
    }
}

impl Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("sources", &self.sources.len())
            .finish_non_exhaustive()
    }
}
