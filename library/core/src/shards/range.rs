//! `ShardRange`: a half-open range of 64-bit hashes, and the arithmetic of sorted lists of them.

use std::fmt;
use std::str::FromStr;

/// One past the largest hash.
const TOP: u128 = 1 << 64;

/// A half-open range of hashes. Never empty.
///
/// Displays and parses as `0x0000000000000000-0x8000000000000000`. The end of [`ALL`](Self::ALL) is
/// `0x10000000000000000`, which is 2⁶⁴.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardRange {
    start: u64,
    /// The last hash in the range. Unlike the end, it always fits 64 bits.
    last: u64,
}

impl ShardRange {
    /// All hashes.
    pub const ALL: Self = Self {
        start: 0,
        last: u64::MAX,
    };

    /// All hashes; the same as [`ALL`](Self::ALL).
    pub fn full() -> Self {
        Self::ALL
    }

    /// The hashes from `start` up to and excluding `end`, which is at most 2⁶⁴.
    ///
    /// # Errors
    ///
    /// The end is not above the start, or is above 2⁶⁴.
    pub fn between(start: u64, end: u128) -> Result<Self, ParseRangeError> {
        let last = end.checked_sub(1).and_then(|last| u64::try_from(last).ok());
        match last {
            Some(last) if last >= start => Ok(Self { start, last }),
            _ => Err(ParseRangeError::Bounds { start, end }),
        }
    }

    /// The first hash in the range.
    pub fn start(self) -> u64 {
        self.start
    }

    /// The first hash after the range; 2⁶⁴ if the range includes the largest hash.
    pub fn end(self) -> u128 {
        u128::from(self.last) + 1
    }

    /// Whether a hash lies in the range.
    pub fn contains(self, hash: u64) -> bool {
        (self.start..=self.last).contains(&hash)
    }

    /// Splits the range into `parts` consecutive ranges whose sizes differ by at most one. Zero parts count as one. A
    /// range with fewer hashes than `parts` is split into single hashes.
    pub fn split(self, parts: u32) -> Vec<Self> {
        let size = self.end() - u128::from(self.start);
        let parts = u128::from(parts.max(1)).min(size);
        // At most 2⁶⁴ · 2³², so this cannot overflow.
        let bound = |part: u128| u128::from(self.start) + size * part / parts;
        (0..parts)
            .filter_map(|part| Self::of_bounds(bound(part), bound(part + 1)))
            .collect()
    }

    /// `None` if the bounds are not those of a non-empty range.
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
    type Err = ParseRangeError;

    fn from_str(text: &str) -> Result<Self, ParseRangeError> {
        let number = |text: &str| {
            let digits = text.trim().strip_prefix("0x")?;
            // `from_str_radix` also accepts a sign.
            let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u128::from_str_radix(digits, 16).ok()?;
            (plain && number <= TOP).then_some(number)
        };
        let bounds = text.split_once('-').and_then(|(start, end)| {
            let start = u64::try_from(number(start)?).ok()?;
            Some((start, number(end)?))
        });
        let Some((start, end)) = bounds else {
            // The input is untrusted and may be long.
            let text = text.chars().take(80).collect();
            return Err(ParseRangeError::Text { text });
        };
        Self::between(start, end)
    }
}

/// The bounds or the text do not describe a range of hashes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseRangeError {
    /// The end is not above the start, or is above 2⁶⁴.
    #[error(
        "{start:#018x}-{end:#018x} is not a range of hashes: the end must be above the start and at most 2^64"
    )]
    Bounds {
        /// The start.
        start: u64,
        /// The end.
        end: u128,
    },
    /// The text is malformed.
    #[error("{text:?} is not a range of hashes: expected `0x0000000000000000-0x8000000000000000`")]
    Text {
        /// The first 80 characters of the text.
        text: String,
    },
}

/// Sorts ranges and merges those that overlap or are adjacent.
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

/// The hashes in `left` that are not in `right`. Both are sorted and merged, and so is the result.
pub(super) fn difference(left: &[ShardRange], right: &[ShardRange]) -> Vec<ShardRange> {
    let mut rest = Vec::new();
    for range in left {
        let mut from = u128::from(range.start);
        // Ranges that end before this one begins, or begin after it ends, do not matter.
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
