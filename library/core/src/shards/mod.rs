//! Shards of a Kubernetes collection: ranges of the hash of each object's UID or namespace, as API servers compute it.

mod range;
#[cfg(test)]
mod tests;

use std::fmt;

pub use range::{ParseRangeError, ShardRange};

/// Hashes a text as API servers do to assign objects to shards: 64-bit FNV-1a.
///
/// ```
/// assert_eq!(kube_informers_core::shards::shard_hash("foobar"), 0x8594_4171_f739_67e8);
/// ```
pub fn shard_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The field of an object that is hashed. Both are immutable, so an object never changes its shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ShardField {
    /// The UID. It distributes objects evenly.
    #[default]
    Uid,
    /// The namespace. It keeps all objects of a namespace, of every kind, in one shard. The distribution is as uneven
    /// as that of objects over namespaces, and worse where names are short and similar, because FNV-1a maps these to
    /// nearby hashes. Cluster-scoped objects hash as the empty string.
    Namespace,
}

impl ShardField {
    /// The hash of this field of an object, or `None` if the field is unknown.
    ///
    /// A missing or empty UID is unknown. A namespace of `None` is unknown; that of a cluster-scoped object is `Some("")`.
    pub fn hash(self, uid: Option<&str>, namespace: Option<&str>) -> Option<u64> {
        match self {
            Self::Uid => uid.filter(|uid| !uid.is_empty()),
            Self::Namespace => namespace,
        }
        .map(shard_hash)
    }

    /// The path of the field in a selector.
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

/// Whether an object belongs to a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Membership {
    /// It does.
    Inside,
    /// It does not.
    Outside,
    /// The field that decides is not known.
    Unknown,
}

/// The objects whose hash lies in one of a set of ranges. The set may be empty or cover everything.
///
/// Ranges are kept sorted and merged, so two shards that select the same objects by the same field are equal.
///
/// ```
/// use kube_informers_core::shards::{Shard, ShardField, ShardRange};
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
    /// Sorted, with a gap between any two.
    ranges: Vec<ShardRange>,
}

impl Shard {
    /// The objects whose hash lies in one of the ranges, which may overlap and be in any order.
    pub fn new(field: ShardField, ranges: impl IntoIterator<Item = ShardRange>) -> Self {
        Self {
            field,
            ranges: range::merged(ranges.into_iter().collect()),
        }
    }

    /// No objects: the shard of a replica that owns nothing yet.
    pub fn nothing(field: ShardField) -> Self {
        Self::new(field, [])
    }

    /// All objects.
    pub fn everything(field: ShardField) -> Self {
        Self::new(field, [ShardRange::ALL])
    }

    /// The field that is hashed.
    pub fn field(&self) -> ShardField {
        self.field
    }

    /// The ranges, sorted and disjoint, with gaps between them.
    pub fn ranges(&self) -> &[ShardRange] {
        &self.ranges
    }

    /// Whether it covers every hash.
    pub fn is_everything(&self) -> bool {
        self.ranges == [ShardRange::ALL]
    }

    /// Whether it covers no hash.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether it covers a hash.
    pub fn covers_hash(&self, hash: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.start() <= hash);
        let candidate = after.checked_sub(1).and_then(|at| self.ranges.get(at));
        candidate.is_some_and(|range| range.contains(hash))
    }

    /// Whether an object with this UID and namespace belongs to the shard. [`ShardField::hash`] says which values count
    /// as unknown.
    pub fn membership(&self, uid: Option<&str>, namespace: Option<&str>) -> Membership {
        if self.is_everything() {
            return Membership::Inside;
        }
        match self.field.hash(uid, namespace) {
            None => Membership::Unknown,
            Some(hash) if self.covers_hash(hash) => Membership::Inside,
            Some(_) => Membership::Outside,
        }
    }

    /// The objects that belong to either shard.
    ///
    /// # Errors
    ///
    /// The shards hash different fields, so no set of ranges describes their union.
    pub fn union(&self, other: &Self) -> Result<Self, ShardFieldError> {
        self.same_field(other)?;
        Ok(Self::new(
            self.field,
            self.ranges.iter().chain(&other.ranges).copied(),
        ))
    }

    /// The objects that belong to this shard and not to the other.
    ///
    /// # Errors
    ///
    /// The shards hash different fields.
    pub fn difference(&self, other: &Self) -> Result<Self, ShardFieldError> {
        self.same_field(other)?;
        Ok(Self {
            field: self.field,
            ranges: range::difference(&self.ranges, &other.ranges),
        })
    }

    /// The objects that belong to both shards.
    ///
    /// # Errors
    ///
    /// The shards hash different fields.
    pub fn intersection(&self, other: &Self) -> Result<Self, ShardFieldError> {
        let rest = self.difference(other)?;
        self.difference(&rest)
    }

    fn same_field(&self, other: &Self) -> Result<(), ShardFieldError> {
        if self.field == other.field {
            Ok(())
        } else {
            Err(ShardFieldError {
                left: self.field,
                right: other.field,
            })
        }
    }

    /// The value of the `shardSelector` query parameter. `None` if the shard is everything, which needs no selector, or
    /// nothing, which no selector can express.
    pub fn selector(&self) -> Option<String> {
        if self.is_everything() || self.is_empty() {
            return None;
        }
        let path = self.field.path();
        let ranges = self.ranges.iter().map(|range| {
            // 2⁶⁴, the end of the last range, has one digit more than the others. The server requires it in this form.
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

/// Two shards hash different fields and cannot be combined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot combine a shard by {left} with a shard by {right}: use the same field for both")]
pub struct ShardFieldError {
    left: ShardField,
    right: ShardField,
}
