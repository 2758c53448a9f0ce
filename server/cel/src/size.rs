//! The sizes of values that an estimate knows: of literals, and of the parts of a schema.

use std::collections::BTreeMap;

/// The sizes of the values of a schema: how many elements, entries or bytes they have at most.
#[doc(alias = "DeclType")]
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// 0 for numbers, booleans and objects.
    pub most: u64,
    /// Of the elements of a list, or the values of a map.
    pub element: Option<Box<Bounds>>,
    /// Of the keys of a map.
    pub key: Option<Box<Bounds>>,
    /// Of the fields of an object, by the names that expressions use.
    pub fields: BTreeMap<String, Bounds>,
}

impl Bounds {
    /// The bounds of what a path leads to: fields, and `@items`, `@values` or `@keys`.
    pub(super) fn at(&self, path: &[String]) -> Option<&Bounds> {
        path.iter().try_fold(self, |bounds, step| match step.as_str() {
            "@items" | "@values" => bounds.element.as_deref(),
            "@keys" => bounds.key.as_deref(),
            field => bounds.fields.get(field),
        })
    }
}

/// The least and the largest size of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Size {
    pub(super) const UNKNOWN: Size = Size {
        least: 0,
        most: u64::MAX,
    };
    /// Contains no size: the start of a union.
    pub(super) const NONE: Size = Size {
        least: u64::MAX,
        most: 0,
    };

    pub(super) fn exactly(size: u64) -> Size {
        Size {
            least: size,
            most: size,
        }
    }

    pub(super) fn up_to(most: u64) -> Size {
        Size { least: 0, most }
    }

    pub(super) fn plus(self, other: Size) -> Size {
        Size {
            least: self.least.saturating_add(other.least),
            most: self.most.saturating_add(other.most),
        }
    }

    pub(super) fn times(self, other: Size) -> Size {
        Size {
            least: self.least.saturating_mul(other.least),
            most: self.most.saturating_mul(other.most),
        }
    }

    pub(super) fn union(self, other: Size) -> Size {
        Size {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
        }
    }
}

/// The sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntrySize {
    pub(super) is_list: bool,
    pub(super) key: Size,
    pub(super) value: Size,
}

impl EntrySize {
    pub(super) fn union(self, other: EntrySize) -> EntrySize {
        EntrySize {
            is_list: self.is_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

/// A number of units at a cost per unit, rounded up.
pub(super) fn scaled(units: u64, cost: f64) -> u64 {
    // The conversion to an integer saturates.
    (units as f64 * cost).ceil() as u64
}
