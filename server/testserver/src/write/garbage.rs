//! The consequences of deletions: owned objects, the contents of namespaces, the objects of a removed custom kind.
//!
//! In a cluster, controllers do this over time. Here it is part of the write that causes it, unless the server runs with
//! [`Controllers`](crate::Controllers), which perform the same steps later.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::finalizers::{CONTENTS, FOREGROUND, ORPHAN, is_held};
use super::{
    DeleteOptions, Made, Origin, Part, Place, Propagation, definition, delete, own_status, update_now,
};
use crate::admission::metadata::{is_gone, metadata_mut};
use crate::auth::rbac;
use crate::kinds::Kind;
use crate::patch::{self, Manager, PatchError};
use crate::state::{ServerState, Timing};
use crate::storage::{Event, Spot, Store, Stored, storage_key};

const NAMESPACES: &str = "namespaces";

/// Applies the consequences of the writes so far, or defers them for the controllers.
pub(crate) fn settle(state: &ServerState, store: &mut Store) {
    settle_events(state, store);
    if state.config.rbac && store.has_touched(rbac::CLUSTER_ROLES) {
        aggregate_roles(state, store);
        settle_events(state, store);
    }
}

fn settle_events(state: &ServerState, store: &mut Store) {
    while let Some(event) = store.next_event() {
        match &event {
            Event::Removed { collection, object } if &**collection == definition::COLLECTION => {
                definition::stop_serving(state, object);
            }
            Event::Marked { collection, object } if &**collection == definition::COLLECTION => {
                remove_custom_objects(state, store, object);
            }
            _ => {}
        }
        own_status::follow(state, store, &event);
        follow(state, store, &event, Timing::AtOnce);
        if state.config.controllers.act_on(&event) {
            store.defer(event);
        }
    }
}

/// Fills in the rules of aggregated roles, as a controller of a cluster does. Roles can aggregate aggregated ones, so it goes on
/// until nothing changes, or gives up on roles that select each other.
fn aggregate_roles(state: &ServerState, store: &mut Store) {
    let Some(kind) = state.registry.read().resource(rbac::GROUP, "v1", "clusterroles") else {
        return;
    };
    let now = state.clock.timestamp();
    let manager = Manager {
        name: "clusterrole-aggregation-controller",
        subresource: "",
        now: &now,
    };
    const STEPS: usize = 1_000;
    for _ in 0..STEPS {
        let Some((name, rules)) = rbac::outdated_aggregate(store) else {
            return;
        };
        let applied = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": name }, "rules": rules,
        });
        let place = Place::of_test(&kind, &kind, None, &name);
        let made = |live: &Value| {
            let made = patch::apply(&kind, Some(live), &applied, &manager, true);
            made.map(Made::Applied).map_err(PatchError::into_status)
        };
        // The role was found under the same lock, so it exists.
        let _ = update_now(state, store, &place, Part::Object, made);
    }
}

/// Performs the consequences of a deferred event, as the controllers do.
pub(crate) fn follow_deferred(state: &ServerState, store: &mut Store, event: &Event) {
    follow(state, store, event, Timing::Later);
}

/// Performs the consequences of an event that are due at this time.
fn follow(state: &ServerState, store: &mut Store, event: &Event, now: Timing) {
    if state.config.garbage == now {
        collect_garbage(state, store, event);
    }
    if state.config.namespaces == now {
        match event {
            Event::Removed { object, .. } => {
                if let Some(namespace) = &object.meta.namespace {
                    finish_namespace(state, store, namespace);
                }
            }
            Event::Marked { collection, object } if &**collection == NAMESPACES => {
                finish_namespace(state, store, &object.meta.name);
            }
            Event::Marked { .. } | Event::Owned { .. } | Event::Changed { .. } | Event::Written { .. } => {}
        }
    }
}

fn collect_garbage(state: &ServerState, store: &mut Store, event: &Event) {
    match event {
        Event::Changed { .. } | Event::Written { .. } => {}
        Event::Removed { object, .. } => {
            for (collection, key) in store.dependents(&object.meta.uid) {
                attempt_to_delete(state, store, &collection, &key);
            }
            for owner in &object.meta.owners {
                finish_foreground(state, store, &owner.uid);
            }
        }
        Event::Marked { collection, object } => follow_mark(state, store, collection, object),
        Event::Owned { collection, object } => {
            attempt_to_delete(state, store, collection, &object.key);
            // A reference that no longer blocks its owner's deletion may have been the last one.
            for owner in &object.meta.owners {
                finish_foreground(state, store, &owner.uid);
            }
        }
    }
}

/// The state of the object that an owner reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    /// It exists, or cannot be looked up: the dependent stays.
    Solid,
    /// It exists and waits for the deletion of its dependents.
    Waiting,
    /// It does not exist under this name, or has another uid.
    Absent,
}

/// The rule of the garbage collector for one dependent. An object with an existing owner loses its references to the
/// others; an object without one is deleted.
fn attempt_to_delete(state: &ServerState, store: &mut Store, collection: &Arc<str>, key: &str) {
    let Some(dependent) = object_at(store, collection, key) else {
        return;
    };
    let waits = dependent.meta.deleting && !finalizers_of(&dependent).iter().any(|name| name == FOREGROUND);
    if dependent.meta.owners.is_empty() || waits {
        return;
    }
    let owners = owner_states(state, store, collection, &dependent);
    let is = |wanted: OwnerState| owners.iter().any(|(_, state)| *state == wanted);
    if is(OwnerState::Solid) {
        for (uid, _) in owners.iter().filter(|(_, state)| *state != OwnerState::Solid) {
            drop_owner(state, store, collection, &dependent, uid);
        }
        return;
    }
    // In the foreground deletion of an owner, dependents with dependents of their own are deleted in the foreground too.
    let foreground = is(OwnerState::Waiting) && !store.dependents(&dependent.meta.uid).is_empty();
    let policy = foreground.then_some(Propagation::Foreground);
    remove(state, store, collection, &dependent, policy);
}

/// The uid of each owner, and its state.
fn owner_states(
    state: &ServerState,
    store: &Store,
    collection: &Arc<str>,
    dependent: &Stored,
) -> Vec<(String, OwnerState)> {
    let value = dependent.value();
    let references = value
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let namespaced = kind_of(state, collection).is_some_and(|kind| kind.namespaced);
    references
        .into_iter()
        .flatten()
        .filter_map(|reference| {
            let uid = reference.get("uid")?.as_str()?;
            let found = owner_state(state, store, dependent, namespaced, reference, uid);
            Some((uid.to_owned(), found))
        })
        .collect()
}

fn owner_state(
    state: &ServerState,
    store: &Store,
    dependent: &Stored,
    namespaced: bool,
    reference: &Value,
    uid: &str,
) -> OwnerState {
    let Some(kind) = state.registry.read().kind_of(reference) else {
        return OwnerState::Solid;
    };
    if kind.namespaced && !namespaced {
        // The reference has no namespace in which to look up the owner.
        return OwnerState::Solid;
    }
    let name = reference.get("name").and_then(Value::as_str).unwrap_or_default();
    let namespace = dependent.meta.namespace.as_deref().filter(|_| kind.namespaced);
    let owner = object_at(
        store,
        &ServerState::collection_of(&kind),
        &storage_key(namespace, name),
    );
    match owner.filter(|owner| owner.meta.uid == uid) {
        None => OwnerState::Absent,
        Some(owner) if owner.meta.deleting && finalizers_of(&owner).iter().any(|name| name == FOREGROUND) => {
            OwnerState::Waiting
        }
        Some(_) => OwnerState::Solid,
    }
}

fn object_at(store: &Store, collection: &str, key: &str) -> Option<Arc<Stored>> {
    store.collection(collection)?.get(key).cloned()
}

/// An object waits for one of the garbage collector's own finalizers.
fn follow_mark(state: &ServerState, store: &mut Store, collection: &Arc<str>, object: &Arc<Stored>) {
    let finalizers = finalizers_of(object);
    if finalizers.iter().any(|name| name == ORPHAN) {
        for (collection, key) in store.dependents(&object.meta.uid) {
            if let Some(dependent) = object_at(store, &collection, &key) {
                drop_owner(state, store, &collection, &dependent, &object.meta.uid);
            }
        }
        drop_finalizer(state, store, collection, &object.key, ORPHAN);
    }
    if finalizers.iter().any(|name| name == FOREGROUND) {
        // Dependents that do not block the deletion are collected after it.
        for (collection, key) in blocking_dependents(store, &object.meta.uid) {
            attempt_to_delete(state, store, &collection, &key);
        }
        finish_foreground(state, store, &object.meta.uid);
    }
}

/// Removes an object in foreground deletion once no blocking dependent is left.
fn finish_foreground(state: &ServerState, store: &mut Store, owner: &str) {
    let Some((collection, key)) = store.place_of(owner) else {
        return;
    };
    let Some(object) = object_at(store, &collection, &key) else {
        return;
    };
    let waits = object.meta.deleting && finalizers_of(&object).iter().any(|name| name == FOREGROUND);
    if waits && blocking_dependents(store, owner).is_empty() {
        drop_finalizer(state, store, &collection, &object.key, FOREGROUND);
    }
}

/// The dependents whose references block the deletion of their owner.
fn blocking_dependents(store: &Store, owner: &str) -> Vec<Spot> {
    let blocks = |(collection, key): &Spot| {
        object_at(store, collection, key).is_some_and(|dependent| {
            let owners = &dependent.meta.owners;
            owners
                .iter()
                .any(|reference| reference.uid == owner && reference.block_owner_deletion)
        })
    };
    store.dependents(owner).into_iter().filter(blocks).collect()
}

/// Deletes the contents of a terminating namespace, and the namespace once it is empty.
fn finish_namespace(state: &ServerState, store: &mut Store, namespace: &str) {
    let waiting = store
        .collection(NAMESPACES)
        .and_then(|objects| objects.get(namespace))
        .is_some_and(|object| object.meta.deleting);
    if !waiting {
        return;
    }
    for (collection, object) in contents(store, namespace) {
        if !object.meta.deleting {
            remove(state, store, &collection, &object, None);
        }
    }
    if contents(store, namespace).is_empty() {
        rewrite(state, store, &NAMESPACES.into(), namespace, |object| {
            let Some(Value::Object(spec)) = object.get_mut("spec") else {
                return;
            };
            if let Some(Value::Array(finalizers)) = spec.get_mut("finalizers") {
                finalizers.retain(|name| name != CONTENTS);
                if finalizers.is_empty() {
                    spec.remove("finalizers");
                }
            }
        });
    }
}

fn contents(store: &Store, namespace: &str) -> Vec<(Arc<str>, Arc<Stored>)> {
    let prefix = format!("{namespace}/");
    let mut found = Vec::new();
    for (collection, objects) in store.collections() {
        found.extend(
            objects
                .with_prefix(&prefix)
                .map(|object| (collection.clone(), object.clone())),
        );
    }
    // Sorted, because the collections are in a hash map and the order of events should be deterministic.
    found.sort_by(|(a, one), (b, two)| (a, &one.key).cmp(&(b, &two.key)));
    found
}

/// The objects of a custom kind are removed before its definition.
fn remove_custom_objects(state: &ServerState, store: &mut Store, definition: &Stored) {
    let collection = definition::collection_of(&definition.value());
    let objects: Vec<Arc<Stored>> = store
        .collection(&collection)
        .map(|objects| objects.objects().cloned().collect())
        .unwrap_or_default();
    for object in objects {
        // Removed despite finalizers: once the definition is gone no client can remove them.
        store.remove(&collection, &object.key);
    }
    drop_finalizer(
        state,
        store,
        &definition::COLLECTION.into(),
        &definition.key,
        definition::CLEANUP,
    );
}

fn finalizers_of(object: &Stored) -> Vec<String> {
    let value = object.value();
    let list = value.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Deletes an object as the garbage collector does.
fn remove(
    state: &ServerState,
    store: &mut Store,
    collection: &Arc<str>,
    object: &Arc<Stored>,
    propagation: Option<Propagation>,
) {
    let Some(kind) = kind_of(state, collection) else {
        return;
    };
    let place = Place {
        // Pods end gracefully if there is a kubelet that removes them in the end.
        origin: if state.config.controllers.runs_pods() {
            Origin::Client
        } else {
            Origin::Test
        },
        ..Place::of_test(&kind, &kind, object.meta.namespace.as_deref(), &object.meta.name)
    };
    // This fails only if the object is already gone, or was replaced by another of its name.
    let options = DeleteOptions {
        uid: Some(object.meta.uid.clone()),
        propagation,
        ..DeleteOptions::default()
    };
    let _ = delete(state, store, &place, &options);
}

fn drop_owner(
    state: &ServerState,
    store: &mut Store,
    collection: &Arc<str>,
    object: &Arc<Stored>,
    owner: &str,
) {
    rewrite(state, store, collection, &object.key, |object| {
        let metadata = metadata_mut(object);
        if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
            owners.retain(|reference| reference.get("uid").and_then(Value::as_str) != Some(owner));
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            }
        }
    });
}

fn drop_finalizer(state: &ServerState, store: &mut Store, collection: &Arc<str>, key: &str, finalizer: &str) {
    rewrite(state, store, collection, key, |object| {
        let metadata = metadata_mut(object);
        if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
            finalizers.retain(|name| name.as_str() != Some(finalizer));
            if finalizers.is_empty() {
                metadata.remove("finalizers");
            }
        }
    });
}

/// Changes an object, or removes an object that is marked for deletion and has no finalizers left.
fn rewrite(
    state: &ServerState,
    store: &mut Store,
    collection: &Arc<str>,
    key: &str,
    change: impl FnOnce(&mut Map<String, Value>),
) {
    let Some(kind) = kind_of(state, collection) else {
        return;
    };
    let current = store
        .collection(collection)
        .and_then(|objects| objects.get(key))
        .cloned();
    let Some(Value::Object(mut object)) = current.map(|current| current.value()) else {
        return;
    };
    let before = object.clone();
    change(&mut object);
    if object == before {
        return;
    }
    if is_gone(metadata_mut(&mut object)) && !is_held(&kind, &object) {
        store.remove(collection, key);
    } else {
        let (api_version, kind) = (kind.api_version(), kind.kind.as_str());
        store.put(collection, |revision| {
            Stored::encode(&api_version, kind, &object, revision)
        });
    }
}

/// The kind of a collection, in its storage version.
pub(crate) fn kind_of(state: &ServerState, collection: &str) -> Option<Arc<Kind>> {
    let registry = state.registry.read();
    let (plural, group) = collection.split_once('.').unwrap_or((collection, ""));
    let stored = registry
        .iter()
        .find(|kind| kind.stored.group == group && kind.stored.plural == plural)?;
    Some(registry.stored(stored))
}
