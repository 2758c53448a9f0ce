//! `HandlerOptions`: the options of one handler or subscription.

use std::time::Duration;

/// Options of one handler or subscription.
///
/// ```
/// use std::time::Duration;
/// use kube_informers::handler::HandlerOptions;
/// use kube_informers::handler::Backlog;
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

/// How events are queued for a handler that is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backlog {
    /// Every event is kept and delivered. A slow handler costs memory for each event in its backlog.
    #[default]
    KeepAll,
    /// Queued events of one object are merged into one, from the last delivered state to the newest. An object that was
    /// created and deleted meanwhile is not delivered; an object that was replaced by another of the same name is
    /// delivered as a delete and an add.
    ///
    /// The backlog is bounded by the number of live objects plus the deleted ones that the handler knows. Suited to
    /// level-triggered code, such as controllers.
    CoalesceByKey,
}

/// What a panic does to the handler. Other handlers are not affected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnPanic {
    /// The event counts as delivered, and the handler continues with the next one.
    #[default]
    Skip,
    /// The handler ends; its registration reports that.
    End,
}

impl HandlerOptions {
    /// The name of the handler in logs and statistics.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The resync period: how often every object is delivered again although nothing changed. Zero means never; periods
    /// between zero and one second are raised to one second. The default is that of the informer.
    ///
    /// The period is exact and applies to this handler alone. A resync that falls due before the previous one, or the
    /// initial snapshot, has been delivered is skipped.
    ///
    /// Differs from client-go: periods are not rounded up to a common check period.
    #[must_use]
    #[doc(alias = "ResyncPeriod")]
    #[doc(alias = "AddEventHandlerWithResyncPeriod")]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// How events are queued while the handler is busy.
    #[must_use]
    pub fn backlog(mut self, backlog: Backlog) -> Self {
        self.backlog = backlog;
        self
    }

    /// What a panic does to the handler. Ignored by subscriptions.
    #[must_use]
    pub fn on_panic(mut self, on_panic: OnPanic) -> Self {
        self.on_panic = on_panic;
        self
    }
}
