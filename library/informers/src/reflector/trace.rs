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
    requests: u32,
}

impl ListTimes {
    fn total(&self) -> Duration {
        self.request + self.receive + self.decode
    }
}

impl fmt::Display for ListTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stages = [
            ("request", self.request),
            ("receive", self.receive),
            ("decode", self.decode),
        ];
        for (stage, time) in stages {
            write!(f, "{stage} {:.1} s, ", time.as_secs_f64())?;
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

    /// The target has accepted the list, which is logged if it was slow. Returns its duration.
    pub(super) fn complete(&mut self, resource: &str, objects: usize) -> Duration {
        self.open = false;
        let (what, times) = (self.what, self.times);
        let span = std::mem::replace(&mut self.span, Span::none());
        debug!(parent: &span, "{what} complete: {times}");
        let total = times.total();
        if total > SLOW_LIST {
            let seconds = total.as_secs_f64();
            warn!(parent: &span, resource, objects, seconds, "slow {what}: {times}");
        }
        total
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

        let times = trace.times.to_string();
        assert_eq!(times, "request 5.0 s, receive 2.0 s, decode 1.1 s, 2 requests");
        assert_eq!(trace.complete("pods", 3), Duration::from_millis(8100));
    }
}
