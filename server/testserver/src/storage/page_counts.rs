//! The numbers of objects after the pages of lists.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// The number of objects after recent pages, by collection, scope and token.
///
/// Counting them for each page would make a paged list quadratic.
#[derive(Debug, Default)]
pub(crate) struct PageCounts {
    recent: Mutex<VecDeque<(String, usize)>>,
}

/// The number of paged lists that can be cached at the same time.
const RECENT_PAGES: usize = 256;

impl PageCounts {
    /// Returns the number of objects after a page of `items` that began at the token `began`, and caches it for the `next` one. `count` counts all objects from the
    /// start of the page.
    pub(crate) fn remaining(
        &self,
        scope: &str,
        began: &str,
        next: Option<&str>,
        items: usize,
        count: impl FnOnce() -> usize,
    ) -> Option<usize> {
        let next = next?;
        let key = |token: &str| format!("{scope} {token}");
        let mut recent = self.recent.lock();
        let known = recent
            .iter()
            .find(|(place, _)| !began.is_empty() && *place == key(began));
        let all = known.map_or_else(count, |(_, following)| *following);
        let following = all.saturating_sub(items);
        if recent.len() == RECENT_PAGES {
            recent.pop_front();
        }
        recent.push_back((key(next), following));
        Some(following)
    }
}
