//! Watches: one passive body per watch, which reads the shared history from its position.
//! Nothing is queued per watch, and no task runs behind it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kube_api_protocol::status::ApiError;
use kube_api_protocol::watch::EventType;
use serde_json::json;
use tokio::time::{Instant, Sleep};

use crate::encode::Encoder;
use crate::fault::{BookmarkForm, WatchFault, broken};
use crate::hub::{OpenWatch, Order};
use crate::select::selection::Selection;
use crate::state::ServerState;
use crate::storage::Stored;

mod edits;

use edits::Edits;

/// The number of bytes of frames written at a time.
const CHUNK: usize = 32 * 1024;

/// Longer than any test or program runs, and short enough to be added to a clock.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The last bookmark is sent this long before the watch times out.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// The start of a watch.
#[derive(Debug)]
pub(crate) enum Start {
    /// ADDED events for these objects, the end marker, then the changes after the revision.
    Initial {
        objects: Vec<Arc<Stored>>,
        revision: u64,
    },
    /// The changes after the revision.
    After(u64),
    /// This error, then the end.
    Error(ApiError),
}

/// The immutable parts of a watch.
#[derive(Debug)]
pub(crate) struct WatchSpec {
    pub(crate) state: Arc<ServerState>,
    pub(crate) open: OpenWatch,
    pub(crate) replica: usize,
    pub(crate) collection: Arc<str>,
    pub(crate) selection: Selection,
    pub(crate) encoder: Encoder,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Duration,
    pub(crate) fault: WatchFault,
}

/// The body of one watch.
#[derive(Debug)]
pub(crate) struct WatchBody {
    spec: WatchSpec,
    phase: Phase,
    /// Everything up to this revision has been sent or skipped.
    position: u64,
    out: Outbox,
    flushed: bool,
    deadline: Pin<Box<Sleep>>,
    /// The end scheduled by a fault.
    cut_short: Option<Pin<Box<Sleep>>>,
    bookmark: Pin<Box<Sleep>>,
    last_bookmark_sent: bool,
    /// Set while a fault delays the events.
    held: Option<Pin<Box<Sleep>>>,
    /// Set while a webhook converts the next object.
    converting: Option<Converting>,
}

/// What a watch is about to send.
#[derive(Debug)]
struct Outbox {
    /// Frames to be sent.
    ready: VecDeque<Bytes>,
    edits: Edits,
    /// The number of events that were sent or are ready.
    events: u64,
}

impl Outbox {
    /// Sends the event of an object, as the edits have it.
    fn send(&mut self, key: &str, frame: Bytes, draw: impl FnMut() -> f64) {
        if self.edits.is_empty() {
            self.send_now(frame);
        } else {
            self.edits.take(key, frame, draw);
        }
    }

    fn send_now(&mut self, frame: Bytes) {
        self.events += 1;
        self.ready.push_back(frame);
    }
}

/// The conversion of the next object.
struct Converting(BoxFuture<'static, Result<Arc<Stored>, ApiError>>);

impl fmt::Debug for Converting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Converting")
    }
}

/// What the history has for a watch.
enum Next {
    /// Events were sent, or there are none.
    Events(bool),
    /// An object that a webhook must convert first.
    Unconverted(Arc<Stored>),
    /// The position is before the window.
    Lost,
}

#[derive(Debug)]
enum Phase {
    Initial {
        objects: std::vec::IntoIter<Arc<Stored>>,
        revision: u64,
    },
    Live,
    Failed(ApiError),
    Ended,
}

type Chunk = Option<Result<Bytes, io::Error>>;

impl WatchBody {
    pub(crate) fn new(spec: WatchSpec, start: Start) -> WatchBody {
        let (phase, position) = match start {
            Start::Initial { objects, revision } => (
                Phase::Initial {
                    objects: objects.into_iter(),
                    revision,
                },
                revision,
            ),
            Start::After(revision) => (Phase::Live, revision),
            Start::Error(error) => (Phase::Failed(error), 0),
        };
        WatchBody {
            phase,
            position,
            out: Outbox {
                ready: VecDeque::new(),
                edits: Edits::new(spec.fault.edits.clone()),
                events: 0,
            },
            flushed: false,
            deadline: sleep(spec.timeout),
            cut_short: spec.fault.end_in.map(sleep),
            bookmark: sleep(spec.state.config.bookmark_interval),
            last_bookmark_sent: false,
            held: None,
            converting: None,
            spec,
        }
    }

    /// Whether the watch is still to deliver the existing objects, and then the bookmark that ends them.
    pub(crate) fn is_watch_list(&self) -> bool {
        matches!(self.phase, Phase::Initial { .. }) && self.spec.bookmarks
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Chunk> {
        // Registered before anything is checked, so that no wake-up is missed in between.
        self.spec.open.waker().register(cx.waker());
        loop {
            match self.spec.open.order() {
                Order::None | Order::Finish => {}
                Order::Close => return self.end(cx, None),
                Order::Break => return self.end(cx, Some(broken())),
            }
            if let Some(chunk) = self.take_ready() {
                return Poll::Ready(Some(Ok(chunk)));
            }
            if matches!(self.phase, Phase::Ended) {
                return Poll::Ready(None);
            }
            if self
                .spec
                .fault
                .silent_after
                .is_some_and(|after| self.out.events >= after)
            {
                // Half-open: not even the timeout ends it; only the server's orders and the client's drop do.
                return if self.spec.open.order() == Order::Finish {
                    self.end(cx, None)
                } else {
                    Poll::Pending
                };
            }
            if let Some(end) = self.forced_end(cx) {
                return end;
            }
            if self.deadline.as_mut().poll(cx).is_ready() {
                return self.end(cx, None);
            }
            if !self.fill(cx) && self.out.ready.is_empty() {
                // Checked again now: all changes before the order have been read from the history.
                return if self.spec.open.order() == Order::Finish {
                    self.end(cx, None)
                } else {
                    Poll::Pending
                };
            }
        }
    }

    /// The ends caused by faults.
    fn forced_end(&mut self, cx: &mut Context<'_>) -> Option<Poll<Chunk>> {
        let fault = &self.spec.fault;
        let counted = fault.end_after.is_some_and(|after| self.out.events >= after);
        let timed = self
            .cut_short
            .as_mut()
            .is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready());
        if counted || timed {
            let error = self.spec.fault.broken_end.then(broken);
            return Some(self.end(cx, error));
        }
        if let Some((_, error)) = self
            .spec
            .fault
            .error_after
            .take_if(|(after, _)| self.out.events >= *after)
        {
            self.phase = Phase::Failed(error);
        }
        None
    }

    fn end(&mut self, cx: &mut Context<'_>, error: Option<io::Error>) -> Poll<Chunk> {
        if error.is_some() && !std::mem::replace(&mut self.flushed, true) {
            // Yields once, so that the socket can flush its buffer: an error would discard it.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.phase = Phase::Ended;
        self.out.ready.clear();
        Poll::Ready(error.map(Err))
    }

    /// The number of events that may be sent before a counting fault applies.
    fn room(&self) -> u64 {
        let fault = &self.spec.fault;
        [
            fault.silent_after,
            fault.end_after,
            fault.error_after.as_ref().map(|(after, _)| *after),
        ]
        .into_iter()
        .flatten()
        .map(|after| after.saturating_sub(self.out.events))
        .min()
        .unwrap_or(u64::MAX)
    }

    /// All ready frames as one chunk. A single frame is not copied.
    fn take_ready(&mut self) -> Option<Bytes> {
        if self.spec.fault.no_newlines {
            for frame in &mut self.out.ready {
                if frame.ends_with(b"\n") {
                    frame.truncate(frame.len() - 1);
                }
            }
        }
        let first = self.out.ready.pop_front()?;
        if self.out.ready.is_empty() {
            return Some(first);
        }
        let mut out = Vec::with_capacity(first.len() + self.out.ready.iter().map(Bytes::len).sum::<usize>());
        out.extend_from_slice(&first);
        for frame in self.out.ready.drain(..) {
            out.extend_from_slice(&frame);
        }
        Some(out.into())
    }

    /// Prepares more frames; returns `false` if there is nothing to do but wait.
    fn fill(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(held) = self.held.as_mut() {
            if held.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.held = None;
        }
        if self.release_edited() {
            return true;
        }
        if let Some(Converting(converting)) = &mut self.converting {
            match converting.as_mut().poll(cx) {
                Poll::Pending => return false,
                Poll::Ready(Err(error)) => self.phase = Phase::Failed(error),
                Poll::Ready(Ok(_)) => {}
            }
            self.converting = None;
        }
        match &mut self.phase {
            Phase::Ended => false,
            Phase::Failed(error) => {
                let frame = self.spec.encoder.frame("ERROR", &error.to_value());
                self.out.ready.push_back(frame);
                self.phase = Phase::Ended;
                true
            }
            Phase::Initial { .. } => {
                self.fill_initial();
                true
            }
            Phase::Live => self.fill_live() || self.fill_bookmark(cx),
        }
    }

    fn fill_initial(&mut self) {
        let mut count = 0;
        let mut size = 0;
        let mut exhausted = false;
        let room = usize::try_from(self.room_for_batch()).unwrap_or(usize::MAX);
        let Phase::Initial { objects, revision } = &mut self.phase else {
            return;
        };
        let revision = *revision;
        while size < CHUNK && count < room {
            let Some(object) = objects.next() else {
                exhausted = true;
                break;
            };
            let frame = self.spec.encoder.event(EventType::Added, &object);
            size += frame.len();
            count += 1;
            let faults = &self.spec.state.faults;
            self.out.send(&object.key, frame, || faults.draw());
        }
        self.release_edited();
        if exhausted {
            self.phase = Phase::Live;
            if self.spec.bookmarks && !self.spec.fault.no_end_marker && !self.spec.fault.ignore_initial_events
            {
                let marker = self.bookmark_frame(revision, true);
                self.out.ready.push_back(marker);
            }
        }
    }

    /// Reads new changes for this watch; returns `false` if there are none.
    fn fill_live(&mut self) -> bool {
        match self.read_history() {
            Next::Lost => {
                // Closed without an error, as by a real server; the 410 comes on the next attempt.
                self.phase = Phase::Ended;
                true
            }
            Next::Unconverted(object) => {
                let (state, lens) = (self.spec.state.clone(), self.spec.selection.lens().clone());
                let converting = async move { lens.convert(&state, &object).await };
                self.converting = Some(Converting(converting.boxed()));
                true
            }
            Next::Events(any) => {
                self.release_edited();
                any
            }
        }
    }

    /// Reads the shared history from this watch's position.
    fn read_history(&mut self) -> Next {
        let room = usize::try_from(self.room_for_batch()).unwrap_or(usize::MAX);
        let spec = &self.spec;
        let is_served = spec.selection.lens().is_served(&spec.state);
        let store = spec.state.store.read();
        let visible = spec.state.visible(spec.replica, &store);
        let mut count = 0;
        if visible <= self.position {
            // Also for a watch from a future version: nothing is sent until that version is passed.
            return Next::Events(false);
        }
        if self.position < store.floor(&spec.collection) {
            return Next::Lost;
        }
        let Some(collection) = store.collection(&spec.collection) else {
            self.position = visible;
            return Next::Events(false);
        };
        let behind = collection.count_changes(self.position, visible);
        if spec.state.config.slow_watch.is_some_and(|limit| behind > limit) {
            return Next::Lost;
        }
        let mut size = 0;
        for change in collection.changes_after(self.position).take(behind) {
            if size >= CHUNK || count >= room {
                return Next::Events(count > 0);
            }
            if store.is_lost(spec.replica, change) {
                self.position = change.revision;
                continue;
            }
            // Nothing can be converted to a version that its definition does not have any more.
            if !is_served && !spec.selection.lens().is_version_of(change) {
                return match count {
                    0 => Next::Lost,
                    _ => Next::Events(true),
                };
            }
            let event = match spec.selection.event(change) {
                Ok(event) => event,
                Err(object) if count == 0 => return Next::Unconverted(object.clone()),
                Err(_) => return Next::Events(true),
            };
            self.position = change.revision;
            if let Some((event, object)) = event {
                let frame = match &object {
                    // Objects that were converted have frames of their own.
                    Cow::Borrowed(object) if spec.selection.is_everything() => {
                        spec.encoder.shared_event(event, object, change)
                    }
                    object => spec.encoder.event(event, object),
                };
                size += frame.len();
                count += 1;
                let faults = &spec.state.faults;
                self.out.send(change.key(), frame, || faults.draw());
            }
        }
        self.position = visible;
        Next::Events(count > 0)
    }

    /// Sends a bookmark if one is due.
    fn fill_bookmark(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.spec.bookmarks || self.spec.fault.no_bookmarks {
            return false;
        }
        if self.spec.timeout <= LAST_BOOKMARK {
            // A watch this short ends without one.
            return false;
        }
        let last_at = self.deadline.deadline() - LAST_BOOKMARK;
        if !self.last_bookmark_sent && self.bookmark.deadline() > last_at {
            self.bookmark.as_mut().reset(last_at);
        }
        if self.last_bookmark_sent || self.bookmark.as_mut().poll(cx).is_pending() {
            return false;
        }
        let now = Instant::now();
        self.last_bookmark_sent = now >= last_at;
        self.bookmark
            .as_mut()
            .reset(now + self.spec.state.config.bookmark_interval.min(LONGEST));
        let visible = {
            let store = self.spec.state.store.read();
            self.spec.state.visible(self.spec.replica, &store)
        };
        if visible < self.position {
            // The server is behind the version the client has seen: sending a bookmark would go back.
            return true;
        }
        let frame = self.bookmark_frame(self.position, false);
        self.out.ready.push_back(frame);
        true
    }

    fn bookmark_frame(&self, revision: u64, end_of_initial: bool) -> Bytes {
        let fault = &self.spec.fault;
        let revision = revision.saturating_add_signed(fault.bookmark_shift);
        let mut object = self.spec.encoder.bookmark(revision, end_of_initial);
        if fault.bookmark_form == BookmarkForm::OtherKind {
            object["apiVersion"] = json!("example.com/v1");
            object["kind"] = json!("SomethingElse");
        }
        if fault.bookmark_form == BookmarkForm::WithoutMetadata
            && let Some(map) = object.as_object_mut()
        {
            map.remove("metadata");
        }
        self.spec.encoder.frame("BOOKMARK", &object)
    }

    /// The number of events to read at once: one if edits are active, so that each passes them in order.
    fn room_for_batch(&self) -> u64 {
        if self.out.edits.is_empty() { self.room() } else { 1 }
    }

    /// Releases events from the edits; returns `false` if there are none.
    fn release_edited(&mut self) -> bool {
        let mut any = false;
        while self.room() > 0 {
            match self.out.edits.next() {
                Some(edits::Out::Frame(frame)) => {
                    self.out.send_now(frame);
                    any = true;
                }
                Some(edits::Out::Wait(time)) => {
                    self.held = Some(sleep(time));
                    return any;
                }
                None => break,
            }
        }
        any
    }
}

/// Sleeps for any duration that a client may request, including those that overflow the clock.
fn sleep(time: Duration) -> Pin<Box<Sleep>> {
    Box::pin(tokio::time::sleep(time.min(LONGEST)))
}
