//! Shared by `watch`, `top` and `serve`: one informer per kind, and one stream of their changes and notes.

pub mod observe;
pub mod queue;

use std::sync::Arc;

use jiff::Timestamp;
use kube_informers::Scope;
use kube_informers_core::tasks::Task;
use tokio::sync::{broadcast, mpsc};

use crate::changes::Change;
use crate::changes::config::Config;
use crate::cli::{Global, Selection};
use crate::cluster::Cluster;
use crate::cluster::discovery::Discovery;
use crate::objects::kinds::Kind;
use crate::objects::redact::Redaction;
use crate::process::failure::Failure;
use crate::replay::reports::{Report, Reports};
use crate::session::observe::{Health, InformerView, Note, NoteText, Observed, Observing};
use queue::{ChangeReceiver, Coalesced};

/// Pending notes. More are dropped: they repeat what the first ones say, and the reader is not reading.
const PENDING_NOTES: usize = 256;

/// Running informers. They stop when it is dropped.
pub struct Session {
    cluster: Cluster,
    scope: Scope,
    observed: Vec<Observed>,
    /// Passes the reports of a recording on.
    _reports: Option<Task>,
}

/// The namespaces that are watched if none is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The namespace of the context, as in kubectl.
    Context,
    /// All namespaces.
    Everywhere,
}

/// The changes and notes of all informers.
pub struct Feed {
    changes: ChangeReceiver,
    notes: mpsc::Receiver<Note>,
}

/// One item of a feed.
#[allow(clippy::large_enum_variant)] // Changes are most of them, and are passed on at once.
pub enum FeedItem {
    /// An object changed.
    Change(Change),
    /// A message about an informer.
    Note(Note),
    /// Changes were coalesced, because they were not read in time.
    Coalesced(Coalesced),
}

impl Feed {
    /// The next item; `None` when the session has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<FeedItem> {
        // Both are cancel-safe: a message is either returned or kept. Notes first, since they are few and explain what
        // follows.
        if let Some(coalesced) = self.changes.take_coalesced() {
            return Some(FeedItem::Coalesced(coalesced));
        }
        tokio::select! {
            biased;
            Some(note) = self.notes.recv() => Some(FeedItem::Note(note)),
            change = self.changes.recv() => change.map(FeedItem::Change),
        }
    }

    /// The next item, if one is pending.
    pub fn try_next(&mut self) -> Option<FeedItem> {
        match self.notes.try_recv() {
            Ok(note) => Some(FeedItem::Note(note)),
            Err(_) => self.changes.try_recv().map(FeedItem::Change),
        }
    }

    /// What was coalesced since the start, because it was not read in time.
    pub fn coalesced(&self) -> Coalesced {
        self.changes.coalesced()
    }
}

impl Session {
    /// Finds the kinds and starts their informers. Returns before they have listed anything.
    ///
    /// # Errors
    ///
    /// A kind is unknown, a selector cannot be parsed, or the server cannot be reached.
    pub async fn open(
        cluster: Cluster,
        kinds: &str,
        global: &Global,
        reach: Reach,
    ) -> Result<(Self, Feed), Failure> {
        let scope = scope(&global.selection, &cluster, reach)?;
        let kinds = Self::find(&cluster, kinds, global).await?;
        let redaction = Redaction::showing(global.showing.show_secrets);
        let mut observing = Observing::new(cluster.client.clone(), cluster.server.clone(), scope, redaction);
        observing.limits = global.limits;
        observing.show_noise = global.showing.show_noise;
        observing.skip_diffs = global.showing.skip_diffs;
        observing.config =
            Arc::new(Config::load(global.showing.config.as_deref())?.ignoring(&global.showing.ignore));
        Self::start(cluster, kinds, &observing)
    }

    /// Finds kinds by their names.
    ///
    /// # Errors
    ///
    /// A kind is unknown, or the server cannot be reached.
    pub async fn find(cluster: &Cluster, kinds: &str, global: &Global) -> Result<Vec<Kind>, Failure> {
        Discovery::new(cluster.client.clone(), &cluster.server, cluster.cache_dir.clone())
            .limits(global.limits)
            .find_all(kinds)
            .await
    }

    /// Starts an informer for each kind.
    ///
    /// # Errors
    ///
    /// The scope does not fit the kinds.
    pub fn start(cluster: Cluster, kinds: Vec<Kind>, observing: &Observing) -> Result<(Self, Feed), Failure> {
        let (changes, changes_out) = queue::queue();
        let (notes, notes_out) = mpsc::channel(PENDING_NOTES);
        let observed = kinds
            .into_iter()
            .map(|kind| Observed::start(kind, observing, changes.clone(), notes.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        // Interruptions concern every kind; notes are of one.
        let kind = observed.first().map(|observed| observed.kind.clone());
        let reports = cluster.reports().zip(kind);
        let reports = reports.map(|(reports, kind)| {
            let (past, next) = reports.subscribe();
            Task::spawn("reports", pass_on(past, next, kind, notes))
        });
        let session = Self {
            cluster,
            scope: observing.scope.clone(),
            observed,
            _reports: reports,
        };
        let feed = Feed {
            changes: changes_out,
            notes: notes_out,
        };
        Ok((session, feed))
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Which objects are watched.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Whether objects of several namespaces may appear.
    pub fn spans_namespaces(&self) -> bool {
        self.scope
            .selected_namespaces()
            .is_none_or(|namespaces| namespaces.len() != 1)
    }

    /// The informers themselves: their caches and indexes.
    pub fn observed(&self) -> &[Observed] {
        &self.observed
    }

    /// The state of each informer. While an interruption of a recording is played they are as they were then.
    pub fn informers(&self) -> Vec<InformerView> {
        let mut views: Vec<InformerView> = self.observed.iter().map(Observed::view).collect();
        if let Some((since, text)) = self.cluster.reports().and_then(Reports::gap) {
            for view in &mut views {
                view.health = view.health.max(Health::Disconnected { since });
                view.last_error.get_or_insert_with(|| text.clone());
            }
        }
        views
    }

    /// Ends the pauses of informers that are backing off after a failure: their next attempt follows as soon as the limit
    /// of requests per minute allows.
    pub fn retry_now(&self) {
        for observed in &self.observed {
            observed.informer.retry_now();
        }
    }

    /// Stops the informers and waits for their tasks.
    pub async fn close(self) {
        for observed in &self.observed {
            observed.informer.shutdown().await;
        }
    }
}

/// Passes the reports of a recording on as notes, until the player or the reader is gone.
async fn pass_on(
    past: Vec<Report>,
    mut next: broadcast::Receiver<Report>,
    kind: Arc<Kind>,
    notes: mpsc::Sender<Note>,
) {
    let note = |report: Report| {
        let text = match report.when {
            Some(when) => format!("{} (recorded at {when})", report.text),
            None => report.text,
        };
        Note {
            when: Timestamp::now(),
            kind: kind.clone(),
            text: match report.recovered {
                true => NoteText::Recovered(text),
                false => NoteText::Trouble(text),
            },
        }
    };
    for report in past {
        if notes.send(note(report)).await.is_err() {
            return;
        }
    }
    loop {
        match next.recv().await {
            Ok(report) => {
                if notes.send(note(report)).await.is_err() {
                    return;
                }
            }
            // The oldest were dropped.
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// The scope selected by the options.
fn scope(selection: &Selection, cluster: &Cluster, reach: Reach) -> Result<Scope, Failure> {
    let given: Vec<&String> = selection
        .namespace
        .iter()
        .filter(|name| !name.is_empty())
        .collect();
    let mut scope = if selection.all_namespaces {
        Scope::all()
    } else if !given.is_empty() {
        Scope::namespaces(given.into_iter().cloned())
    } else if reach == Reach::Everywhere || cluster.is_embedded() {
        Scope::all()
    } else {
        Scope::namespace(&cluster.namespace)
    };
    if let Some(labels) = &selection.selector {
        scope = scope
            .labels(labels)
            .map_err(|error| Failure::error(format!("unable to parse the selector {labels:?}: {error}")))?;
    }
    if let Some(fields) = &selection.field_selector {
        scope = scope.fields(fields).map_err(|error| {
            Failure::error(format!("unable to parse the field selector {fields:?}: {error}"))
        })?;
    }
    Ok(scope)
}
