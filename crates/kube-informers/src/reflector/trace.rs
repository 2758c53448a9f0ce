//! The trace of one list: a span, and its steps in the log if it was slow.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{Span, debug, info_span, warn};

/// The steps of a list that takes longer than this are logged, as in client-go.
const SLOW_LIST: Duration = Duration::from_secs(10);

/// The steps of fetching a collection, with their times.
pub(super) struct ListTrace {
    pub(super) last_data: Instant,
    started: Instant,
    what: &'static str,
    steps: Vec<(&'static str, Instant)>,
    dropped: usize,
    span: Span,
}

impl Default for ListTrace {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            last_data: now,
            started: now,
            what: "list",
            steps: Vec::new(),
            dropped: 0,
            span: Span::none(),
        }
    }
}

impl ListTrace {
    /// Later steps are counted only.
    const MAX_STEPS: usize = 50;

    pub(super) fn begin(&mut self, now: Instant, resource: &str, what: &'static str) {
        self.last_data = now;
        if self.steps.is_empty() || self.what != what {
            let span = info_span!("list", resource, by = what);
            *self = Self {
                last_data: now,
                started: now,
                what,
                steps: Vec::new(),
                dropped: 0,
                span,
            };
        }
        self.note("requested");
    }

    pub(super) fn note(&mut self, step: &'static str) {
        debug!(parent: &self.span, "{step}");
        if self.steps.len() < Self::MAX_STEPS {
            self.steps.push((step, Instant::now()));
        } else {
            self.dropped += 1;
        }
    }

    pub(super) fn finish(&mut self, resource: &str, objects: usize) -> Duration {
        let took = Instant::now().saturating_duration_since(self.started);
        if took > SLOW_LIST {
            let mut text = String::new();
            for (step, at) in &self.steps {
                let after = at.saturating_duration_since(self.started).as_secs_f64();
                text.push_str(&format!("{step} at {after:.1} s, "));
            }
            if self.dropped > 0 {
                text.push_str(&format!("{} more steps, ", self.dropped));
            }
            text.push_str(&format!("complete at {:.1} s", took.as_secs_f64()));
            warn!(parent: &self.span, resource, objects, seconds = took.as_secs_f64(), "slow {}: {text}", self.what);
        }
        self.steps.clear();
        self.dropped = 0;
        self.span = Span::none();
        took
    }
}
