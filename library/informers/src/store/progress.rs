//! `WatchProgress`: the version that the deltas of one watch have progress.

use std::sync::Arc;

use crate::version::is_step_back;

/// How far a watch has come.
///
/// The version grows with each delta and bookmark and never decreases, except with a list, which is authoritative. While a
/// queue that reorders keys is not empty, no version is exact; a bookmark says when it is again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchProgress {
    version: Option<Arc<str>>,
    /// The highest version of a list or delta. An older event is a repetition. Bookmarks do not count: if a server sends
    /// one that is too high, the events after it must not be lost.
    seen: Option<Arc<str>>,
}

impl WatchProgress {
    pub(super) fn version(&self) -> Option<&Arc<str>> {
        self.version.as_ref()
    }

    pub(super) fn seen(&self) -> Option<&str> {
        self.seen.as_deref()
    }

    /// A delta was processed; its version, if it has one.
    pub(super) fn advance(&mut self, version: Option<&str>) {
        let Some(version) = version else { return };
        if raise(&mut self.version, version) {
            self.seen.clone_from(&self.version);
        } else {
            // Older than a bookmark.
            raise(&mut self.seen, version);
        }
    }

    /// Everything up to this version was processed. Returns `false` for a version that is too old.
    pub(super) fn bookmark(&mut self, version: &str) -> bool {
        raise(&mut self.version, version)
    }

    /// Sets the version regardless of earlier ones.
    pub(super) fn reset(&mut self, version: Option<&str>) {
        self.version = version.map(Into::into);
        self.seen = self.version.clone();
    }
}

/// Sets a version unless it would decrease.
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

    fn at(version: &str) -> WatchProgress {
        let mut progress = WatchProgress::default();
        progress.reset(Some(version));
        progress
    }

    #[test]
    fn versions_of_a_watch_never_decrease() {
        let mut progress = WatchProgress::default();

        progress.advance(Some("9"));
        progress.advance(Some("10"));
        progress.advance(Some("7"));
        progress.advance(None);
        assert!(!progress.bookmark("8"));
        assert!(progress.bookmark("10"));

        assert_eq!(progress, at("10"));
    }

    #[test]
    fn a_list_may_decrease_the_version() {
        let mut progress = at("1200");

        progress.reset(Some("1000"));
        progress.advance(Some("1001"));

        assert_eq!(progress, at("1001"));
    }

    #[test]
    fn the_latest_of_incomparable_versions_wins() {
        let mut progress = at("b");

        progress.advance(Some("a"));

        assert_eq!(progress, at("a"));
    }

    #[test]
    fn a_repeated_version_is_not_copied_again() {
        let mut progress = at("10");
        let before = progress.version().cloned().unwrap();

        assert!(progress.bookmark("10"));
        progress.advance(Some("10"));

        assert!(
            progress
                .version()
                .is_some_and(|version| Arc::ptr_eq(version, &before))
        );
    }

    #[test]
    fn a_bookmark_does_not_mark_later_events_as_repeated() {
        let mut progress = at("5");

        progress.bookmark("50");

        assert_eq!(progress.version().map(|version| &**version), Some("50"));
        assert_eq!(progress.seen(), Some("5"));
    }
}
