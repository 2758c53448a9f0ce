//! One run: writes and faults with checks after every step, then recovery, then an idle phase.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use kube_informers::handler::Backlog;
use kube_informers::handler::HandlerOptions;
use kube_informers::reflector::Jitter;
use kube_informers::shard::Shard;
use kube_informers::shard::{ShardField, ShardRange};
use kube_informers::{Event, Informer, Object, Registration, Scope};
use kube_testserver::TestServer;

use super::faults;
use super::model::{Collection, Model, Rng, SELECTOR};
use super::observer::Observer;
use crate::support::{minutes, pass, secs};

/// The kind of run.
pub struct RunKind {
    watch_list: bool,
    calm: bool,
    /// With a shard that moves, on a server with or without support for shards.
    sharded: Option<bool>,
    /// With namespaces that come and go.
    namespaced: bool,
}

impl RunKind {
    pub fn watch_list() -> Self {
        Self {
            watch_list: true,
            calm: false,
            sharded: None,
            namespaced: false,
        }
    }

    pub fn pages() -> Self {
        Self {
            watch_list: false,
            ..Self::watch_list()
        }
    }

    pub fn sharded(self, honoured: bool) -> Self {
        Self {
            sharded: Some(honoured),
            ..self
        }
    }

    pub fn namespaced(self) -> Self {
        Self {
            namespaced: true,
            ..self
        }
    }

    pub fn calm(self) -> Self {
        Self { calm: true, ..self }
    }
}

pub fn run(seed: u64, plan: &RunKind) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut run = Run::new(seed, plan);
        run.disturb().await;
        run.heal().await;
        run.silence().await;
        run.stop().await;
    });
}

/// Some sixteenths of the hash space, always by the same field in one run.
fn shard(seed: u64, rng: &mut Rng) -> Shard {
    let field = if seed.is_multiple_of(3) {
        ShardField::Namespace
    } else {
        ShardField::Uid
    };
    match rng.below(8) {
        0 => Shard::nothing(field),
        1 => Shard::everything(field),
        _ => {
            let mut pieces = ShardRange::ALL.split(16);
            let first = rng.below(16) as usize;
            pieces.rotate_left(first);
            pieces.truncate(rng.below(12) as usize + 1);
            Shard::new(field, pieces)
        }
    }
}

/// Some namespaces, perhaps none. The last one never has objects.
fn namespaces(rng: &mut Rng) -> Vec<&'static str> {
    let mut some = vec!["a", "b", "none"];
    some.retain(|_| rng.one_in(2));
    some
}

struct Run<'a> {
    seed: u64,
    plan: &'a RunKind,
    rng: Rng,
    model: Model,
    informer: Informer<Pod>,
    observers: Vec<(Observer, Registration)>,
    late: Option<(Observer, Registration, usize)>,
    /// Some faults are noticed only after a timeout, or last as long as the watch.
    slow: bool,
    reported: u64,
    moves: u64,
    /// The namespaces, and the version last reported of each.
    namespaces: BTreeMap<&'static str, u64>,
}

impl<'a> Run<'a> {
    fn new(seed: u64, plan: &'a RunKind) -> Self {
        let mut rng = Rng(seed);
        let mut server = TestServer::builder()
            .seed(seed)
            .bookmark_interval(secs(*rng.pick(&[5, 20, 60])));
        if plan.sharded == Some(true) {
            server = server.sharding();
        }
        let server = server.build();
        let mut model = Model::new(server.clone(), rng.below(8) + 1);
        for _ in 0..rng.below(12) {
            model.write(&mut rng);
        }
        let capacity = rng.below(8) as usize + 1;
        let mut scope = Scope::all().labels(SELECTOR).expect("a selector");
        if plan.sharded.is_some() && !rng.one_in(4) {
            scope = scope.shard(shard(seed, &mut rng));
        }
        let mut covered = BTreeMap::new();
        if plan.namespaced {
            let named = namespaces(&mut rng);
            scope = scope.in_namespaces(named.iter().copied());
            covered.extend(named.into_iter().map(|namespace| (namespace, 0)));
        }
        let page_size = rng.below(4) as u32 + 1;
        let informer = Informer::<Pod>::scoped(server.client(), scope)
            .configure(|config| {
                config.jitter = Jitter::Seeded(seed);
                config.watch_list = plan.watch_list;
                config.page_size = Some(page_size);
                config.queue_capacity = capacity;
            })
            .start();

        let keep_all = Observer::new("keep-all");
        let inline = keep_all.clone();
        let inline = informer
            .add_event_handler(move |event: Event<Pod>| inline.tell(&event))
            .expect("it runs");
        let coalescing = Observer::new("coalescing");
        let slow = coalescing.clone();
        let slow = move |event: Event<Pod>| {
            let slow = slow.clone();
            async move {
                slow.tell(&event);
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        };
        let options = HandlerOptions::default().backlog(Backlog::CoalesceByKey);
        let slow = informer.add_event_handler_with(options, slow).expect("it runs");
        Self {
            seed,
            plan,
            rng,
            model,
            informer,
            observers: vec![(keep_all, inline), (coalescing, slow)],
            late: None,
            slow: false,
            reported: 0,
            moves: 0,
            namespaces: covered,
        }
    }

    /// Writes and faults, with checks after each step.
    async fn disturb(&mut self) {
        let steps = 20 + self.rng.below(40);
        let joins_at = self.rng.below(steps);
        for step in 0..steps {
            if step == joins_at {
                self.join();
            }
            for _ in 0..self.rng.below(4) {
                self.model.write(&mut self.rng);
            }
            if !self.plan.calm && self.rng.one_in(2) {
                self.slow |= faults::inject(&mut self.model, &mut self.rng);
            }
            if self.plan.sharded.is_some() && self.moves < 12 && self.rng.one_in(3) {
                self.move_shard();
                // Back and forth without a pause.
                if self.rng.one_in(4) {
                    self.move_shard();
                }
            }
            if self.plan.namespaced && self.moves < 20 && self.rng.one_in(3) {
                self.change_namespaces();
                if self.rng.one_in(4) {
                    self.change_namespaces();
                }
            }
            match self.rng.below(6) {
                0 => tokio::task::yield_now().await,
                1 => {
                    for _ in 0..self.rng.below(20) {
                        tokio::task::yield_now().await;
                        self.check();
                    }
                }
                2 => pass(Duration::from_millis(1)).await,
                3 => pass(Duration::from_millis(self.rng.below(2000))).await,
                4 => pass(secs(self.rng.below(10))).await,
                _ => pass(secs(self.rng.below(70))).await,
            }
            self.check();
        }
        if self.late.is_none() {
            self.join();
        }
    }

    /// Moves to another shard. Given-up ranges must be evicted at once, without a request.
    fn move_shard(&mut self) {
        self.moves += 1;
        let shard = shard(self.seed, &mut self.rng);
        let cached = self.cached();
        let requests = self.model.server.requests().len();
        self.model.journal.push(format!("move to {shard}"));
        self.informer.set_shard(shard.clone()).expect("the same field");
        self.same(
            "S1: the cache after an eviction",
            self.cached(),
            Model::part(&cached, Some(&shard)),
        );
        self.demand(
            self.model.server.requests().len() == requests,
            "S2: an eviction made a request",
        );
        self.check();
    }

    /// Changes the namespaces. Removed ones must be evicted at once, without a request.
    fn change_namespaces(&mut self) {
        self.moves += 1;
        let named = namespaces(&mut self.rng);
        let cached = self.cached();
        let requests = self.model.server.requests().len();
        self.model.journal.push(format!("namespaces {named:?}"));
        self.informer.set_namespaces(named.clone()).expect("it runs");
        let mut kept = cached;
        kept.retain(|key, _| named.contains(&namespace_of(key)));
        self.same("N1: the cache after an eviction", self.cached(), kept);
        self.demand(
            self.model.server.requests().len() == requests,
            "N2: an eviction made a request",
        );
        let quarantine = self.informer.quarantine();
        self.demand(
            (quarantine.iter()).all(|bad| named.contains(&bad.key.namespace().unwrap_or_default())),
            "N3: the quarantine has objects of a removed namespace",
        );
        let before = std::mem::take(&mut self.namespaces);
        self.namespaces = (named.into_iter())
            .map(|namespace| (namespace, before.get(namespace).copied().unwrap_or_default()))
            .collect();
        self.check();
    }

    /// Each watch is exact at its own version.
    fn check_namespaces(&mut self) {
        let members = self.informer.stats().members;
        let named: Vec<_> = (members.iter())
            .map(|member| member.namespace.as_deref().unwrap_or_default())
            .collect();
        let expected: Vec<_> = self.namespaces.keys().copied().collect();
        self.demand(
            named == expected,
            &format!("N4: {named:?} instead of {expected:?}"),
        );
        let cached = self.cached();
        self.demand(
            cached.keys().all(|key| expected.contains(&namespace_of(key))),
            "N5: the cache has objects of a removed namespace",
        );
        for member in &members {
            let namespace = member.namespace.as_deref().unwrap_or_default();
            let part = |mut collection: Collection| {
                collection.retain(|key, _| namespace_of(key) == namespace);
                collection
            };
            let Some(version) = &member.resource_version else {
                let is_empty = part(cached.clone()).is_empty();
                self.demand(is_empty, "N6: objects without a version");
                continue;
            };
            let version: u64 = version.parse().expect("a number");
            self.same(
                "C3: cache and collection of a namespace",
                part(cached.clone()),
                part(self.model.at(version).clone()),
            );
            let reported = self.namespaces.get(namespace).copied().unwrap_or_default();
            self.demand(version >= reported, "C5: the version of a namespace went back");
            if let Some(reported) = self.namespaces.get_mut(namespace) {
                *reported = version;
            }
        }
    }

    /// The part of the collection that is in the cache.
    fn shard(&self) -> Option<Shard> {
        self.informer.stats().members[0].shard.clone()
    }

    /// The collection as it should be now.
    fn wanted(&self) -> Collection {
        let mut wanted = Model::part(self.model.now(), self.informer.shard().as_ref());
        if self.plan.namespaced {
            wanted.retain(|key, _| self.namespaces.contains_key(namespace_of(key)));
        }
        wanted
    }

    /// A handler joins in the middle.
    fn join(&mut self) {
        let observer = Observer::new("late");
        let there = self.informer.store().len();
        let expected = if self.informer.has_synced() { there } else { 0 };
        let telling = observer.clone();
        let registration = self
            .informer
            .add_event_handler(move |event: Event<Pod>| telling.tell(&event))
            .expect("it runs");
        self.late = Some((observer.clone(), registration.clone(), expected));
        self.observers.push((observer, registration));
    }

    /// The invariants that hold at every moment.
    fn check(&mut self) {
        let store = self.informer.store();
        if self.plan.namespaced {
            self.check_namespaces();
        } else if !self.informer.has_synced() {
            self.demand(store.is_empty(), "C13: part of the initial list is visible");
        }
        if self.plan.namespaced {
            let versions = store.resource_versions().len();
            self.demand(
                versions == self.namespaces.len(),
                &format!("N7: {versions} versions"),
            );
        } else if let Some(version) = store.resource_version() {
            let version: u64 = version.parse().expect("a number");
            self.demand(version >= self.reported, "C5: the version went back");
            self.reported = version;
            let expected = Model::part(self.model.at(version), self.shard().as_ref());
            self.same("C3: cache and collection", self.cached(), expected);
        } else {
            self.demand(self.reported == 0, "the version was lost");
        }
        for (observer, registration) in &self.observers {
            if let Some(wrong) = observer.wrong() {
                self.demand(false, &wrong);
            }
            // The backlog of an idle handler is empty.
            if registration.pending() == 0 && registration.has_synced() {
                self.same("H1: fold of a handler and cache", observer.fold(), self.cached());
            }
        }
    }

    /// Without faults and with readable objects, cache, handlers and server agree soon.
    async fn heal(&mut self) {
        self.model.server.clear_faults();
        self.model.server.set_watch_window("pods", 1000);
        self.model.journal.push("heal".to_owned());
        while self.informer.shard().is_some_and(|shard| shard.is_empty()) {
            self.move_shard();
        }
        let timeout = if self.slow { minutes(12) } else { minutes(3) };
        let healed_at = tokio::time::Instant::now();
        loop {
            pass(Duration::from_millis(500)).await;
            self.check();
            // A readable version ends a quarantine.
            for bad in self.informer.quarantine() {
                let name = bad.key.name().to_owned();
                let namespace = bad.key.namespace().unwrap_or_default().to_owned();
                if self.model.server.get::<Pod>(namespace.as_str(), &name).is_some() {
                    let value = self.rng.next();
                    self.model.touch(&namespace, &name, value);
                }
            }
            if self.is_healed() {
                break;
            }
            let waited = healed_at.elapsed();
            if waited > timeout {
                self.demand(self.informer.has_synced(), "C7: it is not synced after healing");
                self.demand(
                    self.informer.quarantine().is_empty(),
                    "C10: the quarantine is not empty",
                );
                self.same("C7: cache and server", self.cached(), self.wanted());
                for (observer, _) in &self.observers {
                    self.same("H1: fold and server", observer.fold(), self.wanted());
                }
                self.demand(false, "a backlog is never delivered");
            }
        }
        for (observer, _) in &self.observers {
            for (key, version, uid) in observer.states() {
                if !self.model.existed(&key, &version, &uid) {
                    self.demand(false, &format!("C1: {key}@{version} of {uid} never existed"));
                }
            }
        }
        if let Some((observer, _, expected)) = &self.late
            && *expected > 0
        {
            let initial = observer.initial();
            // The objects of an added namespace are initial as well.
            let more = self.plan.namespaced && initial > *expected;
            self.demand(
                initial == *expected || more,
                &format!("H7: {initial} initial events, {expected} objects at joining"),
            );
        }
        if self.plan.calm {
            let stats = self.informer.stats().members[0].reflector.clone();
            self.demand(stats.lists == 1 && stats.errors.is_empty(), &format!("{stats:?}"));
        }
    }

    fn is_healed(&self) -> bool {
        let now = &self.wanted();
        let mut versions = self.informer.store().resource_versions().into_iter();
        let is_current = versions.all(|version| {
            version.and_then(|version| version.parse::<u64>().ok()) >= Some(self.model.changed())
        });
        self.informer.has_synced()
            && self.informer.has_settled()
            && is_current
            && self.informer.quarantine().is_empty()
            && self.cached() == *now
            && self.observers.iter().all(|(observer, registration)| {
                observer.fold() == *now && registration.pending() == 0 && registration.has_synced()
            })
    }

    /// Nothing changes, so there are no events (C8) and few requests (L1).
    async fn silence(&mut self) {
        let delivered: Vec<_> = self
            .observers
            .iter()
            .map(|(observer, _)| observer.events())
            .collect();
        pass(minutes(4)).await;
        self.check();
        let after: Vec<_> = self
            .observers
            .iter()
            .map(|(observer, _)| observer.events())
            .collect();
        self.demand(delivered == after, "C8: events without a change");
        let mut per_minute = BTreeMap::<u64, usize>::new();
        if self.plan.namespaced {
            // Each watch has its own limit, and there were many of them.
            return;
        }
        for request in self.model.server.requests() {
            // The pages of one list count as one request.
            if let Some(at) = request.at.checked_sub(secs(10))
                && request.param("continue").is_none()
            {
                *per_minute.entry(at.as_secs() / 60).or_default() += 1;
            }
        }
        let most = per_minute.values().max().copied().unwrap_or_default();
        self.demand(most <= 30, &format!("L1: {most} requests in a minute"));
    }

    async fn stop(&mut self) {
        self.informer.shutdown().await;
        self.model.server.assert_nothing_open();
        let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        self.demand(alive == 0, &format!("L3: {alive} tasks are left"));
    }

    fn cached(&self) -> Collection {
        let snapshot = self.informer.store().list();
        let ident = |pod: &Pod| {
            (
                Object::object_version(pod).unwrap_or_default().to_owned(),
                Object::object_uid(pod).unwrap_or_default().to_owned(),
            )
        };
        let objects = snapshot.iter();
        objects
            .map(|pod| {
                let key = kube_informers::ObjectKey::of(&**pod);
                (key.as_str().to_owned(), ident(pod))
            })
            .collect()
    }

    /// Compares all keys that are not in quarantine.
    fn same(&self, what: &str, mut left: Collection, mut right: Collection) {
        let quarantine: BTreeSet<_> = self
            .informer
            .quarantine()
            .iter()
            .map(|bad| bad.key.as_str().to_owned())
            .collect();
        left.retain(|key, _| !quarantine.contains(key));
        right.retain(|key, _| !quarantine.contains(key));
        if left != right {
            self.demand(false, &format!("{what} differ:\n  {left:?}\n  {right:?}"));
        }
    }

    #[track_caller]
    fn demand(&self, holds: bool, what: &str) {
        if holds {
            return;
        }
        let tail = |lines: &[String], n: usize| lines[lines.len().saturating_sub(n)..].join("\n  ");
        let mut delivered = String::new();
        for (observer, registration) in &self.observers {
            delivered.push_str(&format!(
                "\n{} ({} pending):\n  {}",
                registration.name(),
                registration.pending(),
                tail(&observer.log(), 12)
            ));
        }
        let requests: Vec<_> = self
            .model
            .server
            .requests()
            .iter()
            .map(|request| format!("{:.3} {request}", request.at.as_secs_f64()))
            .collect();
        panic!(
            "{what}\nversion {:?}, quarantine {:?}, {}\n  {}\nrequests\n  {}{delivered}",
            self.informer.store().resource_version(),
            self.informer
                .quarantine()
                .iter()
                .map(|bad| bad.key.as_str().to_owned())
                .collect::<Vec<_>>(),
            self.informer.state(),
            tail(&self.model.journal, 25),
            tail(&requests, 40),
        );
    }
}

fn namespace_of(key: &str) -> &str {
    key.split('/').next().unwrap_or_default()
}
