//! Follows one informer: converts its events into changes, and notices when a failure has ended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube_informers::reflector::ReflectorState;
use kube_informers::{Informer, ObjectKey, Subscription};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::note::{Note, NoteText, Trouble};
use crate::changes::Change;
use crate::item::Item;
use crate::kinds::Kind;
use crate::queue::{ChangeSender, Closed};

/// The interval of checks whether a failure has ended.
const LOOK: Duration = Duration::from_millis(250);

/// Reads from one informer.
pub(super) struct Follow {
    pub(super) kind: Arc<Kind>,
    pub(super) informer: Informer<Item>,
    pub(super) subscription: Subscription<Item>,
    pub(super) changes: ChangeSender,
    pub(super) notes: mpsc::Sender<Note>,
    pub(super) noise: bool,
    pub(super) trouble: Arc<Mutex<Trouble>>,
    pub(super) synced: Arc<AtomicBool>,
}

impl Follow {
    /// Runs until the informer stops or the receiver is gone.
    pub(super) async fn run(mut self) {
        let several = self.informer.stats().members.len() > 1;
        let synced = self.subscription.synced();
        tokio::pin!(synced);
        let mut reported_synced = false;
        let mut reported_unreadable = BTreeSet::new();
        let mut initial = 0;
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // All are cancel-safe: an event is either returned or kept, being synced stays, a tick may be missed.
            tokio::select! {
                biased;
                event = self.subscription.next() => {
                    let Some(event) = event else { return };
                    initial += usize::from(event.is_initial());
                    // What is not initial comes after the end of the initial list. With several
                    // namespaces, one may have changes while another is still being listed.
                    let after_list = !event.is_initial() && (!several || self.subscription.has_synced());
                    if after_list && !reported_synced {
                        reported_synced = true;
                        if self.tell_synced(initial).is_err() { return }
                    }
                    let change = Change::of(&event, &self.kind, self.noise);
                    if self.changes.send(change).is_err() { return }
                }
                _ = &mut synced, if !reported_synced => {
                    reported_synced = true;
                    if self.tell_synced(initial).is_err() { return }
                }
                _ = look.tick() => {
                    self.look_for_recovery();
                    self.report_unreadable(&mut reported_unreadable);
                }
            }
        }
    }

    fn tell_synced(&self, objects: usize) -> Result<(), Closed> {
        self.synced.store(true, Ordering::Release);
        let version = self.informer.store().resource_version();
        self.changes.send(Change::synced(&self.kind, objects, version))
    }

    /// Objects that cannot be decoded are missing from every view, so each is reported once.
    fn report_unreadable(&self, reported: &mut BTreeSet<ObjectKey>) {
        let unreadable = self.informer.quarantine();
        reported.retain(|key| unreadable.iter().any(|bad| bad.key == *key));
        for bad in unreadable {
            if reported.insert(bad.key.clone()) {
                self.tell(NoteText::Trouble(format!(
                    "{} {} is not shown: it {}",
                    self.kind.label(),
                    bad.key,
                    bad.object.problem
                )));
            }
        }
    }

    fn tell(&self, text: NoteText) {
        // Best effort: the reader is gone, or does not read and has many notes pending.
        let _ = self.notes.try_send(Note {
            kind: self.kind.clone(),
            text,
        });
    }

    fn look_for_recovery(&self) {
        let ReflectorState::Watching { since } = self.informer.state() else {
            return;
        };
        let mut trouble = self.trouble.lock();
        let Some((began, last)) = trouble.times.filter(|(_, last)| since > *last) else {
            return;
        };
        *trouble = Trouble::default();
        drop(trouble);
        let text = format!(
            "watching {} again after {:.1} s",
            self.informer.name(),
            (since - began).max(last - began).as_secs_f64()
        );
        self.tell(NoteText::Recovered(text));
    }
}
