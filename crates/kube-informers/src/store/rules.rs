//! What a delta means for one key, given what the cache holds: pure tables, without objects or events.
//!
//! Versions of one resource type compare as numbers across objects; where they do not, nothing is called older
//! and the last word counts.

use std::cmp::Ordering;

use super::plan::Age;
use crate::object::Object;
use crate::quarantine::BadObject;
use crate::version::ResourceVersion;

/// Who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    /// A watch: may repeat what was said before, so that older versions mean nothing.
    Watch,
    /// A list: this is how things are, even if versions went back (a restored server).
    List,
}

/// UID and version of one state of an object, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ident<'a> {
    pub(super) uid: Option<&'a str>,
    pub(super) version: Option<&'a str>,
}

impl<'a> Ident<'a> {
    pub(super) fn of<K: Object>(object: &'a K) -> Self {
        Self {
            uid: object.uid(),
            version: object.resource_version(),
        }
    }

    pub(super) fn of_bad(bad: &'a BadObject) -> Self {
        Self {
            uid: bad.uid.as_deref(),
            version: bad.resource_version.as_deref(),
        }
    }

    /// Whether these are surely two objects. A source without UIDs has one object per name.
    fn is_other(self, other: Self) -> bool {
        matches!((self.uid, other.uid), (Some(left), Some(right)) if left != right)
    }

    /// Whether this is surely the same state of the same object.
    fn is_same_state(self, other: Self) -> bool {
        !self.is_other(other) && self.version.is_some() && self.version == other.version
    }

    fn compare(self, other: Self) -> Option<Ordering> {
        ResourceVersion::compare(self.version?, other.version?)
    }

    /// Whether this is surely newer.
    fn is_newer(self, other: Option<Self>) -> bool {
        other.and_then(|other| self.compare(other)) == Some(Ordering::Greater)
    }

    /// Whether this is surely older, be it the same object or an earlier one of the same name.
    fn is_older(self, other: Option<Self>) -> bool {
        other.and_then(|other| self.compare(other)) == Some(Ordering::Less)
    }
}

/// What the cache knows of one key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known<'a> {
    /// The object it holds.
    pub(super) held: Option<Ident<'a>>,
    /// How `held` stands to what is.
    pub(super) age: Age,
    /// The version in quarantine.
    pub(super) bad: Option<Ident<'a>>,
    /// The highest version the watch, or the list before it, has told of any object.
    pub(super) told: Option<&'a str>,
}

impl Known<'_> {
    fn is_newer_than(&self, said: Ident<'_>) -> bool {
        said.is_older(self.bad) || self.age != Age::FromBefore && said.is_older(self.held)
    }

    /// Whether the held object is surely in this very state.
    fn holds(&self, said: Ident<'_>) -> bool {
        self.age != Age::FromBefore && self.held.is_some_and(|held| said.is_same_state(held))
    }

    /// Whether a watch told this before. Without a held object only the order of the watch can show that it
    /// was there and is gone.
    fn was_told(&self, said: Ident<'_>) -> bool {
        let told = Ident {
            uid: None,
            version: self.told,
        };
        self.is_newer_than(said) || self.held.is_none() && said.is_older(Some(told))
    }
}

/// What to do with a readable object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// Nothing: something newer is known.
    Stale,
    /// Nothing: the cache holds this very state.
    Same,
    /// Nothing changes but the doubt: the cache holds this very state and it is current after all.
    Confirmed,
    Add,
    Update,
    /// The held object is gone and another took its name.
    Swap,
}

pub(super) fn put(known: Known<'_>, said: Ident<'_>, truth: Truth) -> Put {
    if truth == Truth::Watch && known.was_told(said) {
        return Put::Stale;
    }
    match known.held {
        None => Put::Add,
        Some(held) if said.is_other(held) => Put::Swap,
        Some(_) if !known.holds(said) => Put::Update,
        Some(_) if known.age.is_stale() && truth == Truth::List => Put::Confirmed,
        Some(_) => Put::Same,
    }
}

/// What to do about an object that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Nothing: something newer is known.
    Stale,
    /// Nothing: this very state was read before, or is in quarantine already.
    Same,
    /// As [`Put::Confirmed`]: the held state is the one that cannot be read now.
    Confirmed,
    /// Put it into quarantine; what is held is of the same object and stays, marked stale.
    Quarantine(Age),
    /// Put it into quarantine; what is held is another object of this name, which is gone.
    QuarantineAndDrop,
}

pub(super) fn unreadable(known: Known<'_>, said: Ident<'_>, truth: Truth) -> Unreadable {
    if truth == Truth::Watch && known.was_told(said) {
        return Unreadable::Stale;
    }
    match known.held {
        Some(held) if said.is_other(held) => Unreadable::QuarantineAndDrop,
        Some(_) if known.holds(said) => match (known.age.is_stale(), truth) {
            (true, Truth::List) => Unreadable::Confirmed,
            _ => Unreadable::Same,
        },
        _ if known.bad.is_some_and(|bad| said.is_same_state(bad)) => Unreadable::Same,
        // A list that goes back: the server was restored.
        held if truth == Truth::List && said.is_older(held) => Unreadable::Quarantine(Age::FromBefore),
        _ if known.age == Age::FromBefore => Unreadable::Quarantine(Age::FromBefore),
        _ => Unreadable::Quarantine(Age::Outdated),
    }
}

/// What to do about a deletion a watch announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delete {
    /// Nothing: it is about an earlier state, or an earlier object of this name.
    Stale,
    /// There is no such object; a quarantine of the key ends.
    Absent,
    /// The held object is gone.
    Held,
    /// The held object must be gone too: a later object of its name, which nobody told of, was deleted.
    Missed,
}

/// A late deletion of an earlier object must not delete the one that took its name. Only a version that is
/// surely newer shows that the held object is gone; without comparable versions the UID decides, and a
/// deletion of another UID is not ours.
pub(super) fn delete(known: Known<'_>, said: Ident<'_>) -> Delete {
    if known.is_newer_than(said) {
        return Delete::Stale;
    }
    match known.held {
        None => Delete::Absent,
        Some(held) if !said.is_other(held) => Delete::Held,
        held if said.is_newer(held) => Delete::Missed,
        Some(_) => Delete::Stale,
    }
}

#[cfg(test)]
mod tests {
    use super::Truth::{List, Watch};
    use super::*;

    fn ident(text: &str) -> Ident<'_> {
        let (uid, version) = text.split_once('@').unwrap();
        Ident {
            uid: Some(uid).filter(|uid| !uid.is_empty()),
            version: Some(version).filter(|version| !version.is_empty()),
        }
    }

    fn held(text: &str) -> Known<'_> {
        Known {
            held: Some(ident(text)),
            ..Known::default()
        }
    }

    fn stale<'a>(text: &'a str, bad: &'a str) -> Known<'a> {
        Known {
            held: Some(ident(text)),
            age: Age::Outdated,
            bad: Some(ident(bad)),
            told: None,
        }
    }

    /// A restored server has a bad version where the cache has a later one from before.
    fn from_before<'a>(text: &'a str, bad: &'a str) -> Known<'a> {
        Known {
            age: Age::FromBefore,
            ..stale(text, bad)
        }
    }

    fn bad(text: &str) -> Known<'_> {
        Known {
            bad: Some(ident(text)),
            ..Known::default()
        }
    }

    fn told(version: &str) -> Known<'_> {
        Known {
            told: Some(version),
            ..Known::default()
        }
    }

    #[test]
    fn puts_follow_the_table() {
        for (known, said, truth, expected) in [
            (Known::default(), "a@5", Watch, Put::Add),
            (held("a@5"), "a@6", Watch, Put::Update),
            (held("a@5"), "a@5", Watch, Put::Same),
            (held("a@5"), "a@4", Watch, Put::Stale),
            (held("a@9"), "a@10", Watch, Put::Update),
            (held("a@5"), "b@6", Watch, Put::Swap),
            // An earlier object of the same name, told again.
            (held("a@5"), "b@4", Watch, Put::Stale),
            // Opaque versions: the last word counts.
            (held("a@x"), "a@w", Watch, Put::Update),
            (held("a@x"), "a@x", Watch, Put::Same),
            (held("@5"), "@6", Watch, Put::Update),
            (held("@"), "@", Watch, Put::Update),
            // A list may go back.
            (held("a@5"), "a@4", List, Put::Update),
            (held("a@5"), "a@5", List, Put::Same),
            (held("a@5"), "b@4", List, Put::Swap),
            (Known::default(), "a@5", List, Put::Add),
            // Beside a version in quarantine.
            (stale("a@5", "a@7"), "a@5", Watch, Put::Stale),
            (stale("a@5", "a@7"), "a@6", Watch, Put::Stale),
            (stale("a@5", "a@7"), "a@7", Watch, Put::Update),
            (stale("a@5", "a@7"), "a@8", Watch, Put::Update),
            (stale("a@5", "a@7"), "a@5", List, Put::Confirmed),
            (stale("a@x", "a@y"), "a@x", Watch, Put::Same),
            (stale("a@5", "a@"), "a@4", Watch, Put::Stale),
            (from_before("a@9", "a@3"), "a@4", Watch, Put::Update),
            (from_before("a@9", "a@3"), "a@2", Watch, Put::Stale),
            (from_before("a@9", "a@3"), "a@9", Watch, Put::Update),
            (from_before("a@9", "a@3"), "a@9", List, Put::Update),
            (bad("a@7"), "a@6", Watch, Put::Stale),
            (bad("a@7"), "a@8", Watch, Put::Add),
            // It was there and is gone, and its coming is told again.
            (told("9"), "a@8", Watch, Put::Stale),
            (told("9"), "a@9", Watch, Put::Add),
            (told("9"), "a@8", List, Put::Add),
            (told("x"), "a@8", Watch, Put::Add),
        ] {
            assert_eq!(
                put(known, ident(said), truth),
                expected,
                "{known:?} {said} {truth:?}"
            );
        }
    }

    #[test]
    fn unreadable_objects_follow_the_table() {
        use Unreadable::*;
        const OUTDATED: Unreadable = Quarantine(Age::Outdated);
        const FROM_BEFORE: Unreadable = Quarantine(Age::FromBefore);
        for (known, said, truth, expected) in [
            (Known::default(), "a@5", Watch, OUTDATED),
            (held("a@5"), "a@6", Watch, OUTDATED),
            (held("a@5"), "@", Watch, OUTDATED),
            (held("a@5"), "a@4", Watch, Stale),
            (held("a@5"), "a@5", Watch, Same),
            (held("a@5"), "b@6", Watch, QuarantineAndDrop),
            (held("a@5"), "b@4", Watch, Stale),
            (stale("a@5", "a@7"), "a@7", Watch, Same),
            (stale("a@5", "a@7"), "a@8", Watch, OUTDATED),
            (bad("a@7"), "a@7", Watch, Same),
            (told("9"), "a@8", Watch, Stale),
            (told("9"), "a@8", List, OUTDATED),
            (held("a@5"), "a@4", List, FROM_BEFORE),
            (held("a@5"), "a@5", List, Same),
            (stale("a@5", "a@7"), "a@5", List, Confirmed),
            (from_before("a@9", "a@3"), "a@9", List, FROM_BEFORE),
            (held("a@5"), "b@4", List, QuarantineAndDrop),
            (held("a@5"), "a@6", List, OUTDATED),
            (from_before("a@9", "a@3"), "a@4", Watch, FROM_BEFORE),
        ] {
            assert_eq!(
                unreadable(known, ident(said), truth),
                expected,
                "{known:?} {said} {truth:?}"
            );
        }
    }

    #[test]
    fn deletions_follow_the_table() {
        for (known, said, expected) in [
            (Known::default(), "a@5", Delete::Absent),
            (held("a@5"), "a@6", Delete::Held),
            // Old servers repeat the last version in the deletion.
            (held("a@5"), "a@5", Delete::Held),
            (held("a@5"), "@", Delete::Held),
            // It left a selector, came back, and the leaving is told again.
            (held("a@5"), "a@4", Delete::Stale),
            (held("a@5"), "b@4", Delete::Stale),
            (held("a@5"), "b@5", Delete::Stale),
            (held("a@5"), "b@9", Delete::Missed),
            (held("a@x"), "b@y", Delete::Stale),
            (stale("a@5", "a@7"), "a@6", Delete::Stale),
            (stale("a@5", "a@7"), "a@8", Delete::Held),
            (from_before("a@9", "a@3"), "a@4", Delete::Held),
            (bad("a@7"), "a@8", Delete::Absent),
            (bad("a@7"), "a@6", Delete::Stale),
        ] {
            assert_eq!(delete(known, ident(said)), expected, "{known:?} {said}");
        }
    }
}
