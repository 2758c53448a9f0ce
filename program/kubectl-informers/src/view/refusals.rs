//! Kinds that may not be watched. The program ends when there is no other.

use std::collections::BTreeSet;

use crate::output::notes::Notes;
use crate::output::writer::Output;
use crate::process::failure::Failure;
use crate::session::Session;
use crate::session::observe::{Note, NoteText};

/// The kinds that were refused so far.
#[derive(Default)]
pub struct Refusals {
    kinds: BTreeSet<String>,
}

impl Refusals {
    /// Prints a note.
    ///
    /// # Errors
    ///
    /// No kind may be watched.
    pub fn note(
        &mut self,
        note: &Note,
        session: &Session,
        notes: Notes,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let failure = match &note.text {
            NoteText::Forbidden(text) => Failure::verbatim(text.clone()),
            NoteText::Hopeless(failure) => failure.clone(),
            NoteText::Trouble(_) | NoteText::Recovered(_) => {
                notes.warn_to(out, &note.stamped());
                return Ok(());
            }
        };
        let synced = |kind: &str| {
            session
                .observed()
                .iter()
                .any(|observed| observed.kind.full_name() == kind && observed.informer.has_synced())
        };
        let name = note.kind.full_name();
        // What worked before may work again.
        if !synced(&name) {
            self.kinds.insert(name);
            if self.kinds.len() == session.observed().len() {
                return Err(failure);
            }
        }
        notes.warn_to(out, failure.text());
        Ok(())
    }

    /// Whether the kind was refused.
    pub fn contains(&self, kind: &str) -> bool {
        self.kinds.contains(kind)
    }
}
