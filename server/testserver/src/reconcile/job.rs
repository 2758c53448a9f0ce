//! Job: pods that run to completion.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::cluster::{Cluster, split};
use super::pods::{from_template, has_ended, is_deleting, is_ready, key_of};
use crate::controllers::Controller;
use crate::fields::{
    annotation, condition, condition_is, flag, list, number, put_condition, seconds_since, set, set_count,
    text,
};

const COLLECTION: &str = "jobs.batch";
/// Keeps a pod until it is counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The first and the longest pause after a failed pod, in seconds.
const BACK_OFF: (i64, i64) = (10, 600);

pub(super) fn reconcile(cluster: &mut Cluster<'_>, key: &str) {
    let Some(job) = cluster.get(COLLECTION, key) else {
        release_orphans(cluster, key);
        return;
    };
    if condition_is(&job, "Complete", "True") || condition_is(&job, "Failed", "True") {
        expire(cluster, key, &job);
        return;
    }
    if is_deleting(&job) {
        return;
    }
    let pods = cluster.owned("pods", text(&job, "/metadata/uid"));
    let mut step = Step::new(job, pods.iter().map(|pod| pod.value()).collect());
    step.count(cluster);
    step.manage(cluster, key);
    step.write_status(cluster, key);
}

/// Pods of a job that is gone are not counted any more.
fn release_orphans(cluster: &mut Cluster<'_>, key: &str) {
    let (namespace, name) = split(key);
    for pod in cluster.all("pods", namespace) {
        let job = pod.meta.labels.get("batch.kubernetes.io/job-name");
        if pod.meta.has_finalizers && job.is_some_and(|job| job == name) {
            cluster.edit("pods", &pod.key, release);
        }
    }
}

fn release(pod: &mut Value) {
    let Some(Value::Object(metadata)) = pod.get_mut("metadata") else {
        return;
    };
    if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
        finalizers.retain(|finalizer| finalizer != TRACKING);
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        }
    }
}

/// Deletes a finished job after its time to live.
fn expire(cluster: &mut Cluster<'_>, key: &str, job: &Value) {
    let Some(lifetime) = number(job, "/spec/ttlSecondsAfterFinished").filter(|_| !is_deleting(job)) else {
        return;
    };
    let finished = ["Complete", "Failed"]
        .iter()
        .find_map(|kind| condition(job, kind))
        .map(|condition| text(condition, "/lastTransitionTime"))
        .unwrap_or_default();
    let left = lifetime - seconds_since(finished, cluster.now()).unwrap_or(0);
    if left <= 0 {
        cluster.delete(COLLECTION, key);
    } else {
        cluster.again(seconds(left), Controller::Jobs, key);
    }
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}

/// One job in one step.
struct Step {
    job: Value,
    pods: Vec<Value>,
    succeeded: i64,
    failed: i64,
    /// The completed indexes of a job whose pods have indexes.
    indexes: BTreeSet<i64>,
    conditions: Vec<Value>,
    start: Option<String>,
    completion: Option<String>,
}

impl Step {
    fn new(job: Value, pods: Vec<Value>) -> Step {
        let known = |name: &str| number(&job, &format!("/status/{name}")).unwrap_or(0);
        Step {
            succeeded: known("succeeded"),
            failed: known("failed"),
            indexes: parse_indexes(text(&job, "/status/completedIndexes")),
            conditions: list(&job, "/status/conditions").to_vec(),
            start: Some(text(&job, "/status/startTime").to_owned()).filter(|start| !start.is_empty()),
            completion: None,
            pods,
            job,
        }
    }

    fn is_indexed(&self) -> bool {
        text(&self.job, "/spec/completionMode") == "Indexed"
    }

    fn completions(&self) -> Option<i64> {
        let parallelism = number(&self.job, "/spec/parallelism");
        let given = number(&self.job, "/spec/completions");
        // A job with neither number has one pod.
        given.or_else(|| parallelism.is_none().then_some(1))
    }

    /// Counts pods that ended since the last step. Counting and releasing them is one write, so that none is counted twice.
    fn count(&mut self, cluster: &mut Cluster<'_>) {
        for index in 0..self.pods.len() {
            let Some(pod) = self.pods.get(index) else { continue };
            let tracked = list(pod, "/metadata/finalizers")
                .iter()
                .any(|name| name == TRACKING);
            if !tracked || !has_ended(pod) {
                continue;
            }
            if text(pod, "/status/phase") == "Succeeded" {
                match index_of(pod).filter(|_| self.is_indexed()) {
                    Some(index) => {
                        self.indexes.insert(index);
                        self.succeeded = i64::try_from(self.indexes.len()).unwrap_or(i64::MAX);
                    }
                    None => self.succeeded += 1,
                }
            } else {
                self.failed += 1;
            }
            let key = key_of(pod);
            if let Some(released) = cluster.edit("pods", &key, release)
                && let Some(place) = self.pods.get_mut(index)
            {
                *place = released;
            }
        }
    }

    fn active(&self) -> impl Iterator<Item = &Value> {
        self.pods
            .iter()
            .filter(|pod| !has_ended(pod) && !is_deleting(pod))
    }

    fn manage(&mut self, cluster: &mut Cluster<'_>, key: &str) {
        if flag(&self.job, "/spec/suspend") {
            self.suspend(cluster);
            return;
        }
        let now = cluster.timestamp();
        if condition_is(&self.job, "Suspended", "True") {
            self.put("Suspended", "False", "JobResumed", "Job resumed", &now);
        }
        let start = self.start.get_or_insert_with(|| now.clone()).clone();
        if let Some((reason, message)) = self.failure(cluster, key, &start) {
            self.fail(cluster, &reason, &message);
            return;
        }
        if self.is_complete() {
            self.delete_active(cluster);
            let message = "Reached expected number of succeeded pods";
            self.put("SuccessCriteriaMet", "True", "CompletionsReached", message, &now);
            self.put("Complete", "True", "CompletionsReached", message, &now);
            self.completion = Some(now);
            cluster.record(&self.job, "Normal", "Completed", "Job completed");
            return;
        }
        self.scale(cluster, key);
    }

    fn put(&mut self, kind: &str, status: &str, reason: &str, message: &str, now: &str) {
        let condition = json!({
            "type": kind, "status": status, "reason": reason, "message": message, "lastProbeTime": now,
        });
        put_condition(&mut self.conditions, condition, now);
    }

    fn suspend(&mut self, cluster: &mut Cluster<'_>) {
        self.delete_active(cluster);
        self.start = None;
        if !condition_is(&self.job, "Suspended", "True") {
            let now = cluster.timestamp();
            self.put("Suspended", "True", "JobSuspended", "Job suspended", &now);
            cluster.record(&self.job, "Normal", "Suspended", "Job suspended");
        }
    }

    /// Why the job has failed, if it has.
    fn failure(&self, cluster: &mut Cluster<'_>, key: &str, start: &str) -> Option<(String, String)> {
        if let Some(target) = condition(&self.job, "FailureTarget") {
            return Some((
                text(target, "/reason").to_owned(),
                text(target, "/message").to_owned(),
            ));
        }
        let limit = number(&self.job, "/spec/backoffLimit").unwrap_or(6);
        let restarts: i64 = self
            .active()
            .flat_map(|pod| list(pod, "/status/containerStatuses"))
            .filter_map(|status| number(status, "/restartCount"))
            .sum();
        let restarts = if text(&self.job, "/spec/template/spec/restartPolicy") == "OnFailure" {
            restarts
        } else {
            0
        };
        // Restarts count when they reach the limit, pods when they exceed it.
        if self.failed > limit || (restarts > 0 && restarts >= limit.max(1)) {
            let message = "Job has reached the specified backoff limit";
            return Some(("BackoffLimitExceeded".to_owned(), message.to_owned()));
        }
        let deadline = number(&self.job, "/spec/activeDeadlineSeconds")?;
        let left = deadline - seconds_since(start, cluster.now()).unwrap_or(0);
        if left <= 0 {
            let message = "Job was active longer than specified deadline";
            return Some(("DeadlineExceeded".to_owned(), message.to_owned()));
        }
        cluster.again(seconds(left), Controller::Jobs, key);
        None
    }

    /// Ends the job's pods, and the job when they have ended.
    fn fail(&mut self, cluster: &mut Cluster<'_>, reason: &str, message: &str) {
        let now = cluster.timestamp();
        self.put("FailureTarget", "True", reason, message, &now);
        self.delete_active(cluster);
        if self.pods.iter().all(has_ended) {
            self.put("Failed", "True", reason, message, &now);
            cluster.record(&self.job, "Warning", reason, message);
        }
    }

    fn is_complete(&self) -> bool {
        match self.completions() {
            Some(completions) => self.succeeded >= completions,
            // Without a number, the first success ends the work of all pods.
            None => self.succeeded > 0 && self.pods.iter().all(has_ended),
        }
    }

    fn delete_active(&mut self, cluster: &mut Cluster<'_>) {
        let active: Vec<String> = self.active().map(key_of).collect();
        for key in &active {
            self.delete(cluster, key);
        }
    }

    fn delete(&mut self, cluster: &mut Cluster<'_>, key: &str) {
        // A pod that no kubelet runs has nothing to finish: it is not counted, and nothing holds it.
        if !cluster.controllers().runs_pods() || self.is_unscheduled(key) {
            cluster.edit("pods", key, release);
        }
        cluster.delete("pods", key);
        let left = cluster.get("pods", key);
        self.pods.retain(|pod| key_of(pod) != key);
        self.pods.extend(left);
        let name = key.rsplit('/').next().unwrap_or(key);
        cluster.record(
            &self.job,
            "Normal",
            "SuccessfulDelete",
            &format!("Deleted pod: {name}"),
        );
    }

    fn is_unscheduled(&self, key: &str) -> bool {
        let pod = self.pods.iter().find(|pod| key_of(pod) == key);
        pod.is_some_and(|pod| text(pod, "/spec/nodeName").is_empty())
    }

    /// Creates or deletes pods so that as many run as the job allows.
    fn scale(&mut self, cluster: &mut Cluster<'_>, key: &str) {
        let active = i64::try_from(self.active().count()).unwrap_or(0);
        let parallelism = number(&self.job, "/spec/parallelism").unwrap_or(1);
        let wanted = match self.completions() {
            Some(completions) => parallelism.min(completions - self.succeeded),
            None if self.succeeded > 0 => active.min(parallelism),
            None => parallelism,
        };
        if active > wanted {
            let surplus: Vec<String> = self
                .active()
                .skip(usize::try_from(wanted).unwrap_or(0))
                .map(key_of)
                .collect();
            for key in &surplus {
                self.delete(cluster, key);
            }
            return;
        }
        if active == wanted {
            return;
        }
        let left = self.back_off(cluster);
        if left > 0 {
            cluster.again(seconds(left), Controller::Jobs, key);
            return;
        }
        for _ in active..wanted {
            let index = if self.is_indexed() {
                self.free_index()
            } else {
                None
            };
            if self.is_indexed() && index.is_none() {
                return;
            }
            self.create(cluster, index);
        }
    }

    /// The seconds to wait before another pod is created, after a failure.
    fn back_off(&self, cluster: &Cluster<'_>) -> i64 {
        let finished = |pod: &Value| {
            let containers = list(pod, "/status/containerStatuses").iter();
            containers
                .map(|status| text(status, "/state/terminated/finishedAt").to_owned())
                .max()
        };
        let failed = || {
            self.pods
                .iter()
                .filter(|pod| text(pod, "/status/phase") == "Failed")
        };
        let Some(last) = failed().filter_map(finished).max() else {
            return 0;
        };
        let (first, longest) = BACK_OFF;
        let doublings = u32::try_from(failed().count().saturating_sub(1))
            .unwrap_or(0)
            .min(16);
        let pause = (first << doublings).min(longest);
        pause - seconds_since(&last, cluster.now()).unwrap_or(pause)
    }

    fn free_index(&self) -> Option<i64> {
        let taken: BTreeSet<i64> = self.active().filter_map(index_of).collect();
        (0..self.completions()?).find(|index| !taken.contains(index) && !self.indexes.contains(index))
    }

    fn create(&mut self, cluster: &mut Cluster<'_>, index: Option<i64>) {
        let template = self.job.pointer("/spec/template").cloned().unwrap_or_default();
        let name = text(&self.job, "/metadata/name").to_owned();
        let mut pod = from_template(&self.job, &template);
        let base = match index {
            Some(index) => format!("{name}-{index}-"),
            None => format!("{name}-"),
        };
        set(
            &mut pod,
            &["metadata", "name"],
            format!("{base}{}", cluster.suffix()),
        );
        set(&mut pod, &["metadata", "generateName"], base);
        set(&mut pod, &["metadata", "finalizers"], json!([TRACKING]));
        let uid = text(&self.job, "/metadata/uid");
        for (label, value) in [
            ("batch.kubernetes.io/controller-uid", uid),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", uid),
            ("job-name", &name),
        ] {
            set(&mut pod, &["metadata", "labels", label], value);
        }
        if text(&pod, "/spec/restartPolicy").is_empty() {
            set(&mut pod, &["spec", "restartPolicy"], "Never");
        }
        if let Some(index) = index {
            let index = index.to_string();
            set(&mut pod, &["metadata", "labels", INDEX], index.as_str());
            set(&mut pod, &["metadata", "annotations", INDEX], index.as_str());
            set(&mut pod, &["spec", "hostname"], format!("{name}-{index}"));
            let field = json!({ "fieldPath": format!("metadata.labels['{INDEX}']") });
            let variable = json!({ "name": "JOB_COMPLETION_INDEX", "valueFrom": { "fieldRef": field } });
            let containers = pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                let mut variables = list(container, "/env").to_vec();
                variables.push(variable.clone());
                set(container, &["env"], variables);
            }
        }
        if let Some(pod) = cluster.create(pod) {
            let message = format!("Created pod: {}", text(&pod, "/metadata/name"));
            cluster.record(&self.job, "Normal", "SuccessfulCreate", &message);
            self.pods.push(pod);
        }
    }

    fn write_status(&self, cluster: &mut Cluster<'_>, key: &str) {
        let count = |number: i64| usize::try_from(number).unwrap_or(0);
        let active = self.active().count();
        let mut status = Map::new();
        set_count(&mut status, "active", active);
        status.insert(
            "ready".to_owned(),
            json!(self.active().filter(|pod| is_ready(pod)).count()),
        );
        let ending = self
            .pods
            .iter()
            .filter(|pod| is_deleting(pod) && !has_ended(pod))
            .count();
        status.insert("terminating".to_owned(), json!(ending));
        set_count(&mut status, "succeeded", count(self.succeeded));
        set_count(&mut status, "failed", count(self.failed));
        status.insert("uncountedTerminatedPods".to_owned(), json!({}));
        if let Some(start) = &self.start {
            status.insert("startTime".to_owned(), json!(start));
        }
        if let Some(completion) = &self.completion {
            status.insert("completionTime".to_owned(), json!(completion));
        }
        if !self.indexes.is_empty() {
            status.insert(
                "completedIndexes".to_owned(),
                json!(format_indexes(&self.indexes)),
            );
        }
        if !self.conditions.is_empty() {
            status.insert("conditions".to_owned(), json!(self.conditions));
        }
        cluster.set_status(COLLECTION, key, Value::Object(status));
    }
}

fn index_of(pod: &Value) -> Option<i64> {
    annotation(pod, INDEX).parse().ok()
}

/// Indexes as in `completedIndexes`: `0-2,4`.
fn format_indexes(indexes: &BTreeSet<i64>) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for &index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let texts: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        })
        .collect();
    texts.join(",")
}

fn parse_indexes(text: &str) -> BTreeSet<i64> {
    /// A job has at most this number of completions; a longer range was not written by this controller.
    const MOST: i64 = 100_000;
    let mut indexes = BTreeSet::new();
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>())
            && last - first <= MOST
        {
            indexes.extend(first..=last);
        }
    }
    indexes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_ranges() {
        for text in ["", "3", "0,1", "0-2,4", "1,3-5,7,8"] {
            assert_eq!(format_indexes(&parse_indexes(text)), text);
        }
        assert!(parse_indexes("0-9999999999").is_empty());
    }
}
