//! `Registration`: what the owner of a handler holds to watch it and to end it.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::watch;

use futures_core::future::BoxFuture;

/// A handler of one informer, seen from outside.
///
/// Cheap to clone. Dropping it does not remove the handler; [`remove`](Self::remove) does.
#[derive(Clone)]
#[doc(alias = "ResourceEventHandlerRegistration")]
pub struct Registration {
    listener: Arc<dyn Control>,
    keep_alive: Option<Arc<dyn Any + Send + Sync>>,
}

/// Numbers the handlers and subscriptions of one informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub(crate) u64);

impl fmt::Display for HandlerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a handler will not be told anything any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandlerEnded {
    /// The informer stopped.
    #[error("handler {handler} was not told everything: its informer has stopped")]
    Stopped {
        /// The name of the handler.
        handler: Arc<str>,
    },
    /// The handler was removed.
    #[error("handler {handler} was not told everything: it was removed")]
    Removed {
        /// The name of the handler.
        handler: Arc<str>,
    },
    /// The handler panicked and had asked to be ended by that.
    #[error("handler {handler} was not told everything: it panicked, and its options end it then")]
    Panicked {
        /// The name of the handler.
        handler: Arc<str>,
    },
    /// The handler is a blocking one, and the system gave no thread for it.
    #[error("handler {handler} was not told everything: the system has no more threads for it")]
    NoThread {
        /// The name of the handler.
        handler: Arc<str>,
    },
}

/// A handler could not be added: the informer has stopped already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "handler {handler} was not added: the informer of {informer} has stopped already; add handlers before it is shut \
     down, or build a new one"
)]
pub struct NotAdded {
    /// The name of the handler.
    pub handler: Arc<str>,
    /// The name of the informer.
    pub informer: String,
}

/// Why a listener left, without its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stopped,
    Removed,
    Panicked,
    NoThread,
}

/// How far a listener is: two facts that are waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Its handler has returned from everything initial.
    pub(crate) synced: bool,
    /// It will not be called again.
    pub(crate) ended: Option<End>,
}

/// What a registration may do with a listener, whatever its `K`.
pub(crate) trait Control: Send + Sync {
    fn id(&self) -> HandlerId;
    fn name(&self) -> &Arc<str>;
    fn pending(&self) -> usize;
    fn delivered(&self) -> u64;
    fn panics(&self) -> u64;
    fn progress(&self) -> watch::Receiver<Progress>;
    /// Asks the listener to leave and drops what it was not told. Idempotent.
    fn remove(&self);
    fn is_removed(&self) -> bool;
    /// Whether the caller runs inside a call of this very handler.
    fn is_calling(&self) -> bool;
    /// Keeps `guard` until the listener leaves.
    fn keep(&self, guard: Arc<dyn Any + Send + Sync>);
}

impl Registration {
    pub(crate) fn new(listener: Arc<dyn Control>) -> Self {
        Self {
            listener,
            keep_alive: None,
        }
    }

    /// The same in a handle that keeps `guard` alive.
    pub(crate) fn keeping(mut self, guard: Arc<dyn Any + Send + Sync>) -> Self {
        self.keep_alive = Some(guard);
        self
    }

    /// The handler itself keeps `guard` alive too, until it leaves.
    pub(crate) fn handler_keeping(self, guard: Arc<dyn Any + Send + Sync>) -> Self {
        self.listener.keep(guard);
        self
    }

    /// The number of the handler within its informer.
    pub fn id(&self) -> HandlerId {
        self.listener.id()
    }

    /// What logs and statistics call the handler.
    pub fn name(&self) -> &str {
        self.listener.name()
    }

    /// Whether the informer is synced and the handler has returned from everything that was there when it
    /// joined. A call that panicked has returned.
    #[doc(alias = "HasSynced")]
    pub fn has_synced(&self) -> bool {
        self.listener.progress().borrow().synced
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    ///
    /// When the handler ended before: it was removed, it panicked and its options end it then, or the informer
    /// stopped.
    #[doc(alias = "HasSyncedChecker")]
    pub async fn synced(&self) -> Result<(), HandlerEnded> {
        wait_synced(self.listener.progress(), self.listener.name().clone()).await
    }

    /// How many events the handler has not returned from yet, the one it is being told included.
    pub fn pending(&self) -> usize {
        self.listener.pending()
    }

    /// How many events the handler has returned from.
    pub fn delivered(&self) -> u64 {
        self.listener.delivered()
    }

    /// How many of them ended in a panic, of the handler or of its filter.
    pub fn panics(&self) -> u64 {
        self.listener.panics()
    }

    /// Whether the handler was removed.
    pub fn is_removed(&self) -> bool {
        self.listener.is_removed()
    }

    /// Why the handler will not be called again; `None` while it may be.
    pub fn ended(&self) -> Option<HandlerEnded> {
        let end = self.listener.progress().borrow().ended?;
        Some(end.of(self.listener.name().clone()))
    }

    /// Waits until the handler will not be called again, and says why; for ever if nothing ends it. Cancel-safe.
    ///
    /// For those who depend on being told: a cache that stopped without a word would leave them waiting.
    pub async fn wait_for_end(&self) -> HandlerEnded {
        let mut progress = self.listener.progress();
        let ended = match progress.wait_for(|now| now.ended.is_some()).await {
            Ok(now) => now.ended,
            // The listener is gone altogether, and so is its informer.
            Err(_) => None,
        };
        ended.unwrap_or(End::Stopped).of(self.listener.name().clone())
    }

    /// Removes the handler: from here on no call of it begins, and what it was not told is dropped.
    ///
    /// The call that may be running is finished; await what is returned to know that it is. Removing twice,
    /// or after the informer stopped, or from inside the handler, is fine.
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
                // A handler that waits for its own removal would wait for ever. It need not: the call it makes
                // is the last one.
                if listener.is_calling() {
                    return;
                }
                // An error means that the listener is gone altogether.
                listener.progress().wait_for(|now| now.ended.is_some()).await.ok();
            }),
        }
    }
}

/// Name and numbers only.
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

/// Ready when a removed handler is not running any more. The removal itself has already happened: to drop this is
/// to not wait.
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
    fn of(self, handler: Arc<str>) -> HandlerEnded {
        match self {
            Self::Stopped => HandlerEnded::Stopped { handler },
            Self::Removed => HandlerEnded::Removed { handler },
            Self::Panicked => HandlerEnded::Panicked { handler },
            Self::NoThread => HandlerEnded::NoThread { handler },
        }
    }
}

/// Waits until a listener is synced, or has ended without.
pub(crate) async fn wait_synced(
    mut progress: watch::Receiver<Progress>,
    handler: Arc<str>,
) -> Result<(), HandlerEnded> {
    match progress.wait_for(|now| now.synced || now.ended.is_some()).await {
        Ok(now) if now.synced => Ok(()),
        Ok(now) => Err(now.ended.unwrap_or(End::Stopped).of(handler)),
        Err(_) => Err(End::Stopped.of(handler)),
    }
}
