//! Random histories compared with plain maps: the invariants of the cache, its events and its indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_informers::Store;
use kube_informers::delta::{Delta, Replacement};
use kube_informers::quarantine::{BadObject, Problem};
use kube_informers::sim::{Origin, Prepared};
use kube_informers::store::{Index, Served, Snapshot};
use kube_informers::{Event, ObjectKey};
use proptest::prelude::*;

use super::thing::*;

/// The state of a collection, by key.
type ModelState = BTreeMap<String, Made>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Made {
    uid: u32,
    revision: u32,
    tags: Vec<String>,
    poisoned: bool,
}

impl Made {
    fn thing(&self, key: &str) -> Arc<Thing> {
        let key: ObjectKey = key.parse().unwrap();
        Arc::new(Thing {
            namespace: key.namespace().map(str::to_owned),
            name: key.name().to_owned(),
            uid: Some(format!("u{}", self.uid)),
            version: Some(self.revision.to_string()),
            tags: self.tags.clone(),
        })
    }

    fn bad(&self, key: &str) -> BadObject {
        BadObject {
            key: Some(key.parse().unwrap()),
            uid: Some(format!("u{}", self.uid)),
            resource_version: Some(self.revision.to_string()),
            problem: Problem::Decode("as wanted".to_owned()),
            size: 1,
        }
    }
}

#[derive(Clone, Debug)]
enum Happened {
    Put(String, Made, bool),
    Gone(String, Made),
}

impl Happened {
    fn delta(&self) -> Delta<Thing> {
        match self {
            Self::Put(key, made, _) if made.poisoned => Delta::Unreadable(made.bad(key)),
            Self::Put(key, made, true) => Delta::Added(made.thing(key)),
            Self::Put(key, made, false) => Delta::Updated(made.thing(key)),
            Self::Gone(key, made) if made.poisoned => Delta::DeletedUnreadable(made.bad(key)),
            Self::Gone(key, made) => Delta::Deleted(made.thing(key)),
        }
    }
}

/// An API server with one collection and its whole history.
struct Server {
    prefix: &'static str,
    /// The state after each revision; `history[n]` leads from `states[n]` to `states[n + 1]`.
    states: Vec<ModelState>,
    history: Vec<Happened>,
    uids: u32,
    /// How much of the history the client has received.
    received: usize,
}

impl Server {
    fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            states: vec![ModelState::new()],
            history: Vec::new(),
            uids: 0,
            received: 0,
        }
    }

    fn write(&mut self, name: u8, tags: &[u8], poisoned: bool) {
        let (key, new) = self.next(name);
        let present = self.states.last().unwrap().get(&key).cloned();
        let made = Made {
            uid: present.as_ref().map_or_else(
                || {
                    self.uids += 1;
                    self.uids
                },
                |present| present.uid,
            ),
            revision: new,
            tags: tags.iter().map(|tag| format!("t{tag}")).collect(),
            poisoned,
        };
        let mut state = self.states.last().unwrap().clone();
        state.insert(key.clone(), made.clone());
        self.states.push(state);
        self.history.push(Happened::Put(key, made, present.is_none()));
    }

    fn delete(&mut self, name: u8) {
        let (key, new) = self.next(name);
        let mut state = self.states.last().unwrap().clone();
        let Some(mut made) = state.remove(&key) else {
            return;
        };
        made.revision = new;
        self.states.push(state);
        self.history.push(Happened::Gone(key, made));
    }

    fn next(&self, name: u8) -> (String, u32) {
        (format!("{}/o{name}", self.prefix), self.states.len() as u32)
    }

    fn list(&mut self, rotate: usize) -> Delta<Thing> {
        self.received = self.history.len();
        let state = self.states.last().unwrap();
        let mut good: Vec<_> = (state.iter())
            .filter(|(_, made)| !made.poisoned)
            .map(|(key, made)| made.thing(key))
            .collect();
        let middle = rotate.checked_rem(good.len()).unwrap_or(0);
        good.rotate_left(middle);
        let bad = state.iter().filter(|(_, made)| made.poisoned);
        Delta::ReplacedAll(Replacement {
            shard: None,
            objects: good,
            unreadable: bad.map(|(key, made)| made.bad(key)).collect(),
            resource_version: Some(self.received.to_string()),
        })
    }

    fn watch(&mut self, events: usize) -> Vec<Delta<Thing>> {
        let until = (self.received + events).min(self.history.len());
        let deltas = self.history[self.received..until]
            .iter()
            .map(Happened::delta)
            .collect();
        self.received = until;
        deltas
    }

    /// Repeats earlier events.
    fn replay(&self, back: usize, events: usize) -> Vec<Delta<Thing>> {
        let from = self.received.saturating_sub(back);
        let until = (from + events).min(self.received);
        self.history[from..until].iter().map(Happened::delta).collect()
    }

    /// Returns to an earlier state, as after a restore from a backup.
    fn rewind(&mut self, back: usize) {
        let keep = self.history.len().saturating_sub(back);
        self.history.truncate(keep);
        self.states.truncate(keep + 1);
    }
}

#[derive(Clone, Debug)]
enum Action {
    Write { name: u8, tags: Vec<u8>, poisoned: bool },
    Delete(u8),
    Watch(usize),
    Replay { back: usize, events: usize },
    List(usize),
    Rewind(usize),
    Bookmark,
    Resync,
    AddLateIndex,
    TakeSnapshot,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => (0u8..6, prop::collection::vec(0u8..4, 0..3), prop::bool::weighted(0.15))
            .prop_map(|(name, tags, poisoned)| Action::Write { name, tags, poisoned }),
        4 => (0u8..6).prop_map(Action::Delete),
        6 => (1usize..6).prop_map(Action::Watch),
        2 => (0usize..8, 1usize..8).prop_map(|(back, events)| Action::Replay { back, events }),
        2 => (0usize..6).prop_map(Action::List),
        1 => (0usize..6).prop_map(Action::Rewind),
        1 => Just(Action::Bookmark),
        1 => Just(Action::Resync),
        1 => Just(Action::AddLateIndex),
        1 => Just(Action::TakeSnapshot),
    ]
}

struct World {
    servers: [Server; 2],
    cache: Cache,
    early: Index<Thing>,
    late: Option<Index<Thing>>,
    /// The state that follows from the events alone.
    folded: BTreeMap<ObjectKey, Arc<Thing>>,
    snapshots: Vec<(Snapshot<Thing>, Vec<String>)>,
    /// Keys delivered before the server was restored, whose version may decrease.
    from_before: BTreeSet<ObjectKey>,
    /// Whether the server is restored in the middle of this batch.
    restored: bool,
}

pub fn tags(thing: &Thing) -> Vec<String> {
    thing.tags.clone()
}

fn sorted(snapshot: &Snapshot<Thing>) -> Vec<String> {
    let mut states: Vec<String> = snapshot.iter().map(|thing| state(thing)).collect();
    states.sort();
    states
}

impl World {
    fn new() -> Self {
        let cache = Cache::new();
        Self {
            servers: [Server::new("m0"), Server::new("m1")],
            early: cache.writer.store().add_index("early", tags).unwrap(),
            cache,
            late: None,
            folded: BTreeMap::new(),
            snapshots: Vec::new(),
            from_before: BTreeSet::new(),
            restored: false,
        }
    }

    fn store(&self) -> Store<Thing> {
        self.cache.writer.store()
    }

    /// The deltas that an action causes.
    fn act(&mut self, member: usize, action: Action) -> Vec<Delta<Thing>> {
        let server = &mut self.servers[member];
        match action {
            Action::Write { name, tags, poisoned } => server.write(name, &tags, poisoned),
            Action::Delete(name) => server.delete(name),
            Action::Watch(events) => return server.watch(events),
            Action::Replay { back, events } => return server.replay(back, events),
            Action::List(rotate) => return vec![server.list(rotate)],
            Action::Rewind(back) => {
                server.rewind(back);
                let keys = (0..6).map(|name| server.next(name).0.parse().unwrap());
                self.from_before.extend(keys);
                self.restored = true;
                return vec![server.list(0)];
            }
            Action::Bookmark => {
                let version = server.received.to_string();
                return vec![Delta::Bookmark {
                    resource_version: version,
                }];
            }
            Action::Resync => return vec![Delta::SyncAll],
            Action::AddLateIndex => {
                if self.late.is_none() {
                    self.late = Some(self.store().add_index("late", tags).unwrap());
                }
            }
            Action::TakeSnapshot => {
                let snapshot = self.store().list();
                let states = sorted(&snapshot);
                self.snapshots.push((snapshot, states));
            }
        }
        Vec::new()
    }

    fn apply(&mut self, member: usize, deltas: Vec<Delta<Thing>>) {
        let origin = Origin {
            member,
            ..Origin::default()
        };
        let prepared = Prepared::new(&self.store(), origin, deltas);
        self.cache.writer.apply(prepared, &mut self.cache.events);
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        self.check_events()?;
        self.check_exactness()?;
        self.check_indexes()?;
        for (snapshot, states) in &self.snapshots {
            prop_assert_eq!(&sorted(snapshot), states, "C4: a snapshot never changes");
        }
        Ok(())
    }

    /// H1–H4, H12, C2: the events of a key are (Added Updated* Deleted)*, each update goes from the last delivered state
    /// to a newer state of the same object, and together they lead to the content of the store.
    fn check_events(&mut self) -> Result<(), TestCaseError> {
        for event in std::mem::take(&mut self.cache.events) {
            let key = event.key();
            let settled = !self.restored && !event.is_resync();
            match event {
                Event::Added { object, .. } => {
                    let last = self.folded.insert(key.clone(), object);
                    prop_assert!(last.is_none(), "H2: added twice");
                }
                Event::Updated { old, new, resync } => {
                    prop_assert_eq!(&old.uid, &new.uid, "H4");
                    let number = |thing: &Thing| thing.version.as_deref().unwrap().parse::<u32>().unwrap();
                    if resync {
                        prop_assert!(Arc::ptr_eq(&old, &new));
                    } else {
                        prop_assert!(
                            self.from_before.contains(&key) || number(&old) < number(&new),
                            "C2, H12"
                        );
                    }
                    let last = self.folded.insert(key.clone(), new);
                    prop_assert!(last.is_some_and(|last| Arc::ptr_eq(&last, &old)), "H3");
                }
                Event::Deleted { .. } => {
                    prop_assert!(
                        self.folded.remove(&key).is_some(),
                        "H13: deleted an object that was not delivered"
                    );
                }
            }
            if settled {
                self.from_before.remove(&key);
            }
        }
        self.restored = false;
        let snapshot = self.store().list();
        prop_assert_eq!(snapshot.len(), self.folded.len(), "H1");
        for object in snapshot.iter() {
            let folded = self.folded.get(&ObjectKey::of(&**object));
            prop_assert!(folded.is_some_and(|folded| Arc::ptr_eq(folded, object)), "H1");
        }
        Ok(())
    }

    /// C3, C5, C10: apart from quarantined keys, the cache equals the collection at the version it reports, and the
    /// quarantined keys are those whose current state is unreadable.
    fn check_exactness(&self) -> Result<(), TestCaseError> {
        let store = self.store();
        let versions = store.resource_versions();
        let quarantine: BTreeMap<String, Served> = (store.quarantine().into_iter())
            .map(|entry| (entry.key.to_string(), entry.served))
            .collect();
        let mut expected = BTreeMap::new();
        let mut poisoned = BTreeSet::new();
        for (member, server) in self.servers.iter().enumerate() {
            let version = versions.get(member).cloned().flatten();
            let reported = version.map_or(0, |version| version.parse().unwrap());
            prop_assert_eq!(reported, server.received, "C5");
            for (key, made) in &server.states[reported] {
                if made.poisoned {
                    poisoned.insert(key.clone());
                } else {
                    expected.insert(key.clone(), (format!("u{}", made.uid), made.revision.to_string()));
                }
            }
        }
        let quarantined: BTreeSet<String> = quarantine.keys().cloned().collect();
        prop_assert_eq!(&quarantined, &poisoned, "C10");
        let mut held = BTreeMap::new();
        for object in store.list().iter() {
            let key = ObjectKey::of(&**object);
            prop_assert_eq!(store.is_stale(&key), quarantined.contains(key.as_str()));
            prop_assert!(store.get(&key).is_some_and(|found| Arc::ptr_eq(&found, object)));
            if !store.is_stale(&key) {
                let identity = (object.uid.clone().unwrap(), object.version.clone().unwrap());
                held.insert(key.to_string(), identity);
            }
        }
        prop_assert_eq!(held, expected, "C3");
        for (key, served) in quarantine {
            let key: ObjectKey = key.parse().unwrap();
            prop_assert_eq!(store.contains(&key), served == Served::OlderVersion);
        }
        Ok(())
    }

    /// I1–I3: each index equals a rebuilt one, regardless of when it was added.
    fn check_indexes(&self) -> Result<(), TestCaseError> {
        let store = self.store();
        check_index(&store, &self.early, tags)?;
        if let Some(late) = &self.late {
            check_index(&store, late, tags)?;
        }
        let namespace = store.index("namespace").unwrap();
        check_index(&store, &namespace, |thing| {
            thing.namespace.clone().into_iter().collect()
        })
    }
}

pub fn check_index<Q: std::hash::Hash + Eq + Clone + Ord + std::fmt::Debug>(
    store: &Store<Thing, Q>,
    index: &Index<Thing, Q>,
    values: impl Fn(&Thing) -> Vec<String>,
) -> Result<(), TestCaseError> {
    let mut rebuilt: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for object in store.list().iter() {
        for value in values(object).into_iter().collect::<BTreeSet<_>>() {
            rebuilt.entry(value).or_default().push(state(object));
        }
    }
    let found: BTreeMap<String, Vec<String>> = (index.values().into_iter())
        .map(|value| {
            let objects = index.get(&value);
            (
                value.to_string(),
                objects.iter().map(|thing| state(thing)).collect(),
            )
        })
        .collect();
    prop_assert_eq!(&found, &rebuilt, "I1");
    for (value, objects) in &rebuilt {
        prop_assert_eq!(index.count(value), objects.len());
        prop_assert_eq!(index.keys(value).len(), objects.len());
        for (key, object) in index.keys(value).iter().zip(index.get(value)) {
            prop_assert!(store.get(key).is_some_and(|found| Arc::ptr_eq(&found, &object)));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_cache_is_exact_at_every_step(
        actions in prop::collection::vec((0usize..2, action(), any::<bool>()), 1..80),
    ) {
        let mut world = World::new();
        let mut pending = Vec::new();
        let mut pending_of = 0;
        for (member, action, flush) in actions {
            // A batch comes from one watch.
            if member != pending_of {
                world.apply(pending_of, std::mem::take(&mut pending));
                world.check()?;
                pending_of = member;
            }
            pending.extend(world.act(member, action));
            if flush {
                world.apply(member, std::mem::take(&mut pending));
                world.check()?;
            }
        }
        world.apply(pending_of, pending);
        world.check()?;
    }
}
