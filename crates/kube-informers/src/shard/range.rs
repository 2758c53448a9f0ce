//! `ShardRange`: a half-open range of 64-bit hashes, and the arithmetic of sorted lists of them.

use std::fmt;
use std::str::FromStr;

/// One past the largest hash.
const TOP: u128 = 1 << 64;

/// Hashes from a start up to, but without, an end. Never empty.
///
/// Displays and parses as `0x0000000000000000-0x8000000000000000`; the end of the whole is
/// `0x10000000000000000`, 2⁶⁴.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardRange {
    start: u64,
    /// The last hash in it, which fits where the end may not.
    last: u64,
}

impl ShardRange {
    /// Every hash.
    pub const ALL: Self = Self {
        start: 0,
        last: u64::MAX,
    };

    /// Every hash; the same as [`ALL`](Self::ALL).
    pub fn full() -> Self {
        Self::ALL
    }

    /// From `start` up to, but without, `end`, which is at most 2⁶⁴.
    ///
    /// # Errors
    ///
    /// The end is not behind the start, or above 2⁶⁴.
    pub fn between(start: u64, end: u128) -> Result<Self, BadRange> {
        let last = end.checked_sub(1).and_then(|last| u64::try_from(last).ok());
        match last {
            Some(last) if last >= start => Ok(Self { start, last }),
            _ => Err(BadRange::Bounds { start, end }),
        }
    }

    /// The first hash in it.
    pub fn start(self) -> u64 {
        self.start
    }

    /// The first hash behind it; 2⁶⁴ for a range that goes to the top.
    pub fn end(self) -> u128 {
        u128::from(self.last) + 1
    }

    /// Whether a hash lies in it.
    pub fn contains(self, hash: u64) -> bool {
        (self.start..=self.last).contains(&hash)
    }

    /// Cuts it into `parts` pieces whose sizes differ by one hash at most, in order. Zero counts as one; a range of
    /// fewer hashes than parts is cut into single hashes.
    pub fn split(self, parts: u32) -> Vec<Self> {
        let size = self.end() - u128::from(self.start);
        let parts = u128::from(parts.max(1)).min(size);
        // Below 2⁶⁴ · 2³², so nothing overflows.
        let bound = |part: u128| u128::from(self.start) + size * part / parts;
        (0..parts)
            .filter_map(|part| Self::of_bounds(bound(part), bound(part + 1)))
            .collect()
    }

    /// `None` for an empty range, and for bounds that are none.
    fn of_bounds(start: u128, end: u128) -> Option<Self> {
        Self::between(u64::try_from(start).ok()?, end).ok()
    }
}

impl fmt::Display for ShardRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}-{:#018x}", self.start, self.end())
    }
}

impl FromStr for ShardRange {
    type Err = BadRange;

    fn from_str(text: &str) -> Result<Self, BadRange> {
        let number = |text: &str| {
            let digits = text.trim().strip_prefix("0x")?;
            // `from_str_radix` would take a sign, too.
            let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u128::from_str_radix(digits, 16).ok()?;
            (plain && number <= TOP).then_some(number)
        };
        let bounds = text.split_once('-').and_then(|(start, end)| {
            let start = u64::try_from(number(start)?).ok()?;
            Some((start, number(end)?))
        });
        let Some((start, end)) = bounds else {
            // What was given may be long and from anywhere.
            let text = text.chars().take(80).collect();
            return Err(BadRange::Text { text });
        };
        Self::between(start, end)
    }
}

/// Why something is no range of hashes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRange {
    /// Empty, backwards, or beyond the top.
    #[error(
        "{start:#018x}-{end:#018x} is not a range of hashes: the end must be above the start and at most 2^64"
    )]
    Bounds {
        /// The start.
        start: u64,
        /// The end.
        end: u128,
    },
    /// Not the text of a range.
    #[error("{text:?} is not a range of hashes: write `0x0000000000000000-0x8000000000000000`")]
    Text {
        /// The beginning of it.
        text: String,
    },
}

/// Sorts ranges and joins those that overlap or touch.
pub(super) fn merged(mut ranges: Vec<ShardRange>) -> Vec<ShardRange> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let joins = u128::from(next.start) <= before.end();
        if joins {
            before.last = before.last.max(next.last);
        }
        joins
    });
    ranges
}

/// What is in `left` and not in `right`; both sorted and merged, and so is the answer.
pub(super) fn difference(left: &[ShardRange], right: &[ShardRange]) -> Vec<ShardRange> {
    let mut rest = Vec::new();
    for range in left {
        let mut from = u128::from(range.start);
        // Those that end before the range begins cut nothing off, nor do those behind it.
        let first = right.partition_point(|cut| cut.end() <= from);
        for cut in right.get(first..).unwrap_or_default() {
            if u128::from(cut.start) >= range.end() {
                break;
            }
            rest.extend(ShardRange::of_bounds(from, u128::from(cut.start)));
            from = cut.end();
        }
        rest.extend(ShardRange::of_bounds(from, range.end()));
    }
    rest
}
