//! The columns of kinds that this program has none for (custom resources, Ingress, ...), as the server's Table has them.
//!
//! Each such kind is listed and watched a second time, as a table. A row belongs to one version of an object, so that the
//! cells of a change are exactly those before and after it. Whatever goes wrong, objects are shown without these columns.

mod rows;
mod wire;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use kube::Client;
use kube_informers::{ObjectKey, Scope};
use kube_informers_core::tasks::Task;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::changes::{Change, What};
use crate::objects::columns;
use crate::objects::kinds::Kind;
use crate::session::Session;
use rows::{Rows, number};

/// How long the initial table waits for the rows, and one request for its answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a change waits for its row.
const ROW_TIMEOUT: Duration = Duration::from_millis(300);
/// Objects of one request, and requests of one list.
const PAGE: usize = 500;
const MOST_PAGES: usize = 20;
/// The pauses after failures.
const PAUSE: Duration = Duration::from_secs(1);
const MOST_PAUSE: Duration = Duration::from_secs(30);

/// The columns of all kinds of a session that have none of ours. Clones share them; the last one ends the watches.
#[derive(Clone, Default)]
pub struct ServerColumns {
    kinds: Arc<FollowedKinds>,
}

/// By the name of the kind, with the tasks that follow it.
type FollowedKinds = HashMap<String, (Arc<Followed>, Vec<Task>)>;

impl std::fmt::Debug for ServerColumns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.kinds.keys()).finish()
    }
}

/// One kind that is followed.
#[derive(Default)]
struct Followed {
    rows: Mutex<Rows>,
    progress: watch::Sender<Progress>,
}

/// What others wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    /// Lists that are complete or have failed.
    listed: usize,
    /// Watches that are open, and how many there should be.
    open: usize,
    wanted: usize,
    /// The latest version that was received, and the latest that an informer has.
    latest: u64,
    expected: u64,
    /// A version that did not come in time: until something newer comes, nothing is waited for.
    missed: u64,
}

impl Progress {
    /// Whether a row of this version is on its way.
    fn is_expecting(&self, version: u64) -> bool {
        self.wanted > 0 && self.open == self.wanted && self.latest < version && self.latest >= self.missed
    }
}

impl ServerColumns {
    /// Starts to follow the kinds of a session.
    pub fn start(session: &Session) -> Self {
        let kinds = session.observed().iter().map(|observed| &observed.kind);
        let followed = kinds.filter(|kind| is_followed(kind)).map(|kind| {
            let followed = Arc::new(Followed::default());
            let namespaces: Vec<Option<String>> = match session.scope().selected_namespaces() {
                Some(names) if kind.namespaced => names.iter().cloned().map(Some).collect(),
                _ => vec![None],
            };
            followed
                .progress
                .send_modify(|progress| progress.wanted = namespaces.len());
            let tasks = namespaces.into_iter().map(|namespace| {
                let follower = Follower {
                    client: session.cluster().client.clone(),
                    path: kind.path(namespace.as_deref()),
                    selection: selection(session.scope()),
                    namespace,
                    followed: followed.clone(),
                };
                Task::spawn("server columns", follower.run())
            });
            let tasks: Vec<Task> = tasks.collect();
            (kind.full_name(), (followed, tasks))
        });
        Self {
            kinds: Arc::new(followed.collect()),
        }
    }

    fn of(&self, kind: &Kind) -> Option<&Followed> {
        // Most sessions follow none.
        if self.kinds.is_empty() {
            return None;
        }
        self.kinds.get(&kind.full_name()).map(|(followed, _)| &**followed)
    }

    /// Waits for the first lists, but not for long.
    pub async fn listed(&self) {
        let lists = self.kinds.values().map(|(followed, _)| async move {
            let mut progress = followed.progress.subscribe();
            let _ = progress
                .wait_for(|progress| progress.listed >= progress.wanted)
                .await;
        });
        let _ = timeout(TIMEOUT, join_all(lists)).await;
    }

    /// Whether the row of a change is still on its way.
    pub fn is_awaited(&self, change: &Change) -> bool {
        let is_live = matches!(
            change.event,
            What::Added { initial: false } | What::Updated { resync: false }
        );
        let version = change.resource_version.as_deref().map_or(0, number);
        is_live
            && self
                .of(&change.kind)
                .is_some_and(|followed| followed.progress.borrow().is_expecting(version))
    }

    /// Waits for the row of a change, but not for long. Cancel-safe.
    pub async fn arrived(&self, change: &Change) {
        if let Some(followed) = self.of(&change.kind) {
            followed
                .reached(change.resource_version.as_deref().map_or(0, number))
                .await;
        }
    }

    /// An informer has received a change. [`settled`](Self::settled) waits for its row.
    pub fn expect(&self, change: &Change) {
        if let Some(followed) = self.of(&change.kind) {
            let version = change.resource_version.as_deref().map_or(0, number);
            followed.progress.send_if_modified(|progress| {
                progress.expected = progress.expected.max(version);
                false
            });
        }
    }

    /// Waits for the rows of the changes that the informer of a kind has received, but not for long. Cancel-safe.
    pub async fn settled(&self, kind: &Kind) {
        if let Some(followed) = self.of(kind) {
            let expected = followed.progress.borrow().expected;
            followed.reached(expected).await;
        }
    }

    /// The names of the columns of a kind.
    pub fn head(&self, kind: &Kind, wide: bool) -> Vec<String> {
        self.of(kind)
            .map(|followed| followed.rows.lock().head(wide))
            .unwrap_or_default()
    }

    /// The cells of an object in this version or a later one; empty if they are not known.
    pub fn row(&self, kind: &Kind, key: &ObjectKey, version: Option<&str>, wide: bool) -> Vec<String> {
        self.of(kind)
            .map(|followed| {
                let rows = followed.rows.lock();
                rows.row(&parts(key), version.unwrap_or_default(), wide)
            })
            .unwrap_or_default()
    }

    /// Whether the cells of an object in this version are not known yet, and will be.
    pub fn is_late(&self, kind: &Kind, key: &ObjectKey, version: Option<&str>) -> bool {
        self.of(kind).is_some_and(|followed| {
            let rows = followed.rows.lock();
            rows.is_late(&parts(key), version.unwrap_or_default())
        })
    }

    /// The names and cells of an object in exactly this version, without ages; of the last known one if none is given.
    pub fn essentials(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        version: Option<&str>,
    ) -> Option<Vec<(String, String)>> {
        self.of(kind)?.rows.lock().essentials(&parts(key), version)
    }
}

impl Followed {
    async fn reached(&self, version: u64) {
        let mut progress = self.progress.subscribe();
        let reached = progress.wait_for(|progress| !progress.is_expecting(version));
        if timeout(ROW_TIMEOUT, reached).await.is_err() {
            self.progress.send_modify(|progress| {
                progress.missed = progress.missed.max(version);
            });
        }
    }

    fn update(&self, change: impl FnOnce(&mut Rows)) {
        let mut rows = self.rows.lock();
        change(&mut rows);
        let latest = rows.latest;
        drop(rows);
        self.progress.send_modify(|progress| progress.latest = latest);
    }
}

fn parts(key: &ObjectKey) -> (String, String) {
    (
        key.namespace().unwrap_or_default().to_owned(),
        key.name().to_owned(),
    )
}

/// Whether the columns of a kind are requested. The values of Secrets are redacted in objects, but not in tables.
fn is_followed(kind: &Kind) -> bool {
    !columns::are_known(kind) && !kind.is_secret()
}

/// The selectors as parts of a query.
fn selection(scope: &Scope) -> Vec<(&'static str, String)> {
    let mut selection = Vec::new();
    if !scope.label_selector().is_everything() {
        selection.push(("labelSelector", scope.label_selector().to_string()));
    }
    if let Some(fields) = scope.field_selector() {
        selection.push(("fieldSelector", fields));
    }
    selection
}

/// Lists and watches the tables of one kind in one namespace, or in all of them.
struct Follower {
    client: Client,
    path: String,
    selection: Vec<(&'static str, String)>,
    namespace: Option<String>,
    followed: Arc<Followed>,
}

impl Follower {
    async fn run(self) {
        let mut pause = PAUSE;
        let mut was_listed = false;
        loop {
            let mut version = timeout(TIMEOUT, self.list()).await.ok().flatten();
            if !std::mem::replace(&mut was_listed, true) {
                self.followed
                    .progress
                    .send_modify(|progress| progress.listed += 1);
            }
            while let Some(from) = version.take() {
                version = self.watch(&from).await;
                if version.is_some() {
                    pause = PAUSE;
                }
                // A server that ends every watch at once is not asked without a pause.
                sleep(PAUSE).await;
            }
            sleep(pause).await;
            pause = (pause * 2).min(MOST_PAUSE);
        }
    }

    fn query(&self, parts: &[(&str, &str)]) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(parts.iter().filter(|(_, value)| !value.is_empty()));
        query.extend_pairs(&self.selection);
        format!("{}?{}", self.path, query.finish())
    }

    /// Lists all rows. Gives the version to watch from; `None` if that fails.
    async fn list(&self) -> Option<String> {
        let mut token = String::new();
        let mut listed = HashSet::new();
        let mut version = String::new();
        for _ in 0..MOST_PAGES {
            let query = self.query(&[("limit", PAGE.to_string().as_str()), ("continue", token.as_str())]);
            let table = wire::list(&self.client, &query).await?;
            token.clone_from(&table.metadata.r#continue);
            version.clone_from(&table.metadata.resource_version);
            let objects = table.rows.iter().map(|row| &row.object.metadata);
            listed.extend(objects.map(|object| (object.namespace.clone(), object.name.clone())));
            self.followed.update(|rows| rows.add(table));
            if token.is_empty() {
                break;
            }
        }
        self.followed
            .update(|rows| rows.retain(self.namespace.as_deref(), &listed));
        (!version.is_empty()).then_some(version)
    }

    /// Watches until the server ends it. Gives the version to continue from; `None` if it must be listed again.
    async fn watch(&self, from: &str) -> Option<String> {
        let query = self.query(&[
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", from),
            // Shorter than the read timeout of the client.
            ("timeoutSeconds", "240"),
        ]);
        let mut version = from.to_owned();
        let mut open = None;
        let opened = || open = Some(Open::new(&self.followed));
        let each = |event: wire::Event| {
            if let Some(reached) = event.object.version() {
                reached.clone_into(&mut version);
            }
            self.followed.update(|rows| match event.r#type.as_str() {
                "ADDED" | "MODIFIED" => rows.add(event.object),
                "DELETED" => rows.delete(event.object),
                _ => rows.reach(&event.object.metadata.resource_version),
            });
        };
        let ended = wire::watch(&self.client, &query, opened, each).await;
        drop(open);
        ended.map(|()| version)
    }
}

/// Counts a watch while it is open.
struct Open<'a>(&'a Followed);

impl<'a> Open<'a> {
    fn new(followed: &'a Followed) -> Self {
        followed.progress.send_modify(|progress| progress.open += 1);
        Self(followed)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.progress.send_modify(|progress| progress.open -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_requested_for_kinds_without_columns_and_never_for_secrets() {
        let kind = |group: &str, name: &str| {
            let plural = format!("{}s", name.to_lowercase());
            Kind::for_tests(group, "v1", name, &plural)
        };
        assert!(is_followed(&kind("networking.k8s.io", "Ingress")));
        assert!(is_followed(&kind("example.com", "Widget")));
        assert!(!is_followed(&kind("", "Pod")));
        assert!(!is_followed(&kind("example.com", "Secret")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_that_does_not_come_is_waited_for_once() {
        let followed = Followed::default();
        followed.progress.send_modify(|progress| {
            (progress.wanted, progress.open, progress.latest) = (1, 1, 5);
        });
        let wait = async |version| {
            let began = tokio::time::Instant::now();
            followed.reached(version).await;
            began.elapsed()
        };

        assert_eq!(wait(5).await, Duration::ZERO);
        assert_eq!(wait(7).await, ROW_TIMEOUT);
        // Not again, until the watch has caught up.
        assert_eq!(wait(7).await, Duration::ZERO);
        assert_eq!(wait(8).await, Duration::ZERO);
        followed.progress.send_modify(|progress| progress.latest = 7);
        assert_eq!(wait(8).await, ROW_TIMEOUT);
        // Nothing comes while the watch is not open.
        followed
            .progress
            .send_modify(|progress| (progress.latest, progress.open) = (8, 0));
        assert_eq!(wait(9).await, Duration::ZERO);
    }
}
