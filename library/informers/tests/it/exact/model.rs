//! The expected view of the server: the collection at every version, and all states that ever existed.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use kube_informers::shard::Shard;
use kube_informers::shard::{ShardField, shard_hash};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod};

/// A small generator (splitmix64), so that a run is determined by its seed.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let position = usize::try_from(self.below(of.len() as u64)).unwrap_or_default();
        &of[position]
    }
}

/// Version and UID of each visible object.
pub type Collection = BTreeMap<String, (String, String)>;

/// Only pods of this label are in the informer's scope.
pub const SELECTOR: &str = "app=x";

pub struct Model {
    pub server: TestServer,
    /// The visible collection from each version on.
    history: BTreeMap<u64, Collection>,
    /// The last version that changed anything visible.
    changed: u64,
    /// Every visible state that ever existed.
    states: BTreeSet<(String, String, String)>,
    keys: u64,
    /// The actions so far, for failure messages.
    pub journal: Vec<String>,
}

impl Model {
    pub fn new(server: TestServer, keys: u64) -> Self {
        let mut model = Self {
            server,
            history: BTreeMap::new(),
            changed: 0,
            states: BTreeSet::new(),
            keys,
            journal: Vec::new(),
        };
        model.history.insert(0, Collection::new());
        model.record();
        model
    }

    /// The collection now.
    pub fn now(&self) -> &Collection {
        self.at(u64::MAX)
    }

    fn look(&self) -> Collection {
        let objects = self.server.objects("pods");
        let text = |object: &serde_json::Value, pointer: &str| {
            let text = object.pointer(pointer).and_then(serde_json::Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        objects
            .iter()
            .filter(|object| {
                object
                    .pointer("/metadata/labels/app")
                    .is_some_and(|app| app == "x")
            })
            .map(|object| {
                let key = format!(
                    "{}/{}",
                    text(object, "/metadata/namespace"),
                    text(object, "/metadata/name")
                );
                let state = (
                    text(object, "/metadata/resourceVersion"),
                    text(object, "/metadata/uid"),
                );
                (key, state)
            })
            .collect()
    }

    /// The part of a collection that is in a shard.
    pub fn part(collection: &Collection, shard: Option<&Shard>) -> Collection {
        let is_in = |key: &str, uid: &str| {
            shard.is_none_or(|shard| {
                shard.covers_hash(shard_hash(match shard.field() {
                    ShardField::Uid => uid,
                    ShardField::Namespace => key.split('/').next().unwrap_or_default(),
                }))
            })
        };
        let mut part = collection.clone();
        part.retain(|key, (_, uid)| is_in(key, uid));
        part
    }

    /// The collection at a version.
    pub fn at(&self, version: u64) -> &Collection {
        let (_, collection) = self
            .history
            .range(..=version)
            .next_back()
            .expect("version 0 is there");
        collection
    }

    pub fn existed(&self, key: &str, version: &str, uid: &str) -> bool {
        self.states
            .contains(&(key.to_owned(), version.to_owned(), uid.to_owned()))
    }

    /// The last version that changed anything visible. An older cache may be right by accident.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    pub fn keys(&self) -> u64 {
        self.keys
    }

    fn record(&mut self) {
        let now = self.look();
        for (key, (version, uid)) in &now {
            self.states.insert((key.clone(), version.clone(), uid.clone()));
        }
        let version = self.server.resource_version();
        if now != *self.now() {
            self.changed = version;
        }
        self.history.insert(version, now);
    }

    fn note(&mut self, what: String) {
        self.record();
        let version = self.server.resource_version();
        self.journal.push(format!("{version}: {what}"));
    }

    /// One random write.
    pub fn write(&mut self, rng: &mut Rng) {
        let name = format!("p{}", rng.below(self.keys));
        let namespace = if rng.one_in(3) { "b" } else { "a" };
        let exists = self.server.get::<Pod>(namespace, &name);
        match (exists, rng.below(10)) {
            (None, _) => {
                let app = if rng.one_in(4) { "y" } else { "x" };
                self.server.create(pod(namespace, &name).label("app", app));
                self.note(format!("create {namespace}/{name} app={app}"));
            }
            (Some(_), 0..=1) => {
                self.server.delete::<Pod>(namespace, &name);
                self.note(format!("delete {namespace}/{name}"));
            }
            (Some(_), 2..=3) => {
                self.server.delete::<Pod>(namespace, &name);
                self.note(format!("delete {namespace}/{name}, to be recreated"));
                self.server.create(pod(namespace, &name).label("app", "x"));
                self.note(format!("recreate {namespace}/{name}"));
            }
            (Some(_), 4..=5) => {
                self.server.modify::<Pod>(namespace, &name, |pod| {
                    let labels = pod.metadata.labels.get_or_insert_default();
                    let flipped = if labels.get("app").is_some_and(|app| app == "x") {
                        "y"
                    } else {
                        "x"
                    };
                    labels.insert("app".to_owned(), flipped.to_owned());
                });
                self.note(format!("flip {namespace}/{name}"));
            }
            (Some(_), _) => self.touch(namespace, &name, rng.next()),
        }
    }

    pub fn touch(&mut self, namespace: &str, name: &str, value: u64) {
        self.server.modify::<Pod>(namespace, name, |pod| {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert("touched".to_owned(), value.to_string());
        });
        self.note(format!("touch {namespace}/{name}"));
    }

    pub fn skip(&mut self, versions: u64) {
        self.server.skip_versions(versions);
        self.note(format!("skip {versions} versions"));
    }
}
