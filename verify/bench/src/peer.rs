//! Shared code of the two Rust peers: counts the events their handlers receive, reads their caches, and implements the
//! line protocol of the README. Independent of both libraries.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::kind::Kind;
use crate::pod::{self, SENT, now_nanos, parse_sent};

/// The configuration of a peer: the server, and whether managedFields are kept.
pub struct Options {
    /// The URL of the server; without one, the kubeconfig of the environment is used.
    pub server: Option<String>,
    /// Whether to drop managedFields, in the way the library offers.
    pub drop_managed_fields: bool,
    /// The form in which this library caches the pods. The other peers have one form.
    pub form: Form,
    /// The kind of the objects.
    pub kind: Kind,
}

/// A form in which this library caches objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// `Pod`.
    #[default]
    Typed,
    /// `Lazy<Pod>`, decoded on access.
    Packed,
    /// `Lazy<Pod>`, decoded once on arrival.
    PackedOnArrival,
    /// `Lazy<Pod>`, decoded on access and compressed.
    Compressed,
    /// A struct with the fields that the benchmark reads.
    Projected,
    /// `PartialObjectMeta<Pod>`.
    Metadata,
}

impl Form {
    /// The name on the command line.
    #[must_use]
    pub fn argument(self) -> &'static str {
        match self {
            Self::Typed => "typed",
            Self::Packed => "packed",
            Self::PackedOnArrival => "packed-on-arrival",
            Self::Compressed => "compressed",
            Self::Projected => "projected",
            Self::Metadata => "metadata",
        }
    }

    fn parse(name: &str) -> Result<Self, String> {
        let all = [
            Self::Typed,
            Self::Packed,
            Self::PackedOnArrival,
            Self::Compressed,
            Self::Projected,
            Self::Metadata,
        ];
        let found = all.into_iter().find(|form| form.argument() == name);
        found.ok_or_else(|| {
            format!(
                "unknown form {name}: use one of {}",
                all.map(Self::argument).join(", ")
            )
        })
    }
}

impl Options {
    /// Parses `--server URL`, `--drop`, `--form NAME` and `--kind NAME`.
    ///
    /// # Errors
    ///
    /// An argument is unknown.
    pub fn from_arguments() -> Result<Self, String> {
        let mut options = Self {
            server: None,
            drop_managed_fields: false,
            form: Form::default(),
            kind: Kind::default(),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--server" => options.server = Some(arguments.next().ok_or("--server needs a URL")?),
                "--drop" => options.drop_managed_fields = true,
                "--form" => options.form = Form::parse(&arguments.next().ok_or("--form needs a name")?)?,
                "--kind" => options.kind = Kind::parse(&arguments.next().ok_or("--kind needs a name")?)?,
                other => {
                    return Err(format!(
                        "unknown option {other}: use --server URL, --drop, --form NAME and --kind NAME"
                    ));
                }
            }
        }
        Ok(options)
    }

    /// The client configuration.
    ///
    /// # Errors
    ///
    /// The URL is invalid, or there is no usable kubeconfig.
    pub async fn config(&self) -> Result<kube::Config, Box<dyn std::error::Error>> {
        Ok(match &self.server {
            Some(url) => kube::Config::new(url.parse()?),
            None => kube::Config::infer().await?,
        })
    }
}

/// The events received in the current round.
#[derive(Default)]
pub struct Meter {
    round: Mutex<Round>,
    complete: Notify,
}

#[derive(Default)]
struct Round {
    number: u16,
    wanted: usize,
    first: Option<Instant>,
    last: Option<Instant>,
    /// Microseconds from the write to the handler.
    delays: Vec<u64>,
}

impl Meter {
    /// Called by the handler for every object it receives.
    pub fn saw_metadata(&self, metadata: &ObjectMeta) {
        let sent = metadata.annotations.as_ref().and_then(|all| all.get(SENT));
        self.saw_sent(sent.map(String::as_str));
    }

    /// The same, given the value of the annotation [`SENT`].
    pub fn saw_sent(&self, sent: Option<&str>) {
        let Some((number, nanos)) = sent.and_then(parse_sent) else {
            return;
        };
        let mut round = self.round.lock();
        if number != round.number || round.delays.len() >= round.wanted {
            return;
        }
        let now = Instant::now();
        round.first.get_or_insert(now);
        round.last = Some(now);
        round.delays.push(now_nanos().saturating_sub(nanos) / 1000);
        if round.delays.len() == round.wanted {
            self.complete.notify_one();
        }
    }

    fn begin(&self, number: u16, wanted: usize) {
        *self.round.lock() = Round {
            number,
            wanted,
            delays: Vec::with_capacity(wanted),
            ..Round::default()
        };
    }

    async fn finish(&self) -> Value {
        self.complete.notified().await;
        let mut round = self.round.lock();
        round.delays.sort_unstable();
        let at = |part: f64| {
            let index = (round.delays.len().saturating_sub(1) as f64 * part) as usize;
            round.delays.get(index).copied()
        };
        let seconds = match (round.first, round.last) {
            (Some(first), Some(last)) => (last - first).as_secs_f64(),
            _ => 0.0,
        };
        json!({
            "event": "measured", "round": round.number, "updates": round.delays.len(), "seconds": seconds,
            "p50_us": at(0.5), "p99_us": at(0.99),
        })
    }
}

/// Read access to the cache of a peer.
pub trait Cache: Send + Sync + 'static {
    /// The type by which the library looks objects up. Built before the measurement, as client-go's key is.
    type Key;

    /// The key of a pod.
    fn key(&self, namespace: &str, name: &str) -> Self::Key;
    /// Whether the pod exists.
    fn get(&self, key: &Self::Key) -> bool;
    /// The number of the keys that have a pod, all looked up at one moment; `None` if the library has no such lookup.
    fn get_at_once(&self, _keys: &[Self::Key]) -> Option<usize> {
        None
    }
    /// Looks the pod up and reads its name, as whoever looks it up does next.
    fn read(&self, key: &Self::Key) -> bool;
    /// Whether the pod exists, given its namespace and name: the lister of client-go, which joins them.
    fn get_by_name(&self, namespace: &str, name: &str) -> bool;
    /// The number of pods the index finds on a node; `None` if the library has no indexes.
    fn on_node(&self, node: &str) -> Option<usize>;
    /// Lists everything and reads each object; returns their number.
    fn list(&self) -> usize;
    /// Looks the pod up and reads its node; `None` if this form of a cache does not have it.
    fn read_node(&self, _key: &Self::Key) -> Option<usize> {
        None
    }
    /// Looks the pod up and obtains the whole object; `None` if this form of a cache does not have it.
    fn read_whole(&self, _key: &Self::Key) -> Option<usize> {
        None
    }
}

/// Reports that the handler has received the initial objects.
pub fn synced(objects: usize) {
    print(&json!({"event": "synced", "objects": objects}));
}

fn print(line: &Value) {
    println!("{line}");
}

/// Executes the commands on standard input until it ends.
///
/// # Errors
///
/// Standard input cannot be read, or has an unknown command.
pub async fn run_commands(cache: impl Cache, meter: Arc<Meter>) -> Result<(), Box<dyn std::error::Error>> {
    let cache = Arc::new(cache);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["measure", round, wanted] => {
                meter.begin(round.parse()?, wanted.parse()?);
                print(&json!({"event": "ready"}));
                print(&meter.finish().await);
            }
            ["measure", round, wanted, "listing"] => {
                meter.begin(round.parse()?, wanted.parse()?);
                let listing = Listing::start(cache.clone());
                print(&json!({"event": "ready"}));
                let mut line = meter.finish().await;
                line["lists_per_second"] = listing.stop().await.into();
                print(&line);
            }
            ["reads", objects] => {
                let (cache, objects) = (cache.clone(), objects.parse()?);
                print(&tokio::task::spawn_blocking(move || reads(&*cache, objects)).await?);
            }
            _ => return Err(format!("{line:?} is not a command").into()),
        }
    }
    Ok(())
}

/// A thread that lists everything in a loop.
struct Listing {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    began: Instant,
    thread: tokio::task::JoinHandle<()>,
}

impl Listing {
    fn start(cache: Arc<impl Cache>) -> Self {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = tokio::task::spawn_blocking({
            let (stop, rounds) = (stop.clone(), rounds.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    black_box(cache.list());
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self {
            stop,
            rounds,
            began: Instant::now(),
            thread,
        }
    }

    async fn stop(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        let per_second = self.rounds.load(Ordering::Relaxed) as f64 / self.began.elapsed().as_secs_f64();
        // The rate was taken; how the thread ends does not matter.
        let _ = self.thread.await;
        per_second
    }
}

/// The number of timed batches of each kind of read; the median is reported.
const BATCHES: usize = 101;
const READS: usize = 1_000;

fn reads(cache: &impl Cache, objects: usize) -> Value {
    let mut next = 12_345_usize;
    let mut numbers = move || {
        next = next.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        (next >> 8) % objects.max(1)
    };
    let names: Vec<(String, String)> = (0..READS)
        .map(|_| numbers())
        .map(|number| (pod::namespace(number), pod::name(number)))
        .collect();
    let keys: Vec<_> = (names.iter())
        .map(|(namespace, name)| cache.key(namespace, name))
        .collect();
    let nodes: Vec<String> = keys.iter().map(|_| pod::node(numbers())).collect();
    let found = keys.iter().filter(|key| cache.get(key)).count();
    let get = median(|| keys.iter().filter(|key| cache.get(key)).count());
    let has_view = cache.get_at_once(&keys).is_some();
    let view = has_view.then(|| median(|| cache.get_at_once(&keys).unwrap_or_default()));
    let read = median(|| keys.iter().filter(|key| cache.read(key)).count());
    let by_name = median(|| {
        let found = names
            .iter()
            .filter(|(namespace, name)| cache.get_by_name(namespace, name));
        found.count()
    });
    let has_index = nodes.first().is_some_and(|node| cache.on_node(node).is_some());
    let index = has_index.then(|| median(|| nodes.iter().filter_map(|node| cache.on_node(node)).sum()));
    let list = median(|| cache.list());
    let node = each(&keys, |key| cache.read_node(key));
    let whole = each(&keys, |key| cache.read_whole(key));
    json!({
        "event": "reads", "found": found,
        "get_ns": get * 1e9 / READS as f64,
        "view_ns": view.map(|view| view * 1e9 / READS as f64),
        "read_ns": read * 1e9 / READS as f64,
        "name_ns": by_name * 1e9 / READS as f64,
        "index_ns": index.map(|index| index * 1e9 / READS as f64),
        "list_us": list * 1e6,
        "node_ns": node,
        "whole_ns": whole,
    })
}

/// The nanoseconds of a read by key; `None` if this form of a cache does not have it.
fn each<Q>(keys: &[Q], read: impl Fn(&Q) -> Option<usize>) -> Option<f64> {
    let is_available = keys.first().is_some_and(|key| read(key).is_some());
    is_available.then(|| median(|| keys.iter().filter_map(&read).sum()) * 1e9 / READS as f64)
}

fn median(mut run: impl FnMut() -> usize) -> f64 {
    let mut times: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times.get(BATCHES / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(round: u16) -> ObjectMeta {
        let sent = pod::sent(round, now_nanos() - 5_000_000);
        ObjectMeta {
            annotations: Some([(SENT.to_owned(), sent)].into()),
            ..ObjectMeta::default()
        }
    }

    #[tokio::test]
    async fn only_the_measured_round_counts() {
        let meter = Meter::default();
        meter.begin(7, 2);

        meter.saw_metadata(&metadata(6));
        meter.saw_metadata(&metadata(7));
        meter.saw_metadata(&ObjectMeta::default());
        meter.saw_metadata(&metadata(7));
        meter.saw_metadata(&metadata(7));

        let line = meter.finish().await;
        assert_eq!(line["updates"], 2);
        assert!(line["p50_us"].as_u64().unwrap() >= 5_000);
    }
}
