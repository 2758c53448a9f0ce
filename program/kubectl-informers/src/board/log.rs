//! The last changes of all kinds, numbered, so that a reader can resume at its position, or learn that it cannot.

use std::collections::VecDeque;
use std::sync::Arc;

use kube_informers::Object;

use crate::changes::Change;

/// The maximum number of changes, and their approximate memory limit.
const MOST: usize = 4096;
const MOST_BYTES: usize = 8 << 20;

/// One change in the log.
pub struct LogEntry {
    /// Its number; the first change has 1.
    pub number: u64,
    /// The kind, as an index into the list of kinds.
    pub kind: usize,
    /// The change. Without the object, or the log would hold every version of it.
    pub change: Change,
    /// What an event of the cluster says: the reason and the message.
    pub words: Option<String>,
    /// The labels of the object at that time.
    pub labels: Vec<(String, String)>,
    bytes: usize,
}

impl LogEntry {
    /// Its approximate size in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Changes that were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// How many.
    pub changes: u64,
}

/// The log.
pub struct Log {
    entries: VecDeque<Arc<LogEntry>>,
    next: u64,
    bytes: usize,
    most_bytes: usize,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            next: 1,
            bytes: 0,
            most_bytes: MOST_BYTES,
        }
    }
}

impl Log {
    /// Adds a change.
    pub fn push(&mut self, kind: usize, mut change: Change) -> Arc<LogEntry> {
        let words = change.story();
        let object = change.object.take();
        change.old = None;
        let labels: Vec<(String, String)> = object
            .iter()
            .flat_map(|object| object.object_labels())
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let text: usize = labels
            .iter()
            .map(|(key, value)| key.len() + value.len() + 48)
            .sum();
        let entry = Arc::new(LogEntry {
            number: self.next,
            kind,
            bytes: 256 + text + words.as_ref().map_or(0, String::len) + change.weight(),
            words,
            labels,
            change,
        });
        self.next += 1;
        self.bytes += entry.bytes;
        self.entries.push_back(entry.clone());
        while self.entries.len() > MOST || (self.bytes > self.most_bytes && self.entries.len() > 1) {
            let Some(gone) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= gone.bytes;
        }
        entry
    }

    /// The number of changes in the log.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number of the last change; 0 before the first.
    pub fn last(&self) -> u64 {
        self.next - 1
    }

    /// From the newest to the oldest.
    pub fn newest_first(&self) -> impl Iterator<Item = &Arc<LogEntry>> {
        self.entries.iter().rev()
    }

    /// At most `most` changes after this number, oldest first, and how many changes after it were dropped.
    pub fn after(&self, number: u64, most: usize) -> (Vec<Arc<LogEntry>>, Option<Missed>) {
        let oldest = self.next - self.entries.len() as u64;
        let missed = oldest.saturating_sub(number.saturating_add(1));
        let skip = number.saturating_add(1).saturating_sub(oldest);
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let found = self.entries.iter().skip(skip).take(most).cloned().collect();
        (found, (missed > 0).then_some(Missed { changes: missed }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::updated;
    use super::*;

    fn numbers(found: &[Arc<LogEntry>]) -> Vec<u64> {
        found.iter().map(|entry| entry.number).collect()
    }

    #[test]
    fn a_reader_resumes_at_its_position() {
        let mut log = Log::default();
        for _ in 0..5 {
            log.push(0, updated("pods", "shop", "cart", &["/a"]));
        }

        let (found, missed) = log.after(0, 2);
        assert_eq!((numbers(&found), missed), (vec![1, 2], None));
        assert_eq!(numbers(&log.after(3, 9).0), [4, 5]);
        assert_eq!(numbers(&log.after(5, 9).0), Vec::<u64>::new());
        assert_eq!(numbers(&log.after(u64::MAX, 9).0), Vec::<u64>::new());
        assert_eq!(log.last(), 5);
    }

    #[test]
    fn a_late_reader_receives_the_number_of_missed_changes() {
        let mut log = Log::default();
        for _ in 0..(MOST + 10) {
            log.push(0, updated("pods", "shop", "cart", &["/a"]));
        }

        let (found, missed) = log.after(4, 1);
        assert_eq!(numbers(&found), [11]);
        assert_eq!(missed, Some(Missed { changes: 6 }));
        assert_eq!(log.len(), MOST);
    }

    #[test]
    fn large_changes_are_dropped_sooner() {
        let mut log = Log {
            most_bytes: 10_000,
            ..Log::default()
        };
        let long = format!("/{}", "x".repeat(2_000));
        for _ in 0..50 {
            log.push(0, updated("pods", "shop", "cart", &[&long]));
        }

        assert!((2..=4).contains(&log.len()), "{}", log.len());
        assert!(log.bytes <= 10_000);
        log.push(0, updated("pods", "shop", "cart", &[&"x".repeat(50_000)]));
        assert_eq!(log.len(), 1, "the newest stays however large it is");
    }
}
