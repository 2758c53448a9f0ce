//! Faults on single events of a watch: dropped, duplicated, delayed, swapped, repeated.
//! Independent of the source of events.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::fault::{Edit, Which};

/// The output of the edits.
#[derive(Debug, PartialEq)]
pub(super) enum Out {
    Frame(Bytes),
    /// A pause.
    Wait(Duration),
}

/// The edits of one watch and the events they hold back.
#[derive(Debug)]
pub(super) struct Edits {
    rules: Vec<(Which, Edit)>,
    taken: u64,
    /// Events to be sent after the next one.
    swapped: Vec<Bytes>,
    /// The last frames sent, as many as the longest replay needs.
    sent: VecDeque<Bytes>,
    remember: usize,
    out: VecDeque<Out>,
}

impl Edits {
    pub(super) fn new(rules: Vec<(Which, Edit)>) -> Edits {
        let remember = rules
            .iter()
            .map(|(_, edit)| if let Edit::Replay(count) = edit { *count } else { 0 })
            .max()
            .unwrap_or(0);
        Edits {
            rules,
            taken: 0,
            swapped: Vec::new(),
            sent: VecDeque::new(),
            remember,
            out: VecDeque::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Accepts the next event of the watch: the key of its object, and its frame.
    pub(super) fn take(&mut self, key: &str, frame: Bytes, mut draw: impl FnMut() -> f64) {
        self.taken += 1;
        let number = self.taken;
        let struck: Vec<Edit> = self
            .rules
            .iter()
            .filter(|(which, _)| match which {
                Which::Nth(n) => *n == number,
                Which::Every(n) => number.is_multiple_of((*n).max(1)),
                Which::Object(object) => *object == *key,
                Which::Chance(chance) => draw() < *chance,
                Which::All => true,
            })
            .map(|(_, edit)| edit.clone())
            .collect();

        let frame = Edits::with_garbage(frame, &struck);
        let waiting = std::mem::take(&mut self.swapped);
        if !struck.contains(&Edit::Drop) {
            if let Some(time) = struck.iter().find_map(|edit| {
                if let Edit::Delay(time) = edit {
                    Some(*time)
                } else {
                    None
                }
            }) {
                self.out.push_back(Out::Wait(time));
            }
            if struck.contains(&Edit::Swap) {
                self.swapped.push(frame.clone());
            } else {
                self.let_out(frame.clone());
            }
            if struck.contains(&Edit::Duplicate) {
                self.let_out(frame);
            }
        }
        for frame in waiting {
            self.let_out(frame);
        }
        if let Some(count) = struck.iter().find_map(|edit| {
            if let Edit::Replay(count) = edit {
                Some(*count)
            } else {
                None
            }
        }) {
            let again: Vec<Bytes> = self.sent.iter().rev().take(count).rev().cloned().collect();
            self.out.extend(again.into_iter().map(Out::Frame));
        }
    }

    /// Sends a frame together with its trailing garbage.
    fn with_garbage(frame: Bytes, struck: &[Edit]) -> Bytes {
        let garbage = struck.iter().find_map(|edit| match edit {
            Edit::Garbage(garbage) => Some(garbage),
            _ => None,
        });
        match garbage {
            Some(garbage) => [frame, garbage.clone()].concat().into(),
            None => frame,
        }
    }

    fn let_out(&mut self, frame: Bytes) {
        if self.remember > 0 {
            if self.sent.len() == self.remember {
                self.sent.pop_front();
            }
            self.sent.push_back(frame.clone());
        }
        self.out.push_back(Out::Frame(frame));
    }

    pub(super) fn next(&mut self) -> Option<Out> {
        self.out.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rules: Vec<(Which, Edit)>, events: &[&'static str]) -> Vec<String> {
        let mut edits = Edits::new(rules);
        let mut seen = Vec::new();
        for event in events {
            edits.take(event, Bytes::from_static(event.as_bytes()), || 0.5);
            while let Some(out) = edits.next() {
                seen.push(match out {
                    Out::Frame(frame) => String::from_utf8_lossy(&frame).into_owned(),
                    Out::Wait(time) => format!("wait {}", time.as_secs()),
                });
            }
        }
        seen
    }

    #[test]
    fn events_are_dropped_duplicated_delayed_swapped_and_replayed() {
        let events = ["a", "b", "c", "d"];

        assert_eq!(run(vec![(Which::Nth(2), Edit::Drop)], &events), ["a", "c", "d"]);
        assert_eq!(
            run(vec![(Which::Object("b".into()), Edit::Duplicate)], &events),
            ["a", "b", "b", "c", "d"]
        );
        assert_eq!(
            run(vec![(Which::Nth(1), Edit::Swap)], &events),
            ["b", "a", "c", "d"]
        );
        assert_eq!(
            run(vec![(Which::Every(3), Edit::Replay(2))], &events),
            ["a", "b", "c", "b", "c", "d"]
        );
        assert_eq!(
            run(vec![(Which::Chance(0.6), Edit::Drop)], &events),
            Vec::<String>::new()
        );
        let late = vec![(Which::Nth(4), Edit::Delay(Duration::from_secs(9)))];
        assert_eq!(run(late, &events), ["a", "b", "c", "wait 9", "d"]);
    }
}
