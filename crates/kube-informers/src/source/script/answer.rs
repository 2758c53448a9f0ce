//! What a script answers to one request: items, errors, pauses, silence.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use futures_util::stream;

use crate::source::error::{ApiError, SourceError};
use crate::source::{BoxStream, Fetched, ListItem, ListMeta, ListStream, WatchItem, WatchStream};

/// One line of an answer.
enum Line<T> {
    Item(T),
    Error(SourceError),
    After(Duration),
    Hang,
}

/// Plays lines; the stream ends after the last, or after an error.
fn play<T: Send + 'static>(lines: VecDeque<Line<T>>) -> BoxStream<Result<T, SourceError>> {
    Box::pin(stream::try_unfold(lines, |mut lines| async move {
        loop {
            match lines.pop_front() {
                None => return Ok(None),
                Some(Line::Item(item)) => return Ok(Some((item, lines))),
                Some(Line::Error(error)) => return Err(error),
                Some(Line::After(pause)) => tokio::time::sleep(pause).await,
                Some(Line::Hang) => std::future::pending().await,
            }
        }
    }))
}

/// The answer to one list, for a [`Script`](super::Script).
pub struct ListAnswer<K> {
    lines: VecDeque<Line<ListItem<K>>>,
}

impl<K> ListAnswer<K> {
    /// An answer that has begun, and ends without [`ListItem::End`] unless more is added.
    pub fn new() -> Self {
        Self {
            lines: [Line::Item(ListItem::Progress { bytes: 0 })].into(),
        }
    }

    /// A page of these objects, and the last one: the collection at this version.
    pub fn page(objects: impl IntoIterator<Item = K>, resource_version: &str) -> Self {
        Self::new().objects(objects).end(ListMeta {
            resource_version: Some(resource_version.to_owned()),
            ..ListMeta::default()
        })
    }

    /// A page of these objects that is followed by another.
    pub fn page_before(objects: impl IntoIterator<Item = K>, resource_version: &str, token: &str) -> Self {
        Self::new().objects(objects).end(ListMeta {
            resource_version: Some(resource_version.to_owned()),
            continue_token: Some(token.to_owned()),
            ..ListMeta::default()
        })
    }

    /// A refusal.
    pub fn error(error: impl Into<SourceError>) -> Self {
        Self {
            lines: [Line::Error(error.into())].into(),
        }
    }

    /// No answer, ever.
    pub fn silence() -> Self {
        Self {
            lines: [Line::Hang].into(),
        }
    }

    /// Then these objects.
    #[must_use]
    pub fn objects(mut self, objects: impl IntoIterator<Item = K>) -> Self {
        let items = objects
            .into_iter()
            .map(|object| ListItem::Object(Fetched::New(object)));
        self.lines.extend(items.map(Line::Item));
        self
    }

    /// Then any item.
    #[must_use]
    pub fn item(mut self, item: ListItem<K>) -> Self {
        self.lines.push_back(Line::Item(item));
        self
    }

    /// Then the end of the page.
    #[must_use]
    pub fn end(self, meta: ListMeta) -> Self {
        self.item(ListItem::End(meta))
    }

    /// Then the connection breaks.
    #[must_use]
    pub fn broken(mut self, error: impl Into<SourceError>) -> Self {
        self.lines.push_back(Line::Error(error.into()));
        self
    }

    /// Then nothing for so long.
    #[must_use]
    pub fn after(mut self, pause: Duration) -> Self {
        self.lines.push_back(Line::After(pause));
        self
    }

    /// Then nothing more, for ever.
    #[must_use]
    pub fn hang(mut self) -> Self {
        self.lines.push_back(Line::Hang);
        self
    }

    pub(super) fn play(self) -> ListStream<K>
    where
        K: Send + Sync + 'static,
    {
        play(self.lines)
    }
}

impl<K> Default for ListAnswer<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for ListAnswer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ListAnswer({} lines)", self.lines.len())
    }
}

/// The answer to one watch, for a [`Script`](super::Script). It ends cleanly after its last line.
pub struct WatchAnswer<K> {
    lines: VecDeque<Line<WatchItem<K>>>,
}

impl<K> WatchAnswer<K> {
    /// A watch that was accepted.
    pub fn new() -> Self {
        Self {
            lines: [Line::Item(WatchItem::Progress { bytes: 0 })].into(),
        }
    }

    /// A refusal.
    pub fn error(error: impl Into<SourceError>) -> Self {
        Self {
            lines: [Line::Error(error.into())].into(),
        }
    }

    /// No answer, ever.
    pub fn silence() -> Self {
        Self {
            lines: [Line::Hang].into(),
        }
    }

    /// Then an object is new.
    #[must_use]
    pub fn added(self, object: K) -> Self {
        self.item(WatchItem::Added(Fetched::New(object)))
    }

    /// Then an object has changed.
    #[must_use]
    pub fn modified(self, object: K) -> Self {
        self.item(WatchItem::Modified(Fetched::New(object)))
    }

    /// Then an object is gone.
    #[must_use]
    pub fn deleted(self, object: K) -> Self {
        self.item(WatchItem::Deleted(Fetched::New(object)))
    }

    /// Then a bookmark.
    #[must_use]
    pub fn bookmark(self, resource_version: &str) -> Self {
        self.item(WatchItem::Bookmark {
            resource_version: Some(resource_version.to_owned()),
            initial_events_end: false,
        })
    }

    /// Then the bookmark that ends the initial events.
    #[must_use]
    pub fn initial_events_end(self, resource_version: &str) -> Self {
        self.item(WatchItem::Bookmark {
            resource_version: Some(resource_version.to_owned()),
            initial_events_end: true,
        })
    }

    /// Then an ERROR event.
    #[must_use]
    pub fn failure(self, error: ApiError) -> Self {
        self.item(WatchItem::Error(error))
    }

    /// Then any item.
    #[must_use]
    pub fn item(mut self, item: WatchItem<K>) -> Self {
        self.lines.push_back(Line::Item(item));
        self
    }

    /// Then the connection breaks.
    #[must_use]
    pub fn broken(mut self, error: impl Into<SourceError>) -> Self {
        self.lines.push_back(Line::Error(error.into()));
        self
    }

    /// Then nothing for so long.
    #[must_use]
    pub fn after(mut self, pause: Duration) -> Self {
        self.lines.push_back(Line::After(pause));
        self
    }

    /// Then nothing more, for ever.
    #[must_use]
    pub fn hang(mut self) -> Self {
        self.lines.push_back(Line::Hang);
        self
    }

    pub(super) fn play(self) -> WatchStream<K>
    where
        K: Send + Sync + 'static,
    {
        play(self.lines)
    }
}

impl<K> Default for WatchAnswer<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for WatchAnswer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WatchAnswer({} lines)", self.lines.len())
    }
}
