//! `Recorder`: reports what a controller does as Events about the objects.

mod driver;
mod series;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use tokio::sync::{mpsc, oneshot};

use driver::{Command, Driver};

/// Occurrences that wait to be counted.
const CAPACITY: usize = 1000;

/// Reports what a controller does as Events (`events.k8s.io/v1`), which `kubectl describe` shows.
///
/// - **Never blocks and never fails.** Recording adds the occurrence to a bounded queue. If the queue is full, the
///   occurrence is dropped and [counted](Self::stats).
/// - **Series.** Repetitions of an event within six minutes are counted in one Event, as in client-go. It is written
///   when the series begins, every 30 minutes, and when it ends. Events that differ only in their note are repetitions.
/// - **Spam filter.** One object has at most 25 different events at once, then one per five minutes.
/// - **Outages.** Events are kept, counted and written later, with exponential back-off. A rejected event (403, 422) is
///   logged and dropped.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_controller::Recorder;
/// # use std::time::Duration;
///
/// # async fn example(client: kube::Client, pod: &Pod) {
/// let recorder = Recorder::start(client, "example.dev/cart-operator", "cart-operator-0");
/// recorder.normal(pod, "Scaled", "Scaling", "scaled to 3 replicas");
/// recorder.warning(pod, "QuotaExceeded", "Scaling", "the namespace allows no more pods");
/// recorder.shutdown_within(Duration::from_secs(5)).await; // writes what is left
/// # }
/// ```
///
/// # Compared with client-go's recorder
///
/// The same occurrences lead to the same Events as with client-go's `tools/events`; a test runs both side by side. They
/// differ as follows:
///
/// - A shutdown writes the counts of running series. client-go drops them, and the server keeps the count 2.
/// - Events are written in the order in which they were recorded. client-go writes each on a goroutine of its own.
/// - An outage delays Events, however long it is. client-go gives up after 12 attempts, about two minutes.
/// - The spam filter is that of the older `tools/record`; `tools/events` has none.
///
/// Clones share the queue. Dropping the last one writes what is left in the background for at most five seconds.
/// kube-runtime's recorder (`kube::runtime::events::Recorder`) writes within the call instead, and reports its errors.
#[doc(alias = "EventRecorderLogger")]
#[doc(alias = "AnnotatedEventRecorder")]
#[doc(alias = "EventRecorderAdapter")]
#[doc(alias = "NewEventRecorderAdapter")]
#[doc(alias = "EventCorrelator")]
#[doc(alias = "NewEventCorrelator")]
#[doc(alias = "NewEventCorrelatorWithOptions")]
#[doc(alias = "CorrelatorOptions")]
#[doc(alias = "EventCorrelateResult")]
#[doc(alias = "EventAggregator")]
#[doc(alias = "NewEventAggregator")]
#[doc(alias = "EventAggregatorKeyFunc")]
#[doc(alias = "EventAggregatorMessageFunc")]
#[doc(alias = "EventAggregatorByReasonFunc")]
#[doc(alias = "EventAggregatorByReasonMessageFunc")]
#[doc(alias = "EventSourceObjectSpamFilter")]
#[doc(alias = "NewEventSourceObjectSpamFilter")]
#[doc(alias = "EventFilterFunc")]
#[doc(alias = "EventSpamKeyFunc")]
#[derive(Clone)]
#[doc(alias = "EventRecorder")]
#[doc(alias = "EventBroadcaster")]
pub struct Recorder {
    commands: mpsc::Sender<Command>,
    counters: Arc<Counters>,
}

/// Who reports.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) controller: String,
    pub(crate) instance: String,
}

/// What happened, without the object it concerns.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Note {
    /// Whether something is wrong.
    pub warning: bool,
    /// Why, in one word for programs: `QuotaExceeded`.
    pub reason: String,
    /// What was done or attempted, in one word: `Scaling`.
    pub action: String,
    /// A sentence for humans. At most 1 kB; the rest is cut off.
    pub note: String,
    /// A second object involved.
    pub related: Option<ObjectReference>,
}

impl Note {
    /// Something normal happened.
    pub fn normal(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason: reason.into(),
            action: action.into(),
            note: note.into(),
            related: None,
        }
    }

    /// Something is wrong.
    pub fn warning(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self {
            warning: true,
            ..Self::normal(reason, action, note)
        }
    }

    /// Names a second object.
    #[must_use]
    pub fn related(mut self, object: ObjectReference) -> Self {
        self.related = Some(object);
        self
    }
}

/// The counters of a [`Recorder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecorderStats {
    /// Occurrences counted.
    pub recorded: u64,
    /// Occurrences dropped because the queue or the memory for series was full.
    pub dropped: u64,
    /// Occurrences dropped by the spam filter.
    pub spam: u64,
    /// Successful writes.
    pub written: u64,
    /// Failed attempts that are repeated.
    pub failed: u64,
    /// Events that the server rejected.
    pub rejected: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) recorded: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) spam: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) rejected: AtomicU64,
}

impl Recorder {
    /// Starts a recorder on the current runtime.
    ///
    /// `controller` names the controller, such as `example.dev/cart-operator`; `instance` names this process, usually
    /// by its pod name. The service account needs the verbs `create` and `patch` on `events` of `events.k8s.io`.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[doc(alias = "NewBroadcasterForTests")]
    #[doc(alias = "NewBroadcasterWithCorrelatorOptions")]
    #[doc(alias = "BroadcasterOption")]
    #[doc(alias = "record.WithContext")]
    #[doc(alias = "WithCorrelatorOptions")]
    #[doc(alias = "WithSleepDuration")]
    #[doc(alias = "EventBroadcasterAdapter")]
    #[doc(alias = "NewEventBroadcasterAdapter")]
    #[doc(alias = "NewEventBroadcasterAdapterWithContext")]
    #[doc(alias = "NewRecorder")]
    #[doc(alias = "NewBroadcaster")]
    pub fn start(client: kube::Client, controller: impl Into<String>, instance: impl Into<String>) -> Self {
        let source = Source {
            controller: controller.into(),
            instance: instance.into(),
        };
        let (commands, receiver) = mpsc::channel(CAPACITY);
        let counters = Arc::new(Counters::default());
        let span = tracing::info_span!("recorder", controller = source.controller);
        let driver = Driver::new(client, source, receiver, counters.clone());
        // It ends with the last recorder; nothing waits for it.
        drop(kube_informers_core::tasks::spawn(span, driver.run()));
        Self { commands, counters }
    }

    /// Reports something normal about an object.
    #[doc(alias = "Eventf")]
    pub fn normal<K>(&self, object: &K, reason: &str, action: &str, note: impl Into<String>)
    where
        K: Resource<DynamicType: Default>,
    {
        self.record(
            object.object_ref(&Default::default()),
            Note::normal(reason, action, note),
        );
    }

    /// Reports a problem with an object.
    pub fn warning<K>(&self, object: &K, reason: &str, action: &str, note: impl Into<String>)
    where
        K: Resource<DynamicType: Default>,
    {
        self.record(
            object.object_ref(&Default::default()),
            Note::warning(reason, action, note),
        );
    }

    /// The general form, for dynamic objects and for events with a second object.
    pub fn record(&self, regarding: ObjectReference, note: Note) {
        if self
            .commands
            .try_send(Command::Record(Box::new((regarding, note))))
            .is_err()
        {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counters.
    pub fn stats(&self) -> RecorderStats {
        let Counters {
            recorded,
            dropped,
            spam,
            written,
            failed,
            rejected,
        } = &*self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RecorderStats {
            recorded: read(recorded),
            dropped: read(dropped),
            spam: read(spam),
            written: read(written),
            failed: read(failed),
            rejected: read(rejected),
        }
    }

    /// Writes everything recorded so far, for at most `timeout`. Returns whether that was possible.
    pub async fn flush_within(&self, timeout: Duration) -> bool {
        let (done, is_done) = oneshot::channel();
        let flushed =
            async { self.commands.send(Command::Flush(done)).await.is_ok() && is_done.await.is_ok() };
        tokio::time::timeout(timeout, flushed).await.unwrap_or(false)
    }

    /// Writes everything recorded so far, for at most `timeout`, and stops with the last clone.
    #[doc(alias = "Shutdown")]
    pub async fn shutdown_within(self, timeout: Duration) {
        self.flush_within(timeout).await;
    }
}

/// Numbers only.
impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
