//! Which version a watch has reached. Pure.

use std::sync::Arc;

use crate::version::is_step_back;

/// The version of a member watch on its way through a batch.
///
/// It grows with each delta and bookmark and never goes back, except with a list, which is the truth. When a
/// queue changes the order across keys, no version is right until it says so with a bookmark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reached {
    version: Option<Arc<str>>,
    /// The highest version of a list or delta. A watch that tells something older tells it again. Bookmarks
    /// do not count: if a server sends them too high, what follows must not be lost.
    told: Option<Arc<str>>,
}

impl Reached {
    pub(super) fn version(&self) -> Option<&Arc<str>> {
        self.version.as_ref()
    }

    pub(super) fn told(&self) -> Option<&str> {
        self.told.as_deref()
    }

    /// A delta was dealt with; its version, if it has one.
    pub(super) fn reach(&mut self, version: Option<&str>) {
        let Some(version) = version else { return };
        if raise(&mut self.version, version) {
            self.told.clone_from(&self.version);
        } else {
            // Below a bookmark.
            raise(&mut self.told, version);
        }
    }

    /// Everything up to this version was dealt with. Says whether that can be.
    pub(super) fn bookmark(&mut self, version: &str) -> bool {
        raise(&mut self.version, version)
    }

    /// This is the version, whatever was said before.
    pub(super) fn reset(&mut self, version: Option<&str>) {
        self.version = version.map(Into::into);
        self.told = self.version.clone();
    }

    /// Something was dealt with out of order.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Sets a version unless that would be a step back.
fn raise(version: &mut Option<Arc<str>>, to: &str) -> bool {
    match version.as_deref() {
        Some(present) if present == to => true,
        Some(present) if is_step_back(present, to) => false,
        _ => {
            *version = Some(to.into());
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(version: &str) -> Reached {
        let mut reached = Reached::default();
        reached.reset(Some(version));
        reached
    }

    #[test]
    fn versions_of_a_watch_never_go_back() {
        let mut reached = Reached::default();

        reached.reach(Some("9"));
        reached.reach(Some("10"));
        reached.reach(Some("7"));
        reached.reach(None);
        assert!(!reached.bookmark("8"));
        assert!(reached.bookmark("10"));

        assert_eq!(reached, at("10"));
    }

    #[test]
    fn a_list_may_go_back() {
        let mut reached = at("1200");

        reached.reset(Some("1000"));
        reached.reach(Some("1001"));

        assert_eq!(reached, at("1001"));
    }

    #[test]
    fn versions_that_do_not_compare_follow_the_last_word() {
        let mut reached = at("b");

        reached.reach(Some("a"));

        assert_eq!(reached, at("a"));
    }

    #[test]
    fn a_bookmark_says_nothing_about_repetitions() {
        let mut reached = at("5");

        reached.bookmark("50");

        assert_eq!(reached.version().map(|version| &**version), Some("50"));
        assert_eq!(reached.told(), Some("5"));
    }
}
