//! `Registration`: a handle to a handler that was added to an informer.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::watch;

use futures_core::future::BoxFuture;

/// A handle to a handler that was added to an informer: its progress, its counters and its removal.
///
/// Cheap to clone. Dropping it does not remove the handler; [`remove`](Self::remove) does.
#[derive(Clone)]
#[doc(alias = "ResourceEventHandlerRegistration")]
pub struct Registration {
    listener: Arc<dyn Control>,
    keep_alive: Option<Arc<dyn Any + Send + Sync>>,
}

/// Identifies a handler or subscription within its informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub(crate) u64);

impl fmt::Display for HandlerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a handler receives no more events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandlerEndedError {
    /// The informer stopped.
    #[error("the informer stopped before handler {handler} received its initial objects")]
    Stopped {
        /// The name of the handler.
        handler: Arc<str>,
    },
    /// The handler was removed.
    #[error("handler {handler} was removed before it received its initial objects")]
    Removed {
        /// The name of the handler.
        handler: Arc<str>,
    },
    /// The handler panicked, and its options end it on a panic.
    #[error("handler {handler} panicked and is configured to end on a panic")]
    Panicked {
        /// The name of the handler.
        handler: Arc<str>,
    },
    /// The handler is blocking, and no thread could be started for it.
    #[error("handler {handler} is blocking and no thread could be started for it")]
    NoThread {
        /// The name of the handler.
        handler: Arc<str>,
    },
}

/// Why a listener ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stopped,
    Removed,
    Panicked,
    NoThread,
}

/// The progress of a listener.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Its handler has returned from all initial events.
    pub(crate) synced: bool,
    /// Set when it will not be called again.
    pub(crate) ended: Option<End>,
}

/// What a registration needs of a listener, independent of `K`.
pub(crate) trait Control: Send + Sync {
    fn id(&self) -> HandlerId;
    fn name(&self) -> &Arc<str>;
    fn pending(&self) -> usize;
    fn delivered(&self) -> u64;
    fn panics(&self) -> u64;
    fn progress(&self) -> watch::Receiver<Progress>;
    /// Ends the listener and drops its backlog. Idempotent.
    fn remove(&self);
    fn is_removed(&self) -> bool;
    /// Whether the caller runs inside a call of this handler.
    fn is_calling(&self) -> bool;
    /// Keeps `guard` alive until the listener ends.
    fn keep(&self, guard: Arc<dyn Any + Send + Sync>);
}

impl Registration {
    pub(crate) fn new(listener: Arc<dyn Control>) -> Self {
        Self {
            listener,
            keep_alive: None,
        }
    }

    /// Makes this handle keep `guard` alive.
    pub(crate) fn keeping(mut self, guard: Arc<dyn Any + Send + Sync>) -> Self {
        self.keep_alive = Some(guard);
        self
    }

    /// Makes the handler itself keep `guard` alive, until it ends.
    pub(crate) fn handler_keeping(self, guard: Arc<dyn Any + Send + Sync>) -> Self {
        self.listener.keep(guard);
        self
    }

    /// The id of the handler within its informer.
    pub fn id(&self) -> HandlerId {
        self.listener.id()
    }

    /// The name of the handler in logs and statistics.
    pub fn name(&self) -> &str {
        self.listener.name()
    }

    /// Whether the informer is synced and the handler has returned from all its initial events. A call that panicked
    /// counts as returned.
    #[doc(alias = "HasSynced")]
    pub fn has_synced(&self) -> bool {
        self.listener.progress().borrow().synced
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    ///
    /// The handler ended first: it was removed, it panicked and is configured to end on a panic, or the informer
    /// stopped.
    #[doc(alias = "HasSyncedChecker")]
    pub async fn synced(&self) -> Result<(), HandlerEndedError> {
        wait_synced(self.listener.progress(), self.listener.name().clone()).await
    }

    /// The backlog: events that the handler has not finished, including the one in flight.
    pub fn pending(&self) -> usize {
        self.listener.pending()
    }

    /// The number of events the handler has finished.
    pub fn delivered(&self) -> u64 {
        self.listener.delivered()
    }

    /// The number of these events that ended in a panic of the handler or its filter.
    pub fn panics(&self) -> u64 {
        self.listener.panics()
    }

    /// Whether the handler was removed.
    pub fn is_removed(&self) -> bool {
        self.listener.is_removed()
    }

    /// Why the handler will not be called again; `None` while it may be.
    pub fn ended(&self) -> Option<HandlerEndedError> {
        let end = self.listener.progress().borrow().ended?;
        Some(end.of(self.listener.name().clone()))
    }

    /// Waits until the handler will not be called again and returns the reason. Cancel-safe.
    ///
    /// For code that waits for events and must notice when no more will come.
    pub async fn wait_for_end(&self) -> HandlerEndedError {
        let mut progress = self.listener.progress();
        let ended = match progress.wait_for(|now| now.ended.is_some()).await {
            Ok(now) => now.ended,
            // The listener was dropped with its informer.
            Err(_) => None,
        };
        ended.unwrap_or(End::Stopped).of(self.listener.name().clone())
    }

    /// Removes the handler: no further call begins, and its backlog is dropped.
    ///
    /// A call in flight runs to completion; await the returned future to wait for it. It is fine to remove a handler
    /// twice, after the informer stopped, or from inside the handler.
    ///
    /// ```
    /// # async fn example(registration: kube_informers::Registration) {
    /// registration.remove().await;
    /// // The handler is not running and never will again.
    /// # }
    /// ```
    #[doc(alias = "RemoveEventHandler")]
    #[doc(alias = "ShutDownEventHandler")]
    pub fn remove(&self) -> Removal {
        self.listener.remove();
        let listener = self.listener.clone();
        Removal {
            done: Box::pin(async move {
                // A handler that awaits its own removal would deadlock. The current call is its last one, so
                // there is nothing to wait for.
                if listener.is_calling() {
                    return;
                }
                // An error means that the listener was dropped.
                listener.progress().wait_for(|now| now.ended.is_some()).await.ok();
            }),
        }
    }
}

/// Name and counters only.
impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("id", &self.id().0)
            .field("name", &self.name())
            .field("pending", &self.pending())
            .field("delivered", &self.delivered())
            .field("panics", &self.panics())
            .finish_non_exhaustive()
    }
}

/// Completes when a removed handler is no longer running. The handler is removed already; dropping this future only
/// skips the wait.
pub struct Removal {
    done: BoxFuture<'static, ()>,
}

impl Future for Removal {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.done.as_mut().poll(cx)
    }
}

impl fmt::Debug for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Removal").finish_non_exhaustive()
    }
}

impl End {
    fn of(self, handler: Arc<str>) -> HandlerEndedError {
        match self {
            Self::Stopped => HandlerEndedError::Stopped { handler },
            Self::Removed => HandlerEndedError::Removed { handler },
            Self::Panicked => HandlerEndedError::Panicked { handler },
            Self::NoThread => HandlerEndedError::NoThread { handler },
        }
    }
}

/// Waits until a listener is synced or has ended.
pub(crate) async fn wait_synced(
    mut progress: watch::Receiver<Progress>,
    handler: Arc<str>,
) -> Result<(), HandlerEndedError> {
    match progress.wait_for(|now| now.synced || now.ended.is_some()).await {
        Ok(now) if now.synced => Ok(()),
        Ok(now) => Err(now.ended.unwrap_or(End::Stopped).of(handler)),
        Err(_) => Err(End::Stopped.of(handler)),
    }
}
