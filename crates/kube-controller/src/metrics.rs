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
//! Numbers are read when they are scraped; nothing runs in between. Names are client-go's and controller-runtime's where
//! those exist, so that dashboards made for Go controllers work:
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

use std::fmt::{self, Debug};
use std::time::Duration;

use kube_informers::reflector::ListDurations;
use kube_informers::{Informer, Object};
use kube_workqueue::{Histogram, Key, Stats, WorkQueue};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::handle::ControllerHandle;
use crate::loops::LoopDetector;
use crate::recorder::Recorder;

/// The number of keys in `kube_controller_key_seconds_total`.
const EXPENSIVE_KEYS: usize = 10;

/// Writes the metrics of one part.
type MetricSource = Box<dyn Fn(&mut Sheet) + Send + Sync>;

/// The metrics of informers, queues, controllers, recorders and leases; see the [module](self).
///
/// It holds what it reports, so an informer given to it is in use until it is dropped.
#[derive(Default)]
#[doc(alias = "MetricsProvider")]
#[must_use = "register it with a registry"]
pub struct Metrics {
    sources: Vec<MetricSource>,
}

/// The values of one scrape, by family.
#[derive(Default)]
struct Sheet {
    families: Vec<Family>,
}

struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Vec<(&'static str, String)>, Value)>,
}

enum Value {
    Counter(f64),
    Gauge(f64),
    Histogram(Buckets),
}

/// A histogram as it is written.
struct Buckets {
    sum: f64,
    count: u64,
    /// The upper bound of each bucket, and its number of observations.
    buckets: Vec<(f64, u64)>,
}

impl Buckets {
    fn new(sum: Duration, count: u64, buckets: impl Iterator<Item = (Option<Duration>, u64)>) -> Self {
        Self {
            sum: sum.as_secs_f64(),
            count,
            buckets: buckets
                .map(|(bound, count)| (bound.map_or(f64::MAX, |bound| bound.as_secs_f64()), count))
                .collect(),
        }
    }
}

impl From<&Histogram> for Value {
    fn from(histogram: &Histogram) -> Self {
        Self::Histogram(Buckets::new(
            histogram.sum(),
            histogram.count(),
            histogram.buckets(),
        ))
    }
}

impl From<&ListDurations> for Value {
    fn from(durations: &ListDurations) -> Self {
        Self::Histogram(Buckets::new(
            durations.sum(),
            durations.count(),
            durations.buckets(),
        ))
    }
}

impl Sheet {
    fn add(&mut self, name: &'static str, help: &'static str, labels: &[(&'static str, &str)], value: Value) {
        let labels = labels
            .iter()
            .map(|(key, value)| (*key, (*value).to_owned()))
            .collect();
        let kind = match value {
            Value::Counter(_) => MetricType::Counter,
            Value::Gauge(_) => MetricType::Gauge,
            Value::Histogram(_) => MetricType::Histogram,
        };
        // A family is written in one piece, whatever the order of its sources.
        match self.families.iter_mut().find(|family| family.name == name) {
            Some(family) => family.samples.push((labels, value)),
            None => self.families.push(Family {
                name,
                help,
                kind,
                samples: vec![(labels, value)],
            }),
        }
    }

    fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: u64,
    ) {
        self.add(name, help, labels, Value::Counter(value as f64));
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, labels: &[(&'static str, &str)], value: f64) {
        self.add(name, help, labels, Value::Gauge(value));
    }
}

impl Metrics {
    /// No metrics yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn source(mut self, read: impl Fn(&mut Sheet) + Send + Sync + 'static) -> Self {
        self.sources.push(Box::new(read));
        self
    }

    /// Adds an informer with its watches and handlers.
    pub fn informer<K: Object>(self, informer: &Informer<K>) -> Self {
        let informer = informer.clone();
        self.source(move |sheet| read_informer(&informer, sheet))
    }

    /// Adds a controller with its queue.
    pub fn controller<T: Key + Sync + Debug>(self, controller: &ControllerHandle<T>) -> Self {
        let (name, queue, costs) = controller.parts();
        self.source(move |sheet| {
            let stats = queue.stats();
            read_queue(&name, &stats, sheet);
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
                sheet.counter(
                    "controller_runtime_reconcile",
                    "Runs by result",
                    &[label, ("result", result)],
                    count,
                );
            }
            sheet.counter(
                "controller_runtime_reconcile_errors",
                "Runs that failed",
                &[label],
                counts.errors,
            );
            sheet.counter(
                "controller_runtime_reconcile_panics",
                "Runs that panicked",
                &[label],
                counts.panics,
            );
            sheet.counter(
                "controller_runtime_terminal_reconcile_errors",
                "Keys given up",
                &[label],
                counts.exhausted,
            );
            sheet.gauge(
                "controller_runtime_active_workers",
                "Runs in flight",
                &[label],
                stats.running as f64,
            );
            sheet.counter(
                "kube_controller_stale_runs",
                "Runs postponed for own writes",
                &[label],
                counts.stale,
            );
            for cost in keys {
                let key = format!("{:?}", cost.key);
                sheet.add(
                    "kube_controller_key_seconds",
                    "Time of the most expensive keys",
                    &[label, ("key", &key)],
                    Value::Counter(cost.busy.as_secs_f64()),
                );
            }
        })
    }

    /// Adds a queue that does not belong to a controller.
    pub fn queue<T: Key>(self, queue: &WorkQueue<T>) -> Self {
        let queue = queue.clone();
        self.source(move |sheet| read_queue(queue.name().unwrap_or_default(), &queue.stats(), sheet))
    }

    /// Adds a lease: whether this process leads, `Election::is_leader` of `kube-leases` for example.
    pub fn leader(
        self,
        name: impl Into<String>,
        is_leader: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        self.source(move |sheet| {
            let leads = f64::from(u8::from(is_leader()));
            sheet.gauge(
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
        self.source(move |sheet| {
            let stats = recorder.stats();
            for (outcome, count) in [
                ("written", stats.written),
                ("dropped", stats.dropped),
                ("spam", stats.spam),
                ("rejected", stats.rejected),
                ("retried", stats.failed),
            ] {
                let labels = [("controller", controller.as_str()), ("outcome", outcome)];
                sheet.counter("event_recorder_events", "Events by outcome", &labels, count);
            }
        })
    }

    /// Adds a detector of loops. `controller` is the label.
    pub fn loops(self, controller: impl Into<String>, detector: &LoopDetector) -> Self {
        let (controller, detector) = (controller.into(), detector.clone());
        self.source(move |sheet| {
            let (loops, fights) = detector.counts();
            for (kind, count) in [("loop", loops), ("fight", fights)] {
                let labels = [("controller", controller.as_str()), ("kind", kind)];
                sheet.counter(
                    "kube_controller_loops",
                    "Objects that change in a loop",
                    &labels,
                    count,
                );
            }
        })
    }
}

fn read_queue(name: &str, stats: &Stats, sheet: &mut Sheet) {
    let labels = &[("name", name)];
    sheet.gauge(
        "workqueue_depth",
        "Keys that wait for a worker",
        labels,
        stats.depth as f64,
    );
    sheet.counter("workqueue_adds", "Keys added", labels, stats.adds);
    sheet.counter(
        "workqueue_retries",
        "Delayed and rate-limited adds",
        labels,
        stats.retries,
    );
    sheet.add(
        "workqueue_queue_duration_seconds",
        "How long keys waited",
        labels,
        (&stats.queue_latency).into(),
    );
    sheet.add(
        "workqueue_work_duration_seconds",
        "How long runs took",
        labels,
        (&stats.work_duration).into(),
    );
    sheet.gauge(
        "workqueue_unfinished_work_seconds",
        "Time of the runs in flight",
        labels,
        stats.unfinished_work.as_secs_f64(),
    );
    sheet.gauge(
        "workqueue_longest_running_processor_seconds",
        "The longest run in flight",
        labels,
        stats.longest_running.as_secs_f64(),
    );
}

fn read_informer<K: Object>(informer: &Informer<K>, sheet: &mut Sheet) {
    let (name, stats) = (informer.name(), informer.stats());
    let label = ("name", name);
    let labels = &[label];
    sheet.gauge("informer_objects", "Cached objects", labels, stats.objects as f64);
    sheet.gauge(
        "informer_quarantined_objects",
        "Objects that could not be read",
        labels,
        stats.quarantined as f64,
    );
    let synced = f64::from(u8::from(informer.has_synced()));
    sheet.gauge(
        "informer_synced",
        "Whether the initial list is cached",
        labels,
        synced,
    );
    let queued: usize = stats.members.iter().map(|member| member.queue.len).sum();
    sheet.gauge(
        "informer_queued_items",
        "Changes that are not cached yet",
        labels,
        queued as f64,
    );
    for handler in &stats.handlers {
        let labels = &[label, ("handler", handler.name.as_str())];
        sheet.gauge(
            "informer_handler_backlog",
            "Events not received yet",
            labels,
            handler.pending as f64,
        );
        sheet.counter(
            "informer_handler_panics",
            "Panics of a handler",
            labels,
            handler.panics,
        );
    }
    let sum = |read: fn(&kube_informers::reflector::ReflectorStats) -> u64| -> u64 {
        stats.members.iter().map(|member| read(&member.reflector)).sum()
    };
    let time = |read: fn(&kube_informers::reflector::ReflectorStats) -> Duration| {
        let total: Duration = stats.members.iter().map(|member| read(&member.reflector)).sum();
        Value::Counter(total.as_secs_f64())
    };
    let lists = stats
        .members
        .iter()
        .map(|member| &member.reflector.list_durations);
    let durations: ListDurations = lists.sum();
    sheet.counter(
        "reflector_lists",
        "Complete lists",
        labels,
        sum(|member| member.lists),
    );
    sheet.add(
        "reflector_list_duration_seconds",
        "How long lists took",
        labels,
        (&durations).into(),
    );
    sheet.counter(
        "reflector_list_items",
        "Objects in lists",
        labels,
        sum(|member| member.list_items),
    );
    sheet.counter(
        "reflector_watches",
        "Watches opened",
        labels,
        sum(|member| member.watches),
    );
    sheet.add(
        "reflector_watch_duration_seconds",
        "Time of watches",
        labels,
        time(|member| member.watch_duration),
    );
    sheet.counter(
        "reflector_watch_events",
        "Events of watches",
        labels,
        sum(|member| member.events),
    );
    sheet.counter(
        "reflector_received_bytes",
        "Bytes received",
        labels,
        sum(|member| member.bytes),
    );
    for member in &stats.members {
        for (reason, count) in &member.reflector.relists {
            sheet.counter(
                "reflector_relists",
                "Repeated lists",
                &[label, ("reason", reason)],
                *count,
            );
        }
        for (error, count) in &member.reflector.errors {
            sheet.counter(
                "reflector_errors",
                "Failed lists and watches",
                &[label, ("error", error)],
                *count,
            );
        }
    }
    // One number per informer: with several watches there is none.
    if let [member] = stats.members.as_slice()
        && let Some(Ok(version)) = member.resource_version.as_deref().map(str::parse::<u64>)
    {
        let help = "The version of the cache";
        sheet.gauge("reflector_last_resource_version", help, labels, version as f64);
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut sheet = Sheet::default();
        for read in &self.sources {
            read(&mut sheet);
        }
        for family in &sheet.families {
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
            for (labels, value) in &family.samples {
                let mut sample = metric.encode_family(labels)?;
                match value {
                    Value::Counter(value) => sample.encode_counter::<NoLabelSet, f64, f64>(value, None)?,
                    Value::Gauge(value) => sample.encode_gauge(value)?,
                    Value::Histogram(histogram) => {
                        let Buckets { sum, count, buckets } = histogram;
                        sample.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("sources", &self.sources.len())
            .finish_non_exhaustive()
    }
}
