//! One informer of one kind: starts it, and converts its events and failures into [`Change`]s and [`Note`]s.

mod contact;
mod follow;
mod note;
mod outage;
mod view;

use kube_informers::reflector::StreamEnd;
use kube_informers::source::SourceOptions;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kube_informers::handler::HandlerOptions;
use kube_informers::lazy::Validate;
use kube_informers::reflector::ReflectorState;
use kube_informers::stats::InformerStats;
use kube_informers::{Informer, ListWatch, Scope};
use kube_informers_core::tasks::Task;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::changes::config::Config;
use crate::changes::noise::Noise;
use crate::cli::limits::Limits;
use crate::objects::item::{Item, admit};
use crate::objects::kinds::Kind;
use crate::objects::redact::Redaction;
use crate::process::failure::Failure;
use crate::session::queue::ChangeSender;
use contact::Contact;
use follow::Follow;
use note::{Hook, Trouble};
use outage::Outages;

pub use contact::Health;
pub use note::{Note, NoteText};
pub use view::{InformerView, Progress};

/// An informer and the task that reads from it.
pub struct Observed {
    /// Of which kind.
    pub kind: Arc<Kind>,
    /// The informer: its cache, its indexes.
    pub informer: Informer<Item>,
    contact: Arc<Contact>,
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
    /// How long requests may take, and how much may be listed.
    pub limits: Limits,
    /// Whether noise is kept and shown.
    pub show_noise: bool,
    /// Whether changes have neither diffs nor authors.
    pub skip_diffs: bool,
    /// More fields that are noise, by the name of the kind.
    pub config: Arc<Config>,
    outages: Arc<Mutex<Outages>>,
}

impl Observing {
    /// With everything else as usual.
    pub fn new(client: kube::Client, server: String, scope: Scope, redaction: Redaction) -> Self {
        Self {
            client,
            server,
            scope,
            redaction,
            limits: Limits::default(),
            show_noise: false,
            skip_diffs: false,
            config: Arc::default(),
            outages: Arc::default(),
        }
    }
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
        let options = SourceOptions::default();
        let list_watch = ListWatch::<Item>::projected(observing.client.clone(), kind.resource_type(), scope)
            .options(SourceOptions {
                // The transform reads them for the authors of changes, and cuts them.
                drop_managed_fields: Some(false),
                // The transform decodes every object once, after it has cut it.
                validate: Validate::OnAccess,
                connect_timeout: observing.limits.at_most(options.connect_timeout),
                ..options
            });
        for member in list_watch.clone().members() {
            member.check().map_err(Failure::error)?;
        }
        let noise = match observing.show_noise {
            _ if observing.skip_diffs => None,
            true => Some(Noise::none()),
            false => Some(observing.config.noise(&kind)?),
        };
        let (sources, contact) = contact::Observed::of(list_watch);

        let trouble = Arc::new(Mutex::new(Trouble::default()));
        let synced = Arc::new(AtomicBool::new(false));
        let hook = Hook {
            kind: kind.clone(),
            namespaces,
            server: observing.server.clone(),
            notes: notes.clone(),
            trouble: trouble.clone(),
            outages: observing.outages.clone(),
            synced: synced.clone(),
        };
        let (admitted, redaction) = (kind.clone(), observing.redaction.clone());
        let (managed_fields, limits) = (observing.show_noise, observing.limits);
        let (informer, reflecting) = Informer::from_sources(sources)
            .configure(|config| {
                limits.apply(config);
                config.on_stream_end = Some(Arc::new(move |end: &StreamEnd<'_>| hook.ended(end)));
            })
            .try_transform(move |item| admit(item, &admitted, &redaction, managed_fields))
            .build();
        let follow = Follow {
            kind: kind.clone(),
            informer: informer.clone(),
            subscription: informer.subscribe_with(HandlerOptions::default().name("shown")),
            changes,
            notes,
            noise,
            contact: contact.clone(),
            trouble: trouble.clone(),
            outages: observing.outages.clone(),
            synced,
        };
        Ok(Self {
            kind,
            informer,
            contact,
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
            health: match self.informer.has_synced() {
                true => self.contact.health(),
                false => self.contact.health().max(Health::CatchingUp),
            },
            state,
        }
    }
}
