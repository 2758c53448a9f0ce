//! Outages: reported once when they begin and once when they end, whatever the number of kinds and retries.
//!
//! Pure: takes failures, changes and recoveries of kinds with their times, gives the text to report.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// How long the end of an outage waits for kinds that have not recovered yet.
const PARTIAL_AFTER: Duration = Duration::from_secs(10);

/// The outage of a session, if there is one.
#[derive(Default)]
pub(super) struct Outages {
    began: Option<Instant>,
    /// Whether it was reported that waiting does not end it.
    asked: bool,
    kinds: BTreeMap<String, KindOutage>,
}

/// A list or watch that failed.
pub(super) struct Failed<'a> {
    pub(super) text: &'a str,
    /// Whether there was a list before.
    pub(super) synced: bool,
    /// Whether it will fail again until the user does something.
    pub(super) needs_user: bool,
}

#[derive(Default)]
struct KindOutage {
    recovered: Option<Instant>,
    /// Whether there was nothing in the cache before.
    first_list: bool,
    /// Why the objects had to be listed again.
    relisted: Option<String>,
    changes: u64,
    missed_deletes: u64,
}

impl Outages {
    /// A list or watch of a kind failed. Gives the text to report if that begins an outage, and once more if it lasts until
    /// the user acts.
    pub(super) fn failed(&mut self, kind: &str, failed: &Failed<'_>, now: Instant) -> Option<String> {
        let first = self.began.is_none();
        self.began.get_or_insert(now);
        let asked = self.asked;
        self.asked |= failed.needs_user;
        let outage = self.kinds.entry(kind.to_owned()).or_default();
        outage.recovered = None;
        outage.first_list = !failed.synced;
        match first {
            true => Some(format!("interrupted: {}", failed.text)),
            false if failed.needs_user && !asked => Some(format!("still interrupted: {}", failed.text)),
            false => None,
        }
    }

    /// The objects of a kind are listed again for this reason.
    pub(super) fn relisted(&mut self, kind: &str, reason: String) {
        if let Some(outage) = self.kinds.get_mut(kind) {
            outage.relisted = Some(reason);
        }
    }

    /// A change of a kind was received. It counts if the kind is part of the outage.
    pub(super) fn changed(&mut self, kind: &str, missed_delete: bool) {
        if let Some(outage) = self.kinds.get_mut(kind) {
            outage.changes += 1;
            outage.missed_deletes += u64::from(missed_delete);
        }
    }

    /// Whether a kind is part of an outage and has not recovered.
    pub(super) fn is_failing(&self, kind: &str) -> bool {
        self.kinds.get(kind).is_some_and(|kind| kind.recovered.is_none())
    }

    /// The server has accepted a new watch of a kind. Gives the text to report if that ends the outage.
    pub(super) fn recovered(&mut self, kind: &str, now: Instant) -> Option<String> {
        self.kinds.get_mut(kind)?.recovered.get_or_insert(now);
        match self.kinds.values().all(|kind| kind.recovered.is_some()) {
            true => self.end(now, None),
            false => None,
        }
    }

    /// The kinds that have recovered are reported without the others if those take long.
    pub(super) fn tick(&mut self, now: Instant) -> Option<String> {
        let recovered = self.kinds.values().filter_map(|kind| kind.recovered);
        if recovered.max()? + PARTIAL_AFTER > now {
            return None;
        }
        let failing: Vec<String> = self
            .kinds
            .iter()
            .filter(|(_, kind)| kind.recovered.is_none())
            .map(|(name, _)| name.clone())
            .collect();
        self.end(now, Some(failing))
    }

    fn end(&mut self, now: Instant, failing: Option<Vec<String>>) -> Option<String> {
        let began = self.began?;
        let (recovered, rest): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.kinds)
            .into_iter()
            .partition(|(_, kind)| kind.recovered.is_some());
        self.kinds = rest;
        if self.kinds.is_empty() {
            self.began = None;
            self.asked = false;
        }
        let last = recovered
            .values()
            .filter_map(|kind| kind.recovered)
            .max()
            .unwrap_or(now);
        let names: Vec<&str> = recovered.keys().map(String::as_str).collect();
        let mut text = format!(
            "watching {} again after {:.1} s",
            names.join(", "),
            last.saturating_duration_since(began).as_secs_f64()
        );
        let mut reasons: Vec<&str> = recovered
            .values()
            .filter_map(|kind| kind.relisted.as_deref())
            .collect();
        reasons.dedup();
        match reasons.is_empty() {
            true if recovered.values().any(|kind| kind.first_list) => {}
            true => text.push_str(": resumed from the last version, nothing was missed"),
            false => text.push_str(&format!(
                ": listed again because {}, changes in between were merged",
                reasons.join(" and ")
            )),
        }
        let sum = |count: fn(&KindOutage) -> u64| recovered.values().map(count).sum::<u64>();
        let (changes, deletes) = (sum(|kind| kind.changes), sum(|kind| kind.missed_deletes));
        if changes > 0 {
            let s = if changes == 1 { "" } else { "s" };
            text.push_str(&format!("; caught up on {changes} change{s}"));
        }
        if deletes > 0 {
            let s = if deletes == 1 { "" } else { "s" };
            text.push_str(&format!(", {deletes} missed delete{s} included"));
        }
        if let Some(failing) = failing.filter(|failing| !failing.is_empty()) {
            text.push_str(&format!("; still interrupted: {}", failing.join(", ")));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn failed(text: &str, synced: bool) -> Failed<'_> {
        Failed {
            text,
            synced,
            needs_user: false,
        }
    }

    #[test]
    fn that_an_outage_lasts_until_the_user_acts_is_reported_once() {
        let (mut outages, now) = (Outages::default(), Instant::now());
        let login = Failed {
            needs_user: true,
            ..failed("log in", true)
        };
        outages.failed("pods", &failed("connection lost", true), now);
        let text = outages.failed("pods", &login, now);
        assert_eq!(text.as_deref(), Some("still interrupted: log in"));
        assert_eq!(outages.failed("nodes", &login, now), None);
        assert!(outages.recovered("pods", now).is_none() && outages.recovered("nodes", now).is_some());

        let text = outages.failed("pods", &login, now);
        assert_eq!(text.as_deref(), Some("interrupted: log in"));
        assert_eq!(outages.failed("pods", &login, now), None);
    }

    #[test]
    fn an_outage_of_several_kinds_is_reported_once_and_ends_once() {
        let (mut outages, now) = (Outages::default(), Instant::now());
        assert_eq!(
            outages
                .failed("pods", &failed("watch of pods failed", true), now)
                .as_deref(),
            Some("interrupted: watch of pods failed")
        );
        assert_eq!(
            outages.failed("nodes", &failed("watch of nodes failed", true), now),
            None
        );
        assert_eq!(
            outages.failed("pods", &failed("watch of pods failed", true), now + SECOND),
            None
        );
        assert!(outages.is_failing("pods") && !outages.is_failing("events"));
        assert_eq!(outages.recovered("pods", now + 2 * SECOND), None);
        outages.changed("pods", false);
        outages.changed("events", false);
        assert_eq!(
            outages.recovered("nodes", now + 3 * SECOND).as_deref(),
            Some(
                "watching nodes, pods again after 3.0 s: resumed from the last version, nothing was missed; \
                 caught up on 1 change"
            )
        );
        assert_eq!(outages.recovered("nodes", now + 4 * SECOND), None, "it is over");
        assert!(
            outages
                .failed("pods", &failed("x", true), now + 5 * SECOND)
                .is_some(),
            "another one"
        );
    }

    #[test]
    fn a_kind_that_was_listed_again_says_what_was_missed() {
        let (mut outages, now) = (Outages::default(), Instant::now());
        outages.failed("pods", &failed("x", true), now);
        outages.relisted("pods", "the last version has expired".to_owned());
        outages.changed("pods", true);
        outages.changed("pods", false);
        assert_eq!(
            outages.recovered("pods", now).as_deref(),
            Some(
                "watching pods again after 0.0 s: listed again because the last version has expired, changes in \
                 between were merged; caught up on 2 changes, 1 missed delete included"
            )
        );
    }

    #[test]
    fn a_kind_that_stays_away_does_not_hide_that_the_others_are_back() {
        let (mut outages, now) = (Outages::default(), Instant::now());
        outages.failed("pods", &failed("x", true), now);
        outages.failed("widgets", &failed("x", true), now);
        assert_eq!(outages.recovered("pods", now + SECOND), None);
        assert_eq!(outages.tick(now + 2 * SECOND), None);
        let text = outages.tick(now + 12 * SECOND).unwrap();
        assert!(text.starts_with("watching pods again after 1.0 s"), "{text}");
        assert!(text.ends_with("; still interrupted: widgets"), "{text}");
        assert_eq!(outages.tick(now + 30 * SECOND), None, "reported once");
        assert!(outages.recovered("widgets", now + 40 * SECOND).is_some());
    }
}
