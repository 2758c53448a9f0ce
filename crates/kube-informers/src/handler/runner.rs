//! `Runner`: a handler with its type erased, sorted by how it must be called.

use std::sync::Arc;

use crate::event::Event;
use futures_core::future::BoxFuture;

/// A call that returns when the event is dealt with. Beside the event it is given the state the handler was last
/// told, where that differs from what the event itself says (a delete that swallowed pending updates).
pub(crate) type Call<K> = Box<dyn FnMut(Event<K>, Option<&Arc<K>>) + Send>;

/// A call whose future ends when the event is dealt with.
pub(crate) type AsyncCall<K> = Box<dyn FnMut(Event<K>, Option<&Arc<K>>) -> BoxFuture<'static, ()> + Send>;

/// A handler as the dispatcher keeps it. Made by [`EventHandler::into_runner`](super::EventHandler::into_runner).
pub struct Runner<K> {
    pub(crate) name: String,
    pub(crate) kind: RunnerKind<K>,
}

/// How a handler must be called.
pub(crate) enum RunnerKind<K> {
    /// Quick: on the handler's task.
    Inline(Call<K>),
    /// Awaited on the handler's task.
    Async(AsyncCall<K>),
    /// May block: on a thread of its own.
    Blocking(Call<K>),
}

impl<K> Runner<K> {
    pub(crate) fn inline(name: String, call: impl FnMut(Event<K>, Option<&Arc<K>>) + Send + 'static) -> Self {
        Self {
            name,
            kind: RunnerKind::Inline(Box::new(call)),
        }
    }

    pub(crate) fn asynchronous(
        name: String,
        call: impl FnMut(Event<K>, Option<&Arc<K>>) -> BoxFuture<'static, ()> + Send + 'static,
    ) -> Self {
        Self {
            name,
            kind: RunnerKind::Async(Box::new(call)),
        }
    }

    pub(crate) fn blocking(
        name: String,
        call: impl FnMut(Event<K>, Option<&Arc<K>>) + Send + 'static,
    ) -> Self {
        Self {
            name,
            kind: RunnerKind::Blocking(Box::new(call)),
        }
    }
}
