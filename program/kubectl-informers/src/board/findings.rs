//! What goes wrong in the cluster: objects that are rewritten in a loop, field managers that overwrite each other, and
//! managers that write too much.

use std::collections::VecDeque;

use jiff::Timestamp;
use kube_controller::{FieldWrite, Finding, FindingKind, LoopDetector, LoopOptions};
use serde_json::Value;

use crate::changes::{Change, What};
use crate::objects::who::Written;

/// Findings that are kept.
const FINDINGS: usize = 200;

/// A loop or a fight.
#[derive(Clone, Debug)]
pub struct Found {
    /// When it was found.
    pub when: Timestamp,
    /// The kind, as an index into the list of kinds.
    pub kind: usize,
    /// Object, field and managers.
    pub finding: Finding,
}

impl Found {
    /// `loop` or `fight`.
    pub fn word(&self) -> &'static str {
        match self.finding.kind {
            FindingKind::Fight => "fight",
            _ => "loop",
        }
    }
}

/// The loops and fights of all kinds. Which of them last is decided by tokio's clock.
pub struct Findings {
    detectors: Vec<LoopDetector>,
    recent: VecDeque<Found>,
    total: usize,
}

impl Findings {
    /// Of this many kinds.
    pub(super) fn new(kinds: usize, options: LoopOptions) -> Self {
        Self {
            detectors: std::iter::repeat_with(|| LoopDetector::new(options))
                .take(kinds)
                .collect(),
            recent: VecDeque::new(),
            total: 0,
        }
    }

    /// Observes a change.
    pub(super) fn observe(&mut self, kind: usize, change: &Change) {
        // Events are reports: being rewritten is what they are for.
        let (Some(detector), Some(key), false) =
            (self.detectors.get(kind), &change.key, change.kind.kind == "Event")
        else {
            return;
        };
        let findings = match change.event {
            What::Updated { resync: false } => {
                let by = change.by.as_deref().unwrap_or_default();
                let written = change.diff.iter().filter(|field| !is_bookkeeping(&field.field));
                let writes = written.map(|field| FieldWrite {
                    path: &field.field,
                    value: field.new.as_ref().unwrap_or(&Value::Null),
                    manager: author(by, &field.field),
                });
                detector.observe_writes(key, writes)
            }
            What::Deleted { .. } => {
                detector.forget(key);
                return;
            }
            _ => return,
        };
        for finding in findings {
            if self.recent.len() >= FINDINGS {
                self.recent.pop_back();
            }
            self.total += 1;
            self.recent.push_front(Found {
                when: change.when,
                kind,
                finding,
            });
        }
    }

    /// The number of findings since the start.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The last findings, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Found> {
        self.recent.iter()
    }

    /// The number of loops and fights of a kind since the start.
    pub fn counts(&self, kind: usize) -> (u64, u64) {
        self.detectors.get(kind).map_or((0, 0), LoopDetector::counts)
    }

    /// The fields of a kind that are in a loop or a fight at the moment.
    pub fn current(&self, kind: usize) -> usize {
        self.detectors
            .get(kind)
            .map_or(0, |detector| detector.findings().len())
    }
}

/// Whether a field only counts the changes of others.
fn is_bookkeeping(field: &str) -> bool {
    let counters = [
        "metadata.resourceVersion",
        "metadata.generation",
        "metadata.managedFields",
    ];
    counters.contains(&field) || field.ends_with("observedGeneration")
}

/// The manager that wrote a field, if that is known.
fn author<'a>(by: &'a [Written], field: &str) -> Option<&'a str> {
    let wrote = |one: &&Written| one.paths.iter().any(|path| path == field);
    let one = match by {
        [only] => Some(only),
        several => several.iter().find(wrote),
    };
    one.map(|one| &*one.author.manager)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::board::fixtures::{board, by, deleted, updated};

    fn write(manager: &str, value: &str) -> Change {
        let mut change = updated("pods", "shop", "cart", &["/spec/replicas"]);
        change.diff[0].new = Some(value.into());
        by(manager, change)
    }

    #[tokio::test(start_paused = true)]
    async fn managers_that_overwrite_each_other_are_named_with_the_field() {
        let mut board = board();
        for _ in 0..4 {
            for (manager, value) in [("autoscaler", "5"), ("operator", "3")] {
                board.apply(write(manager, value), Instant::now());
                tokio::time::advance(Duration::from_secs(1)).await;
            }
        }

        let found: Vec<&Found> = board.findings.newest_first().collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].word(), "fight");
        assert_eq!(found[0].finding.path, "spec.replicas");
        assert_eq!(found[0].finding.managers, ["autoscaler", "operator"]);
        assert_eq!((board.findings.counts(0), board.findings.current(0)), ((0, 1), 1));
        tokio::time::advance(Duration::from_secs(120)).await;
        assert_eq!(board.findings.current(0), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_object_starts_anew() {
        let mut board = board();
        for number in 0..20 {
            board.apply(write("operator", &number.to_string()), Instant::now());
            if number % 5 == 4 {
                board.apply(deleted("pods", "shop", "cart"), Instant::now());
            }
        }
        assert_eq!(board.findings.newest_first().count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn counters_of_changes_are_no_findings() {
        let mut board = board();
        for _ in 0..20 {
            let fields = ["/metadata/generation", "/status/observedGeneration"];
            board.apply(updated("pods", "shop", "cart", &fields), Instant::now());
        }
        assert_eq!(board.findings.total(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_manager_that_rewrites_a_field_is_a_loop() {
        let mut board = board();
        for number in 0..7 {
            board.apply(write("operator", &number.to_string()), Instant::now());
        }
        let found = board.findings.newest_first().next().unwrap();
        assert_eq!((found.word(), found.finding.changes), ("loop", 6));
    }
}
