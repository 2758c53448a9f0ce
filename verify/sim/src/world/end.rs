//! The end of a run: the faults end and everything becomes current, or the informer is stopped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube_informers::reflector::ReflectorState;
use tokio::time::Instant;

use super::{Failure, World};
use crate::handlers::SimHandler;
use crate::invariants::{Check, violated, x1_no_secret_in_messages};
use crate::object::{Key, Thing};
use crate::server::Stored;
use crate::shards::Part;
use crate::tape::Tape;

/// How long the healed system may take to become current: the idle deadline of a silent watch (150 s), then the longest pause
/// after a failure (60 s with jitter) and the pacing of the requests that follow.
const HEAL: Duration = Duration::from_secs(240);
/// How long nothing may change after that.
const QUIET: Duration = Duration::from_secs(600);

impl World {
    /// Faults and writes end; everything must become current and stay so.
    pub(super) async fn heal(&mut self, tape: &Tape) -> Check {
        self.started = true;
        self.server.lock().heal();
        let began = Instant::now();
        let interval = Duration::from_millis(u64::from(tape.settings.bookmark_interval.max(1000)));
        let mut bookmark_at = began;
        loop {
            if bookmark_at <= Instant::now() {
                self.server.lock().send_bookmarks();
                bookmark_at = Instant::now() + interval;
            }
            self.drain().await?;
            if self.is_current() {
                break;
            }
            if began.elapsed() > HEAL {
                let held = self.cache.held().len();
                let head = self.server.lock().head();
                let id = if self.cache.epoch() + 1 < self.server.lock().epochs.len() {
                    "C9"
                } else {
                    "C7"
                };
                return violated(
                    id,
                    format!(
                        "not current after {HEAL:?}: {held} objects, server at {head}, {:?}",
                        self.handle.state()
                    ),
                );
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        self.c12_nothing_else_is_held()?;
        for handler in self.handlers.iter().filter(|handler| !handler.is_removed()) {
            handler.model.h7_initial_events()?;
        }
        self.record("healed");
        let received = self.received;
        let held = self.cache.held().clone();
        let silent_since = Instant::now();
        while silent_since.elapsed() < QUIET {
            if bookmark_at <= Instant::now() {
                self.server.lock().send_bookmarks();
                bookmark_at = Instant::now() + interval;
            }
            tokio::time::advance(Duration::from_secs(60)).await;
            self.drain().await?;
        }
        if self.received != received || *self.cache.held() != held {
            return violated("C8", "something changed although the server did not");
        }
        Ok(())
    }

    /// Lets everything run until nothing is left to do at this time.
    async fn drain(&mut self) -> Check {
        for _ in 0..100 {
            let before = (self.received, self.server.lock().requests.len());
            self.settle().await;
            self.process();
            for handler in 0..self.handlers.len() {
                let events = self.handlers[handler].receive(u32::MAX);
                self.received(handler, &events)?;
            }
            self.settle().await;
            self.check()?;
            if before == (self.received, self.server.lock().requests.len()) && self.queue.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Whether the cache equals the collection, and every handler has received it.
    fn is_current(&self) -> bool {
        let server = self.server.lock();
        let now = server.now();
        let held = self.cache.held();
        let target = self.shards.target;
        let belongs = |key: &Key, object: &Stored| target.is_none_or(|target| target.contains(*key, object));
        let good = (now.iter()).filter(|(key, object)| !object.poisoned && belongs(key, object));
        let is_empty = target.is_some_and(Part::is_empty);
        let version: u64 = (self.store.resource_version())
            .and_then(|version| version.parse().ok())
            .unwrap_or(0);
        let last = server.epoch().changes.last().map_or(0, |change| change.version);
        self.synced
            && (is_empty || version >= last)
            // A version that a restore has lost.
            && (is_empty || version <= server.head())
            && good
                .clone()
                .all(|(key, object)| held.get(key) == Some(&(object.uid, object.version)))
            // Of an object that cannot be decoded, an earlier state is held; not one of another object, which a restore has lost.
            && held.iter().all(|(key, (uid, _))| {
                now.get(key).is_some_and(|object| belongs(key, object) && object.uid == *uid)
            })
            && match self.handle.state() {
                ReflectorState::Watching { .. } => !is_empty,
                ReflectorState::Resting => is_empty,
                _ => false,
            }
            && self
                .handlers
                .iter()
                .all(|handler| handler.is_removed() || handler.is_idle() && handler.has_synced())
    }

    /// When everything is delivered, the objects in memory are those of the cache and those that handlers were given last.
    fn c12_nothing_else_is_held(&self) -> Check {
        let snapshot = self.store.list();
        let cached = snapshot.iter().map(Arc::as_ptr);
        let handed = self.handlers.iter().flat_map(|handler| handler.model.objects());
        let accounted: BTreeSet<*const Thing> = cached.chain(handed.map(Arc::as_ptr)).collect();
        let in_memory = Thing::in_memory();
        // What a queue or a batch holds was requeued and waits for the next change.
        if in_memory != accounted.len() && self.batch.is_none() && self.queue.is_empty() {
            let (held, known) = (in_memory, accounted.len());
            return violated(
                "C12",
                format!("{held} objects are in memory, {known} of them in use"),
            );
        }
        Ok(())
    }

    /// The output of everything that can be printed.
    fn messages(&self) -> Vec<String> {
        let snapshot = self.store.list();
        let mut messages = vec![
            format!("{:?}", self.queue),
            format!("{:?}", self.batch),
            format!("{:?} {:?}", self.store, self.writer),
            format!("{:?} {:?}", self.dispatcher, self.early),
            format!("{:?} {:?}", self.handle, self.handle.stats()),
            format!("{:?} {:?}", self.handle.state(), self.handle.last_error()),
            format!("{snapshot:?} {:?}", self.store.quarantine()),
        ];
        messages.extend(self.handlers.iter().map(SimHandler::describe));
        messages
    }

    /// Stops everything: no time may pass, and nothing may be left.
    pub(super) async fn shut_down(&mut self, step: usize) -> Result<(), Failure> {
        let failed = |violation| Failure { step, violation };
        x1_no_secret_in_messages(&self.messages()).map_err(failed)?;
        let began = Instant::now();
        self.started = true;
        self.stop.cancel();
        self.queue.close();
        drop(self.dispatcher.close(false));
        for _ in 0..10 {
            self.settle().await;
        }
        let open = self.server.lock().open_streams();
        let tasks = (self.running)();
        if self.reflector.is_some() || open > 0 || tasks > 0 || began.elapsed() > Duration::from_millis(100) {
            let detail = format!(
                "after the stop: reflector ended: {}, {open} open streams, {tasks} tasks",
                self.reflector.is_none()
            );
            return violated("L3", detail).map_err(failed);
        }
        for handler in 0..self.handlers.len() {
            self.handlers[handler].received();
            let late = self.handlers[handler].receive(u32::MAX);
            tokio::task::yield_now().await;
            if !late.is_empty() || !self.handlers[handler].received().is_empty() {
                return violated("H9", "a handler was called after the stop").map_err(failed);
            }
        }
        Ok(())
    }
}
