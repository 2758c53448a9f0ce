//! What a reconciler sees of the cluster: its objects, its clock, and the requests for later.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::queue::Request;
use crate::controllers::{Controller, Controllers, Memory, PodRule};
use crate::fields::{event, fnv, letters, text};
use crate::patch::Manager;
use crate::state::ServerState;
use crate::storage::{Store, Stored, storage_key};
use crate::typed;
use crate::write::{self, DeleteOptions, Made, NewObject, Origin, Part, Place};

/// How long recorded events are kept, as on a real server.
const EVENT_LIFETIME: Duration = Duration::from_secs(3600);

/// The cluster, during one step of a controller.
pub(super) struct Cluster<'a> {
    state: &'a ServerState,
    store: &'a mut Store,
    pub(super) memory: &'a mut Memory,
    pub(super) rules: &'a [PodRule],
    later: Vec<(Duration, Request)>,
    controller: Controller,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(
        state: &'a ServerState,
        store: &'a mut Store,
        memory: &'a mut Memory,
        rules: &'a [PodRule],
        controller: Controller,
    ) -> Cluster<'a> {
        Cluster {
            state,
            store,
            memory,
            rules,
            later: Vec::new(),
            controller,
        }
    }

    pub(super) fn into_later(self) -> Vec<(Duration, Request)> {
        self.later
    }

    /// Reconciles an object again after some time.
    pub(super) fn again(&mut self, after: Duration, controller: Controller, key: &str) {
        self.later.push((after, Request::new(controller, key)));
    }

    pub(super) fn controllers(&self) -> Controllers {
        self.state.config.controllers
    }

    pub(super) fn now(&self) -> Timestamp {
        self.state.clock.now()
    }

    /// The current time as in objects.
    pub(super) fn timestamp(&self) -> String {
        self.state.clock.timestamp()
    }

    /// Letters for a generated name.
    pub(super) fn suffix(&self) -> String {
        letters(self.state.rng.lock().u64(..), 5)
    }
}

/// Reading.
impl Cluster<'_> {
    pub(super) fn stored(&self, collection: &str, key: &str) -> Option<Arc<Stored>> {
        self.store.collection(collection)?.get(key).cloned()
    }

    pub(super) fn get(&self, collection: &str, key: &str) -> Option<Value> {
        self.stored(collection, key).map(|object| object.value())
    }

    /// All objects of a cluster-scoped kind, or those of a namespace.
    pub(super) fn all(&self, collection: &str, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let prefix = namespace
            .map(|namespace| format!("{namespace}/"))
            .unwrap_or_default();
        self.store
            .collection(collection)
            .map(|objects| objects.with_prefix(&prefix).cloned().collect())
            .unwrap_or_default()
    }

    /// The objects of a namespace that have no owner and are not being deleted. In a large namespace few of many.
    pub(super) fn unowned(&self, collection: &str, namespace: &str) -> Vec<Arc<Stored>> {
        let prefix = format!("{namespace}/");
        let objects = self.store.collection(collection).into_iter();
        objects
            .flat_map(|objects| objects.with_prefix(&prefix))
            .filter(|object| object.meta.owners.is_empty() && !object.meta.deleting)
            .cloned()
            .collect()
    }

    /// The objects of a collection that an object owns.
    pub(super) fn owned(&self, collection: &str, uid: &str) -> Vec<Arc<Stored>> {
        self.store
            .dependents(uid)
            .into_iter()
            .filter(|(place, _)| **place == *collection)
            .filter_map(|(place, key)| self.stored(&place, &key))
            .collect()
    }
}

/// Templates.
impl Cluster<'_> {
    /// The pod template of a workload, as a client's next write of the workload would store it: objects that a test stored itself
    /// have no defaults, and must not be rolled out again when they get them.
    pub(super) fn template_of(&self, workload: &Value) -> Value {
        let template = |object: &Value| object.pointer("/spec/template").cloned().unwrap_or_default();
        let kind = self.state.registry.read().kind_of(workload);
        let (true, Some(kind), Value::Object(fields)) = (self.state.config.conformant, kind, workload) else {
            return template(workload);
        };
        let mut fields = fields.clone();
        fields.remove("status");
        typed::normalize(&kind, &mut fields);
        typed::set_defaults(&kind, &mut fields);
        template(&Value::Object(fields))
    }
}

/// Writing. Failed writes are not reported: the next change of the objects brings the controller back.
impl Cluster<'_> {
    /// Creates an object; `None` if its name is taken or it is invalid.
    pub(super) fn create(&mut self, object: Value) -> Option<Value> {
        let kind = self.state.registry.read().kind_of(&object)?;
        let stored_as = self.state.registry.read().stored(&kind);
        let namespace = text(&object, "/metadata/namespace").to_owned();
        let now = self.timestamp();
        let place = Place {
            conformant: self.state.config.conformant,
            manager: self.manager("", &now),
            ..Place::of_test(
                &kind,
                &stored_as,
                Some(namespace.as_str()).filter(|_| kind.namespaced),
                "",
            )
        };
        let new = NewObject::check(&place, object).ok()?;
        let created = write::create(self.state, self.store, &place, new).ok()?;
        Some(created.value())
    }

    /// Changes an object, status included. Nothing is written if nothing changes.
    pub(super) fn edit(
        &mut self,
        collection: &str,
        key: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<Value> {
        self.edit_part("", collection, key, change)
    }

    fn edit_part(
        &mut self,
        subresource: &str,
        collection: &str,
        key: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<Value> {
        let kind = write::kind_of(self.state, collection)?;
        let (namespace, name) = split(key);
        let now = self.timestamp();
        let place = Place {
            manager: self.manager(subresource, &now),
            ..Place::of_test(&kind, &kind, namespace, name)
        };
        let part = match subresource {
            "status" => Part::Status,
            _ => Part::Object,
        };
        let edited = write::update_now(self.state, self.store, &place, part, |object| {
            let mut object = object.clone();
            change(&mut object);
            Ok(Made::Changed(object))
        });
        edited.ok().map(|stored| stored.value())
    }

    /// The field manager of a write: the program that has the controller in a real cluster.
    fn manager<'a>(&self, subresource: &'a str, now: &'a str) -> Option<Manager<'a>> {
        let name = match self.controller {
            Controller::Scheduler => "kube-scheduler",
            Controller::Kubelet => "kubelet",
            _ => "kube-controller-manager",
        };
        self.state.config.field_managers.then_some(Manager {
            name,
            subresource,
            now,
        })
    }

    /// Deletes an object. A pod ends gracefully if a kubelet runs it.
    pub(super) fn delete(&mut self, collection: &str, key: &str) {
        let origin = if self.controllers().runs_pods() {
            Origin::Client
        } else {
            Origin::Test
        };
        self.delete_as(collection, key, origin, None);
    }

    /// Removes a pod that has ended, as its kubelet does: without grace period. Finalizers still hold it.
    pub(super) fn remove_pod(&mut self, key: &str) {
        self.delete_as("pods", key, Origin::Client, Some(0));
    }

    fn delete_as(&mut self, collection: &str, key: &str, origin: Origin, grace: Option<u64>) {
        let Some(kind) = write::kind_of(self.state, collection) else {
            return;
        };
        let (namespace, name) = split(key);
        let place = Place {
            origin,
            ..Place::of_test(&kind, &kind, namespace, name)
        };
        let options = DeleteOptions {
            grace_period_seconds: grace,
            ..DeleteOptions::default()
        };
        // It fails only if the object is gone already.
        let _ = write::delete(self.state, self.store, &place, &options);
    }

    /// Records an event about an object. It is removed after an hour.
    pub(super) fn record(&mut self, about: &Value, kind: &str, reason: &str, message: &str) {
        self.memory.events += 1;
        let number = fnv(text(about, "/metadata/uid")).wrapping_add(self.memory.events);
        let name = format!("{}.{number:016x}", text(about, "/metadata/name"));
        let now = self.timestamp();
        let event = event(&name, about, kind, reason, message, &now);
        let key = storage_key(Some(text(&event, "/metadata/namespace")), &name);
        if self.create(event).is_some() {
            self.again(EVENT_LIFETIME, Controller::Events, &key);
        }
    }

    /// Replaces the status of an object.
    /// Changes the status of an object, and the metadata that may be written with it.
    pub(super) fn edit_status(
        &mut self,
        collection: &str,
        key: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<Value> {
        self.edit_part("status", collection, key, change)
    }

    pub(super) fn set_status(&mut self, collection: &str, key: &str, status: Value) {
        self.edit_status(collection, key, |object| object["status"] = json!(status));
    }
}

/// The namespace and the name of a key.
pub(super) fn split(key: &str) -> (Option<&str>, &str) {
    match key.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, key),
    }
}
