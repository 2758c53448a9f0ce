//! The consequences of deletions: owned objects, the contents of namespaces, the objects of a removed custom kind.
//! In a cluster, controllers do this over time; here it happens at once, as part of the same write.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::delete::{FOREGROUND, ORPHAN};
use super::{DeleteOptions, Origin, Place, definition, delete};
use crate::admission::metadata::{is_gone, metadata_mut};
use crate::kinds::Kind;
use crate::server::state::ServerState;
use crate::storage::{Event, Store, Stored};

/// Holds a namespace until it is empty. A real server keeps this one in `spec.finalizers`.
pub(super) const CONTENTS: &str = "kubernetes";

/// Applies the consequences of the writes so far.
pub(crate) fn settle(state: &ServerState, store: &mut Store) {
    while let Some(event) = store.next_event() {
        match event {
            Event::Removed { collection, object } => {
                if state.config.collect_garbage {
                    release_dependents(state, store, &object.meta.uid);
                    for owner in &object.meta.owners {
                        finish_foreground(state, store, &owner.uid);
                    }
                }
                if let Some(namespace) = &object.meta.namespace {
                    finish_namespace(state, store, namespace);
                }
                if &*collection == definition::COLLECTION {
                    definition::stop_serving(state, &object);
                }
            }
            Event::Marked { collection, object } => {
                if &*collection == "namespaces" {
                    empty_namespace(state, store, &object.meta.name);
                    finish_namespace(state, store, &object.meta.name);
                } else if &*collection == definition::COLLECTION {
                    remove_custom_objects(state, store, &object);
                }
                if state.config.collect_garbage {
                    follow_mark(state, store, &collection, &object);
                }
            }
            Event::Owned { collection, object } => {
                if state.config.collect_garbage {
                    check_owners(state, store, &collection, &object);
                }
            }
        }
    }
}

/// The owner was removed: objects without another owner are removed; the others lose the dangling reference.
fn release_dependents(state: &ServerState, store: &mut Store, owner: &str) {
    for (collection, key) in store.dependents(owner) {
        let Some(dependent) = store
            .collection(&collection)
            .and_then(|objects| objects.get(&key))
            .cloned()
        else {
            continue;
        };
        let others = dependent
            .meta
            .owners
            .iter()
            .any(|other| other.uid != owner && store.has_uid(&other.uid));
        if others {
            drop_owner(state, store, &collection, &dependent, owner);
        } else {
            remove(state, store, &collection, &dependent);
        }
    }
}

/// An object has new owner references. References to missing owners are removed; if no owner exists, the object is
/// deleted: it was created by a client that had not noticed the deletion of the owner.
fn check_owners(state: &ServerState, store: &mut Store, collection: &Arc<str>, object: &Arc<Stored>) {
    let owners = &object.meta.owners;
    let absent: Vec<&str> = owners
        .iter()
        .map(|owner| owner.uid.as_str())
        .filter(|uid| !store.has_uid(uid))
        .collect();
    // Created and deleted in the same step.
    if absent.is_empty() || !store.has_uid(&object.meta.uid) {
        return;
    }
    // Owners of kinds that are not served are unknown.
    let value = object.value();
    let references = value
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let unknown = references.into_iter().flatten().any(|reference| {
        let uid = reference.get("uid").and_then(Value::as_str);
        uid.is_some_and(|uid| absent.contains(&uid)) && state.registry.read().kind_of(reference).is_none()
    });
    if unknown {
        return;
    }
    if absent.len() == owners.len() {
        remove(state, store, collection, object);
        return;
    }
    for uid in absent {
        drop_owner(state, store, collection, object, uid);
    }
}

/// An object waits for one of the garbage collector's own finalizers.
fn follow_mark(state: &ServerState, store: &mut Store, collection: &Arc<str>, object: &Arc<Stored>) {
    let finalizers = finalizers_of(object);
    if finalizers.iter().any(|name| name == ORPHAN) {
        for (collection, key) in store.dependents(&object.meta.uid) {
            if let Some(dependent) = store
                .collection(&collection)
                .and_then(|objects| objects.get(&key))
                .cloned()
            {
                drop_owner(state, store, &collection, &dependent, &object.meta.uid);
            }
        }
        drop_finalizer(state, store, collection, &object.key, ORPHAN);
    }
    if finalizers.iter().any(|name| name == FOREGROUND) {
        for (collection, key) in store.dependents(&object.meta.uid) {
            if let Some(dependent) = store
                .collection(&collection)
                .and_then(|objects| objects.get(&key))
                .cloned()
            {
                remove(state, store, &collection, &dependent);
            }
        }
        finish_foreground(state, store, &object.meta.uid);
    }
}

/// Removes an object in foreground deletion once no blocking dependent is left.
fn finish_foreground(state: &ServerState, store: &mut Store, owner: &str) {
    let Some((collection, key)) = store.place_of(owner) else {
        return;
    };
    let Some(object) = store
        .collection(&collection)
        .and_then(|objects| objects.get(&key))
        .cloned()
    else {
        return;
    };
    if !object.meta.deleting || !finalizers_of(&object).iter().any(|name| name == FOREGROUND) {
        return;
    }
    let blocked = store.dependents(owner).iter().any(|(collection, key)| {
        let dependent = store.collection(collection).and_then(|objects| objects.get(key));
        dependent.is_some_and(|dependent| {
            dependent
                .meta
                .owners
                .iter()
                .any(|reference| reference.uid == owner && reference.block_owner_deletion)
        })
    });
    if !blocked {
        drop_finalizer(state, store, &collection, &object.key, FOREGROUND);
    }
}

fn empty_namespace(state: &ServerState, store: &mut Store, namespace: &str) {
    for (collection, object) in contents(store, namespace) {
        remove(state, store, &collection, &object);
    }
}

fn finish_namespace(state: &ServerState, store: &mut Store, namespace: &str) {
    let waiting = store
        .collection("namespaces")
        .and_then(|objects| objects.get(namespace))
        .is_some_and(|object| object.meta.deleting);
    if waiting && contents(store, namespace).is_empty() {
        drop_finalizer(state, store, &"namespaces".into(), namespace, CONTENTS);
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
fn remove(state: &ServerState, store: &mut Store, collection: &Arc<str>, object: &Arc<Stored>) {
    let Some(kind) = kind_of(state, collection) else {
        return;
    };
    let place = Place {
        kind: &kind,
        stored_as: &kind,
        namespace: object.meta.namespace.as_deref(),
        name: &object.meta.name,
        origin: Origin::Test,
        conformant: false,
        dry_run: false,
        manager: None,
    };
    // This fails only if the object is already gone.
    let _ = delete(state, store, &place, &DeleteOptions::default());
}

fn drop_owner(
    state: &ServerState,
    store: &mut Store,
    collection: &Arc<str>,
    object: &Arc<Stored>,
    owner: &str,
) {
    rewrite(state, store, collection, &object.key, |metadata| {
        if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
            owners.retain(|reference| reference.get("uid").and_then(Value::as_str) != Some(owner));
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            }
        }
    });
}

fn drop_finalizer(state: &ServerState, store: &mut Store, collection: &Arc<str>, key: &str, finalizer: &str) {
    rewrite(state, store, collection, key, |metadata| {
        if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
            finalizers.retain(|name| name.as_str() != Some(finalizer));
            if finalizers.is_empty() {
                metadata.remove("finalizers");
            }
        }
    });
}

/// Changes an object's metadata, or removes an object that is marked for deletion and has no finalizers left.
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
    let before = metadata_mut(&mut object).clone();
    change(metadata_mut(&mut object));
    if *metadata_mut(&mut object) == before {
        return;
    }
    if is_gone(metadata_mut(&mut object)) {
        store.remove(collection, key);
    } else {
        let (api_version, kind) = (kind.api_version(), kind.kind.as_str());
        store.put(collection, |revision| {
            Stored::encode(&api_version, kind, &object, revision)
        });
    }
}

/// The kind of a collection, in its storage version.
fn kind_of(state: &ServerState, collection: &str) -> Option<Arc<Kind>> {
    let registry = state.registry.read();
    let (plural, group) = collection.split_once('.').unwrap_or((collection, ""));
    let stored = registry
        .iter()
        .find(|kind| kind.stored.group == group && kind.stored.plural == plural)?;
    Some(registry.stored(stored))
}
