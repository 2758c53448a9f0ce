//! What a player reports while it plays: interruptions of the recording and their ends, damage, the end.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::time::Instant;

/// Reports that are kept for readers. A reader that is slower misses the oldest.
const KEPT: usize = 64;

/// A report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The moment in the recording; `None` for reports about the recording as a whole.
    pub when: Option<Timestamp>,
    /// Whether it is the end of an interruption.
    pub recovered: bool,
    /// What.
    pub text: String,
}

impl Report {
    /// About the recording as a whole.
    pub fn about(text: impl Into<String>) -> Self {
        Self {
            when: None,
            recovered: false,
            text: text.into(),
        }
    }
}

/// The reports of a player, for any number of readers. Clones share them.
#[derive(Clone)]
pub struct Reports {
    shared: Arc<ReportsInner>,
}

struct ReportsInner {
    sender: broadcast::Sender<Report>,
    state: Mutex<ReportsState>,
}

#[derive(Default)]
struct ReportsState {
    past: VecDeque<Report>,
    /// The current interruption: since when it is played, and why.
    gap: Option<(Instant, String)>,
}

impl Default for Reports {
    fn default() -> Self {
        let shared = ReportsInner {
            sender: broadcast::Sender::new(KEPT),
            state: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }
}

impl Reports {
    /// The reports so far, and those that follow.
    pub fn subscribe(&self) -> (Vec<Report>, broadcast::Receiver<Report>) {
        // Under the lock, so that none is missed or read twice.
        let state = self.shared.state.lock();
        (
            state.past.iter().cloned().collect(),
            self.shared.sender.subscribe(),
        )
    }

    /// Since when an interruption of the recording is played, and why there is one.
    pub fn gap(&self) -> Option<(Instant, String)> {
        self.shared.state.lock().gap.clone()
    }

    /// An interruption begins.
    pub(super) fn interrupted(&self, when: Timestamp, text: String) {
        let mut state = self.shared.state.lock();
        state.gap.get_or_insert_with(|| (Instant::now(), text.clone()));
        self.push(
            &mut state,
            Report {
                when: Some(when),
                ..Report::about(text)
            },
        );
    }

    /// It is over.
    pub(super) fn recovered(&self, when: Timestamp, text: String) {
        let mut state = self.shared.state.lock();
        state.gap = None;
        self.push(
            &mut state,
            Report {
                when: Some(when),
                recovered: true,
                text,
            },
        );
    }

    /// Anything else.
    pub(super) fn say(&self, report: Report) {
        self.push(&mut self.shared.state.lock(), report);
    }

    fn push(&self, state: &mut ReportsState, report: Report) {
        if state.past.len() >= KEPT {
            state.past.pop_front();
        }
        state.past.push_back(report.clone());
        // Without a reader there is none to miss it.
        let _ = self.shared.sender.send(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn late_readers_receive_what_was_reported_before_and_a_gap_lasts_until_its_end() {
        let reports = Reports::default();
        let when = Timestamp::UNIX_EPOCH;
        let began = Instant::now();
        reports.interrupted(when, "connection lost".to_owned());
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        reports.interrupted(when, "still lost".to_owned());

        let (past, mut next) = reports.subscribe();

        assert_eq!(past.len(), 2);
        assert_eq!(reports.gap(), Some((began, "connection lost".to_owned())));
        reports.recovered(when, "back".to_owned());
        assert_eq!(next.recv().await.map(|report| report.recovered), Ok(true));
        assert_eq!(reports.gap(), None);
    }
}
