//! Messages of an informer that are not changes of objects: failures and recoveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube_informers::reflector::{Resume, StreamEnd};
use kube_informers::source::SourceError;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::kinds::Kind;
use crate::refusal;

/// Failures in a row before the first success after which the connection is reported as failed.
const MAX_INITIAL_FAILURES: u32 = 3;

/// A message about an informer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Of which kind.
    pub kind: Arc<Kind>,
    /// What.
    pub text: NoteText,
}

/// What a note says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteText {
    /// A list or watch failed: the cause, and what happens next.
    Trouble(String),
    /// Permission is missing: which one, and how to grant it.
    Forbidden(String),
    /// The first list failed. It is retried nevertheless.
    Hopeless(Failure),
    /// It works again.
    Recovered(String),
}

impl Note {
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
    /// When it began, and when it last failed.
    pub(super) times: Option<(Instant, Instant)>,
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
        let now = Instant::now();
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
        let forbidden = refusal::missing_permission(error, &self.kind, self.namespaces.as_deref());
        // Before anything has worked, nothing suggests that it ever will. A connection may break by chance, a few times.
        let hopeless = !self.synced.load(Ordering::Acquire)
            && match error {
                SourceError::Api(api) => api.is_refusal() || api.is_invalid(),
                SourceError::Request(_) => true,
                other => other.is_connection_refused() || end.attempts >= MAX_INITIAL_FAILURES,
            };
        let reported_before = {
            let mut trouble = self.trouble.lock();
            let began = trouble.times.map_or(now, |(began, _)| began);
            trouble.times = Some((began, now));
            trouble.text = Some(text.clone());
            std::mem::replace(&mut trouble.refused, hopeless || forbidden.is_some()) && trouble.refused
        };
        if reported_before {
            // It is tried again and again; once is enough to know.
            return;
        }
        let text = match forbidden {
            Some(text) => NoteText::Forbidden(text),
            None if hopeless => NoteText::Hopeless(refusal::into_failure(error, &self.server)),
            None => NoteText::Trouble(text),
        };
        self.tell(text);
    }

    fn tell(&self, text: NoteText) {
        // Best effort: the reader is gone, or does not read and has many notes pending.
        let _ = self.notes.try_send(Note {
            kind: self.kind.clone(),
            text,
        });
    }
}
