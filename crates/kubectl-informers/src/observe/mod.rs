//! One informer of one kind: starts it, and converts its events and failures into [`Change`]s and [`Note`]s.

mod follow;
mod note;
mod view;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kube_informers::reflector::ReflectorState;
use kube_informers::stats::InformerStats;
use kube_informers::{HandlerOptions, Informer, ListWatch, Scope};
use kube_tasks::Task;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::failure::Failure;
use crate::item::Item;
use crate::kinds::Kind;
use crate::queue::ChangeSender;
use crate::redact::Redaction;
use follow::Follow;
use note::{Hook, Trouble};

pub use note::{Note, NoteText};
pub use view::{InformerView, Progress};

/// An informer and the task that reads from it.
pub struct Observed {
    /// Of which kind.
    pub kind: Arc<Kind>,
    /// The informer: its cache, its indexes.
    pub informer: Informer<Item>,
    trouble: Arc<Mutex<Trouble>>,
    _follow: Task,
    _reflect: Task,
}

/// The settings shared by all kinds.
#[derive(Clone)]
pub struct Observing {
    /// The client to use.
    pub client: kube::Client,
    /// The address of the server, for messages.
    pub server: String,
    /// Which objects; namespaces do not apply to cluster-scoped kinds.
    pub scope: Scope,
    /// What is redacted.
    pub redaction: Redaction,
    /// Whether noise is kept and shown.
    pub noise: bool,
}

impl Observed {
    /// Starts an informer of this kind.
    pub(crate) fn start(
        kind: Kind,
        observing: &Observing,
        changes: ChangeSender,
        notes: mpsc::Sender<Note>,
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
            .on_stream_end(move |end| hook.ended(end))
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
            trouble,
            // Subscribed first, so that no change goes by between the list and the first event.
            _follow: Task::spawn("follow", follow.run()),
            _reflect: Task::spawn("reflect", async move {
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
        let sum = |of: fn(&kube_informers::reflector::ReflectorStats) -> u64| -> u64 {
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
            version_age: self.informer.freshness(),
            resource_version,
            progress: view::progress(&state),
            state,
        }
    }
}
