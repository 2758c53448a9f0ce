//! `Script`: a source for tests that plays scripted responses or serves a small in-memory collection.

mod answer;
mod live;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::watch;

use self::live::Live;
use super::{ListRequest, ListStream, ListerWatcher, WatchListSupport, WatchRequest, WatchStream};
use crate::wire::{ApiError, Known, SourceError, WatchItem};

pub use self::answer::{Answer, ListAnswer, WatchAnswer};

/// A scripted source for tests of reflectors and informers. Clones are handles to the same script.
///
/// Each list and each watch receives the next response queued for it. When none is left, it is served from the live
/// collection, if the test has added objects to it with [`add`](Self::add). Otherwise a list fails, and a watch stays
/// open and silent. Like client-go's fakes it does not support watch-lists, unless
/// [`with_watch_list`](Self::with_watch_list) is called.
///
/// ```
/// use kube_informers::source::{ListAnswer, Script, WatchAnswer};
///
/// let script = Script::<k8s_openapi::api::core::v1::Pod>::new();
/// script.on_list(ListAnswer::page([], "10"));
/// script.on_watch(WatchAnswer::new().bookmark("12").hang());
/// ```
#[doc(alias = "FakeControllerSource")]
pub struct Script<K> {
    inner: Arc<ScriptInner<K>>,
}

/// One request received by a [`Script`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A list.
    List(ListRequest),
    /// A watch.
    Watch(WatchRequest),
}

struct ScriptInner<K> {
    state: Mutex<ScriptState<K>>,
    /// Counts the changes of the state, for waiting tasks.
    changes: watch::Sender<u64>,
}

struct ScriptState<K> {
    lists: VecDeque<ListAnswer<K>>,
    watches: VecDeque<WatchAnswer<K>>,
    seen: Vec<Seen>,
    open_watches: usize,
    watch_list: bool,
    list_error: Option<ApiError>,
    live: Option<Live<K>>,
}

impl<K> ScriptInner<K> {
    /// Changes the state and wakes waiting tasks.
    fn change<T>(&self, change: impl FnOnce(&mut ScriptState<K>) -> T) -> T {
        let outcome = change(&mut self.state.lock());
        self.changes.send_modify(|count| *count += 1);
        outcome
    }
}

impl<K> Script<K> {
    /// Creates an empty script.
    pub fn new() -> Self {
        Self {
            inner: Arc::new(ScriptInner {
                state: Mutex::new(ScriptState {
                    lists: VecDeque::new(),
                    watches: VecDeque::new(),
                    seen: Vec::new(),
                    open_watches: 0,
                    watch_list: false,
                    list_error: None,
                    live: None,
                }),
                changes: watch::Sender::new(0),
            }),
        }
    }

    /// Enables watch-lists.
    #[must_use]
    #[doc(alias = "ToListWatcherWithWatchListSemantics")]
    pub fn with_watch_list(self) -> Self {
        self.inner.change(|state| state.watch_list = true);
        self
    }

    /// Queues the response to a list.
    pub fn on_list(&self, answer: ListAnswer<K>) -> &Self {
        self.inner.change(|state| state.lists.push_back(answer));
        self
    }

    /// Queues the response to a watch.
    pub fn on_watch(&self, answer: WatchAnswer<K>) -> &Self {
        self.inner.change(|state| state.watches.push_back(answer));
        self
    }

    /// Makes lists of the live collection fail, or with `None` succeed again.
    #[doc(alias = "ListError")]
    pub fn fail_lists(&self, error: impl Into<Option<ApiError>>) {
        let error = error.into();
        self.inner.change(|state| state.list_error = error);
    }

    /// The requests received so far, in order.
    pub fn requests(&self) -> Vec<Seen> {
        self.inner.state.lock().seen.clone()
    }

    /// Waits until `count` requests have been received, and returns them.
    pub async fn seen(&self, count: usize) -> Vec<Seen> {
        self.wait_for(|state| (state.seen.len() >= count).then(|| state.seen.clone()))
            .await
    }

    /// The number of open watches: requested, and neither ended nor dropped.
    pub fn open_watches(&self) -> usize {
        self.inner.state.lock().open_watches
    }

    /// Waits until `count` watches are open.
    pub async fn watched_by(&self, count: usize) {
        self.wait_for(|state| (state.open_watches == count).then_some(()))
            .await;
    }

    async fn wait_for<T>(&self, condition: impl Fn(&ScriptState<K>) -> Option<T>) -> T {
        let mut changes = self.inner.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(outcome) = condition(&self.inner.state.lock()) {
                return outcome;
            }
            // Cannot fail: `self` owns the sender.
            let _ = changes.changed().await;
        }
    }
}

impl<K: Send + Sync + 'static> ListerWatcher<K> for Script<K> {
    fn list(&self, request: ListRequest, _: Known<K>) -> ListStream<K> {
        let (answer, failure) = self.inner.change(|state| {
            state.seen.push(Seen::List(request));
            match state.lists.pop_front() {
                Some(answer) => (Some(answer), None),
                None => (state.live.as_ref().map(Live::list), state.list_error.clone()),
            }
        });
        let answer = match (answer, failure) {
            (_, Some(failure)) => ListAnswer::error(failure),
            (Some(answer), None) => answer,
            (None, None) => ListAnswer::error(SourceError::Request(
                "the script has no response to this list and no live collection".to_owned(),
            )),
        };
        answer.play()
    }

    fn watch(&self, request: WatchRequest, _: Known<K>) -> WatchStream<K> {
        let answer = self.inner.change(|state| {
            state.seen.push(Seen::Watch(request.clone()));
            state.open_watches += 1;
            state.watches.pop_front()
        });
        let open = OpenWatch(Arc::clone(&self.inner));
        let items = match answer {
            Some(answer) => answer.play(),
            None => live::watch(&self.inner, &request).unwrap_or_else(|| {
                let begin = stream::iter([Ok(WatchItem::Progress { bytes: 0 })]);
                Box::pin(begin.chain(stream::pending()))
            }),
        };
        // The guard counts the watch as open until the stream ends or is dropped.
        let items = items.map(Some).chain(stream::iter([None]));
        Box::pin(items.scan(Some(open), |open, item| {
            if item.is_none() {
                *open = None;
            }
            std::future::ready(item)
        }))
    }

    fn watch_list(&self) -> WatchListSupport {
        match self.inner.state.lock().watch_list {
            true => WatchListSupport::Probe,
            false => WatchListSupport::Unsupported,
        }
    }

    fn describe(&self) -> String {
        "scripted objects".to_owned()
    }
}

/// Counts a watch as open until it is dropped.
struct OpenWatch<K>(Arc<ScriptInner<K>>);

impl<K> Drop for OpenWatch<K> {
    fn drop(&mut self) {
        self.0
            .change(|state| state.open_watches = state.open_watches.saturating_sub(1));
    }
}

impl<K> Clone for Script<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K> Default for Script<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for Script<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.inner.state.lock();
        f.debug_struct("Script")
            .field("seen", &state.seen)
            .field("open_watches", &state.open_watches)
            .finish_non_exhaustive()
    }
}
