//! `Shard`: the part of a collection whose uid or namespace hashes into some ranges.
//!
//! Takes ranges, gives a test on an object and the text a server understands. Knows nothing of who owns which part.

mod range;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::object::Object;

pub use range::{BadRange, ShardRange};

/// The hash by which objects are spread over shards: 64-bit FNV-1a of the text, as API servers compute it.
///
/// ```
/// assert_eq!(kube_informers::shard::shard_hash("foobar"), 0x8594_4171_f739_67e8);
/// ```
pub fn shard_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What of an object is hashed. Neither changes in the life of an object, so an object never changes its shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ShardField {
    /// Its UID: spreads evenly.
    #[default]
    Uid,
    /// Its namespace: keeps the objects of a namespace, also of different kinds, in one shard. Spreads as unevenly as
    /// objects are spread over namespaces, and more so where names are short and alike, which this hash puts close
    /// together. Cluster-scoped objects hash as the empty text.
    Namespace,
}

impl ShardField {
    /// What is hashed, of an object that says these two about itself.
    pub(crate) fn hash(self, uid: Option<&str>, namespace: Option<&str>) -> u64 {
        shard_hash(match self {
            Self::Uid => uid.unwrap_or_default(),
            Self::Namespace => namespace.unwrap_or_default(),
        })
    }

    /// The hash of an object.
    pub fn hash_of<K: Object>(self, object: &K) -> u64 {
        self.hash(object.uid(), object.namespace())
    }

    /// How the API calls it.
    fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

impl fmt::Display for ShardField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uid => "uid",
            Self::Namespace => "namespace",
        })
    }
}

/// The objects whose hash lies in one of some ranges; possibly none, possibly all.
///
/// Ranges are kept sorted and merged, so two shards that select the same by the same field are equal.
///
/// ```
/// use kube_informers::shard::{ShardField, ShardRange};
/// use kube_informers::Shard;
///
/// let quarters = ShardRange::ALL.split(4);
/// let low = Shard::new(ShardField::Uid, quarters[..2].to_vec());
/// assert_eq!(low.to_string(), "uid in 0x0000000000000000-0x8000000000000000");
/// assert!(low.covers_hash(0x7fff_ffff_ffff_ffff));
/// assert!(!low.covers_hash(0x8000_0000_0000_0000));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[doc(alias = "shardSelector")]
pub struct Shard {
    field: ShardField,
    /// Sorted; no two of them touch.
    ranges: Vec<ShardRange>,
}

impl Shard {
    /// The objects whose hash lies in one of the ranges, which may come in any order and overlap.
    pub fn new(field: ShardField, ranges: impl IntoIterator<Item = ShardRange>) -> Self {
        Self {
            field,
            ranges: range::merged(ranges.into_iter().collect()),
        }
    }

    /// No object at all: what a replica has before it was given something.
    pub fn nothing(field: ShardField) -> Self {
        Self::new(field, [])
    }

    /// Every object.
    pub fn everything(field: ShardField) -> Self {
        Self::new(field, [ShardRange::ALL])
    }

    /// What is hashed.
    pub fn field(&self) -> ShardField {
        self.field
    }

    /// The ranges, sorted, with gaps between them.
    pub fn ranges(&self) -> &[ShardRange] {
        &self.ranges
    }

    /// Whether it leaves nothing out.
    pub fn is_everything(&self) -> bool {
        self.ranges == [ShardRange::ALL]
    }

    /// Whether there can be no object in it.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether objects with this hash belong to it.
    pub fn covers_hash(&self, hash: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.start() <= hash);
        let candidate = after.checked_sub(1).and_then(|at| self.ranges.get(at));
        candidate.is_some_and(|range| range.contains(hash))
    }

    /// Whether an object belongs to it.
    pub fn contains<K: Object>(&self, object: &K) -> bool {
        self.covers(object.uid(), object.namespace())
    }

    /// The same for an object that says these two about itself.
    pub(crate) fn covers(&self, uid: Option<&str>, namespace: Option<&str>) -> bool {
        self.is_everything() || self.covers_hash(self.field.hash(uid, namespace))
    }

    /// What belongs to either.
    ///
    /// # Errors
    ///
    /// The two hash different fields: no ranges of one field say what both together are.
    pub fn union(&self, other: &Self) -> Result<Self, FieldsDiffer> {
        self.same_field(other)?;
        Ok(Self::new(
            self.field,
            self.ranges.iter().chain(&other.ranges).copied(),
        ))
    }

    /// What belongs to this one and not to the other.
    ///
    /// # Errors
    ///
    /// The two hash different fields.
    pub fn difference(&self, other: &Self) -> Result<Self, FieldsDiffer> {
        self.same_field(other)?;
        Ok(Self {
            field: self.field,
            ranges: range::difference(&self.ranges, &other.ranges),
        })
    }

    /// What belongs to both.
    ///
    /// # Errors
    ///
    /// The two hash different fields.
    pub fn intersection(&self, other: &Self) -> Result<Self, FieldsDiffer> {
        let rest = self.difference(other)?;
        self.difference(&rest)
    }

    fn same_field(&self, other: &Self) -> Result<(), FieldsDiffer> {
        if self.field == other.field {
            Ok(())
        } else {
            Err(FieldsDiffer {
                one: self.field,
                other: other.field,
            })
        }
    }

    /// The value of the query parameter `shardSelector`. `None` where there is nothing to ask for so: everything needs
    /// no selector, and nothing cannot be written as one.
    pub fn selector(&self) -> Option<String> {
        if self.is_everything() || self.is_empty() {
            return None;
        }
        let path = self.field.path();
        let ranges = self.ranges.iter().map(|range| {
            // The end of the last range, 2⁶⁴, takes a digit more than the others, and the server wants it so.
            format!(
                "shardRange({path}, '{:#018x}', '{:#018x}')",
                range.start(),
                range.end()
            )
        });
        Some(ranges.collect::<Vec<_>>().join(" || "))
    }
}

/// `uid in 0x0000000000000000-0x8000000000000000`, `every uid`, `no uid`.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_everything() {
            return write!(f, "every {}", self.field);
        }
        if self.is_empty() {
            return write!(f, "no {}", self.field);
        }
        write!(f, "{} in ", self.field)?;
        for (position, range) in self.ranges.iter().enumerate() {
            let comma = if position > 0 { ", " } else { "" };
            write!(f, "{comma}{range}")?;
        }
        Ok(())
    }
}

/// Shards over different fields cannot be joined or taken apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one shard is over the {one} and the other over the {other}: use the same field for both")]
pub struct FieldsDiffer {
    one: ShardField,
    other: ShardField,
}
