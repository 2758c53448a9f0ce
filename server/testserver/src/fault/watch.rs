//! Faults of watches: of the stream as a whole, of bookmarks, of single events.

use std::time::Duration;

use bytes::Bytes;
use kube_api_protocol::status::ApiError;

use super::Fault;

/// The faults of a watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchFault {
    /// After this number of events nothing more is sent, and the watch stays open.
    pub(crate) silent_after: Option<u64>,
    /// After this many events the watch ends.
    pub(crate) end_after: Option<u64>,
    /// After this time the watch ends.
    pub(crate) end_in: Option<Duration>,
    /// Whether that end is a broken connection.
    pub(crate) broken_end: bool,
    /// After this many events comes an ERROR event, then the end.
    pub(crate) error_after: Option<(u64, ApiError)>,
    pub(crate) no_bookmarks: bool,
    pub(crate) no_end_marker: bool,
    pub(crate) bookmark_shift: i64,
    pub(crate) bookmark_form: BookmarkForm,
    pub(crate) ignore_initial_events: bool,
    pub(crate) no_newlines: bool,
    pub(crate) late_headers: bool,
    pub(crate) edits: Vec<(Which, Edit)>,
}

/// The form of bookmarks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BookmarkForm {
    #[default]
    Right,
    WithoutMetadata,
    OtherKind,
}

/// Selects events of a watch. Bookmarks are never counted.
#[derive(Clone, Debug, PartialEq)]
pub enum Which {
    /// The n-th event of the watch, from 1.
    Nth(u64),
    /// Every n-th event.
    Every(u64),
    /// The events of one object: `namespace/name`, or `name` for cluster-scoped kinds.
    Object(String),
    /// Each event with this probability, drawn from the server's seed.
    Chance(f64),
    /// All events.
    All,
}

/// The fault of an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Edit {
    Drop,
    Duplicate,
    /// The watch pauses for this duration before the event.
    Delay(Duration),
    /// Swapped with the next event.
    Swap,
    /// The last n events are repeated after it.
    Replay(usize),
    /// These bytes follow its frame.
    Garbage(Bytes),
}

/// Faults of watches.
impl Fault {
    /// A half-open watch: headers are sent, then neither events nor bookmarks nor the end.
    pub fn silent() -> Fault {
        Fault::silent_after_events(0)
    }

    /// The watch goes silent after this number of events.
    pub fn silent_after_events(events: u64) -> Fault {
        on_watch(WatchFault {
            silent_after: Some(events),
            ..WatchFault::default()
        })
    }

    /// The watch ends normally after this number of events (0: at once).
    pub fn close_after_events(events: u64) -> Fault {
        on_watch(WatchFault {
            end_after: Some(events),
            ..WatchFault::default()
        })
    }

    /// The watch ends normally after this time.
    pub fn close_after(time: Duration) -> Fault {
        on_watch(WatchFault {
            end_in: Some(time),
            ..WatchFault::default()
        })
    }

    /// The connection breaks after this number of events.
    pub fn break_after_events(events: u64) -> Fault {
        on_watch(WatchFault {
            end_after: Some(events),
            broken_end: true,
            ..WatchFault::default()
        })
    }

    /// The connection breaks after this time.
    pub fn break_after(time: Duration) -> Fault {
        on_watch(WatchFault {
            end_in: Some(time),
            broken_end: true,
            ..WatchFault::default()
        })
    }

    /// The watch starts with this error as an ERROR event, then ends.
    pub fn error_event(error: ApiError) -> Fault {
        Fault::error_event_after(0, error)
    }

    /// After this number of events the watch sends this error as an ERROR event, then ends.
    pub fn error_event_after(events: u64, error: ApiError) -> Fault {
        on_watch(WatchFault {
            error_after: Some((events, error)),
            ..WatchFault::default()
        })
    }

    /// No bookmarks, except the one that ends the initial events.
    pub fn no_bookmarks() -> Fault {
        on_watch(WatchFault {
            no_bookmarks: true,
            ..WatchFault::default()
        })
    }

    /// The bookmark that ends the initial events is never sent.
    pub fn no_end_marker() -> Fault {
        on_watch(WatchFault {
            no_end_marker: true,
            ..WatchFault::default()
        })
    }

    /// The resource version of bookmarks is off by this amount.
    pub fn bookmark_version(shift: i64) -> Fault {
        on_watch(WatchFault {
            bookmark_shift: shift,
            ..WatchFault::default()
        })
    }

    /// Bookmarks have no metadata.
    pub fn bookmark_without_metadata() -> Fault {
        on_watch(WatchFault {
            bookmark_form: BookmarkForm::WithoutMetadata,
            ..WatchFault::default()
        })
    }

    /// Bookmarks are of another kind.
    pub fn bookmark_of_another_kind() -> Fault {
        on_watch(WatchFault {
            bookmark_form: BookmarkForm::OtherKind,
            ..WatchFault::default()
        })
    }

    /// A server that does not know `sendInitialEvents`: the watch starts without initial events and end marker.
    pub fn ignore_initial_events() -> Fault {
        on_watch(WatchFault {
            ignore_initial_events: true,
            ..WatchFault::default()
        })
    }

    /// The headers are sent only with the first frame, as through some proxies.
    pub fn late_headers() -> Fault {
        on_watch(WatchFault {
            late_headers: true,
            ..WatchFault::default()
        })
    }

    /// Frames have no trailing newline, which JSON allows and some clients do not expect.
    pub fn no_newlines() -> Fault {
        on_watch(WatchFault {
            no_newlines: true,
            ..WatchFault::default()
        })
    }

    /// These bytes follow the frames of these events.
    pub fn garbage_after_events(which: Which, garbage: impl Into<Bytes>) -> Fault {
        on_events(which, Edit::Garbage(garbage.into()))
    }

    /// These events are dropped.
    pub fn drop_events(which: Which) -> Fault {
        on_events(which, Edit::Drop)
    }

    /// These events are sent twice.
    pub fn duplicate_events(which: Which) -> Fault {
        on_events(which, Edit::Duplicate)
    }

    /// These events, and all after them, are delayed.
    pub fn delay_events(which: Which, by: Duration) -> Fault {
        on_events(which, Edit::Delay(by))
    }

    /// These events are swapped with the next one.
    pub fn reorder_events(which: Which) -> Fault {
        on_events(which, Edit::Swap)
    }

    /// After these events the last `count` events are repeated.
    pub fn replay_events(which: Which, count: usize) -> Fault {
        on_events(which, Edit::Replay(count))
    }
}

fn on_watch(watch: WatchFault) -> Fault {
    Fault {
        watch,
        ..Fault::default()
    }
}

fn on_events(which: Which, edit: Edit) -> Fault {
    on_watch(WatchFault {
        edits: vec![(which, edit)],
        ..WatchFault::default()
    })
}

impl WatchFault {
    pub(super) fn and(mut self, other: WatchFault) -> WatchFault {
        self.edits.extend(other.edits);
        WatchFault {
            silent_after: self.silent_after.or(other.silent_after),
            end_after: self.end_after.or(other.end_after),
            end_in: self.end_in.or(other.end_in),
            broken_end: self.broken_end || other.broken_end,
            error_after: self.error_after.or(other.error_after),
            no_bookmarks: self.no_bookmarks || other.no_bookmarks,
            no_end_marker: self.no_end_marker || other.no_end_marker,
            bookmark_shift: self.bookmark_shift.saturating_add(other.bookmark_shift),
            bookmark_form: match self.bookmark_form {
                BookmarkForm::Right => other.bookmark_form,
                wrong => wrong,
            },
            ignore_initial_events: self.ignore_initial_events || other.ignore_initial_events,
            no_newlines: self.no_newlines || other.no_newlines,
            late_headers: self.late_headers || other.late_headers,
            edits: self.edits,
        }
    }
}
