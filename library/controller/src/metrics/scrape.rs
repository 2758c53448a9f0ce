//! The values of one scrape, and how they are written.

use std::fmt::{self, Debug};
use std::time::Duration;

use kube_informers::reflector::ListDurations;
use kube_workqueue::Histogram;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The values of one scrape, by family. [`Metrics::custom`](super::Metrics::custom) adds to it.
#[derive(Default)]
pub struct Scrape {
    families: Vec<Family>,
}

struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Vec<(&'static str, String)>, Value)>,
}

pub(super) enum Value {
    Counter(f64),
    Gauge(f64),
    Histogram(Buckets),
}

/// A histogram as it is written.
pub(super) struct Buckets {
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

impl Value {
    fn encode(&self, sample: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter(value) => sample.encode_counter::<NoLabelSet, f64, f64>(value, None),
            Self::Gauge(value) => sample.encode_gauge(value),
            Self::Histogram(Buckets { sum, count, buckets }) => {
                sample.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
            }
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

/// Without the values.
impl Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrape")
            .field("families", &self.families.len())
            .finish_non_exhaustive()
    }
}

/// Labels are pairs of name and value. Values may contain any characters; their number should be limited.
impl Scrape {
    pub(super) fn add(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: Value,
    ) {
        let labels = labels.iter().map(|(key, value)| (*key, escape(value))).collect();
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

    /// A number that only grows. `name` is without the suffix `_total`, which is added.
    pub fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: u64,
    ) {
        self.add(name, help, labels, Value::Counter(value as f64));
    }

    /// A time that only grows, in seconds. `name` ends with `_seconds`, without the suffix `_total`.
    pub fn seconds(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: Duration,
    ) {
        self.add(name, help, labels, Value::Counter(value.as_secs_f64()));
    }

    /// A number that grows and shrinks.
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: f64,
    ) {
        self.add(name, help, labels, Value::Gauge(value));
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.families {
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
            for (labels, value) in &family.samples {
                match labels.is_empty() {
                    true => value.encode(&mut metric)?,
                    false => value.encode(&mut metric.encode_family(labels)?)?,
                }
            }
        }
        Ok(())
    }
}

/// The encoder of `prometheus-client` writes the values of labels as they are.
fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            other => escaped.push(other),
        }
    }
    escaped
}
