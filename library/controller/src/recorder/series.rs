//! `SeriesMachine`: which events to write, and when. Pure: no I/O, no clock, no tasks.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::{Note, Source};

/// A series ends when nothing was added to it for this long (client-go's value).
const FINISH: Duration = Duration::from_secs(6 * 60);
/// The count of a running series is written at least this often (client-go's value).
const REFRESH: Duration = Duration::from_secs(30 * 60);
/// New series per object: a burst, then one per interval (client-go's spam filter).
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);
/// Series and objects that are remembered.
const LIMIT: usize = 4096;
/// The longest note that the server accepts, in bytes.
const LONGEST_NOTE: usize = 1024;

/// What distinguishes one series from another. The note does not: it may differ from one occurrence to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SeriesKey {
    warning: bool,
    reason: String,
    action: String,
    regarding: RefKey,
    related: Option<RefKey>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RefKey([Option<String>; 6]);

impl RefKey {
    fn of(reference: &ObjectReference) -> Self {
        let ObjectReference {
            api_version,
            kind,
            namespace,
            name,
            uid,
            field_path,
            ..
        } = reference.clone();
        Self([api_version, kind, namespace, name, uid, field_path])
    }
}

/// One write.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Create(Box<Event>),
    Series {
        namespace: String,
        name: String,
        series: EventSeries,
    },
}

/// What happened to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The event has expired on the server.
    NotFound,
    /// The server will not accept it.
    Rejected,
    /// Try again later.
    Failed,
}

/// Why an occurrence is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The object has had too many different events.
    Spam,
    /// Too many series at once.
    Full,
}

struct SeriesEntry {
    event: Event,
    count: i32,
    last_observed: Timestamp,
    last_at: Instant,
    /// The count on the server; zero before it was created.
    on_server: i32,
    written_at: Instant,
    /// Written at the next opportunity.
    urgent: bool,
}

impl SeriesEntry {
    fn series(&self) -> EventSeries {
        EventSeries {
            count: self.count,
            last_observed_time: MicroTime(self.last_observed),
        }
    }

    /// When it has to be written or dropped.
    fn due(&self) -> Instant {
        let finished = self.last_at + FINISH;
        match (self.on_server, self.count) {
            // The first occurrence is written at once, and so is the second, which makes it a series.
            (0, _) => self.written_at,
            (1, 2..) => self.written_at,
            (on_server, count) if on_server == count => finished,
            _ if self.urgent => self.written_at,
            _ => finished.min(self.written_at + REFRESH),
        }
    }
}

/// Tokens of one object.
struct Bucket {
    tokens: f64,
    at: Instant,
}

pub(crate) struct SeriesMachine {
    source: Source,
    series: HashMap<SeriesKey, SeriesEntry>,
    buckets: HashMap<RefKey, Bucket>,
    /// No write before this time.
    not_before: Option<Instant>,
    /// Distinguishes events of one object and instant.
    number: u64,
}

impl SeriesMachine {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            series: HashMap::new(),
            buckets: HashMap::new(),
            not_before: None,
            number: 0,
        }
    }

    /// Counts an occurrence.
    pub(crate) fn observe(
        &mut self,
        regarding: ObjectReference,
        note: Note,
        now: Instant,
        time: Timestamp,
    ) -> Result<(), Refused> {
        let key = SeriesKey {
            warning: note.warning,
            reason: note.reason.clone(),
            action: note.action.clone(),
            regarding: RefKey::of(&regarding),
            related: note.related.as_ref().map(RefKey::of),
        };
        if let Some(entry) = self.series.get_mut(&key) {
            entry.count = entry.count.saturating_add(1);
            (entry.last_observed, entry.last_at) = (time, now);
            return Ok(());
        }
        if self.series.len() >= LIMIT {
            return Err(Refused::Full);
        }
        self.take_token(&key.regarding, now)?;
        self.number += 1;
        let event = self.event(regarding, note, time);
        self.series.insert(
            key,
            SeriesEntry {
                event,
                count: 1,
                last_observed: time,
                last_at: now,
                on_server: 0,
                written_at: now,
                urgent: false,
            },
        );
        Ok(())
    }

    fn take_token(&mut self, object: &RefKey, now: Instant) -> Result<(), Refused> {
        if self.buckets.len() >= LIMIT {
            // A full bucket is the same as none.
            self.buckets
                .retain(|_, bucket| bucket.tokens + refilled(bucket.at, now) < BURST);
            if self.buckets.len() >= LIMIT {
                return Err(Refused::Full);
            }
        }
        let bucket = self.buckets.entry(object.clone()).or_insert(Bucket {
            tokens: BURST,
            at: now,
        });
        bucket.tokens = (bucket.tokens + refilled(bucket.at, now)).min(BURST);
        bucket.at = now;
        if bucket.tokens < 1.0 {
            return Err(Refused::Spam);
        }
        bucket.tokens -= 1.0;
        Ok(())
    }

    fn event(&self, regarding: ObjectReference, note: Note, time: Timestamp) -> Event {
        // Events of cluster-scoped objects live in the namespace "default".
        let namespace = regarding
            .namespace
            .clone()
            .unwrap_or_else(|| "default".to_owned());
        let object = regarding.name.as_deref().unwrap_or_default();
        let unique = time.as_nanosecond() as u64 ^ self.number.rotate_left(48);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{object}.{unique:x}")),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            action: Some(note.action),
            event_time: Some(MicroTime(time)),
            note: Some(shortened(note.note)),
            reason: Some(note.reason),
            regarding: Some(regarding),
            related: note.related,
            reporting_controller: Some(self.source.controller.clone()),
            reporting_instance: Some(self.source.instance.clone()),
            type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        }
    }

    /// When [`next`](Self::next) may have something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        let due = self.series.values().map(SeriesEntry::due).min()?;
        Some(self.not_before.map_or(due, |not_before| due.max(not_before)))
    }

    /// The next write, if one is due. Drops the series that have ended.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(SeriesKey, Write)> {
        self.series
            .retain(|_, entry| entry.on_server != entry.count || entry.last_at + FINISH > now);
        if self.not_before.is_some_and(|not_before| now < not_before) {
            return None;
        }
        let due = self.series.iter().filter(|(_, entry)| entry.due() <= now);
        let (key, entry) = due.min_by_key(|(_, entry)| entry.due())?;
        let write = match entry.on_server {
            0 => {
                let mut event = entry.event.clone();
                // Several occurrences while the server was unreachable.
                event.series = (entry.count > 1).then(|| entry.series());
                Write::Create(Box::new(event))
            }
            _ => Write::Series {
                namespace: entry.event.metadata.namespace.clone().unwrap_or_default(),
                name: entry.event.metadata.name.clone().unwrap_or_default(),
                series: entry.series(),
            },
        };
        Some((key.clone(), write))
    }

    /// The result of a write with this count. `retry` is the delay before the next attempt after a failure.
    pub(crate) fn written(
        &mut self,
        key: &SeriesKey,
        write: &Write,
        outcome: Outcome,
        now: Instant,
        retry: Duration,
    ) {
        self.not_before = (outcome == Outcome::Failed).then(|| now + retry);
        let Some(entry) = self.series.get_mut(key) else {
            return;
        };
        match outcome {
            Outcome::Done => {
                entry.on_server = match write {
                    Write::Create(event) => event.series.as_ref().map_or(1, |series| series.count),
                    Write::Series { series, .. } => series.count,
                };
                entry.written_at = now;
                entry.urgent = false;
            }
            // Created anew, with its count.
            Outcome::NotFound => entry.on_server = 0,
            Outcome::Rejected => {
                self.series.remove(key);
            }
            Outcome::Failed => {}
        }
    }

    /// Whether everything is on the server.
    pub(crate) fn is_flushed(&self) -> bool {
        self.series.values().all(|entry| entry.on_server == entry.count)
    }

    /// Makes every count due now.
    pub(crate) fn flush(&mut self) {
        for entry in self.series.values_mut() {
            entry.urgent = true;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.series.len()
    }
}

fn refilled(since: Instant, now: Instant) -> f64 {
    now.saturating_duration_since(since).as_secs_f64() / REFILL.as_secs_f64()
}

fn shortened(mut note: String) -> String {
    if note.len() > LONGEST_NOTE {
        let end = (0..=LONGEST_NOTE - 3)
            .rev()
            .find(|end| note.is_char_boundary(*end));
        note.truncate(end.unwrap_or_default());
        note.push_str("...");
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> SeriesMachine {
        SeriesMachine::new(Source {
            controller: "example.dev/test".to_owned(),
            instance: "test-0".to_owned(),
        })
    }

    fn pod(name: &str) -> ObjectReference {
        ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some("shop".to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        }
    }

    fn note(reason: &str) -> Note {
        Note::normal(reason, "Testing", "a note")
    }

    /// Writes what is due, with this outcome: `create reason` or `series count`.
    fn write(machine: &mut SeriesMachine, now: Instant, outcome: Outcome) -> Vec<String> {
        let mut log = Vec::new();
        while let Some((key, write)) = machine.next(now) {
            log.push(match &write {
                Write::Create(event) => match &event.series {
                    None => format!("create {}", event.reason.as_deref().unwrap()),
                    Some(series) => format!("create {} {}", event.reason.as_deref().unwrap(), series.count),
                },
                Write::Series { series, .. } => format!("series {}", series.count),
            });
            machine.written(&key, &write, outcome, now, Duration::from_secs(10));
        }
        log
    }

    fn observe(machine: &mut SeriesMachine, reason: &str, now: Instant) -> Result<(), Refused> {
        machine.observe(pod("cart"), note(reason), now, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn second_occurrence_starts_a_series_and_later_ones_are_counted_until_it_ends() {
        let (mut machine, start) = (machine(), Instant::now());
        observe(&mut machine, "Pulled", start).unwrap();
        assert_eq!(write(&mut machine, start, Outcome::Done), ["create Pulled"]);
        observe(&mut machine, "Pulled", start).unwrap();
        assert_eq!(write(&mut machine, start, Outcome::Done), ["series 2"]);
        for _ in 0..100 {
            observe(&mut machine, "Pulled", start).unwrap();
            assert_eq!(write(&mut machine, start, Outcome::Done), [""; 0]);
        }

        assert_eq!(machine.due(), Some(start + FINISH));
        assert_eq!(write(&mut machine, start + FINISH, Outcome::Done), ["series 102"]);
        assert_eq!(write(&mut machine, start + FINISH, Outcome::Done), [""; 0]);
        assert_eq!(machine.len(), 0, "the series has ended");
        observe(&mut machine, "Pulled", start + FINISH).unwrap();
        assert_eq!(
            write(&mut machine, start + FINISH, Outcome::Done),
            ["create Pulled"]
        );
    }

    #[test]
    fn running_series_is_refreshed() {
        let (mut machine, start) = (machine(), Instant::now());
        let mut log = Vec::new();
        for minute in 0..=62 {
            let now = start + Duration::from_secs(60 * minute);
            observe(&mut machine, "Pulled", now).unwrap();
            log.extend(write(&mut machine, now, Outcome::Done));
        }

        assert_eq!(log, ["create Pulled", "series 2", "series 32", "series 62"]);
    }

    #[test]
    fn occurrences_during_an_outage_are_written_afterwards() {
        let (mut machine, start) = (machine(), Instant::now());
        for second in 0..50 {
            let now = start + Duration::from_secs(second);
            observe(&mut machine, "Pulled", now).unwrap();
            assert!(write(&mut machine, now, Outcome::Failed).len() <= 1);
        }
        assert!(!machine.is_flushed());

        assert_eq!(
            write(&mut machine, start + Duration::from_secs(60), Outcome::Done),
            ["create Pulled 50"]
        );
        assert!(machine.is_flushed());
    }

    #[test]
    fn expired_event_is_created_anew_and_a_rejected_one_is_dropped() {
        let (mut machine, now) = (machine(), Instant::now());
        observe(&mut machine, "Pulled", now).unwrap();
        write(&mut machine, now, Outcome::Done);
        observe(&mut machine, "Pulled", now).unwrap();
        let (key, patch) = machine.next(now).unwrap();
        machine.written(&key, &patch, Outcome::NotFound, now, Duration::ZERO);
        assert_eq!(write(&mut machine, now, Outcome::Done), ["create Pulled 2"]);

        observe(&mut machine, "Bad", now).unwrap();
        assert_eq!(write(&mut machine, now, Outcome::Rejected), ["create Bad"]);
        assert_eq!(machine.len(), 1);
    }

    #[test]
    fn spam_of_one_object_does_not_affect_another() {
        let (mut machine, start) = (machine(), Instant::now());
        let refused = (0..100).filter(|n| observe(&mut machine, &format!("Reason{n}"), start).is_err());
        assert_eq!(refused.count(), 75);
        let other = machine.observe(pod("other"), note("Pulled"), start, Timestamp::UNIX_EPOCH);
        assert_eq!(other, Ok(()));
        assert_eq!(
            observe(&mut machine, "Reason1", start),
            Ok(()),
            "a known series costs nothing"
        );

        assert_eq!(observe(&mut machine, "Later", start), Err(Refused::Spam));
        assert_eq!(observe(&mut machine, "Later", start + REFILL), Ok(()));
    }

    #[test]
    fn number_of_series_is_bounded() {
        let (mut machine, now) = (machine(), Instant::now());
        for n in 0..2 * LIMIT {
            let _ = machine.observe(pod(&n.to_string()), note("Pulled"), now, Timestamp::UNIX_EPOCH);
        }
        assert_eq!(machine.len(), LIMIT);
        assert!(machine.buckets.len() <= LIMIT);
    }

    #[test]
    fn flush_makes_counts_due() {
        let (mut machine, now) = (machine(), Instant::now());
        for _ in 0..3 {
            observe(&mut machine, "Pulled", now).unwrap();
            write(&mut machine, now, Outcome::Done);
        }
        assert!(!machine.is_flushed());
        machine.flush();
        assert_eq!(write(&mut machine, now, Outcome::Done), ["series 3"]);
    }

    #[test]
    fn long_note_is_shortened_at_a_character() {
        let note = shortened("ä".repeat(2000));
        assert!(note.len() <= LONGEST_NOTE && note.ends_with("ä..."));
        assert_eq!(shortened("short".to_owned()), "short");
    }
}
