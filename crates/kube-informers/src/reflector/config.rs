//! What can be chosen about a reflector. Every figure has client-go's value as its default, or a stated reason.

use std::time::Duration;

use super::backoff::BackoffConfig;

/// How a reflector lists, watches and waits.
#[doc(alias = "ReflectorOptions")]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReflectorConfig {
    /// Take the initial list through a watch where the source can ("watch-list"). Default: yes.
    #[doc(alias = "WatchListClient")]
    pub watch_list: bool,
    /// What the very first list asks for.
    pub initial_list: InitialList,
    /// Ask for lists in pages of this size, always. Default: pages of 500 for consistent reads, whole lists
    /// otherwise (they come from the server's memory).
    #[doc(alias = "WatchListPageSize")]
    pub page_size: Option<u32>,
    /// A watch is asked to last between this and twice this. At least five minutes. Default: five minutes.
    #[doc(alias = "MinWatchTimeout")]
    pub min_watch_timeout: Duration,
    /// The pauses after failures.
    pub backoff: BackoffConfig,
    /// For how long an internal error of the server, reported inside a watch, is answered by watching again
    /// instead of listing. Default: not at all, because such an error may hide a lost deletion.
    #[doc(alias = "MaxInternalErrorRetryDuration")]
    pub internal_error_window: Duration,
    /// Deadlines.
    pub deadlines: Deadlines,
    /// Tell the target every so often to go through all objects again. Default: never.
    #[doc(alias = "ResyncPeriod")]
    pub resync: Option<Duration>,
    /// After a watch-list, list again at exactly its version and report differences. For tests: it doubles
    /// the load on the server. Default: no.
    #[doc(alias = "KUBE_WATCHLIST_INCONSISTENCY_DETECTOR")]
    pub consistency_check: bool,
    /// Where randomness comes from.
    pub jitter: Jitter,
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            watch_list: true,
            initial_list: InitialList::Consistent,
            page_size: None,
            min_watch_timeout: Self::SHORTEST_WATCH,
            backoff: BackoffConfig::default(),
            internal_error_window: Duration::ZERO,
            deadlines: Deadlines::default(),
            resync: None,
            consistency_check: false,
            jitter: Jitter::Random,
        }
    }
}

impl ReflectorConfig {
    /// A watch shorter than this would cost the server more than it gives.
    pub(crate) const SHORTEST_WATCH: Duration = Duration::from_secs(300);
}

/// What the first list asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialList {
    /// The collection as it is when asked. Nothing older is ever shown.
    #[default]
    Consistent,
    /// Whatever the server has in memory, as older client-go versions ask for ("0"). Cheap for the server, but
    /// after a restart the cache may show a past it had left behind.
    AnyCached,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlines {
    /// For the answer to a list to begin. Default: 60 s.
    pub list_headers: Duration,
    /// Between two pieces of a list. Default: 30 s.
    pub list_idle: Duration,
    /// The longest silence of a watch whose server sends bookmarks: two and a half times their interval, but
    /// not more than this. Default: 150 s. Before bookmarks are seen it is the watch's own time-out plus 5 s,
    /// because some proxies hold everything back until the first event.
    pub watch_idle: Duration,
    /// For a watch-list to end its initial events. Default: 20 s.
    pub end_marker: Duration,
    /// ... or so long after the last sign of life, whichever is later. Default: 5 s.
    pub end_marker_quiet: Duration,
    /// For how long a failed watch-list is remembered before it is tried again. Default: 10 min.
    pub watch_list_refused: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            list_headers: Duration::from_secs(60),
            list_idle: Duration::from_secs(30),
            watch_idle: Duration::from_secs(150),
            end_marker: Duration::from_secs(20),
            end_marker_quiet: Duration::from_secs(5),
            watch_list_refused: Duration::from_secs(600),
        }
    }
}

/// Where jitter comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// A generator seeded by the process.
    #[default]
    Random,
    /// A generator of this seed, for runs that can be repeated.
    Seeded(u64),
    /// None: pauses are their base, watches last their minimum.
    None,
}

/// A small generator (splitmix64): jitter needs no better one.
#[derive(Debug)]
pub(crate) struct Dice(Option<u64>);

impl Dice {
    pub(crate) fn new(jitter: Jitter) -> Self {
        use std::hash::{BuildHasher, Hasher};
        match jitter {
            Jitter::None => Self(None),
            Jitter::Seeded(seed) => Self(Some(seed)),
            Jitter::Random => Self(Some(std::hash::RandomState::new().build_hasher().finish())),
        }
    }

    /// Uniform in [0, 1).
    pub(crate) fn roll(&mut self) -> f64 {
        let Some(state) = &mut self.0 else { return 0.0 };
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_are_uniform_enough_and_repeatable() {
        let rolls = |jitter| {
            let mut dice = Dice::new(jitter);
            (0..1000).map(|_| dice.roll()).collect::<Vec<_>>()
        };

        let seeded = rolls(Jitter::Seeded(7));
        assert_eq!(seeded, rolls(Jitter::Seeded(7)));
        assert!(seeded.iter().all(|roll| (0.0..1.0).contains(roll)));
        assert!((seeded.iter().sum::<f64>() / 1000.0 - 0.5).abs() < 0.05);
        assert!(rolls(Jitter::None).iter().all(|roll| *roll == 0.0));
        assert_ne!(rolls(Jitter::Random), rolls(Jitter::Random));
    }
}
