//! How current the cache is, and waiting for a version of one watch.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::Informer;
use super::audit::{AuditStats, Auditor};
use super::process::InformerInner;
use super::stats::MemberStats;
use crate::object::Object;
use crate::reflector::ReflectorHandle;
use crate::version::ResourceVersion;

impl<K: Object> Informer<K> {
    /// The age of the last proof that the cache is current; `None` before the initial list is in the cache.
    ///
    /// A proof is a complete list, or an event or bookmark on the watch that is not older than the cache, once the cache
    /// holds it. Servers send a bookmark about once a minute, so a healthy informer stays below about 90 s, however quiet
    /// its collection is; on a server without bookmarks the watch reconnects after 90 s of silence. With several watches,
    /// the age of the oldest of their proofs.
    ///
    /// [`has_synced`](Self::has_synced) stays true once it is true and says nothing about the present.
    /// [`Readiness`](crate::informer::Readiness) combines both for all informers of a process.
    pub fn freshness(&self) -> Option<Duration> {
        self.shared.freshness()
    }
}

impl<K: Object> InformerInner<K> {
    pub(super) fn freshness(&self) -> Option<Duration> {
        // An empty shard is the same at every version.
        let watched =
            (0..self.queues.len()).filter(|member| !self.shards.get(*member).is_some_and(|s| s.is_empty()));
        let ages: Option<Vec<Duration>> = watched.map(|member| self.freshness_of(member)).collect();
        ages.map(|ages| ages.into_iter().max().unwrap_or_default())
            .filter(|_| self.life.borrow().synced)
    }

    pub(super) fn freshness_of(&self, member: usize) -> Option<Duration> {
        let is_caught_up = self.queues.get(member).is_none_or(|queue| queue.is_empty());
        let proof = if is_caught_up {
            self.last_proof(member)
        } else {
            self.applied_proof(member)
        };
        proof.map(|proof| Instant::now().saturating_duration_since(proof))
    }

    /// The last proof that a reflector is current.
    pub(super) fn last_proof(&self, member: usize) -> Option<Instant> {
        self.reflectors.get(member).and_then(ReflectorHandle::last_proof)
    }

    /// The last proof that a watch is current which the store has caught up with.
    fn applied_proof(&self, member: usize) -> Option<Instant> {
        self.proofs.lock().get(member).copied().flatten()
    }

    /// The store has caught up with a proof.
    pub(super) fn note_proof(&self, member: usize, proof: Option<Instant>) {
        if let (Some(proof), Some(proven)) = (proof, self.proofs.lock().get_mut(member)) {
            *proven = Some(proof);
        }
    }

    /// Changes the counters of an audit.
    pub(super) fn audit_stats(&self, member: usize, count: impl FnOnce(&mut AuditStats)) {
        if let Some(stats) = self.audits.get(member) {
            count(&mut stats.lock());
        }
    }

    /// Adds the counters of the audit and the freshness to those of a watch.
    pub(super) fn add_health(&self, member: usize, stats: MemberStats) -> MemberStats {
        let audit = self.audits.get(member).map(|audit| audit.lock().clone());
        MemberStats {
            audit: audit.unwrap_or_default(),
            freshness: self.freshness_of(member),
            ..stats
        }
    }

    /// Waits until a watch has reached a version.
    pub(super) async fn reaches(&self, member: usize, version: &str, within: Duration) -> bool {
        let has_reached = || {
            let present = self.versions().into_iter().nth(member).flatten();
            present.is_some_and(|present| {
                present == version
                    || ResourceVersion::compare(&present, version).is_some_and(|order| order.is_gt())
            })
        };
        let mut applied = self.applied.subscribe();
        let reached = async {
            while !has_reached() {
                if applied.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        timeout(within, reached).await.unwrap_or(false)
    }

    /// Runs the audits of all watches. Never ends.
    pub(super) async fn audit(&self, auditors: Vec<Auditor<K>>) {
        join_all(auditors.into_iter().map(|auditor| auditor.run(self))).await;
        std::future::pending().await
    }
}
