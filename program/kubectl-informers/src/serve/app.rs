//! The state behind all requests: the caches, and the board behind a briefly held lock.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use http::StatusCode;
use jiff::Timestamp;
use kube_informers::Store;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer::{self, Refused};
use super::indexes;
use crate::board::Board;
use crate::changes::Change;
use crate::cli::ServeArgs;
use crate::objects::item::Item;
use crate::objects::kinds::Kind;
use crate::session::Session;
use crate::session::observe::{Health, InformerView, Note, NoteText};
use crate::session::queue::Coalesced;
use crate::view::server_columns::ServerColumns;

/// The maximum number of concurrent streams. Each costs a connection and little memory.
const STREAMS: usize = 128;
/// Large responses at a time. Each holds its text until it is sent, so this bounds the memory of slow readers.
const LARGE: usize = 8;

/// One served kind.
pub(super) struct Served {
    pub id: String,
    pub kind: Arc<Kind>,
    pub store: Store<Item>,
}

/// What streams wait for: the number of ticks, and the number of the last change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Beat {
    pub ticks: u64,
    pub last: u64,
}

pub(super) struct App {
    pub title: String,
    pub server: String,
    pub embedded: bool,
    pub started: Timestamp,
    /// Distinguishes the change numbers of this run from those of others.
    pub epoch: String,
    pub kinds: Vec<Served>,
    pub board: Mutex<Board>,
    /// The columns of kinds that have none of ours.
    pub columns: ServerColumns,
    /// The current failure of each informer, by the index of its kind.
    remarks: Mutex<BTreeMap<usize, String>>,
    /// Changes coalesced before they reached the log.
    pub coalesced: Mutex<Coalesced>,
    pub streams: Arc<Semaphore>,
    /// Large responses that are encoded or sent.
    pub large: Arc<Semaphore>,
    /// The size of one list.
    pub max_response: usize,
    pub rejected: AtomicU64,
    pub write_timeouts: Arc<AtomicU64>,
    pub stop: CancellationToken,
    beat: watch::Sender<Beat>,
}

impl App {
    pub fn new(session: &Session, args: &ServeArgs) -> Self {
        let board = Board::new(
            session.observed().iter().map(|observed| observed.kind.clone()),
            Instant::now(),
        );
        let kinds = session
            .observed()
            .iter()
            .zip(&board.kinds)
            .map(|(observed, known)| {
                let store = observed.informer.store();
                indexes::add(&observed.kind, &store);
                Served {
                    id: known.id.clone(),
                    kind: observed.kind.clone(),
                    store,
                }
            })
            .collect();
        let cluster = session.cluster();
        let started = Timestamp::now();
        Self {
            title: cluster.title(),
            server: cluster.server.clone(),
            embedded: cluster.is_embedded(),
            epoch: format!("{:x}", RandomState::new().hash_one(started.as_nanosecond())),
            started,
            kinds,
            board: Mutex::new(board),
            columns: ServerColumns::start(session),
            remarks: Mutex::new(BTreeMap::new()),
            coalesced: Mutex::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            large: Arc::new(Semaphore::new(LARGE)),
            max_response: args.max_response.bytes(),
            rejected: AtomicU64::new(0),
            write_timeouts: Arc::default(),
            stop: CancellationToken::new(),
            beat: watch::Sender::new(Beat::default()),
        }
    }

    /// Applies a change.
    pub fn apply(&self, change: Change) {
        self.columns.expect(&change);
        let made = self.board.lock().apply(change, Instant::now());
        if let Some(entry) = made {
            self.beat.send_modify(|beat| beat.last = entry.number);
        }
    }

    /// Called once a second.
    pub fn tick(&self, views: Vec<InformerView>, coalesced: Coalesced) {
        *self.coalesced.lock() = coalesced;
        let live = views
            .iter()
            .enumerate()
            .filter(|(_, view)| view.health == Health::Live);
        for (place, _) in live {
            self.remarks.lock().remove(&place);
        }
        self.board.lock().tick(views, Instant::now());
        self.beat.send_modify(|beat| beat.ticks += 1);
    }

    /// Adds a note of an informer. A failure is kept until it ends.
    pub fn note(&self, note: &Note) {
        let Some(place) = self.kinds.iter().position(|served| served.kind == note.kind) else {
            return;
        };
        match &note.text {
            NoteText::Forbidden(_) | NoteText::Hopeless(_) => self.remarks.lock().insert(place, note.text()),
            // Temporary failures are shown by the view of the informer while they last.
            NoteText::Trouble(_) | NoteText::Recovered(_) => None,
        };
    }

    /// The current failure of the informer of this kind.
    pub fn remark(&self, place: usize) -> Option<String> {
        self.remarks.lock().get(&place).cloned()
    }

    /// Notifies about changes.
    pub fn beats(&self) -> watch::Receiver<Beat> {
        self.beat.subscribe()
    }

    /// The name of the kind at this index.
    pub fn id(&self, place: usize) -> &str {
        self.kinds.get(place).map_or("", |served| served.id.as_str())
    }

    /// The kind with this name, and its index. A 404 names the kinds that are watched.
    pub fn kind(&self, id: &str) -> Result<(usize, &Served), Refused> {
        let found = self.kinds.iter().enumerate().find(|(_, served)| served.id == id);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.kinds.iter().map(|served| served.id.as_str()).collect();
            let text = format!("{id:?} is not watched here; these are: {}", known.join(", "));
            Box::new(answer::failure(StatusCode::NOT_FOUND, text))
        })
    }
}

/// Milliseconds since 1970, as in JavaScript.
pub(super) fn now() -> i64 {
    Timestamp::now().as_millisecond()
}
