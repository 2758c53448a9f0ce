//! When what happened while a collection was fetched: a span for each list, and its steps when it was slow.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{Span, debug, info_span, warn};

/// A list that takes longer than this tells its steps (client-go's figure).
const SLOW_LIST: Duration = Duration::from_secs(10);

/// When what happened, while a collection is being fetched.
pub(super) struct Steps {
    pub(super) last_sign: Instant,
    began: Instant,
    what: &'static str,
    notes: Vec<(&'static str, Instant)>,
    dropped: usize,
    span: Span,
}

impl Default for Steps {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            last_sign: now,
            began: now,
            what: "list",
            notes: Vec::new(),
            dropped: 0,
            span: Span::none(),
        }
    }
}

impl Steps {
    /// A list of very many pages keeps the first notes only.
    const NOTES: usize = 50;

    pub(super) fn begin(&mut self, now: Instant, resource: &str, what: &'static str) {
        self.last_sign = now;
        if self.notes.is_empty() || self.what != what {
            let span = info_span!("list", resource, by = what);
            *self = Self {
                last_sign: now,
                began: now,
                what,
                notes: Vec::new(),
                dropped: 0,
                span,
            };
        }
        self.note("asked");
    }

    pub(super) fn note(&mut self, step: &'static str) {
        debug!(parent: &self.span, "{step}");
        if self.notes.len() < Self::NOTES {
            self.notes.push((step, Instant::now()));
        } else {
            self.dropped += 1;
        }
    }

    pub(super) fn finish(&mut self, resource: &str, objects: usize) -> Duration {
        let took = Instant::now().saturating_duration_since(self.began);
        if took > SLOW_LIST {
            let mut text = String::new();
            for (step, at) in &self.notes {
                let after = at.saturating_duration_since(self.began).as_secs_f64();
                text.push_str(&format!("{step} at {after:.1} s, "));
            }
            if self.dropped > 0 {
                text.push_str(&format!("{} more steps, ", self.dropped));
            }
            text.push_str(&format!("complete at {:.1} s", took.as_secs_f64()));
            warn!(parent: &self.span, resource, objects, seconds = took.as_secs_f64(), "slow {}: {text}", self.what);
        }
        self.notes.clear();
        self.dropped = 0;
        self.span = Span::none();
        took
    }
}
