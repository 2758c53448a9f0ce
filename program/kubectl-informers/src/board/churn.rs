//! What changes most: decaying counts in bounded memory.
//!
//! Each count halves every minute, so that the list shows current churn and not that of an hour ago. The quietest
//! entries are dropped when there are too many; frequent ones are never among them.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// The half-life of a change.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// Rates below this are not shown: one change about four minutes ago.
const SILENT: f64 = 0.05;

/// Counts of things.
pub struct Churning<T> {
    counts: HashMap<T, Count>,
    most: usize,
    began: Instant,
}

#[derive(Clone, Copy)]
struct Count {
    score: f64,
    at: Instant,
    total: u64,
}

/// One of those that change most.
#[derive(Clone, Debug, PartialEq)]
pub struct Churner<T> {
    /// What changes.
    pub what: T,
    /// How often.
    pub per_minute: f64,
    /// The number of changes since it was last dropped.
    pub total: u64,
}

impl Count {
    fn now(&self, now: Instant) -> f64 {
        let halves = now.saturating_duration_since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.score * 0.5f64.powf(halves)
    }
}

impl<T: Eq + Hash + Clone + Ord> Churning<T> {
    /// Counts up to `most` keys separately.
    pub fn new(most: usize, now: Instant) -> Self {
        Self {
            counts: HashMap::new(),
            most: most.max(4),
            began: now,
        }
    }

    /// One more.
    pub fn count(&mut self, what: T, now: Instant) {
        if !self.counts.contains_key(&what) && self.counts.len() >= self.most {
            self.forget(now);
        }
        let count = self.counts.entry(what).or_insert(Count {
            score: 0.0,
            at: now,
            total: 0,
        });
        count.score = count.now(now) + 1.0;
        count.at = now;
        count.total += 1;
    }

    /// Drops more than one entry, because finding the quietest requires a scan of all.
    fn forget(&mut self, now: Instant) {
        let mut scores: Vec<f64> = self.counts.values().map(|count| count.now(now)).collect();
        scores.sort_by(f64::total_cmp);
        let Some(limit) = scores.get(self.most / 4).copied() else {
            return;
        };
        self.counts.retain(|_, count| count.now(now) > limit);
    }

    /// The keys that change most, in descending order.
    pub fn top(&self, number: usize, now: Instant) -> Vec<Churner<T>> {
        // A count that fades by half a minute settles at rate / ln 2; before that it has not seen enough.
        let age = now.saturating_duration_since(self.began).as_secs_f64().max(5.0) / HALF_LIFE.as_secs_f64();
        let settled = 1.0 - 0.5f64.powf(age);
        let to_rate = std::f64::consts::LN_2 / settled / (HALF_LIFE.as_secs_f64() / 60.0);
        let mut all: Vec<Churner<T>> = self
            .counts
            .iter()
            .map(|(what, count)| Churner {
                what: what.clone(),
                per_minute: count.now(now) * to_rate,
                total: count.total,
            })
            .filter(|churner| churner.per_minute >= SILENT)
            .collect();
        // Among equals by name, or the list would jump about.
        all.sort_by(|a, b| {
            b.per_minute
                .total_cmp(&a.per_minute)
                .then_with(|| a.what.cmp(&b.what))
        });
        all.truncate(number);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_rate_is_that_of_the_last_minutes() {
        let mut churning = Churning::new(8, Instant::now());
        for _ in 0..600 {
            tokio::time::advance(Duration::from_secs(1)).await;
            churning.count("a", Instant::now());
        }

        let steady = churning.top(1, Instant::now())[0].per_minute;
        assert!(
            (57.0..63.0).contains(&steady),
            "once a second is sixty a minute, not {steady}"
        );
        tokio::time::advance(Duration::from_secs(120)).await;
        let later = churning.top(1, Instant::now())[0].per_minute;
        assert!(
            (13.0..17.0).contains(&later),
            "a quarter after two minutes of silence, not {later}"
        );
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(churning.top(1, Instant::now()), []);
    }

    #[tokio::test(start_paused = true)]
    async fn busy_keys_survive_among_many_quiet_ones() {
        let mut churning = Churning::new(16, Instant::now());
        for number in 0..1000 {
            churning.count("busy".to_owned(), Instant::now());
            churning.count(format!("quiet-{number}"), Instant::now());
            tokio::time::advance(Duration::from_millis(100)).await;
        }

        let top = churning.top(2, Instant::now());
        assert_eq!((top[0].what.as_str(), top[0].total), ("busy", 1000));
        assert!(churning.counts.len() <= 16);
    }

    #[tokio::test(start_paused = true)]
    async fn equals_have_an_order() {
        let mut churning = Churning::new(8, Instant::now());
        for what in ["c", "a", "b"] {
            churning.count(what, Instant::now());
        }
        let names: Vec<&str> = churning
            .top(3, Instant::now())
            .iter()
            .map(|one| one.what)
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
