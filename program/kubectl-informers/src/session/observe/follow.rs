//! Follows one informer: converts its events into changes, and notices when a failure has ended.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use kube_informers::store::Served;
use kube_informers::{Cause, Event, Informer, ObjectKey, Subscription};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::contact::{Contact, Health};
use super::note::{Note, NoteText, Trouble};
use super::outage::Outages;
use crate::changes::Change;
use crate::changes::noise::Noise;
use crate::objects::item::Item;
use crate::objects::kinds::Kind;
use crate::session::queue::{ChangeSender, Closed};

/// The interval of checks whether a failure has ended.
const LOOK: Duration = Duration::from_millis(250);
/// How long a watch must be live until the end of an outage is reported, with what was missed.
const SETTLE: Duration = Duration::from_millis(500);
/// Unreadable objects that are reported by name at a time.
const MOST_REPORTED: usize = 5;

/// Reads from one informer.
pub(super) struct Follow {
    pub(super) kind: Arc<Kind>,
    pub(super) informer: Informer<Item>,
    pub(super) subscription: Subscription<Item>,
    pub(super) changes: ChangeSender,
    pub(super) notes: mpsc::Sender<Note>,
    /// What is left out of diffs; `None` if changes are not compared.
    pub(super) noise: Option<Noise>,
    pub(super) contact: Arc<Contact>,
    pub(super) trouble: Arc<Mutex<Trouble>>,
    pub(super) outages: Arc<Mutex<Outages>>,
    pub(super) synced: Arc<AtomicBool>,
}

impl Follow {
    /// Runs until the informer stops or the receiver is gone.
    pub(super) async fn run(mut self) {
        let several = self.informer.stats().members.len() > 1;
        let synced = self.subscription.synced();
        tokio::pin!(synced);
        let mut is_synced = false;
        let mut unreadable = Unreadable::default();
        let mut live_since = None;
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
                    if after_list && !is_synced {
                        is_synced = true;
                        if self.tell_synced(initial).is_err() { return }
                    }
                    let change = Change::of(&event, &self.kind, self.noise.as_ref());
                    if !event.is_initial() {
                        let missed = matches!(event, Event::Deleted { cause: Cause::Missed, .. });
                        self.outages.lock().changed(&self.kind.full_name(), missed);
                    }
                    if self.changes.send(change).is_err() { return }
                }
                _ = &mut synced, if !is_synced => {
                    is_synced = true;
                    if self.tell_synced(initial).is_err() { return }
                }
                _ = look.tick() => {
                    self.look_for_recovery(&mut live_since);
                    self.look_for_unreadable(&mut unreadable);
                }
            }
        }
    }

    fn tell_synced(&self, objects: usize) -> Result<(), Closed> {
        self.synced.store(true, Ordering::Release);
        let version = self.informer.store().resource_version();
        self.changes.send(Change::synced(&self.kind, objects, version))
    }

    /// Objects that cannot be shown are reported: the first few by name, the others as a number.
    fn look_for_unreadable(&self, reported: &mut Unreadable) {
        let nameless = self.contact.nameless();
        if nameless > reported.nameless {
            let new = nameless - reported.nameless;
            reported.nameless = nameless;
            let (label, are) = (self.kind.label(), if new == 1 { "is" } else { "are" });
            self.tell(NoteText::Trouble(format!(
                "{new} {label} without a name {are} not shown: the server sent no metadata.name"
            )));
        }
        // Copying a long quarantine is not free, so it is only done when it may have changed.
        let (count, unreadable) = {
            let stats = self.informer.stats();
            let unreadable: u64 = stats
                .members
                .iter()
                .map(|member| member.reflector.unreadable)
                .sum();
            (stats.quarantined, unreadable)
        };
        if (count, unreadable) == reported.seen {
            return;
        }
        reported.seen = (count, unreadable);
        let quarantine = self.informer.quarantine();
        let new: Vec<_> = quarantine
            .iter()
            .filter(|bad| !reported.keys.contains(&bad.key))
            .collect();
        for bad in new.iter().take(MOST_REPORTED) {
            let stale = match bad.served {
                Served::OlderVersion => "its last good version stays; the new one",
                _ => "it",
            };
            let (label, key, problem) = (self.kind.label(), &bad.key, &bad.object.problem);
            self.tell(NoteText::Trouble(format!(
                "{label} {key} is not shown: {stale} {problem}"
            )));
        }
        if new.len() > MOST_REPORTED {
            let (more, name) = (new.len() - MOST_REPORTED, self.kind.full_name());
            self.tell(NoteText::Trouble(format!("and {more} more {name} are not shown")));
        }
        reported.keys = quarantine.into_iter().map(|bad| bad.key).collect();
    }

    fn tell(&self, text: NoteText) {
        // Best effort: the reader is gone, or does not read and has many notes pending.
        let _ = self.notes.try_send(Note {
            when: Timestamp::now(),
            kind: self.kind.clone(),
            text,
        });
    }

    /// Reports the end of an outage: the server has accepted a new watch, and what it sent was received above.
    fn look_for_recovery(&self, live_since: &mut Option<Instant>) {
        let now = Instant::now();
        let mut outages = self.outages.lock();
        let kind = self.kind.full_name();
        let live = outages.is_failing(&kind) && self.contact.health() == Health::Live;
        let since = match live {
            true => *live_since.get_or_insert(now),
            false => {
                *live_since = None;
                now
            }
        };
        // The changes of the time without contact arrive right after the watch was accepted.
        let ended = match live && now >= since + SETTLE {
            true => {
                *self.trouble.lock() = Trouble::default();
                outages.recovered(&kind, since)
            }
            false => outages.tick(now),
        };
        drop(outages);
        if let Some(text) = ended {
            self.tell(NoteText::Recovered(text));
        }
    }
}

/// The objects that were reported as unreadable.
#[derive(Default)]
struct Unreadable {
    keys: HashSet<ObjectKey>,
    nameless: u64,
    /// The number of quarantined objects and of unreadable ones received, when they were last looked at.
    seen: (usize, u64),
}
