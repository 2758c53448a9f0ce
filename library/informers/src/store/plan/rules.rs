//! What a delta means for one key, given what the cache holds. Pure functions, without objects or events.
//!
//! Versions of one resource type compare as numbers across objects. Versions that are not numbers are never considered
//! older, and the latest delta wins.

use std::cmp::Ordering;

use super::Age;
use crate::object::Object;
use crate::quarantine::BadObject;
use crate::version::ResourceVersion;

/// Where a delta comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeltaSource {
    /// A watch. It may repeat earlier events, so older versions are ignored.
    Watch,
    /// A list. It is authoritative even if versions decrease, as after a server was restored from a backup.
    List,
}

/// UID and version of one state of an object, where known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ident<'a> {
    pub(super) uid: Option<&'a str>,
    pub(super) version: Option<&'a str>,
}

impl<'a> Ident<'a> {
    pub(super) fn of<K: Object>(object: &'a K) -> Self {
        Self {
            uid: object.object_uid(),
            version: object.object_version(),
        }
    }

    pub(super) fn of_bad(bad: &'a BadObject) -> Self {
        Self {
            uid: bad.uid.as_deref(),
            version: bad.resource_version.as_deref(),
        }
    }

    /// Whether these are known to be different objects. A source without UIDs has one object per name.
    fn is_other(self, other: Self) -> bool {
        matches!((self.uid, other.uid), (Some(left), Some(right)) if left != right)
    }

    /// Whether this is known to be the same state of the same object.
    fn is_same_state(self, other: Self) -> bool {
        !self.is_other(other) && self.version.is_some() && self.version == other.version
    }

    fn compare(self, other: Self) -> Option<Ordering> {
        ResourceVersion::compare(self.version?, other.version?)
    }

    /// Whether this is known to be newer.
    fn is_newer(self, other: Option<Self>) -> bool {
        other.and_then(|other| self.compare(other)) == Some(Ordering::Greater)
    }

    /// Whether this is known to be older, whether it is the same object or an earlier one of the same name.
    fn is_older(self, other: Option<Self>) -> bool {
        other.and_then(|other| self.compare(other)) == Some(Ordering::Less)
    }
}

/// What the cache knows about one key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known<'a> {
    /// The held object.
    pub(super) held: Option<Ident<'a>>,
    /// How `held` relates to the current state.
    pub(super) age: Age,
    /// The version in quarantine.
    pub(super) bad: Option<Ident<'a>>,
    /// The highest version of any object in the watch or in the list before it.
    pub(super) seen: Option<&'a str>,
}

impl Known<'_> {
    fn is_newer_than(&self, state: Ident<'_>) -> bool {
        state.is_older(self.bad) || self.age != Age::BeforeRestore && state.is_older(self.held)
    }

    /// Whether the held object is known to be in this state.
    fn holds(&self, state: Ident<'_>) -> bool {
        self.age != Age::BeforeRestore && self.held.is_some_and(|held| state.is_same_state(held))
    }

    /// Whether the watch repeats an earlier event. If no object is held, only the order of the watch shows that the
    /// object existed and was deleted.
    fn is_repeated(&self, state: Ident<'_>) -> bool {
        let seen = Ident {
            uid: None,
            version: self.seen,
        };
        let is_gone = self.held.is_none();
        self.is_newer_than(state) || is_gone && state.is_older(Some(seen))
    }
}

/// What to do with a readable object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// Ignore it: a newer state is known.
    Stale,
    /// Ignore it: the cache holds this state.
    Same,
    /// The cache holds this state and marked it stale, but it is current.
    Confirmed,
    Add,
    Update,
    /// The held object was deleted and another has its name.
    Swap,
}

pub(super) fn put(known: Known<'_>, state: Ident<'_>, source: DeltaSource) -> Put {
    if source == DeltaSource::Watch && known.is_repeated(state) {
        return Put::Stale;
    }
    match known.held {
        None => Put::Add,
        Some(held) if state.is_other(held) => Put::Swap,
        Some(_) if !known.holds(state) => Put::Update,
        Some(_) if known.age.is_stale() && source == DeltaSource::List => Put::Confirmed,
        Some(_) => Put::Same,
    }
}

/// What to do with an object that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Ignore it: a newer state is known.
    Stale,
    /// Ignore it: this state is held or is already in quarantine.
    Same,
    /// As [`Put::Confirmed`]: the held state is the one that cannot be read now.
    Confirmed,
    /// Quarantine it. The held state of the same object stays, marked stale.
    Quarantine(Age),
    /// Quarantine it. The held object had the same name and was deleted.
    QuarantineAndDrop,
}

pub(super) fn unreadable(known: Known<'_>, state: Ident<'_>, source: DeltaSource) -> Unreadable {
    if source == DeltaSource::Watch && known.is_repeated(state) {
        return Unreadable::Stale;
    }
    match known.held {
        Some(held) if state.is_other(held) => Unreadable::QuarantineAndDrop,
        Some(_) if known.holds(state) => match (known.age.is_stale(), source) {
            (true, DeltaSource::List) => Unreadable::Confirmed,
            _ => Unreadable::Same,
        },
        _ if known.bad.is_some_and(|bad| state.is_same_state(bad)) => Unreadable::Same,
        // Versions decreased in a list: the server was restored.
        held if source == DeltaSource::List && state.is_older(held) => {
            Unreadable::Quarantine(Age::BeforeRestore)
        }
        _ if known.age == Age::BeforeRestore => Unreadable::Quarantine(Age::BeforeRestore),
        _ => Unreadable::Quarantine(Age::Outdated),
    }
}

/// What to do with a deletion in a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delete {
    /// Ignore it: it is about an earlier state, or an earlier object of this name.
    Stale,
    /// No object is held. The key leaves quarantine.
    Absent,
    /// The held object was deleted.
    Held,
    /// The held object was deleted too: the deletion is of a later object of its name, whose creation was missed.
    Missed,
}

/// A late deletion of an earlier object must not delete its successor of the same name. Only a newer version shows that
/// the held object was deleted. If versions do not compare, the UID decides: a deletion of another UID is ignored.
pub(super) fn delete(known: Known<'_>, state: Ident<'_>) -> Delete {
    if known.is_newer_than(state) {
        return Delete::Stale;
    }
    match known.held {
        None => Delete::Absent,
        Some(held) if !state.is_other(held) => Delete::Held,
        held if state.is_newer(held) => Delete::Missed,
        Some(_) => Delete::Stale,
    }
}

#[cfg(test)]
mod tests {
    use super::DeltaSource::{List, Watch};
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
            seen: None,
        }
    }

    /// A server was restored; it has an unreadable version, and the cache has a later one from before the restore.
    fn before_restore<'a>(text: &'a str, bad: &'a str) -> Known<'a> {
        Known {
            age: Age::BeforeRestore,
            ..stale(text, bad)
        }
    }

    fn bad(text: &str) -> Known<'_> {
        Known {
            bad: Some(ident(text)),
            ..Known::default()
        }
    }

    fn seen(version: &str) -> Known<'_> {
        Known {
            seen: Some(version),
            ..Known::default()
        }
    }

    #[test]
    fn decisions_about_readable_objects() {
        for (known, state, source, expected) in [
            (Known::default(), "a@5", Watch, Put::Add),
            (held("a@5"), "a@6", Watch, Put::Update),
            (held("a@5"), "a@5", Watch, Put::Same),
            (held("a@5"), "a@4", Watch, Put::Stale),
            (held("a@9"), "a@10", Watch, Put::Update),
            (held("a@5"), "b@6", Watch, Put::Swap),
            // A repeated event about an earlier object of the same name.
            (held("a@5"), "b@4", Watch, Put::Stale),
            // Opaque versions: the latest delta wins.
            (held("a@x"), "a@w", Watch, Put::Update),
            (held("a@x"), "a@x", Watch, Put::Same),
            (held("@5"), "@6", Watch, Put::Update),
            (held("@"), "@", Watch, Put::Update),
            // Versions may decrease in a list.
            (held("a@5"), "a@4", List, Put::Update),
            (held("a@5"), "a@5", List, Put::Same),
            (held("a@5"), "b@4", List, Put::Swap),
            (Known::default(), "a@5", List, Put::Add),
            // With another version in quarantine.
            (stale("a@5", "a@7"), "a@5", Watch, Put::Stale),
            (stale("a@5", "a@7"), "a@6", Watch, Put::Stale),
            (stale("a@5", "a@7"), "a@7", Watch, Put::Update),
            (stale("a@5", "a@7"), "a@8", Watch, Put::Update),
            (stale("a@5", "a@7"), "a@5", List, Put::Confirmed),
            (stale("a@x", "a@y"), "a@x", Watch, Put::Same),
            (stale("a@5", "a@"), "a@4", Watch, Put::Stale),
            (before_restore("a@9", "a@3"), "a@4", Watch, Put::Update),
            (before_restore("a@9", "a@3"), "a@2", Watch, Put::Stale),
            (before_restore("a@9", "a@3"), "a@9", Watch, Put::Update),
            (before_restore("a@9", "a@3"), "a@9", List, Put::Update),
            (bad("a@7"), "a@6", Watch, Put::Stale),
            (bad("a@7"), "a@8", Watch, Put::Add),
            // A repeated creation of a deleted object.
            (seen("9"), "a@8", Watch, Put::Stale),
            (seen("9"), "a@9", Watch, Put::Add),
            (seen("9"), "a@8", List, Put::Add),
            (seen("x"), "a@8", Watch, Put::Add),
        ] {
            assert_eq!(
                put(known, ident(state), source),
                expected,
                "{known:?} {state} {source:?}"
            );
        }
    }

    #[test]
    fn decisions_about_unreadable_objects() {
        use Unreadable::*;
        const OUTDATED: Unreadable = Quarantine(Age::Outdated);
        const BEFORE_RESTORE: Unreadable = Quarantine(Age::BeforeRestore);
        for (known, state, source, expected) in [
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
            (seen("9"), "a@8", Watch, Stale),
            (seen("9"), "a@8", List, OUTDATED),
            (held("a@5"), "a@4", List, BEFORE_RESTORE),
            (held("a@5"), "a@5", List, Same),
            (stale("a@5", "a@7"), "a@5", List, Confirmed),
            (before_restore("a@9", "a@3"), "a@9", List, BEFORE_RESTORE),
            (held("a@5"), "b@4", List, QuarantineAndDrop),
            (held("a@5"), "a@6", List, OUTDATED),
            (before_restore("a@9", "a@3"), "a@4", Watch, BEFORE_RESTORE),
        ] {
            assert_eq!(
                unreadable(known, ident(state), source),
                expected,
                "{known:?} {state} {source:?}"
            );
        }
    }

    #[test]
    fn decisions_about_deletions() {
        for (known, state, expected) in [
            (Known::default(), "a@5", Delete::Absent),
            (held("a@5"), "a@6", Delete::Held),
            // Old servers send the last version in the deletion.
            (held("a@5"), "a@5", Delete::Held),
            (held("a@5"), "@", Delete::Held),
            // It left the selector, returned, and the first event is repeated.
            (held("a@5"), "a@4", Delete::Stale),
            (held("a@5"), "b@4", Delete::Stale),
            (held("a@5"), "b@5", Delete::Stale),
            (held("a@5"), "b@9", Delete::Missed),
            (held("a@x"), "b@y", Delete::Stale),
            (stale("a@5", "a@7"), "a@6", Delete::Stale),
            (stale("a@5", "a@7"), "a@8", Delete::Held),
            (before_restore("a@9", "a@3"), "a@4", Delete::Held),
            (bad("a@7"), "a@8", Delete::Absent),
            (bad("a@7"), "a@6", Delete::Stale),
        ] {
            assert_eq!(delete(known, ident(state)), expected, "{known:?} {state}");
        }
    }
}
