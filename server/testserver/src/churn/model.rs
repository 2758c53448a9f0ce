//! The churn's own model of the cluster, so that it need not read everything from the server.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use super::pods::Life;

/// One pod.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub life: Life,
    /// The key of the replica set it belongs to.
    pub set: Option<String>,
    /// The key of the deployment it belongs to.
    pub deployment: Option<String>,
}

/// One deployment.
#[derive(Clone, Debug, Default)]
pub(super) struct Deployment {
    /// The initial number of pods of a deployment created by `fill`; `None` for deployments created by clients, which
    /// are reconciled but not changed.
    pub base: Option<usize>,
    /// The keys of its replica sets, latest last.
    pub sets: Vec<String>,
}

/// All pods, by key and by deployment.
#[derive(Debug, Default)]
pub(super) struct Pods {
    all: BTreeMap<String, Pod>,
    of: HashMap<String, BTreeSet<String>>,
}

impl Pods {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Pod> {
        self.all.get(key)
    }

    pub(super) fn insert(&mut self, key: &str, pod: Pod) {
        self.remove(key);
        if let Some(deployment) = &pod.deployment {
            self.of
                .entry(deployment.clone())
                .or_default()
                .insert(key.to_owned());
        }
        self.all.insert(key.to_owned(), pod);
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Pod> {
        let pod = self.all.remove(key)?;
        if let Some(deployment) = &pod.deployment
            && let Some(pods) = self.of.get_mut(deployment)
        {
            pods.remove(key);
            if pods.is_empty() {
                self.of.remove(deployment);
            }
        }
        Some(pod)
    }

    pub(super) fn set_life(&mut self, key: &str, life: Life) {
        if let Some(pod) = self.all.get_mut(key) {
            pod.life = life;
        }
    }

    /// The keys of pods for which `accepted` is false.
    pub(super) fn keys_unless(&self, accepted: impl Fn(&str) -> bool) -> Vec<String> {
        self.all.keys().filter(|key| !accepted(key)).cloned().collect()
    }

    /// The pods of a deployment, by key.
    pub(super) fn of(&self, deployment: &str) -> impl DoubleEndedIterator<Item = (&str, &Pod)> {
        let keys = self.of.get(deployment).into_iter().flatten();
        keys.filter_map(|key| Some((key.as_str(), self.all.get(key)?)))
    }
}

/// Follow-up work caused by an earlier step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// Move a pod to its next phase.
    Pod(String),
    /// Reconcile a deployment.
    Deployment(String),
    /// Make an unready node ready again.
    Node(String),
}

/// A FIFO queue of work without duplicates; urgent work comes first.
#[derive(Debug, Default)]
pub(super) struct Due {
    urgent: VecDeque<Work>,
    queue: VecDeque<Work>,
    known: HashSet<Work>,
}

impl Due {
    pub(super) fn push(&mut self, work: Work) {
        if self.known.insert(work.clone()) {
            self.queue.push_back(work);
        }
    }

    pub(super) fn push_urgent(&mut self, work: Work) {
        if self.known.insert(work.clone()) {
            self.urgent.push_back(work);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Work> {
        let work = self.urgent.pop_front().or_else(|| self.queue.pop_front())?;
        self.known.remove(&work);
        Some(work)
    }

    pub(super) fn pop_urgent(&mut self) -> Option<Work> {
        let work = self.urgent.pop_front()?;
        self.known.remove(&work);
        Some(work)
    }

    pub(super) fn contains(&self, work: &Work) -> bool {
        self.known.contains(work)
    }

    pub(super) fn clear(&mut self) {
        self.urgent.clear();
        self.queue.clear();
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_found_by_deployment_until_removed() {
        let pod = |deployment: &str| Pod {
            life: Life::Running,
            set: None,
            deployment: Some(deployment.to_owned()),
        };
        let mut pods = Pods::default();
        pods.insert("b", pod("d"));
        pods.insert("a", pod("d"));
        pods.insert("a", pod("e"));

        assert_eq!(pods.of("d").map(|(key, _)| key).collect::<Vec<_>>(), ["b"]);
        assert_eq!(pods.of("e").map(|(key, _)| key).collect::<Vec<_>>(), ["a"]);
        pods.remove("a");
        assert_eq!((pods.of("e").count(), pods.len()), (0, 1));
        assert_eq!(pods.keys_unless(|key| key == "x"), ["b"]);
    }

    #[test]
    fn work_is_popped_in_order_and_once() {
        let mut due = Due::default();
        for name in ["a", "b", "a"] {
            due.push(Work::Pod(name.to_owned()));
        }

        assert_eq!(due.pop(), Some(Work::Pod("a".to_owned())));
        assert!(!due.contains(&Work::Pod("a".to_owned())));
        due.push(Work::Pod("a".to_owned()));
        assert_eq!(due.pop(), Some(Work::Pod("b".to_owned())));
        assert_eq!(due.pop(), Some(Work::Pod("a".to_owned())));
        assert_eq!(due.pop(), None);
    }
}
