//! The task of a recorder: performs the writes of the `SeriesMachine`, one at a time.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use super::series::{Outcome, Refused, SeriesKey, SeriesMachine, Write};
use super::{Counters, Note, Source};
use crate::retry::retry_after;

/// The delay after the first failure; it doubles up to the longest one.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// No single request may hang the recorder.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it writes after the last handle was dropped.
const LAST_FLUSH: Duration = Duration::from_secs(5);

pub(crate) enum Command {
    Record(Box<(ObjectReference, Note)>),
    Flush(oneshot::Sender<()>),
}

pub(crate) struct Driver {
    client: kube::Client,
    commands: mpsc::Receiver<Command>,
    counters: Arc<Counters>,
    machine: SeriesMachine,
    retry: Duration,
    flushing: Vec<oneshot::Sender<()>>,
}

type InFlight = BoxFuture<'static, (SeriesKey, Write, Result<(), kube::Error>)>;

impl Driver {
    pub(crate) fn new(
        client: kube::Client,
        source: Source,
        commands: mpsc::Receiver<Command>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            client,
            commands,
            counters,
            machine: SeriesMachine::new(source),
            retry: FIRST_RETRY,
            flushing: Vec::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        let mut in_flight: Option<InFlight> = None;
        let mut ends_at = None;
        loop {
            if in_flight.is_none() {
                in_flight = self
                    .machine
                    .next(Instant::now())
                    .map(|(key, write)| self.send(key, write));
            }
            if in_flight.is_none() && self.machine.is_flushed() {
                for done in self.flushing.drain(..) {
                    done.send(()).ok();
                }
                if ends_at.is_some() {
                    return;
                }
            }
            let due = self.machine.due().filter(|_| in_flight.is_none());
            // All branches are cancel-safe: the write stays in `in_flight`, and times are computed anew.
            tokio::select! {
                biased;
                command = self.commands.recv(), if ends_at.is_none() => match command {
                    Some(command) => self.accept(command),
                    None => {
                        ends_at = Some(Instant::now() + LAST_FLUSH);
                        self.machine.flush();
                    }
                },
                (key, write, result) = poll(&mut in_flight) => {
                    in_flight = None;
                    self.finish(&key, &write, result);
                }
                () = until(due) => {}
                () = until(ends_at) => {
                    warn!(series = self.machine.len(), "stopped with events that could not be written");
                    return;
                }
            }
        }
    }

    fn accept(&mut self, command: Command) {
        let now = Instant::now();
        match command {
            Command::Flush(done) => {
                self.machine.flush();
                self.flushing.push(done);
            }
            Command::Record(occurrence) => {
                let (regarding, note) = *occurrence;
                let counter = match self.machine.observe(regarding, note, now, Timestamp::now()) {
                    Ok(()) => &self.counters.recorded,
                    Err(Refused::Spam) => &self.counters.spam,
                    Err(Refused::Full) => &self.counters.dropped,
                };
                counter.fetch_add(1, Ordering::Relaxed);
                if !self.flushing.is_empty() {
                    self.machine.flush();
                }
            }
        }
    }

    fn send(&self, key: SeriesKey, write: Write) -> InFlight {
        let client = self.client.clone();
        Box::pin(async move {
            let result = match timeout(REQUEST_TIMEOUT, perform(client, &write)).await {
                Ok(result) => result,
                Err(elapsed) => Err(kube::Error::Service(Box::new(elapsed))),
            };
            (key, write, result)
        })
    }

    fn finish(&mut self, key: &SeriesKey, write: &Write, result: Result<(), kube::Error>) {
        let outcome = outcome(&result);
        match (outcome, &result) {
            (Outcome::Failed, Err(error)) => {
                let wait = retry_after(error).unwrap_or(self.retry);
                debug!(%error, ?wait, "an event was not written, will retry");
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                self.machine.written(key, write, outcome, Instant::now(), wait);
                self.retry = (self.retry * 2).min(LONGEST_RETRY);
                return;
            }
            (Outcome::Rejected, Err(error)) => {
                warn!(%error, "an event was rejected; the verbs create and patch on events.events.k8s.io are required");
                self.counters.rejected.fetch_add(1, Ordering::Relaxed);
            }
            (Outcome::Done, _) => {
                self.counters.written.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        self.retry = FIRST_RETRY;
        self.machine
            .written(key, write, outcome, Instant::now(), Duration::ZERO);
    }
}

fn outcome(result: &Result<(), kube::Error>) -> Outcome {
    match result {
        Ok(()) => Outcome::Done,
        Err(kube::Error::Api(status)) => match status.code {
            404 if status
                .details
                .as_ref()
                .is_some_and(|details| !details.name.is_empty()) =>
            {
                Outcome::NotFound
            }
            // It was created by an attempt whose response was lost.
            409 => Outcome::Done,
            408 | 429 => Outcome::Failed,
            400..=499 => Outcome::Rejected,
            _ => Outcome::Failed,
        },
        Err(_) => Outcome::Failed,
    }
}

async fn perform(client: kube::Client, write: &Write) -> Result<(), kube::Error> {
    match write {
        Write::Create(event) => {
            let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
            let api = Api::<Event>::namespaced(client, namespace);
            api.create(&PostParams::default(), event).await.map(drop)
        }
        Write::Series {
            namespace,
            name,
            series,
        } => {
            let api = Api::<Event>::namespaced(client, namespace);
            let patch = Patch::Merge(json!({ "series": series }));
            api.patch(name, &PatchParams::default(), &patch).await.map(drop)
        }
    }
}

async fn poll(in_flight: &mut Option<InFlight>) -> (SeriesKey, Write, Result<(), kube::Error>) {
    match in_flight {
        Some(write) => write.await,
        None => pending().await,
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
