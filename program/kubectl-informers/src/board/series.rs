//! Events and lag, second by second, for the last minutes.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Seconds kept: ten minutes.
pub const SAMPLES: usize = 600;
/// The window of the current rate in seconds: shorter windows jitter, longer ones lag.
const RECENT: usize = 5;

/// One second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Events in it.
    pub events: f64,
    /// How long ago the server last confirmed the version of the cache; `None` before there is one.
    pub lag: Option<Duration>,
}

/// The last minutes of one kind.
#[derive(Default)]
pub struct Series {
    samples: VecDeque<Sample>,
    last: Option<(u64, Instant)>,
}

impl Series {
    /// Appends one second: the number of events so far, and the current lag.
    pub fn tick(&mut self, events: u64, lag: Option<Duration>, now: Instant) {
        if let Some((before, at)) = self.last {
            // Ticks may come late; what counts is events a second.
            let seconds = now.saturating_duration_since(at).as_secs_f64().max(0.001);
            let new = events.saturating_sub(before) as f64 / seconds;
            if self.samples.len() >= SAMPLES {
                self.samples.pop_front();
            }
            self.samples.push_back(Sample { events: new, lag });
        }
        self.last = Some((events, now));
    }

    /// The last second.
    pub fn last(&self) -> Option<Sample> {
        self.samples.back().copied()
    }

    /// Events a second, now.
    pub fn rate(&self) -> f64 {
        let recent = self.samples.iter().rev().take(RECENT);
        match recent.len() {
            0 => 0.0,
            number => recent.map(|sample| sample.events).sum::<f64>() / number as f64,
        }
    }

    /// All samples, the newest last.
    pub fn samples(&self) -> impl DoubleEndedIterator<Item = &Sample> + ExactSizeIterator {
        self.samples.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_late_tick_does_not_raise_the_rate() {
        let mut series = Series::default();
        series.tick(100, None, Instant::now());
        assert_eq!(
            (series.last(), series.rate()),
            (None, 0.0),
            "one tick says nothing"
        );
        tokio::time::advance(Duration::from_secs(4)).await;
        series.tick(140, Some(Duration::from_secs(2)), Instant::now());

        assert_eq!(series.last().unwrap().events, 10.0);
        assert_eq!(series.last().unwrap().lag, Some(Duration::from_secs(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_last_minutes_are_kept() {
        let mut series = Series::default();
        for second in 0..(SAMPLES as u64 + 50) {
            tokio::time::advance(Duration::from_secs(1)).await;
            series.tick(second * 3, None, Instant::now());
        }

        assert_eq!(series.samples().len(), SAMPLES);
        assert!((series.rate() - 3.0).abs() < 1e-9);
    }

    #[tokio::test(start_paused = true)]
    async fn a_counter_reset_is_not_a_burst() {
        let mut series = Series::default();
        series.tick(100, None, Instant::now());
        tokio::time::advance(Duration::from_secs(1)).await;
        series.tick(0, None, Instant::now());
        assert_eq!(series.last().unwrap().events, 0.0);
    }
}
