//! How many pods each replica set of a deployment gets.

use serde_json::Value;

use super::super::cluster::Cluster;
use super::super::pods::key_of;
use super::sets::{DESIRED, MAXIMUM};
use super::{Rollout, available, replicas};
use crate::fields::{annotation, number};

impl Rollout {
    /// The number of pods for the replica set of the current template, which has `now`.
    pub(super) fn new_replicas(&self, now: i64) -> i64 {
        let wanted = self.wanted();
        if !self.is_rolling() || now >= wanted {
            return wanted;
        }
        let total: i64 = self.all().map(replicas).sum();
        let room = wanted + self.max_surge() - total;
        now + room.max(0).min(wanted - now)
    }

    /// One step of a rolling update: more new pods if there is room, otherwise fewer old ones.
    pub(super) fn roll(&mut self, cluster: &mut Cluster<'_>) {
        let Some(new) = &self.new else { return };
        let (key, now) = (key_of(new), replicas(new));
        let next = self.new_replicas(now);
        if next != now {
            self.scale_set(cluster, &key, next);
            return;
        }
        // The numbers of the deployment are kept up to date for the next change of its scale.
        self.scale_set(cluster, &key, now);
        self.scale_down_old(cluster);
    }

    /// Deletes all old pods, and creates the new ones when they have ended.
    pub(super) fn recreate(&mut self, cluster: &mut Cluster<'_>) {
        let mut scaled = false;
        for set in self.old.clone() {
            if replicas(&set) > 0 {
                self.scale_set(cluster, &key_of(&set), 0);
                scaled = true;
            }
        }
        let uids = self
            .old
            .iter()
            .filter_map(|set| set.pointer("/metadata/uid")?.as_str());
        let running = uids.flat_map(|uid| cluster.owned("pods", uid)).any(|pod| {
            let pod = pod.value();
            !super::super::pods::has_ended(&pod)
        });
        if scaled || running {
            self.find_new(cluster, false);
            return;
        }
        self.find_new(cluster, true);
        if let Some(new) = &self.new {
            let (key, wanted) = (key_of(new), self.wanted());
            self.scale_set(cluster, &key, wanted);
        }
    }

    fn scale_down_old(&mut self, cluster: &mut Cluster<'_>) {
        let total: i64 = self.all().map(replicas).sum();
        let minimum = self.wanted() - self.max_unavailable();
        let new_unavailable = self
            .new
            .as_ref()
            .map_or(0, |new| (replicas(new) - available(new)).max(0));
        // Pods that are not available may go at once, unless the new ones are not available either.
        let surplus = total - minimum - new_unavailable;
        if surplus <= 0 {
            return;
        }
        let mut left = surplus;
        for set in self.old.clone() {
            let unhealthy = (replicas(&set) - available(&set)).max(0).min(left);
            if unhealthy > 0 {
                self.scale_set(cluster, &key_of(&set), replicas(&set) - unhealthy);
                left -= unhealthy;
            }
        }
        let mut spare = self.all().map(available).sum::<i64>() - minimum;
        for set in self.old.clone() {
            let count = replicas(&set).min(spare.max(0));
            if count > 0 {
                self.scale_set(cluster, &key_of(&set), replicas(&set) - count);
                spare -= count;
            }
        }
    }

    /// Follows a changed number of replicas without a rollout: all to the only replica set, or in proportion to their sizes in
    /// the middle of a rollout.
    pub(super) fn scale(&mut self, cluster: &mut Cluster<'_>) {
        let active: Vec<Value> = self.all().filter(|set| replicas(set) > 0).cloned().collect();
        let latest = self.new.clone().or_else(|| self.old.last().cloned());
        let wanted = self.wanted();
        if let [] | [_] = active.as_slice() {
            if let Some(only) = active.into_iter().next().or(latest) {
                self.scale_set(cluster, &key_of(&only), wanted);
            }
            return;
        }
        let new_is_complete = self.new.as_ref().is_some_and(|new| {
            let desired: Option<i64> = annotation(new, DESIRED).parse().ok();
            desired == Some(replicas(new)) && available(new) == replicas(new)
        });
        if new_is_complete || !self.is_rolling() {
            for set in self.old.clone() {
                self.scale_set(cluster, &key_of(&set), 0);
            }
            if let Some(new) = &self.new {
                let key = key_of(new);
                self.scale_set(cluster, &key, wanted);
            }
            return;
        }
        self.scale_in_proportion(cluster, active);
    }

    fn scale_in_proportion(&mut self, cluster: &mut Cluster<'_>, mut active: Vec<Value>) {
        let total: i64 = active.iter().map(replicas).sum();
        let allowed = if self.wanted() > 0 {
            self.wanted() + self.max_surge()
        } else {
            0
        };
        let to_add = allowed - total;
        // Newest first when growing, oldest first when shrinking; the largest before all others.
        if to_add > 0 {
            active.reverse();
        }
        active.sort_by_key(|set| std::cmp::Reverse(replicas(set)));
        let mut added = 0;
        let mut sizes: Vec<(String, i64)> = Vec::new();
        for set in &active {
            let size = replicas(set);
            let share = if to_add == 0 {
                0
            } else {
                let maximum: i64 = annotation(set, MAXIMUM).parse().unwrap_or(self.wanted());
                let fraction = rounded(size * allowed, maximum.max(1)) - size;
                let left = to_add - added;
                if to_add > 0 {
                    fraction.min(left)
                } else {
                    fraction.max(left)
                }
            };
            added += share;
            sizes.push((key_of(set), size + share));
        }
        // What rounding left over goes to the largest.
        if let Some((_, size)) = sizes.first_mut() {
            *size = (*size + to_add - added).max(0);
        }
        for (key, size) in sizes {
            self.scale_set(cluster, &key, size);
        }
    }

    /// Whether the rollout has finished.
    pub(super) fn is_complete_by(&self, counts: &super::status::Counts) -> bool {
        let observed = number(&self.deployment, "/metadata/generation");
        observed.is_some()
            && counts.updated == self.wanted()
            && counts.total == self.wanted()
            && counts.available == self.wanted()
    }
}

/// A quotient rounded to the nearest integer.
fn rounded(dividend: i64, divisor: i64) -> i64 {
    (2 * dividend + divisor) / (2 * divisor)
}
