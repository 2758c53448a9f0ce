//! `Change`: the queued events of one object, folded into one step.

use std::sync::Arc;

use crate::event::{Cause, Event};
use crate::handler::Delivery;
use crate::object::Object;

/// The queued change of one object.
pub(super) enum Change<K> {
    /// The handler does not know the object.
    Added { object: Arc<K>, initial: bool },
    /// The handler knows it as `old`.
    Updated { old: Arc<K>, new: Arc<K>, resync: bool },
    /// The handler knows it, as `last_delivered` where that differs from the last state.
    Deleted {
        last_delivered: Option<Arc<K>>,
        object: Arc<K>,
        cause: Cause,
    },
    /// The handler knows it; it was deleted, and another object of the same name exists.
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

    /// The newest state; identifies the object.
    pub(super) fn object(&self) -> &Arc<K> {
        match self {
            Self::Added { object, .. } | Self::Deleted { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Replaced { added, .. } => added,
        }
    }

    /// The number of events it will be delivered as.
    pub(super) fn events(&self) -> usize {
        match self {
            Self::Replaced { .. } => 2,
            _ => 1,
        }
    }

    /// The events for the handler.
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
    /// The change after one more event; `None` if there is nothing to deliver.
    ///
    /// Defined for all pairs, although a store never emits some of them (an add of a known object, for example): the handler
    /// always ends up with the newest state and receives (Added Updated* Deleted)*.
    pub(super) fn then(self, event: &Event<K>) -> Option<Self> {
        Some(match (self, event) {
            // Not delivered yet: it stays an add, or nothing.
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
                if old.object_uid() == object.object_uid() {
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
            // The object in between was never delivered, so neither is its delete.
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

    /// How an initial object is delivered when a later change of it is queued: now, and later in its place.
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
