//! `HandlerOptions`: what a handler may choose for itself.

use std::time::Duration;

/// How one handler or subscription wants to be told.
///
/// ```
/// use std::time::Duration;
/// use kube_informers::{Backlog, HandlerOptions};
///
/// let options = HandlerOptions::default()
///     .name("billing")
///     .resync(Duration::from_secs(600))
///     .backlog(Backlog::CoalesceByKey);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandlerOptions {
    pub(crate) name: Option<String>,
    pub(crate) resync: Option<Duration>,
    pub(crate) backlog: Backlog,
    pub(crate) on_panic: OnPanic,
}

/// What happens to events a handler has not come to yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backlog {
    /// Every event is kept and told. A handler that does not keep up costs memory for each event it is behind.
    #[default]
    KeepAll,
    /// Events about one object that wait are told as one: the state the handler was last told, and the newest.
    /// An object that came and went meanwhile is not told at all; one that was replaced by another of the same
    /// name is told as a delete and an add.
    ///
    /// A handler that does not keep up costs memory for each live object, and for each deleted one that it has
    /// been told of, and no more. The choice for level-triggered code, such as controllers.
    CoalesceByKey,
}

/// What a panic in a handler means for that handler. Other handlers are never touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnPanic {
    /// The event counts as told, and the handler goes on with the next one.
    #[default]
    Skip,
    /// The handler ends, and its registration says so.
    End,
}

impl HandlerOptions {
    /// What logs and statistics call the handler.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How often every object is told again although nothing changed. Zero means never; periods between zero and
    /// one second are raised to one second. Without this call the default of the informer holds.
    ///
    /// The period is exact and belongs to this handler alone. A resync that falls due while the one before it, or
    /// the initial replay, is not told to the end yet is left out.
    ///
    /// Differs from client-go: periods are not rounded up to a common check period.
    #[must_use]
    #[doc(alias = "ResyncPeriod")]
    #[doc(alias = "AddEventHandlerWithResyncPeriod")]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// What happens to events the handler has not come to yet.
    #[must_use]
    pub fn backlog(mut self, backlog: Backlog) -> Self {
        self.backlog = backlog;
        self
    }

    /// What a panic means. Of no importance to a subscription.
    #[must_use]
    pub fn on_panic(mut self, on_panic: OnPanic) -> Self {
        self.on_panic = on_panic;
        self
    }
}
