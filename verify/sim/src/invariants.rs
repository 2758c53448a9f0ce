//! The invariants, each a function with its identifier, checked against the model of the server and never against the
//! code under test.
//!
//! `C` is about the cache, `H` about handlers, `I` about indexes, `L` about load and life cycle; the work queue's `Q` are
//! in [`workqueue`](crate::workqueue).

mod indexes;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use indexes::{h6_index_is_not_older, i1_index_equals_rebuild, i3_late_index_equals_early};
use kube_informers::Event;
use kube_informers::Store;
use tokio::time::Instant;

use crate::object::{CANARY, Key, Thing, key_of};
use crate::server::{CollectionState, Requested, Server};
use crate::shards::Extent;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The identifier, such as `C3`.
    pub invariant: &'static str,
    /// What differs.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

pub(crate) type Check = Result<(), Violation>;

pub(crate) fn violated(invariant: &'static str, detail: impl Into<String>) -> Check {
    Err(Violation {
        invariant,
        detail: detail.into(),
    })
}

/// UID and version.
type Ident = (u64, u64);

fn ident(object: &Thing) -> Ident {
    (object.uid(), object.revision)
}

/// What the model knows about the cache.
#[derive(Debug, Default)]
pub struct CacheModel {
    /// The earliest line of versions the cache can be in.
    epoch: usize,
    /// The last version the store reported, and what it held.
    version: Option<u64>,
    held: BTreeMap<Key, Ident>,
}

impl CacheModel {
    /// What the store holds.
    pub fn held(&self) -> &BTreeMap<Key, Ident> {
        &self.held
    }

    /// The number of the line of versions.
    pub fn epoch(&self) -> usize {
        self.epoch
    }

    /// Checks the cache after every step.
    pub fn check(&mut self, store: &Store<Thing>, server: &Server, extent: Extent) -> Check {
        let held: BTreeMap<Key, Ident> = (store.list().iter())
            .map(|object| (object.key, ident(object)))
            .collect();
        let version = store.resource_version().and_then(|version| version.parse().ok());
        self.c13_no_partial_first_list(version, &held)?;
        c1_every_state_existed(store, server)?;
        let before = self.epoch;
        if let Some(version) = version {
            let decreased = self.c5_version_decreases_after_a_restore_only(version, server)?;
            self.c3_cache_equals_collection(version, decreased, store, server, extent)?;
            self.version = Some(version);
        }
        if self.epoch == before && version.is_some() {
            self.c2_versions_of_an_object_never_decrease(&held, server)?;
        }
        self.held = held;
        Ok(())
    }

    fn c13_no_partial_first_list(&self, version: Option<u64>, held: &BTreeMap<Key, Ident>) -> Check {
        if version.is_none() && !held.is_empty() {
            return violated("C13", format!("{} objects without a version", held.len()));
        }
        Ok(())
    }

    /// Finds the line of versions in which the cache equals the collection at the version it reports. It never goes back
    /// to an earlier line.
    fn c3_cache_equals_collection(
        &mut self,
        version: u64,
        decreased: bool,
        store: &Store<Thing>,
        server: &Server,
        extent: Extent,
    ) -> Check {
        let mut first = None;
        let from = self.epoch + usize::from(decreased);
        for (number, epoch) in server.epochs.iter().enumerate().skip(from) {
            if version > epoch.head {
                continue;
            }
            let mut expected = epoch.at(version);
            if let Extent::Part(part) = extent {
                let own = expected
                    .iter()
                    .filter(|(key, object)| part.contains(**key, object));
                expected = Arc::new(own.map(|(key, object)| (*key, *object)).collect());
            }
            let difference = difference(store, &expected, number > 0);
            let Some(difference) = difference else {
                self.epoch = number;
                return Ok(());
            };
            first.get_or_insert(difference);
        }
        let (invariant, difference) = first.unwrap_or(("C3", "there is no such version".to_owned()));
        violated(invariant, format!("at version {version}: {difference}"))
    }

    /// Whether the version decreased, which only another line of versions explains.
    fn c5_version_decreases_after_a_restore_only(
        &self,
        version: u64,
        server: &Server,
    ) -> Result<bool, Violation> {
        match self.version {
            None if server.epochs.len() == 1 && server.first_version.is_some_and(|first| version < first) => {
                violated(
                    "C5",
                    format!("the first list is at {version}, older than its request"),
                )?;
                Ok(false)
            }
            Some(last) if version < last => {
                if self.epoch + 1 == server.epochs.len() {
                    violated("C5", format!("from {last} to {version}"))?;
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn c2_versions_of_an_object_never_decrease(&self, held: &BTreeMap<Key, Ident>, server: &Server) -> Check {
        // The cache may be in either line until it differs from one of them.
        if server.epochs.len() > 1 {
            return Ok(());
        }
        for (key, (uid, version)) in held {
            if let Some((old_uid, old)) = self.held.get(key)
                && old_uid == uid
                && old > version
            {
                return violated("C2", format!("k{key} went from {old} to {version}"));
            }
        }
        Ok(())
    }
}

fn c1_every_state_existed(store: &Store<Thing>, server: &Server) -> Check {
    for object in store.list().iter() {
        if !server.epochs.iter().any(|epoch| epoch.had(object.key, object)) {
            return violated("C1", format!("k{} never was at {}", object.key, object.revision));
        }
    }
    Ok(())
}

/// How the store differs from the collection. Quarantined keys may hold an earlier state of the same object.
/// After a restore that may be a state that was lost: it is the last one that could be read.
fn difference(
    store: &Store<Thing>,
    expected: &CollectionState,
    restored: bool,
) -> Option<(&'static str, String)> {
    let quarantine: Vec<Key> = (store.quarantine().iter())
        .filter_map(|bad| key_of(bad.object.key.as_ref()?.name()))
        .collect();
    let poisoned: Vec<Key> = (expected.iter())
        .filter(|(_, object)| object.poisoned)
        .map(|(key, _)| *key)
        .collect();
    for key in &poisoned {
        if !quarantine.contains(key) {
            return Some((
                "C10",
                format!("k{key} cannot be decoded and is not in quarantine"),
            ));
        }
    }
    for key in &quarantine {
        if !poisoned.contains(key) {
            return Some(("C10", format!("k{key} is in quarantine and can be decoded")));
        }
    }
    let snapshot = store.list();
    let held: BTreeMap<Key, &Arc<Thing>> = snapshot.iter().map(|object| (object.key, object)).collect();
    for (key, object) in expected {
        match held.get(key) {
            None if object.poisoned => {}
            None => return Some(("C3", format!("k{key} is missing"))),
            Some(held) if object.poisoned => {
                if held.uid() != object.uid || !restored && held.revision > object.version {
                    return Some((
                        "C10",
                        format!("k{key} in quarantine holds a state of another object"),
                    ));
                }
            }
            Some(held) if !object.is(held) => {
                let (has, is) = (held.revision, object.version);
                return Some(("C3", format!("k{key} is at {is}, the cache has {has}")));
            }
            Some(_) => {}
        }
    }
    for key in held.keys() {
        if !expected.contains_key(key) {
            return Some(("C3", format!("k{key} does not exist any more")));
        }
    }
    None
}

/// What the model knows about one handler.
#[derive(Debug)]
pub struct HandlerModel {
    /// Events of one object may be merged.
    pub coalesces: bool,
    /// What the handler has last received of each object.
    held: BTreeMap<Key, Arc<Thing>>,
    /// The initial events it must receive; `None` until the first list is applied.
    initial: Option<BTreeMap<Key, Ident>>,
    /// Those it has received.
    initial_received: BTreeMap<Key, Ident>,
    /// The most objects that the cache has held since it joined.
    largest_snapshot: usize,
    /// The events were added up since the last one.
    is_summed: bool,
    /// Events dispatched since it joined, for a handler that keeps all of them: what it has yet to receive.
    expected: std::collections::VecDeque<(Key, &'static str, Ident)>,
}

impl HandlerModel {
    /// A handler that joins a cache with these objects; `synced` if the first list has been applied.
    pub fn new(coalesces: bool, held: &BTreeMap<Key, Ident>, synced: bool) -> Self {
        Self {
            coalesces,
            held: BTreeMap::new(),
            initial: synced.then(|| held.clone()),
            initial_received: BTreeMap::new(),
            is_summed: false,
            largest_snapshot: held.len(),
            expected: held.iter().map(|(key, ident)| (*key, "added", *ident)).collect(),
        }
    }

    /// The first list has been applied, and the cache holds it.
    pub fn synced(&mut self, store: &Store<Thing>) {
        let objects = store.list();
        let held = objects.iter().map(|object| (object.key, ident(object)));
        self.initial = Some(held.collect());
    }

    /// These events were dispatched.
    pub fn dispatched(&mut self, events: &[Event<Thing>]) {
        if !self.coalesces {
            self.expected.extend(events.iter().map(summary));
        }
    }

    /// What it has last received of each object.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Thing>> {
        self.held.values()
    }

    /// Checks one event, at the time the handler receives it.
    pub fn receive(&mut self, event: &Event<Thing>, store: &Store<Thing>, server: &Server) -> Check {
        let object = event.object();
        let key = object.key;
        let last = self.held.get(&key);
        h2_add_update_delete(event, last)?;
        if let Event::Updated { old, new, resync } = event {
            h3_old_is_the_last_delivered(old, last)?;
            h4_no_update_across_uids(old, new)?;
            h12_no_event_without_a_change(old, new, *resync, server)?;
        }
        h5_cache_is_not_older(object, store, server)?;
        if event.is_initial() {
            let before = self.initial_received.insert(key, ident(object));
            if before.is_some() {
                return violated("H7", format!("k{key} is initial twice"));
            }
        }
        self.h10_everything_dispatched_is_received(event)?;
        self.is_summed = false;
        match event {
            Event::Deleted { .. } => self.held.remove(&key),
            _ => self.held.insert(key, object.clone()),
        };
        Ok(())
    }

    /// A handler that keeps every event receives what was dispatched since it joined, whatever other handlers do.
    fn h10_everything_dispatched_is_received(&mut self, event: &Event<Thing>) -> Check {
        if self.coalesces || event.is_resync() {
            return Ok(());
        }
        let got = summary(event);
        // The snapshot of a late handler comes in any order.
        let position = if event.is_initial() {
            self.expected.iter().position(|expected| *expected == got)
        } else {
            (self.expected.front() == Some(&got)).then_some(0)
        };
        match position {
            Some(position) => {
                self.expected.remove(position);
                Ok(())
            }
            None => violated(
                "H10",
                format!("received {got:?}, expected {:?}", self.expected.front()),
            ),
        }
    }

    /// Checks the handler after a step. `idle`: it has received everything.
    /// `changed`: the cache may have changed.
    pub fn check(
        &mut self,
        cache: &CacheModel,
        changed: bool,
        idle: bool,
        synced: bool,
        pending: usize,
    ) -> Check {
        self.largest_snapshot = self.largest_snapshot.max(cache.held().len());
        self.is_summed &= !changed;
        if idle && !self.is_summed {
            self.h1_events_add_up_to_the_cache(cache)?;
            self.is_summed = true;
        }
        self.h8_synced_after_all_initial_events(synced)?;
        self.h11_backlog_is_bounded(cache, pending)
    }

    fn h1_events_add_up_to_the_cache(&self, cache: &CacheModel) -> Check {
        let sum: BTreeMap<Key, Ident> = self
            .held
            .iter()
            .map(|(key, object)| (*key, ident(object)))
            .collect();
        if sum != *cache.held() {
            return violated(
                "H1",
                format!("events add up to {sum:?}, the cache has {:?}", cache.held()),
            );
        }
        Ok(())
    }

    fn h8_synced_after_all_initial_events(&self, synced: bool) -> Check {
        if !synced {
            return Ok(());
        }
        let Some(initial) = &self.initial else {
            return violated("H8", "synced before the first list was applied");
        };
        // An object that is deleted before the handler receives it may be merged away.
        let missing = initial
            .keys()
            .find(|key| !self.coalesces && !self.initial_received.contains_key(key));
        match missing {
            Some(key) => violated("H8", format!("synced without k{key}")),
            None => Ok(()),
        }
    }

    /// Every object of the first list, or of the cache at the time of joining, is initial exactly once.
    pub fn h7_initial_events(&self) -> Check {
        match &self.initial {
            Some(initial) if !self.coalesces && *initial != self.initial_received => violated(
                "H7",
                format!("initial events {:?}, expected {initial:?}", self.initial_received),
            ),
            _ => Ok(()),
        }
    }

    fn h11_backlog_is_bounded(&self, cache: &CacheModel, pending: usize) -> Check {
        // Two events per object, if another replaced it, before and after one snapshot, that of its joining or of a resync.
        // The item in flight is pending until its last call returns.
        let known = cache.held().len() + self.held.len() + self.largest_snapshot;
        let bound = 4 * known + 2 * self.largest_snapshot + 2;
        if self.coalesces && pending > bound {
            return violated("H11", format!("{pending} events wait, bound {bound}"));
        }
        Ok(())
    }
}

fn summary(event: &Event<Thing>) -> (Key, &'static str, Ident) {
    let kind = match event {
        Event::Added { .. } => "added",
        Event::Updated { .. } => "updated",
        Event::Deleted { .. } => "deleted",
    };
    (event.object().key, kind, ident(event.object()))
}

fn h2_add_update_delete(event: &Event<Thing>, last: Option<&Arc<Thing>>) -> Check {
    let is_added = matches!(event, Event::Added { .. });
    if is_added != last.is_none() {
        let state = if last.is_some() {
            "holds it"
        } else {
            "does not hold it"
        };
        return violated("H2", format!("{event}, but the handler {state}"));
    }
    Ok(())
}

fn h3_old_is_the_last_delivered(old: &Arc<Thing>, last: Option<&Arc<Thing>>) -> Check {
    match last {
        Some(last) if !Arc::ptr_eq(old, last) => violated(
            "H3",
            format!(
                "old is k{} at {}, delivered was {}",
                old.key, old.revision, last.revision
            ),
        ),
        _ => Ok(()),
    }
}

fn h4_no_update_across_uids(old: &Thing, new: &Thing) -> Check {
    if old.uid() != new.uid() {
        return violated("H4", format!("k{} has another UID", new.key));
    }
    Ok(())
}

/// After a restore, equal versions may be different states, so a handler that coalesces receives both.
fn h12_no_event_without_a_change(old: &Thing, new: &Thing, resync: bool, server: &Server) -> Check {
    if !resync && server.epochs.len() == 1 && old.revision == new.revision {
        return violated("H12", format!("k{} is still at {}", new.key, new.revision));
    }
    Ok(())
}

/// When a handler receives an event, the cache already holds it, or something newer.
fn h5_cache_is_not_older(object: &Thing, store: &Store<Thing>, server: &Server) -> Check {
    let key = kube_informers::ObjectKey::of(object);
    match store.get(&key) {
        // Versions of different lines do not compare.
        Some(held) if server.epochs.len() == 1 && held.revision < object.revision => violated(
            "H5",
            format!(
                "k{} at {}, cache at {}",
                object.key, object.revision, held.revision
            ),
        ),
        _ => Ok(()),
    }
}

/// At most 30 requests in any minute after the first 10 s, and two more for each move of the shard; none before a Retry-After
/// has passed.
pub fn l1_l2_requests(server: &Server, start: Instant, moves: &[Instant]) -> Check {
    if let Some(early) = &server.too_early {
        return violated("L2", early.clone());
    }
    let Some(last) = server.requests.last() else {
        return Ok(());
    };
    let is_counted = |at: &Instant| {
        at.duration_since(start) >= Duration::from_secs(10)
            && last.at.duration_since(*at) < Duration::from_secs(60)
    };
    let requests = server.requests.iter().rev();
    let minute = requests.take_while(|request| is_counted(&request.at));
    let count = minute.filter(|request| request.what != Requested::Page).count();
    let moves = moves.iter().rev().take_while(|at| is_counted(at)).count();
    if count > 30 + 2 * moves {
        return violated("L1", format!("{count} requests in one minute"));
    }
    Ok(())
}

/// No message contains a value of an object.
pub fn x1_no_secret_in_messages(messages: &[String]) -> Check {
    match messages.iter().find(|message| message.contains(CANARY)) {
        Some(message) => violated("X1", format!("a value of an object occurs in {:.40?}", message)),
        None => Ok(()),
    }
}

/// No watch resumes before an earlier one, or after a version that was not delivered.
pub fn c5_c6_watches(server: &Server) -> Check {
    if let Some(went_back) = &server.went_back {
        return violated("C5", went_back.clone());
    }
    match &server.skipped {
        Some(detail) => violated("C6", detail.clone()),
        None => Ok(()),
    }
}
