//! `Change`: everything one handler has not been told about one object, folded into one step.

use std::sync::Arc;

use crate::event::{Cause, Event};
use crate::handler::Delivery;
use crate::object::Object;

/// What waits for a handler about one object.
pub(super) enum Change<K> {
    /// The handler does not know the object.
    Added { object: Arc<K>, initial: bool },
    /// The handler knows it as `old`.
    Updated { old: Arc<K>, new: Arc<K>, resync: bool },
    /// The handler knows it; as `last_delivered`, where that is another state than the last one.
    Deleted {
        last_delivered: Option<Arc<K>>,
        object: Arc<K>,
        cause: Cause,
    },
    /// The handler knows it, it is gone, and another of the same name is there.
    Replaced {
        last_delivered: Option<Arc<K>>,
        object: Arc<K>,
        cause: Cause,
        added: Arc<K>,
    },
}

impl<K> Change<K> {
    pub(super) fn new(event: &Event<K>) -> Self {
        match event.clone() {
            Event::Added { object, initial } => Self::Added { object, initial },
            Event::Updated { old, new, resync } => Self::Updated { old, new, resync },
            Event::Deleted { object, cause } => Self::Deleted {
                last_delivered: None,
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
    pub(super) fn into_deliveries(self) -> (Delivery<K>, Option<Delivery<K>>) {
        match self {
            Self::Added { object, initial } => (Delivery::from(Event::Added { object, initial }), None),
            Self::Updated { old, new, resync } => (Delivery::from(Event::Updated { old, new, resync }), None),
            Self::Deleted {
                last_delivered,
                object,
                cause,
            } => {
                let event = Event::Deleted { object, cause };
                (
                    Delivery {
                        event,
                        last_delivered,
                    },
                    None,
                )
            }
            Self::Replaced {
                last_delivered,
                object,
                cause,
                added,
            } => {
                let event = Event::Deleted { object, cause };
                let added = Event::Added {
                    object: added,
                    initial: false,
                };
                (
                    Delivery {
                        event,
                        last_delivered,
                    },
                    Some(Delivery::from(added)),
                )
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
                last_delivered: Some(old),
                object: object.clone(),
                cause: *cause,
            },
            (Self::Updated { old, new, .. }, Event::Added { object, .. }) => {
                if old.uid() == object.uid() {
                    Self::Updated {
                        old,
                        new: object.clone(),
                        resync: false,
                    }
                } else {
                    Self::Replaced {
                        last_delivered: Some(old),
                        object: new,
                        cause: Cause::Missed,
                        added: object.clone(),
                    }
                }
            }

            (
                Self::Deleted {
                    last_delivered,
                    object,
                    cause,
                },
                Event::Added { object: new, .. } | Event::Updated { new, .. },
            )
            | (
                Self::Replaced {
                    last_delivered,
                    object,
                    cause,
                    ..
                },
                Event::Added { object: new, .. } | Event::Updated { new, .. },
            ) => Self::Replaced {
                last_delivered,
                object,
                cause,
                added: new.clone(),
            },
            // The one that came in between was never last_delivered, so its end is nothing to tell either.
            (
                Self::Deleted {
                    last_delivered,
                    object,
                    cause,
                }
                | Self::Replaced {
                    last_delivered,
                    object,
                    cause,
                    ..
                },
                Event::Deleted { .. },
            ) => Self::Deleted {
                last_delivered,
                object,
                cause,
            },
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
