//! One informer of one kind: starts it, and makes [`Change`]s and [`Note`]s of what it tells.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube_informers::{
    HandlerOptions, Informer, InformerStats, ListWatch, ObjectKey, ReflectorState, Resume, Scope,
    SourceError, StreamEnd, Subscription,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::changes::Change;
use crate::failure::Failure;
use crate::item::Item;
use crate::kinds::Kind;
use crate::redact::Redaction;
use crate::refusal;
use crate::task::{self, Task};

/// How an informer is doing, in numbers that only grow unless said otherwise.
#[derive(Clone, Debug)]
pub struct InformerView {
    /// Of which kind.
    pub kind: Arc<Kind>,
    /// What it is doing.
    pub state: ReflectorState,
    /// Whether everything that was there is in the cache.
    pub synced: bool,
    /// Objects in the cache, now.
    pub objects: usize,
    /// Objects that could not be read, now.
    pub quarantined: usize,
    /// Bytes received.
    pub bytes: u64,
    /// Additions, updates and deletions so far, the initial list left out.
    pub events: u64,
    /// Complete lists, the first one included.
    pub lists: u64,
    /// Lists that had to be repeated.
    pub relists: u64,
    /// Watches opened.
    pub watches: u64,
    /// Watches that are open on the server, now: one for each namespace, if all is well.
    pub members: usize,
    /// Failed lists and watches.
    pub errors: u64,
    /// The last failure in words, while it lasts.
    pub last_error: Option<String>,
    /// Changes that this program has not taken yet, now.
    pub backlog: usize,
    /// The version of the cache.
    pub resource_version: Option<String>,
    /// How long ago that version was first seen.
    pub version_age: Option<Duration>,
    /// How far the list is, while there is one.
    pub progress: Option<Progress>,
}

impl InformerView {
    /// The state in one word: `starting`, `listing`, `watching`, `waiting`, `stopped`.
    pub fn state_word(&self) -> &'static str {
        match self.state {
            ReflectorState::Idle => "starting",
            ReflectorState::Listing { .. } => "listing",
            ReflectorState::Watching { .. } => "watching",
            ReflectorState::BackingOff { .. } => "waiting",
            _ => "stopped",
        }
    }
}

/// How far a list is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Objects so far.
    pub items: u64,
    /// Of about how many; `None` if the server does not say.
    pub of: Option<u64>,
    /// For how long.
    pub elapsed: Duration,
}

impl Progress {
    /// Objects a second.
    pub fn rate(&self) -> f64 {
        match self.elapsed.as_secs_f64() {
            seconds if seconds > 0.0 => self.items as f64 / seconds,
            _ => 0.0,
        }
    }
}

/// Something about an informer that is no change of an object.
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
    /// A list or watch failed; why, and what is done about it.
    Trouble(String),
    /// The user may not do this; which permission is missing and how to grant it.
    Forbidden(String),
    /// The first list failed. It is tried again all the same, for those who want to wait.
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

/// How often is looked whether trouble has ended.
const LOOK: Duration = Duration::from_millis(250);

/// So many failures in a row before the first success are no chance.
const PATIENCE: u32 = 3;

/// An informer and the task that reads from it.
pub struct Observed {
    /// Of which kind.
    pub kind: Arc<Kind>,
    /// The informer: its cache, its indexes.
    pub informer: Informer<Item>,
    version: Mutex<Option<(String, Instant)>>,
    trouble: Arc<Mutex<Trouble>>,
    _follow: Task,
    _reflect: Task,
}

/// The trouble an informer is in, if it is.
#[derive(Default)]
struct Trouble {
    /// When it began, and when it last failed.
    times: Option<(Instant, Instant)>,
    text: Option<String>,
    /// Refusals are told once.
    refused: bool,
}

/// What is the same for all kinds.
#[derive(Clone)]
pub struct Observing {
    /// The client to use.
    pub client: kube::Client,
    /// The address of the server, for messages.
    pub server: String,
    /// Which objects; namespaces do not apply to kinds that live in none.
    pub scope: Scope,
    /// What is taken out of objects.
    pub redaction: Redaction,
    /// Whether noise is kept and shown.
    pub noise: bool,
}

impl Observed {
    /// Starts an informer of this kind.
    pub(crate) fn start(
        kind: Kind,
        observing: &Observing,
        changes: mpsc::Sender<Change>,
        notes: mpsc::UnboundedSender<Note>,
    ) -> Result<Self, Failure> {
        let kind = Arc::new(kind);
        let scope = match kind.namespaced {
            true => observing.scope.clone(),
            false => observing.scope.clone().in_all_namespaces(),
        };
        let namespaces: Option<Vec<String>> = scope
            .selected_namespaces()
            .map(|namespaces| namespaces.iter().cloned().collect());
        let list_watch = ListWatch::<Item>::projected(observing.client.clone(), kind.resource_type(), scope)
            .drop_managed_fields(!observing.noise);
        for member in list_watch.clone().members() {
            member.check().map_err(Failure::error)?;
        }

        let trouble = Arc::new(Mutex::new(Trouble::default()));
        let synced = Arc::new(AtomicBool::new(false));
        let hook = Hook {
            kind: kind.clone(),
            namespaces,
            server: observing.server.clone(),
            notes: notes.clone(),
            trouble: trouble.clone(),
            synced: synced.clone(),
        };
        let (admitted, redaction) = (kind.clone(), observing.redaction.clone());
        let (informer, reflecting) = Informer::from_list_watch(list_watch)
            .transform(move |item: &mut Item| item.admit(&admitted, &redaction))
            .on_watch_error(move |end| hook.ended(end))
            .build();
        let follow = Follow {
            kind: kind.clone(),
            informer: informer.clone(),
            subscription: informer.subscribe_with(HandlerOptions::default().name("shown")),
            changes,
            notes,
            noise: observing.noise,
            trouble: trouble.clone(),
            synced,
        };
        Ok(Self {
            kind,
            informer,
            version: Mutex::new(None),
            trouble,
            // Subscribed first, so that no change goes by between the list and the first event.
            _follow: task::spawn("follow", follow.run()),
            _reflect: task::spawn("reflect", async move {
                // A fault of the library: it has said so itself, in the log.
                let _ = reflecting.run().await;
            }),
        })
    }

    /// How it is doing.
    pub fn view(&self) -> InformerView {
        let stats: InformerStats = self.informer.stats();
        let state = self.informer.state();
        let resource_version = self.informer.store().resource_version();
        let sum = |of: fn(&kube_informers::ReflectorStats) -> u64| -> u64 {
            stats.members.iter().map(|member| of(&member.reflector)).sum()
        };
        InformerView {
            kind: self.kind.clone(),
            synced: self.informer.has_synced(),
            objects: stats.objects,
            quarantined: stats.quarantined,
            bytes: sum(|reflector| reflector.bytes),
            events: sum(|reflector| reflector.events),
            lists: sum(|reflector| reflector.lists),
            relists: sum(|reflector| reflector.relists.values().sum()),
            watches: sum(|reflector| reflector.watches),
            members: stats
                .members
                .iter()
                .filter(|member| matches!(member.state, ReflectorState::Watching { .. }))
                .count(),
            errors: sum(|reflector| reflector.errors.values().sum()),
            last_error: self.trouble.lock().text.clone(),
            backlog: stats.backlog(),
            version_age: self.version_age(resource_version.as_deref()),
            resource_version,
            progress: progress(&state),
            state,
        }
    }

    /// How long ago this version was first seen here.
    fn version_age(&self, now: Option<&str>) -> Option<Duration> {
        let mut seen = self.version.lock();
        match (&*seen, now) {
            (_, None) => *seen = None,
            (Some((known, _)), Some(now)) if known == now => {}
            (_, Some(now)) => *seen = Some((now.to_owned(), Instant::now())),
        }
        seen.as_ref().map(|(_, since)| since.elapsed())
    }
}

fn progress(state: &ReflectorState) -> Option<Progress> {
    match state {
        ReflectorState::Listing {
            since,
            items,
            remaining,
        } => Some(Progress {
            items: *items,
            of: remaining.map(|remaining| items.saturating_add(remaining)),
            elapsed: since.elapsed(),
        }),
        _ => None,
    }
}

/// Sees how lists and watches end.
struct Hook {
    kind: Arc<Kind>,
    namespaces: Option<Vec<String>>,
    server: String,
    notes: mpsc::UnboundedSender<Note>,
    trouble: Arc<Mutex<Trouble>>,
    synced: Arc<AtomicBool>,
}

impl Hook {
    fn ended(&self, end: &StreamEnd<'_>) {
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
                other => other.is_connection_refused() || end.attempts >= PATIENCE,
            };
        let told_before = {
            let mut trouble = self.trouble.lock();
            let began = trouble.times.map_or(now, |(began, _)| began);
            trouble.times = Some((began, now));
            trouble.text = Some(text.clone());
            std::mem::replace(&mut trouble.refused, hopeless || forbidden.is_some()) && trouble.refused
        };
        if told_before {
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
        // Nobody listens any more: then nobody needs to know.
        let _ = self.notes.send(Note {
            kind: self.kind.clone(),
            text,
        });
    }
}

/// Reads from one informer.
struct Follow {
    kind: Arc<Kind>,
    informer: Informer<Item>,
    subscription: Subscription<Item>,
    changes: mpsc::Sender<Change>,
    notes: mpsc::UnboundedSender<Note>,
    noise: bool,
    trouble: Arc<Mutex<Trouble>>,
    synced: Arc<AtomicBool>,
}

impl Follow {
    /// Until the informer stops or nobody wants to know any more.
    async fn run(mut self) {
        let several = self.informer.stats().members.len() > 1;
        let synced = self.subscription.synced();
        tokio::pin!(synced);
        let mut told_synced = false;
        let mut told_unreadable = BTreeSet::new();
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
                    // What is not initial comes after the list, and so after the news that it has been told. With several
                    // namespaces, one may have changes while another is still being listed.
                    let after_list = !event.is_initial() && (!several || self.subscription.has_synced());
                    if after_list && !told_synced {
                        told_synced = true;
                        if self.tell_synced(initial).await.is_err() { return }
                    }
                    let change = Change::of(&event, &self.kind, self.noise);
                    if self.changes.send(change).await.is_err() { return }
                }
                _ = &mut synced, if !told_synced => {
                    told_synced = true;
                    if self.tell_synced(initial).await.is_err() { return }
                }
                _ = look.tick() => {
                    self.look_for_recovery();
                    self.look_for_unreadable(&mut told_unreadable);
                }
            }
        }
    }

    async fn tell_synced(&self, objects: usize) -> Result<(), mpsc::error::SendError<Change>> {
        self.synced.store(true, Ordering::Release);
        let version = self.informer.store().resource_version();
        self.changes
            .send(Change::synced(&self.kind, objects, version))
            .await
    }

    /// Objects that cannot be read are missing from all that is shown, so that is said, once for each.
    fn look_for_unreadable(&self, told: &mut BTreeSet<ObjectKey>) {
        let unreadable = self.informer.quarantine();
        told.retain(|key| unreadable.iter().any(|bad| bad.key == *key));
        for bad in unreadable {
            if told.insert(bad.key.clone()) {
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
        // Nobody listens any more: then nobody needs to know.
        let _ = self.notes.send(Note {
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
