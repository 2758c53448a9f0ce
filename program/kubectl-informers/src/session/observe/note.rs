//! Messages of an informer that are not changes of objects: failures and recoveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use kube_informers::reflector::{Resume, StreamEnd};
use kube_informers::source::{LimitExceeded, SourceError};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::outage::{Failed, Outages};
use crate::cluster::refusal;
use crate::objects::kinds::Kind;
use crate::process::failure::Failure;
use crate::text::units::time;

/// Failures in a row before the first success after which the connection is reported as failed.
const MAX_INITIAL_FAILURES: u32 = 3;

/// A message about an informer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// When it was noticed.
    pub when: Timestamp,
    /// Of which kind.
    pub kind: Arc<Kind>,
    /// What.
    pub text: NoteText,
}

/// What a note says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteText {
    /// Something went wrong; why, and what is done about it.
    Trouble(String),
    /// Permission is missing: which one, and how to grant it.
    Forbidden(String),
    /// The first list failed. It is retried nevertheless.
    Hopeless(Failure),
    /// It works again.
    Recovered(String),
}

impl Note {
    /// What to print, with the time in front.
    pub fn stamped(&self) -> String {
        format!("{} {}", time(self.when), self.text())
    }

    /// What to print.
    pub fn text(&self) -> String {
        match &self.text {
            NoteText::Trouble(text) | NoteText::Forbidden(text) | NoteText::Recovered(text) => text.clone(),
            NoteText::Hopeless(failure) => failure.text().to_owned(),
        }
    }
}

/// The current failure of an informer.
#[derive(Default)]
pub(super) struct Trouble {
    pub(super) text: Option<String>,
    /// Refusals are reported once.
    pub(super) refused: bool,
}

/// Observes the ends of lists and watches.
pub(super) struct Hook {
    pub(super) kind: Arc<Kind>,
    pub(super) namespaces: Option<Vec<String>>,
    pub(super) server: String,
    pub(super) notes: mpsc::Sender<Note>,
    pub(super) trouble: Arc<Mutex<Trouble>>,
    pub(super) outages: Arc<Mutex<Outages>>,
    pub(super) synced: Arc<AtomicBool>,
}

impl Hook {
    /// The end of a list or watch: reported if it is a failure that has not been reported before.
    pub(super) fn ended(&self, end: &StreamEnd<'_>) {
        let Some(error) = end.error else { return };
        // Asking in another way is not trouble: older servers refuse the newer ones.
        if let Resume::ListInstead | Resume::RetryNewest | Resume::RetryWhole = end.resume {
            return;
        }
        let mut text = format!(
            "{} of {} failed: {}; {}",
            end.operation,
            end.resource,
            refusal::explain(error),
            end.resume
        );
        if !end.pause.is_zero() {
            text.push_str(&format!(" in {:.1} s", end.pause.as_secs_f64()));
        }
        let synced = self.synced.load(Ordering::Acquire);
        let forbidden = refusal::missing_permission(error, &self.kind, self.namespaces.as_deref());
        // Before anything has worked, nothing suggests that it ever will. A connection may break by chance, a few times.
        let hopeless = !synced
            && match error {
                // The server is up, and will answer later.
                SourceError::Api(api) if api.is_too_many_requests() => false,
                SourceError::Api(api) if api.is_refusal() || api.is_invalid() => true,
                SourceError::Request(_) => true,
                // The next list would be as large.
                SourceError::Limit(
                    LimitExceeded::Objects { .. }
                    | LimitExceeded::Bytes { .. }
                    | LimitExceeded::WastedBytes { .. },
                ) => true,
                other => other.is_connection_refused() || end.attempts >= MAX_INITIAL_FAILURES,
            };
        let refused = hopeless || forbidden.is_some();
        let reported = {
            let mut trouble = self.trouble.lock();
            trouble.text = Some(text.clone());
            std::mem::replace(&mut trouble.refused, refused) && refused
        };
        let kind = self.kind.full_name();
        let began = {
            let mut outages = self.outages.lock();
            let failed = Failed {
                text: &text,
                synced,
                needs_user: refusal::needs_login(error),
            };
            let began = outages.failed(&kind, &failed, Instant::now());
            if let Resume::Relist(reason) = end.resume {
                outages.relisted(&kind, reason.to_string());
            }
            began
        };
        // The request is repeated; one report is enough.
        let text = match forbidden {
            _ if reported => return,
            Some(text) => NoteText::Forbidden(text),
            None if hopeless => NoteText::Hopeless(refusal::into_failure(error, &self.server)),
            None => match began {
                Some(text) => NoteText::Trouble(text),
                None => return,
            },
        };
        self.tell(text);
    }

    fn tell(&self, text: NoteText) {
        // Best effort: the reader is gone, or does not read and has many notes pending.
        let _ = self.notes.try_send(Note {
            when: Timestamp::now(),
            kind: self.kind.clone(),
            text,
        });
    }
}
