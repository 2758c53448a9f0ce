//! The scripted response to one request: items, errors, delays, silence.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use futures_core::stream::BoxStream;
use futures_util::stream;

use crate::wire::{ApiError, ListItem, ListMeta, SourceError, WatchItem};

enum Step<T> {
    Item(T),
    Error(SourceError),
    Delay(Duration),
    Hang,
}

/// The response to one list request. It ends after its last step.
pub type ListAnswer<K> = Answer<ListItem<K>>;

/// The response to one watch request. It ends after its last step.
pub type WatchAnswer<K> = Answer<WatchItem<K>>;

/// The response to one request to a [`Script`](super::Script): a [`ListAnswer`] or a [`WatchAnswer`].
pub struct Answer<T> {
    steps: VecDeque<Step<T>>,
}

/// An item with a variant for the start of a response.
pub trait Progress {
    /// The response has started.
    fn started() -> Self;
}

impl<K> Progress for ListItem<K> {
    fn started() -> Self {
        Self::Progress { bytes: 0 }
    }
}

impl<K> Progress for WatchItem<K> {
    fn started() -> Self {
        Self::Progress { bytes: 0 }
    }
}

impl<T: Progress> Answer<T> {
    /// A successful response without items. A list is incomplete without [`end`](ListAnswer::end).
    pub fn new() -> Self {
        Self::starting_with(Step::Item(T::started()))
    }
}

impl<T> Answer<T> {
    fn starting_with(step: Step<T>) -> Self {
        Self { steps: [step].into() }
    }

    /// A rejected request.
    pub fn error(error: impl Into<SourceError>) -> Self {
        Self::starting_with(Step::Error(error.into()))
    }

    /// A response that never starts.
    pub fn silence() -> Self {
        Self::starting_with(Step::Hang)
    }

    /// Adds any item.
    #[must_use]
    pub fn item(self, item: T) -> Self {
        self.then(Step::Item(item))
    }

    /// Ends the response with a lost connection.
    #[must_use]
    pub fn broken(self, error: impl Into<SourceError>) -> Self {
        self.then(Step::Error(error.into()))
    }

    /// Adds a delay.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        self.then(Step::Delay(delay))
    }

    /// Keeps the response open and silent from here on.
    #[must_use]
    pub fn hang(self) -> Self {
        self.then(Step::Hang)
    }

    fn then(mut self, step: Step<T>) -> Self {
        self.steps.push_back(step);
        self
    }

    pub(super) fn play(self) -> BoxStream<'static, Result<T, SourceError>>
    where
        T: Send + 'static,
    {
        Box::pin(stream::try_unfold(self.steps, |mut steps| async move {
            loop {
                match steps.pop_front() {
                    None => return Ok(None),
                    Some(Step::Item(item)) => return Ok(Some((item, steps))),
                    Some(Step::Error(error)) => return Err(error),
                    Some(Step::Delay(delay)) => tokio::time::sleep(delay).await,
                    Some(Step::Hang) => std::future::pending().await,
                }
            }
        }))
    }
}

impl<K> ListAnswer<K> {
    /// The last page, with these objects, of the collection at this version.
    pub fn page(objects: impl IntoIterator<Item = K>, resource_version: &str) -> Self {
        Self::new().objects(objects).end(ListMeta {
            resource_version: Some(resource_version.to_owned()),
            ..ListMeta::default()
        })
    }

    /// A page with these objects that is followed by another page.
    pub fn page_before(objects: impl IntoIterator<Item = K>, resource_version: &str, token: &str) -> Self {
        Self::new().objects(objects).end(ListMeta {
            resource_version: Some(resource_version.to_owned()),
            continue_token: Some(token.to_owned()),
            ..ListMeta::default()
        })
    }

    /// Adds objects.
    #[must_use]
    pub fn objects(self, objects: impl IntoIterator<Item = K>) -> Self {
        objects.into_iter().fold(self, |answer, object| {
            answer.item(ListItem::Object(object.into()))
        })
    }

    /// Adds the end of the page.
    #[must_use]
    pub fn end(self, meta: ListMeta) -> Self {
        self.item(ListItem::End(meta))
    }
}

impl<K> WatchAnswer<K> {
    /// Adds an `ADDED` event.
    #[must_use]
    pub fn added(self, object: K) -> Self {
        self.item(WatchItem::Added(object.into()))
    }

    /// Adds a `MODIFIED` event.
    #[must_use]
    pub fn modified(self, object: K) -> Self {
        self.item(WatchItem::Modified(object.into()))
    }

    /// Adds a `DELETED` event.
    #[must_use]
    pub fn deleted(self, object: K) -> Self {
        self.item(WatchItem::Deleted(object.into()))
    }

    /// Adds a bookmark.
    #[must_use]
    pub fn bookmark(self, resource_version: &str) -> Self {
        self.item(WatchItem::Bookmark {
            resource_version: Some(resource_version.to_owned()),
            initial_events_end: false,
        })
    }

    /// Adds the bookmark that ends the initial events.
    #[must_use]
    pub fn initial_events_end(self, resource_version: &str) -> Self {
        self.item(WatchItem::Bookmark {
            resource_version: Some(resource_version.to_owned()),
            initial_events_end: true,
        })
    }

    /// Adds an `ERROR` event.
    #[must_use]
    pub fn failure(self, error: ApiError) -> Self {
        self.item(WatchItem::Error(error))
    }
}

impl<T: Progress> Default for Answer<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({} steps)", self.steps.len())
    }
}
