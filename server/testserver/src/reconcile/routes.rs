//! Which controllers a changed object concerns.

use std::sync::Arc;

use super::cluster::split;
use crate::controllers::queue::Request;
use crate::controllers::{Controller, Memory, RECONCILED};
use crate::state::ServerState;
use crate::storage::{Change, Store, Stored};

/// Passes the requests that follow from a change to `push`.
pub(super) fn follow(
    state: &ServerState,
    store: &Store,
    memory: &mut Memory,
    collection: &str,
    change: &Change,
    mut push: impl FnMut(Request),
) {
    let enabled = state.config.controllers;
    let mut request = |controller: Controller, key: &str| {
        if enabled.has(controller) {
            push(Request::new(controller, key));
        }
    };
    let reconcilers = |collection: &str| {
        let collection = collection.to_owned();
        RECONCILED
            .iter()
            .filter(move |(known, _)| *known == collection)
            .map(|(_, controller)| *controller)
    };
    for controller in reconcilers(collection) {
        request(controller, change.key());
    }
    let sides = || change.old.iter().chain(&change.new);
    for owner in sides().flat_map(|object| &object.meta.owners) {
        if let Some((place, key)) = store.place_of(&owner.uid) {
            for controller in reconcilers(&place) {
                request(controller, &key);
            }
            if collection == "pods" && change.new.is_none() {
                // A deployment of the type Recreate waits for the last pod of its replica sets.
                let set = store.collection(&place).and_then(|objects| objects.get(&key));
                for owner in set.into_iter().flat_map(|set| &set.meta.owners) {
                    if let Some((_, key)) = store
                        .place_of(&owner.uid)
                        .filter(|(place, _)| **place == *"deployments.apps")
                    {
                        request(Controller::Deployments, &key);
                    }
                }
            }
        }
    }
    let keys = |collection: &str, namespace: Option<&str>| -> Vec<Arc<str>> {
        let prefix = namespace
            .map(|namespace| format!("{namespace}/"))
            .unwrap_or_default();
        let objects = store.collection(collection);
        let found = objects
            .into_iter()
            .flat_map(|objects| objects.with_prefix(&prefix).map(|object| object.key.clone()));
        found.collect()
    };
    let (namespace, _) = split(change.key());
    match collection {
        "pods" => {
            for service in keys("services", namespace) {
                request(Controller::EndpointSlices, &service);
            }
            if may_be_adopted(change) {
                for collection in [
                    "replicasets.apps",
                    "statefulsets.apps",
                    "daemonsets.apps",
                    "jobs.batch",
                ] {
                    for key in keys(collection, namespace) {
                        reconcilers(collection).for_each(|controller| request(controller, &key));
                    }
                }
            }
            if change.new.is_none() {
                memory.unschedulable.remove(&**change.key());
                if let Some(old) = &change.old {
                    memory.since.remove(&old.meta.uid);
                }
            }
        }
        "replicasets.apps" if may_be_adopted(change) => {
            for key in keys("deployments.apps", namespace) {
                request(Controller::Deployments, &key);
            }
        }
        "nodes" => {
            for key in keys("daemonsets.apps", None) {
                request(Controller::DaemonSets, &key);
            }
            for key in &memory.unschedulable {
                request(Controller::Scheduler, key);
            }
        }
        "endpointslices.discovery.k8s.io" => {
            let service =
                |object: &Arc<Stored>| object.meta.labels.get("kubernetes.io/service-name").cloned();
            if let Some(service) = sides().find_map(service) {
                let key = crate::storage::storage_key(namespace, &service);
                request(Controller::EndpointSlices, &key);
            }
        }
        _ => {}
    }
}

/// An object without an owner that is new, or has other labels or owners than before.
fn may_be_adopted(change: &Change) -> bool {
    change.new.as_ref().is_some_and(|new| {
        let same = change
            .old
            .as_ref()
            .is_some_and(|old| old.meta.labels == new.meta.labels && old.meta.owners == new.meta.owners);
        new.meta.owners.is_empty() && !same
    })
}
