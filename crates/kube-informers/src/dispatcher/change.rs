//! `Change`: everything one handler has not been told about one object, folded into one step.

use std::sync::Arc;

use crate::event::{Cause, Event};
use crate::object::Object;

/// What waits for a handler about one object.
pub(super) enum Change<K> {
    /// The handler does not know the object.
    Added { object: Arc<K>, initial: bool },
    /// The handler knows it as `old`.
    Updated { old: Arc<K>, new: Arc<K>, resync: bool },
    /// The handler knows it; as `told`, where that is another state than the last one.
    Deleted {
        told: Option<Arc<K>>,
        object: Arc<K>,
        cause: Cause,
    },
    /// The handler knows it, it is gone, and another of the same name is there.
    Replaced {
        told: Option<Arc<K>>,
        object: Arc<K>,
        cause: Cause,
        added: Arc<K>,
    },
}

/// One event for one handler.
pub(crate) struct Notice<K> {
    pub(crate) event: Event<K>,
    /// The state the handler was last told, where the event does not say it: a delete that swallowed updates.
    pub(crate) told: Option<Arc<K>>,
}

impl<K> Notice<K> {
    pub(super) fn plain(event: Event<K>) -> Self {
        Self { event, told: None }
    }
}

impl<K> Change<K> {
    pub(super) fn new(event: &Event<K>) -> Self {
        match event.clone() {
            Event::Added { object, initial } => Self::Added { object, initial },
            Event::Updated { old, new, resync } => Self::Updated { old, new, resync },
            Event::Deleted { object, cause } => Self::Deleted {
                told: None,
                object,
                cause,
            },
        }
    }

    /// The newest state it holds; any would do to identify the object.
    pub(super) fn object(&self) -> &Arc<K> {
        match self {
            Self::Added { object, .. } | Self::Deleted { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Replaced { added, .. } => added,
        }
    }

    /// How many events it will be told as.
    pub(super) fn events(&self) -> usize {
        match self {
            Self::Replaced { .. } => 2,
            _ => 1,
        }
    }

    /// What the handler is told.
    pub(super) fn into_notices(self) -> (Notice<K>, Option<Notice<K>>) {
        match self {
            Self::Added { object, initial } => (Notice::plain(Event::Added { object, initial }), None),
            Self::Updated { old, new, resync } => (Notice::plain(Event::Updated { old, new, resync }), None),
            Self::Deleted { told, object, cause } => {
                let event = Event::Deleted { object, cause };
                (Notice { event, told }, None)
            }
            Self::Replaced {
                told,
                object,
                cause,
                added,
            } => {
                let event = Event::Deleted { object, cause };
                let added = Event::Added {
                    object: added,
                    initial: false,
                };
                (Notice { event, told }, Some(Notice::plain(added)))
            }
        }
    }
}

impl<K: Object> Change<K> {
    /// What waits after one more event; `None` when the handler need not be told anything.
    ///
    /// Total, although a store never emits some of the pairs (an add of what is there, say): whatever comes, the
    /// handler ends up with the newest state and sees (Added Updated* Deleted)*.
    pub(super) fn then(self, event: &Event<K>) -> Option<Self> {
        Some(match (self, event) {
            // Never told: it stays an add, or nothing at all.
            (Self::Added { initial, .. }, Event::Added { object: new, .. } | Event::Updated { new, .. }) => {
                Self::Added {
                    object: new.clone(),
                    initial,
                }
            }
            (Self::Added { .. }, Event::Deleted { .. }) => return None,

            (
                Self::Updated { old, resync, .. },
                Event::Updated {
                    new, resync: again, ..
                },
            ) => Self::Updated {
                old,
                new: new.clone(),
                resync: resync && *again,
            },
            (Self::Updated { old, .. }, Event::Deleted { object, cause }) => Self::Deleted {
                told: Some(old),
                object: object.clone(),
                cause: *cause,
            },
            (Self::Updated { old, new, .. }, Event::Added { object, .. }) => {
                if old.object_uid() == object.object_uid() {
                    Self::Updated {
                        old,
                        new: object.clone(),
                        resync: false,
                    }
                } else {
                    Self::Replaced {
                        told: Some(old),
                        object: new,
                        cause: Cause::Missed,
                        added: object.clone(),
                    }
                }
            }

            (
                Self::Deleted { told, object, cause },
                Event::Added { object: new, .. } | Event::Updated { new, .. },
            )
            | (
                Self::Replaced {
                    told, object, cause, ..
                },
                Event::Added { object: new, .. } | Event::Updated { new, .. },
            ) => Self::Replaced {
                told,
                object,
                cause,
                added: new.clone(),
            },
            // The one that came in between was never told, so its end is nothing to tell either.
            (
                Self::Deleted { told, object, cause }
                | Self::Replaced {
                    told, object, cause, ..
                },
                Event::Deleted { .. },
            ) => Self::Deleted { told, object, cause },
        })
    }

    /// What is left to tell of an initial object whose later change already waits: now, and later in its place.
    pub(super) fn after_initial(self) -> (Option<Self>, Option<Self>) {
        match self {
            Self::Added { object, .. } | Self::Updated { new: object, .. } => (
                Some(Self::Added {
                    object,
                    initial: true,
                }),
                None,
            ),
            Self::Deleted { .. } => (None, None),
            Self::Replaced { added, .. } => (
                None,
                Some(Self::Added {
                    object: added,
                    initial: false,
                }),
            ),
        }
    }
}
