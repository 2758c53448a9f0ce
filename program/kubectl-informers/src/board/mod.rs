//! The data behind the dashboards: consumes changes and, once a second, the state of the informers, and keeps what is
//! displayed in bounded memory. Knows neither terminal nor web page, and reads no clock except for loops.

mod churn;
mod findings;
mod history;
mod log;
mod series;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_controller::LoopOptions;
use kube_informers::ObjectKey;
use tokio::time::Instant;

use crate::changes::{Change, What};
use crate::objects::kinds::Kind;
use crate::objects::path::without_elements;
use crate::objects::who::Written;
use crate::session::observe::{Health, InformerView};

pub use churn::{Churner, Churning};
pub use findings::{Findings, Found};
pub use history::{History, ObjectHistory};
pub use log::{Log, LogEntry, Missed};
pub use series::Series;

/// The number of objects and fields whose churn is counted separately. The quietest are forgotten first.
const CHURNERS: usize = 1024;

/// How many pairs of kind and field manager are counted separately; the others are counted as `other`.
const MANAGERS: usize = 200;

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The kind, as an index into the list of kinds.
    pub kind: usize,
    /// Namespace and name.
    pub key: ObjectKey,
}

/// Which field of which kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId {
    /// The kind, as an index into the list of kinds.
    pub kind: usize,
    /// The field, with `[*]` for the elements of lists: `status.conditions[*].status`.
    pub path: String,
}

/// Which field manager writes to which kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer {
    /// The name of the manager.
    pub manager: Box<str>,
    /// The kind, as an index into the list of kinds.
    pub kind: usize,
}

/// One kind on the board.
pub struct KindBoard {
    /// What it is called, here and in addresses: `pods`, `deployments.apps`.
    pub id: String,
    /// The shortest unambiguous form: `deployments`.
    pub short: String,
    /// The kind.
    pub kind: Arc<Kind>,
    /// The state of its informer at the last tick.
    pub view: Option<InformerView>,
    /// Events and lag of the last minutes.
    pub series: Series,
    /// The number of changes by type: added, updated, deleted, without the initial list.
    pub delivered: [u64; 3],
}

/// What is shown.
pub struct Board {
    /// When it began.
    pub started: Instant,
    /// The kinds, in the order requested.
    pub kinds: Vec<KindBoard>,
    /// The last changes of all kinds.
    pub log: Log,
    /// The last changes of each object.
    pub history: History,
    /// The objects that change most.
    pub objects: Churning<ObjectId>,
    /// The fields that change most.
    pub fields: Churning<FieldId>,
    /// Changes by kind and field manager, the initial list left out.
    pub managers: BTreeMap<(usize, Box<str>), u64>,
    /// The field managers that write most.
    pub writers: Churning<Writer>,
    /// Loops and fights.
    pub findings: Findings,
}

impl Board {
    /// An empty board for these kinds.
    pub fn new(kinds: impl IntoIterator<Item = Arc<Kind>>, now: Instant) -> Self {
        let kinds: Vec<Arc<Kind>> = kinds.into_iter().collect();
        let names: Vec<(String, String)> = kinds
            .iter()
            .map(|kind| (id(kind, &kinds), short(kind, &kinds)))
            .collect();
        let findings = Findings::new(kinds.len(), LoopOptions::default());
        Self {
            started: now,
            kinds: kinds
                .into_iter()
                .zip(names)
                .map(|(kind, (id, short))| KindBoard {
                    id,
                    short,
                    kind,
                    view: None,
                    series: Series::default(),
                    delivered: [0; 3],
                })
                .collect(),
            log: Log::default(),
            history: History::default(),
            objects: Churning::new(CHURNERS, now),
            fields: Churning::new(CHURNERS, now),
            managers: BTreeMap::new(),
            writers: Churning::new(CHURNERS, now),
            findings,
        }
    }

    /// The same with other limits of loops and fights.
    pub fn detect(mut self, options: LoopOptions) -> Self {
        self.findings = Findings::new(self.kinds.len(), options);
        self
    }

    /// Applies an event. Initial objects and resyncs are not changes.
    /// Returns the log entry, if there is one.
    pub fn apply(&mut self, change: Change, now: Instant) -> Option<Arc<LogEntry>> {
        let kind = self.kinds.iter().position(|known| known.kind == change.kind)?;
        if change.event.is_initial() || change.event.is_resync() {
            return None;
        }
        let Some(key) = change.key.clone() else {
            return Some(self.log.push(kind, change));
        };
        let delivered = match change.event {
            What::Added { .. } => 0,
            What::Updated { .. } => 1,
            What::Deleted { .. } | What::Synced { .. } => 2,
        };
        if let Some(count) = self
            .kinds
            .get_mut(kind)
            .and_then(|known| known.delivered.get_mut(delivered))
        {
            *count += 1;
        }
        self.count_managers(kind, change.by.as_deref(), now);
        self.findings.observe(kind, &change);
        let id = ObjectId { kind, key };
        // An Event is news about another object, and is new itself every time.
        match change.about() {
            None => self.objects.count(id.clone(), now),
            Some((name, key)) => {
                if let Some(kind) = self.kinds.iter().position(|known| known.kind.kind == name) {
                    self.objects.count(ObjectId { kind, key }, now);
                }
            }
        }
        for field in fields(&change) {
            self.fields.count(FieldId { kind, path: field }, now);
        }
        let last_state = match change.event {
            What::Deleted { .. } => change.object.clone(),
            _ => None,
        };
        let entry = self.log.push(kind, change);
        self.history.push(id, entry.clone(), last_state);
        Some(entry)
    }

    /// Counts a change for each of its authors. Anybody can write under any name, so the number of names is limited.
    fn count_managers(&mut self, kind: usize, by: Option<&[Written]>, now: Instant) {
        let mut names: Vec<&str> = by
            .unwrap_or_default()
            .iter()
            .map(|one| &*one.author.manager)
            .collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            names.push("unknown");
        }
        for name in names {
            let manager = name.into();
            self.writers.count(Writer { manager, kind }, now);
            let full = self.managers.len() >= MANAGERS;
            let known = self.managers.contains_key(&(kind, Box::from(name)));
            let name = if known || !full { name } else { "other" };
            *self.managers.entry((kind, name.into())).or_default() += 1;
        }
    }

    /// Called once a second with the state of the informers, in the order of the kinds.
    pub fn tick(&mut self, views: Vec<InformerView>, now: Instant) {
        for (board, view) in self.kinds.iter_mut().zip(views) {
            board.series.tick(view.events, view.version_age, now);
            board.view = Some(view);
        }
    }

    /// Whether all caches hold their initial lists.
    pub fn is_synced(&self) -> bool {
        self.kinds
            .iter()
            .all(|kind| kind.view.as_ref().is_some_and(|view| view.synced))
    }

    /// The health of the worst informer.
    pub fn health(&self) -> Health {
        self.kinds
            .iter()
            .map(|kind| kind.view.as_ref().map_or(Health::CatchingUp, |view| view.health))
            .max()
            .unwrap_or(Health::Live)
    }

    /// Watches held open on the server, and bytes received from it, by all informers together.
    pub fn cost(&self) -> (usize, u64) {
        let views = || self.kinds.iter().filter_map(|kind| kind.view.as_ref());
        (
            views().map(|view| view.members).sum(),
            views().map(|view| view.bytes).fold(0, u64::saturating_add),
        )
    }
}

/// `pods`, `deployments.apps`; with the version if a resource is there in two of them.
fn id(kind: &Kind, all: &[Arc<Kind>]) -> String {
    let name = kind.full_name();
    match all.iter().filter(|other| other.full_name() == name).count() {
        0 | 1 => name,
        _ => format!("{}.{}.{}", kind.plural, kind.version, kind.group),
    }
}

/// `deployments`, unless there are several of that name.
fn short(kind: &Kind, all: &[Arc<Kind>]) -> String {
    match all.iter().filter(|other| other.plural == kind.plural).count() {
        0 | 1 => kind.plural.clone(),
        _ => id(kind, all),
    }
}

/// The fields a change touches, each once: which container or condition it was does not matter for who is churning.
fn fields(change: &Change) -> Vec<String> {
    let mut fields: Vec<String> = change
        .diff
        .iter()
        .map(|field| without_elements(&field.field))
        .collect();
    fields.sort();
    fields.dedup();
    fields
}

#[cfg(test)]
pub(crate) mod fixtures;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::fixtures::{board, by, deleted, initial, kinds, updated, view};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn initial_objects_are_not_changes() {
        let mut board = board();
        assert!(
            board
                .apply(initial("pods", "shop", "cart"), Instant::now())
                .is_none()
        );
        assert_eq!(board.log.len(), 0);
        assert_eq!(board.objects.top(5, Instant::now()).len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_in_log_history_and_counts() {
        let mut board = board();
        let now = Instant::now();
        board.apply(
            updated("pods", "shop", "cart", &["/status/containerStatuses/0/ready"]),
            now,
        );
        board.apply(deleted("pods", "shop", "cart"), now);

        let id = ObjectId {
            kind: 0,
            key: "shop/cart".parse().unwrap(),
        };
        assert_eq!(board.log.len(), 2);
        assert_eq!(board.kinds[0].delivered, [0, 1, 1]);
        let history = board.history.of(&id).unwrap();
        assert_eq!((history.total, history.entries().count()), (2, 2));
        assert!(history.last_state.is_some(), "what it was last can still be seen");
        assert_eq!(
            board.fields.top(1, now)[0].what.path,
            "status.containerStatuses[*].ready"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_an_unrequested_kind_is_ignored() {
        let mut board = board();
        assert!(
            board
                .apply(updated("gadgets", "", "a", &[]), Instant::now())
                .is_none()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_managers_is_limited() {
        let mut board = board();
        for number in 0..1000 {
            let change = updated("pods", "shop", "cart", &["/a"]);
            let change = by(&format!("manager-{number}"), change);
            board.apply(change, Instant::now());
        }
        assert_eq!(board.managers.len(), MANAGERS + 1);
        assert_eq!(board.managers.values().sum::<u64>(), 1000);
        assert_eq!(board.managers[&(0, "other".into())], 800);
    }

    #[tokio::test(start_paused = true)]
    async fn the_board_is_synced_when_every_kind_is() {
        let mut board = board();
        assert!(!board.is_synced());
        assert_eq!(board.health(), Health::CatchingUp);

        let [pods, nodes] = kinds();
        let mut late = view(&nodes);
        late.synced = false;
        let since = Instant::now();
        late.health = Health::Disconnected { since };
        board.tick(vec![view(&pods), late], Instant::now());
        assert_eq!(board.health(), Health::Disconnected { since }, "the worst counts");

        tokio::time::advance(Duration::from_secs(1)).await;
        board.tick(vec![view(&pods), view(&nodes)], Instant::now());
        assert!(board.is_synced());
        assert_eq!(board.health(), Health::Live);
        assert_eq!(board.cost(), (2, 2 * view(&pods).bytes));
    }

    #[tokio::test(start_paused = true)]
    async fn a_resource_in_two_versions_has_two_names() {
        let kind = |version| Arc::new(Kind::for_tests("example.com", version, "Widget", "widgets"));
        let board = Board::new([kind("v1"), kind("v2")], Instant::now());
        let ids: Vec<&str> = board.kinds.iter().map(|kind| kind.id.as_str()).collect();
        assert_eq!(ids, ["widgets.v1.example.com", "widgets.v2.example.com"]);
    }
}
