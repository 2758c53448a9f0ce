//! Fills a server with the initial objects of a cluster, all healthy and running.

use std::sync::Arc;

use serde_json::{Value, json};

use super::objects::{self, APPLICATIONS, NAMESPACES, SYSTEM_NAMESPACES};
use super::population::{Population, PopulationError};
use super::{Churn, key_of, pods};
use crate::kinds::{Kind, Registry};

/// Pods per deployment if only the number of pods is given.
const PODS_PER_DEPLOYMENT: usize = 6;
/// Pods per deployment if the number of pods is not given.
const USUAL_PODS: usize = 2;

impl Churn {
    /// Creates the objects of a population and their namespaces. Returns the number of objects created.
    ///
    /// Pods belong to deployments; if the number of deployments is not given, it follows from the number of pods. With
    /// `deployments=0` pods have no owner. Resources can be given by plural, singular or short name.
    pub fn fill(&mut self, population: &Population) -> Result<usize, PopulationError> {
        let registry = self.server.kinds();
        let mut wanted: Vec<(Arc<Kind>, usize)> = Vec::new();
        for (resource, count) in population.iter() {
            wanted.push((find(&registry, resource)?, count));
        }
        let count_of = |group: &str, plural: &str| {
            wanted
                .iter()
                .find(|(kind, _)| kind.group == group && kind.plural == plural)
                .map(|(_, count)| *count)
        };
        self.writes = 0;
        self.make_namespaces(!wanted.is_empty());
        self.make_nodes(count_of("", "nodes").unwrap_or(usize::from(count_of("", "pods").is_some())));
        self.make_pods(count_of("", "pods"), count_of("apps", "deployments"));
        for (kind, count) in &wanted {
            match (kind.group.as_str(), kind.plural.as_str()) {
                ("", "nodes" | "pods" | "namespaces") | ("apps", "deployments") => {}
                ("", "services") => self.make_services(*count),
                _ => self.make_plain(kind, *count),
            }
        }
        for index in NAMESPACES.len()..count_of("", "namespaces").unwrap_or(0) {
            self.create(objects::namespace(&format!("team-{index}")));
        }
        self.max_events = self.max_events.max(self.server.count("pods") * 2);
        Ok(self.writes)
    }

    fn make_namespaces(&mut self, applications: bool) {
        let own = if applications { &NAMESPACES[..] } else { &[] };
        for name in SYSTEM_NAMESPACES.iter().chain(own) {
            if self.server.object("namespaces", name).is_none() {
                self.create(objects::namespace(name));
            }
        }
    }

    /// Creates a node if there is none, so that pods can run.
    #[cfg(feature = "cli")]
    pub(crate) fn ensure_node(&mut self) {
        if self.server.count("nodes") == 0 {
            self.make_nodes(1);
        }
    }

    fn make_nodes(&mut self, count: usize) {
        let now = self.server.timestamp();
        for index in 0..count {
            let name = objects::node_name(index);
            if self.create(objects::node(index, &now)).is_some() {
                self.create(objects::lease(&name, &now));
                self.nodes.push(name);
            }
        }
    }

    fn make_pods(&mut self, pods: Option<usize>, deployments: Option<usize>) {
        let deployments = deployments.unwrap_or_else(|| match pods {
            None | Some(0) => 0,
            Some(pods) => pods.div_ceil(PODS_PER_DEPLOYMENT),
        });
        let pods = pods.unwrap_or(deployments * USUAL_PODS);
        for index in 0..deployments {
            // The remainder is spread over the first deployments.
            let replicas = pods / deployments + usize::from(index < pods % deployments);
            self.make_deployment(index, replicas);
        }
        if deployments == 0 {
            for index in 0..pods {
                let (namespace, _) = application(index);
                self.make_running(objects::bare_pod(namespace, &format!("pod-{index}")));
            }
        }
    }

    fn make_deployment(&mut self, index: usize, replicas: usize) {
        let (namespace, name) = application(index);
        let Some(deployment) = self.create(objects::deployment(namespace, &name, replicas)) else {
            return;
        };
        let key = key_of(&deployment);
        let hash = super::deployments::template_hash(&deployment);
        let Some(set) = self.create(objects::replica_set(&deployment, &hash, 1)) else {
            return;
        };
        let set_key = key_of(&set);
        self.deployments.insert(key.clone(), replicas);
        for _ in 0..replicas {
            let suffix = self.suffix();
            self.make_running(objects::pod_of(&set, &suffix));
        }
        self.set_rolled_out(&key, &set_key, replicas);
    }

    /// Creates a pod that is already running.
    fn make_running(&mut self, mut pod: Value) {
        let now = self.server.timestamp();
        if let Some(node) = self.any_node() {
            pods::schedule(&mut pod, &node, &objects::host_address(&node), &now);
            let number = self.number();
            let address = format!(
                "10.{}.{}.{}",
                64 + (number >> 16) % 64,
                (number >> 8) % 256,
                number % 256
            );
            pods::run(&mut pod, &address, &now);
        }
        self.create(pod);
    }

    fn make_services(&mut self, count: usize) {
        for index in 0..count {
            let (namespace, name) = application(index);
            self.create(objects::service(namespace, &name, index));
        }
    }

    fn make_plain(&mut self, kind: &Kind, count: usize) {
        for index in 0..count {
            let namespace = NAMESPACES
                .get(index % NAMESPACES.len())
                .copied()
                .filter(|_| kind.namespaced);
            let name = format!("{}-{index}", kind.singular);
            let mut object = objects::plain(&kind.api_version(), &kind.kind, namespace, &name);
            if kind.kind == "Event" {
                pods::set(&mut object, "involvedObject", "kind", json!("Namespace"));
                pods::set(&mut object, "involvedObject", "name", json!(namespace));
            }
            self.create(object);
        }
    }
}

/// The namespace and name of application `index`.
fn application(index: usize) -> (&'static str, String) {
    let namespace = NAMESPACES
        .get((index / 3) % NAMESPACES.len())
        .copied()
        .unwrap_or("default");
    let name = APPLICATIONS
        .get(index % APPLICATIONS.len())
        .copied()
        .unwrap_or("app");
    match index / APPLICATIONS.len() {
        0 => (namespace, name.to_owned()),
        round => (namespace, format!("{name}-{round}")),
    }
}

/// Resolves a resource name: `pods`, `deployments.apps`, `deploy`, `pod`.
fn find(registry: &Registry, resource: &str) -> Result<Arc<Kind>, PopulationError> {
    let (name, group) = match resource.split_once('.') {
        Some((name, group)) => (name, Some(group)),
        None => (resource, None),
    };
    let fits = |kind: &&Arc<Kind>| {
        let named = kind.plural == name
            || kind.singular == name
            || kind.short_names.iter().any(|short| short == name);
        named && group.is_none_or(|group| kind.group == group) && kind.is_stored()
    };
    // If the name is ambiguous, prefer the core group, then the storage version.
    let mut found: Vec<&Arc<Kind>> = registry.iter().filter(fits).collect();
    found.sort_by_key(|kind| (!kind.group.is_empty(), kind.version != kind.stored.version));
    found.first().map(|kind| Arc::clone(kind)).ok_or_else(|| {
        PopulationError::new(format!(
            "unknown resource {resource:?}: see kubectl api-resources"
        ))
    })
}
