//! A plan: what is to become of the keys one step touches, worked out beside the table.
//!
//! It is made while readers go on reading, and carried out in one go. Several changes of one key end up as one.

use std::sync::Arc;

use hashbrown::HashTable;

use super::reached::Reached;
use super::table::Table;
use crate::quarantine::BadObject;

pub(super) struct Plan<V, Q> {
    pub(super) touched: Vec<Touched<V, Q>>,
    /// Numbers in `touched` by the hash of their key.
    by_key: HashTable<usize>,
    /// Which member watch reaches which version with this step.
    pub(super) reached: Option<(usize, Reached)>,
}

/// What one key is to become.
pub(super) struct Touched<V, Q> {
    pub(super) hash: u64,
    pub(super) key: Q,
    /// Where it is in the table; `None` if it is new.
    pub(super) slot: Option<u32>,
    /// The object to hold; `None` for none.
    pub(super) held: Option<Held<V>>,
    /// Why it is to be in quarantine; `None` if it is not.
    pub(super) bad: Option<Bad>,
}

pub(super) struct Held<V> {
    pub(super) object: Arc<V>,
    pub(super) member: u32,
    pub(super) age: Age,
    /// The row of its index values; `None` if object and values are those of the table.
    pub(super) row: Option<usize>,
}

/// How a held object stands to the present state of that object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Age {
    /// It is the present state.
    #[default]
    Current,
    /// A newer state exists that could not be read.
    Outdated,
    /// Likewise, and the server was restored since: its version says nothing any more, because the numbers
    /// are given out again.
    FromBefore,
}

impl Age {
    pub(super) fn is_stale(self) -> bool {
        self != Self::Current
    }
}

/// Why a key is in quarantine, and on whose account.
#[derive(Clone)]
pub(super) struct Bad {
    /// Boxed, because hardly any key has one and every touched key has room for it.
    pub(super) object: Box<BadObject>,
    pub(super) member: u32,
}

/// A key as it stands: what the plan says, or else the table.
pub(super) struct View<'a, V> {
    pub(super) held: Option<HeldView<'a, V>>,
    pub(super) bad: Option<&'a Bad>,
}

pub(super) struct HeldView<'a, V> {
    pub(super) object: &'a Arc<V>,
    pub(super) member: u32,
    pub(super) age: Age,
}

impl<V, Q> Plan<V, Q> {
    pub(super) fn new() -> Self {
        Self {
            touched: Vec::new(),
            by_key: HashTable::new(),
            reached: None,
        }
    }

    /// How many keys are touched.
    pub(super) fn len(&self) -> usize {
        self.touched.len()
    }

    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.touched.is_empty() && self.reached.is_none()
    }

    fn find(&self, hash: u64, is: impl Fn(&Q) -> bool) -> Option<usize> {
        let is = |number: &usize| is(&self.touched[*number].key);
        self.by_key.find(hash, is).copied()
    }

    /// How a key stands now.
    pub(super) fn view<'a>(
        &'a self,
        table: &'a Table<V, Q>,
        hash: u64,
        is: impl Fn(&Q) -> bool + Copy,
    ) -> View<'a, V> {
        if let Some(number) = self.find(hash, is) {
            let touched = &self.touched[number];
            return View {
                held: touched.held.as_ref().map(|held| HeldView {
                    object: &held.object,
                    member: held.member,
                    age: held.age,
                }),
                bad: touched.bad.as_ref(),
            };
        }
        View {
            held: (table.find(hash, is)).and_then(|slot| {
                let entry = table.entry(slot)?;
                Some(HeldView {
                    object: table.slots().get(slot)?,
                    member: entry.member,
                    age: entry.age,
                })
            }),
            bad: table.bad(hash, is),
        }
    }

    /// The plan for a key, to be changed; as it stands now until then.
    pub(super) fn touch(
        &mut self,
        table: &Table<V, Q>,
        hash: u64,
        is: impl Fn(&Q) -> bool + Copy,
        key: impl FnOnce() -> Q,
    ) -> &mut Touched<V, Q>
    where
        Q: Clone,
    {
        let number = match self.find(hash, is) {
            Some(number) => number,
            None => {
                let slot = table.find(hash, is);
                let bad = table.bad(hash, is).cloned();
                self.load(table, hash, slot, bad, key)
            }
        };
        &mut self.touched[number]
    }

    fn load(
        &mut self,
        table: &Table<V, Q>,
        hash: u64,
        slot: Option<u32>,
        bad: Option<Bad>,
        key: impl FnOnce() -> Q,
    ) -> usize
    where
        Q: Clone,
    {
        let entry = slot.and_then(|slot| Some((table.entry(slot)?, table.slots().get(slot)?)));
        let number = self.touched.len();
        self.touched.push(Touched {
            hash,
            key: entry.map_or_else(key, |(entry, _)| entry.key.clone()),
            slot,
            held: entry.map(|(entry, object)| Held {
                object: object.clone(),
                member: entry.member,
                age: entry.age,
                row: None,
            }),
            bad,
        });
        let touched = &self.touched;
        self.by_key
            .insert_unique(hash, number, |number| touched[*number].hash);
        number
    }
}
