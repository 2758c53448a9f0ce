//! `Script`: a source that plays what a test wrote down, or keeps a small collection of its own.

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
use super::error::{ApiError, SourceError};
use super::{
    Known, ListRequest, ListStream, ListerWatcher, WatchItem, WatchListSupport, WatchRequest, WatchStream,
};

pub use self::answer::{ListAnswer, WatchAnswer};

/// A scripted source, for tests of what stands to its right. Clones are handles to the same script.
///
/// Each list and each watch takes the next answer that was queued for it. When none is left, it is answered
/// out of a live collection, if the test has put objects into one with [`add`](Self::add); otherwise a list
/// fails and says so, and a watch stays open and silent. Like client-go's fakes it does not deliver initial
/// events through a watch, unless [`with_watch_list`](Self::with_watch_list) says that it does.
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
    shared: Arc<Shared<K>>,
}

/// One request a [`Script`] has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A list.
    List(ListRequest),
    /// A watch.
    Watch(WatchRequest),
}

struct Shared<K> {
    state: Mutex<State<K>>,
    /// Counts changes of the state, for those who wait for one.
    changes: watch::Sender<u64>,
}

struct State<K> {
    lists: VecDeque<ListAnswer<K>>,
    watches: VecDeque<WatchAnswer<K>>,
    seen: Vec<Seen>,
    open_watches: usize,
    watch_list: bool,
    list_error: Option<ApiError>,
    live: Option<Live<K>>,
}

impl<K> Shared<K> {
    /// Changes the state and wakes those who wait for a change.
    fn change<T>(&self, change: impl FnOnce(&mut State<K>) -> T) -> T {
        let outcome = change(&mut self.state.lock());
        self.changes.send_modify(|count| *count += 1);
        outcome
    }
}

impl<K> Script<K> {
    /// An empty script.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
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

    /// Says that this source can deliver the initial list through a watch.
    #[must_use]
    #[doc(alias = "ToListWatcherWithWatchListSemantics")]
    pub fn with_watch_list(self) -> Self {
        self.shared.change(|state| state.watch_list = true);
        self
    }

    /// Queues the answer to a list.
    pub fn on_list(&self, answer: ListAnswer<K>) -> &Self {
        self.shared.change(|state| state.lists.push_back(answer));
        self
    }

    /// Queues the answer to a watch.
    pub fn on_watch(&self, answer: WatchAnswer<K>) -> &Self {
        self.shared.change(|state| state.watches.push_back(answer));
        self
    }

    /// Lets lists of the live collection fail, or with `None` succeed again.
    #[doc(alias = "ListError")]
    pub fn fail_lists(&self, error: impl Into<Option<ApiError>>) {
        let error = error.into();
        self.shared.change(|state| state.list_error = error);
    }

    /// The requests seen so far, in order.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.state.lock().seen.clone()
    }

    /// Waits until so many requests have been seen, and returns them.
    pub async fn seen(&self, count: usize) -> Vec<Seen> {
        self.wait_for(|state| (state.seen.len() >= count).then(|| state.seen.clone()))
            .await
    }

    /// How many watches are open: asked for, and neither ended nor dropped.
    pub fn open_watches(&self) -> usize {
        self.shared.state.lock().open_watches
    }

    /// Waits until so many watches are open.
    pub async fn watched_by(&self, count: usize) {
        self.wait_for(|state| (state.open_watches == count).then_some(()))
            .await;
    }

    async fn wait_for<T>(&self, condition: impl Fn(&State<K>) -> Option<T>) -> T {
        let mut changes = self.shared.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(outcome) = condition(&self.shared.state.lock()) {
                return outcome;
            }
            // The sender is in `self` and cannot go away.
            let _ = changes.changed().await;
        }
    }
}

impl<K: Send + Sync + 'static> ListerWatcher<K> for Script<K> {
    fn list(&self, request: ListRequest, _: Known<K>) -> ListStream<K> {
        let (answer, failure) = self.shared.change(|state| {
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
                "the script has no answer to this list, and no objects of its own".to_owned(),
            )),
        };
        answer.play()
    }

    fn watch(&self, request: WatchRequest, _: Known<K>) -> WatchStream<K> {
        let answer = self.shared.change(|state| {
            state.seen.push(Seen::Watch(request.clone()));
            state.open_watches += 1;
            state.watches.pop_front()
        });
        let open = Open(Arc::clone(&self.shared));
        let items = match answer {
            Some(answer) => answer.play(),
            None => live::watch(&self.shared, &request).unwrap_or_else(|| {
                let begin = stream::iter([Ok(WatchItem::Progress { bytes: 0 })]);
                Box::pin(begin.chain(stream::pending()))
            }),
        };
        // The stream carries the mark of its being open, and loses it with its end.
        let items = items.map(Some).chain(stream::iter([None]));
        Box::pin(items.scan(Some(open), |open, item| {
            if item.is_none() {
                *open = None;
            }
            std::future::ready(item)
        }))
    }

    fn watch_list(&self) -> WatchListSupport {
        match self.shared.state.lock().watch_list {
            true => WatchListSupport::Probe,
            false => WatchListSupport::Unsupported,
        }
    }

    fn describe(&self) -> String {
        "scripted objects".to_owned()
    }
}

/// Counts a watch as open for as long as it lives.
struct Open<K>(Arc<Shared<K>>);

impl<K> Drop for Open<K> {
    fn drop(&mut self) {
        self.0
            .change(|state| state.open_watches = state.open_watches.saturating_sub(1));
    }
}

impl<K> Clone for Script<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
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
        let state = self.shared.state.lock();
        f.debug_struct("Script")
            .field("seen", &state.seen)
            .field("open_watches", &state.open_watches)
            .finish_non_exhaustive()
    }
}
