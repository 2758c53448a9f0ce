//! The trace of one list: a span, and the time of each stage in the log if it was slow.
//!
//! A trace covers one successful attempt: failed attempts before it and the pauses between requests are not part of it.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{Span, debug, info_span, warn};

/// A list that takes longer than this is logged, as in client-go.
const SLOW_LIST: Duration = Duration::from_secs(10);

/// The time spent in each stage of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ListTimes {
    /// Waiting for the responses to start.
    request: Duration,
    /// Waiting for more of them.
    receive: Duration,
    /// Decoding and transforming the objects.
    decode: Duration,
    /// Waiting in the queue; `None` if the target is not an informer's.
    queue: Option<Duration>,
    /// Applying the list to the store.
    apply: Option<Duration>,
    requests: u32,
}

impl ListTimes {
    /// The time until the list was complete.
    fn fetch(&self) -> Duration {
        self.request + self.receive + self.decode
    }

    fn total(&self) -> Duration {
        self.fetch() + self.queue.unwrap_or_default() + self.apply.unwrap_or_default()
    }
}

impl fmt::Display for ListTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stages = [
            ("request", Some(self.request)),
            ("receive", Some(self.receive)),
            ("decode", Some(self.decode)),
            ("queue", self.queue),
            ("apply", self.apply),
        ];
        for (stage, time) in stages {
            if let Some(time) = time {
                write!(f, "{stage} {:.1} s, ", time.as_secs_f64())?;
            }
        }
        match self.requests {
            1 => f.write_str("1 request"),
            requests => write!(f, "{requests} requests"),
        }
    }
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The start of a response, or more bytes of it.
    Bytes,
    /// A decoded item.
    Item,
}

/// The stages of the list that is being fetched.
pub(super) struct ListTrace {
    pub(super) last_data: Instant,
    /// A list is being fetched.
    open: bool,
    /// The current response has started.
    answered: bool,
    what: &'static str,
    times: ListTimes,
    span: Span,
}

impl Default for ListTrace {
    fn default() -> Self {
        Self {
            last_data: Instant::now(),
            open: false,
            answered: false,
            what: "list",
            times: ListTimes::default(),
            span: Span::none(),
        }
    }
}

impl ListTrace {
    /// A new attempt starts, with its first request.
    pub(super) fn begin(&mut self, now: Instant, resource: &str, what: &'static str) {
        let span = info_span!("list", resource, by = what);
        *self = Self {
            what,
            span,
            ..Self::default()
        };
        self.open = true;
        self.next_request(now);
    }

    /// The next page of the same attempt is requested.
    pub(super) fn next_request(&mut self, now: Instant) {
        self.last_data = now;
        self.answered = false;
        self.times.requests += 1;
        debug!(parent: &self.span, request = self.times.requests, "requested");
    }

    pub(super) fn received(&mut self, now: Instant, received: Received) {
        let time = now.saturating_duration_since(self.last_data);
        self.last_data = now;
        if !self.open {
            return;
        }
        match received {
            _ if !self.answered => self.times.request += time,
            Received::Bytes => self.times.receive += time,
            Received::Item => self.times.decode += time,
        }
        self.answered = true;
    }

    /// The target has accepted the list. Returns its duration, and the trace of what follows.
    pub(super) fn accepted(
        &mut self,
        now: Instant,
        resource: &str,
        objects: usize,
    ) -> (Duration, AcceptedList) {
        self.open = false;
        let accepted = AcceptedList {
            resource: resource.to_owned(),
            what: self.what,
            objects,
            unapplied: objects,
            times: self.times,
            since: now,
            span: std::mem::replace(&mut self.span, Span::none()),
        };
        debug!(parent: &accepted.span, "accepted by the target");
        (self.times.fetch(), accepted)
    }
}

/// A list on its way to the store.
pub(super) struct AcceptedList {
    resource: String,
    what: &'static str,
    objects: usize,
    /// The objects that have not left the queue, if the queue splits the list.
    unapplied: usize,
    times: ListTimes,
    /// The start of the current stage.
    since: Instant,
    span: Span,
}

impl AcceptedList {
    /// The list, or a part of it, has left the queue.
    pub(super) fn dequeued(&mut self, now: Instant) {
        let time = now.saturating_duration_since(self.since);
        *self.times.queue.get_or_insert_default() += time;
        self.since = now;
    }

    /// Whether a batch with this number of objects of a list is a part of this one; `None` for a whole list.
    pub(super) fn concerns(&self, objects: Option<usize>) -> bool {
        // Nothing of an empty list is queued. It is applied with whatever follows.
        objects != Some(0) || self.unapplied == 0
    }

    /// What has left the queue is in the store. Returns whether that completes the list.
    pub(super) fn applied(&mut self, now: Instant, objects: Option<usize>) -> bool {
        let time = now.saturating_duration_since(self.since);
        *self.times.apply.get_or_insert_default() += time;
        self.since = now;
        self.unapplied = objects.map_or(0, |objects| self.unapplied.saturating_sub(objects));
        self.unapplied == 0
    }

    pub(super) fn log_if_slow(self) {
        let Self {
            resource,
            what,
            objects,
            times,
            span,
            ..
        } = self;
        debug!(parent: &span, "{what} complete: {times}");
        let total = times.total();
        if total > SLOW_LIST {
            let seconds = total.as_secs_f64();
            warn!(parent: &span, %resource, objects, seconds, "slow {what}: {times}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_stage_has_its_own_time_and_pauses_have_none() {
        let mut now = Instant::now();
        let mut after = |milliseconds: u64| {
            now += Duration::from_millis(milliseconds);
            now
        };
        let mut trace = ListTrace::default();
        trace.begin(after(0), "pods", "list");
        trace.received(after(9000), Received::Bytes);
        // The attempt failed. The next one starts after a pause.
        trace.begin(after(30_000), "pods", "list");
        trace.received(after(4000), Received::Bytes);
        trace.received(after(2000), Received::Bytes);
        trace.received(after(500), Received::Item);
        trace.received(after(500), Received::Item);
        // A pause between two pages.
        trace.next_request(after(60_000));
        trace.received(after(1000), Received::Bytes);
        trace.received(after(100), Received::Item);

        let (took, mut accepted) = trace.accepted(after(0), "pods", 3);
        accepted.dequeued(after(3000));
        assert_eq!(took, Duration::from_millis(8100));
        assert!(accepted.applied(after(700), None));
        let times = accepted.times;
        assert_eq!(
            times.to_string(),
            "request 5.0 s, receive 2.0 s, decode 1.1 s, queue 3.0 s, apply 0.7 s, 2 requests"
        );
        assert_eq!(times.total(), Duration::from_millis(11_800));
    }

    #[tokio::test(start_paused = true)]
    async fn the_parts_of_a_split_list_are_added_up() {
        let mut now = Instant::now();
        let mut after = |seconds: u64| {
            now += Duration::from_secs(seconds);
            now
        };
        let mut trace = ListTrace::default();
        trace.begin(after(0), "pods", "list");
        let (_, mut accepted) = trace.accepted(after(0), "pods", 3);

        accepted.dequeued(after(4));
        assert!(!accepted.concerns(Some(0)) && accepted.concerns(Some(2)));
        assert!(!accepted.applied(after(1), Some(2)));
        accepted.dequeued(after(2));
        assert!(accepted.applied(after(3), Some(1)));

        assert_eq!(accepted.times.queue, Some(Duration::from_secs(6)));
        assert_eq!(accepted.times.apply, Some(Duration::from_secs(4)));
    }
}
