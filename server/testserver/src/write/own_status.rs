//! Status that the server itself sets: of definitions and of flow schemas. A real server has controllers for it, which write a moment
//! after the object. Here these writes follow at once, but the response to the write that caused them, and every watch, show the object
//! as it was before.

use std::collections::VecDeque;
use std::sync::Arc;

use kube_api_protocol::status::ApiError;
use serde_json::{Value, json};

use super::{Made, Part, Place, definition, update_now};
use crate::patch::{self, Manager, PatchError};
use crate::state::ServerState;
use crate::storage::{Event, Store, Stored};

const FLOW_GROUP: &str = "flowcontrol.apiserver.k8s.io";
const FLOW_SCHEMAS: &str = "flowschemas.flowcontrol.apiserver.k8s.io";
const PRIORITY_LEVELS: &str = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io";

/// Where a flow schema names its priority level.
const LEVEL: &str = "/spec/priorityLevelConfiguration/name";

/// The priority levels of every real server. They are not stored here.
const BUILTIN_LEVELS: &[&str] = &[
    "catch-all",
    "exempt",
    "global-default",
    "leader-election",
    "node-high",
    "system",
    "workload-high",
    "workload-low",
];

/// Whether the server acts on writes to this collection.
pub(super) fn is_of(collection: &str) -> bool {
    matches!(
        collection,
        definition::COLLECTION | FLOW_SCHEMAS | PRIORITY_LEVELS
    )
}

/// Sets what follows from an event.
pub(super) fn follow(state: &ServerState, store: &mut Store, event: &Event) {
    match event {
        Event::Written { collection, object } if &**collection == definition::COLLECTION => {
            define(state, store, vec![object.key.clone()]);
        }
        Event::Removed { collection, object } if &**collection == definition::COLLECTION => {
            // It has freed its names.
            define(state, store, waiting(store, definition::group_of(&object.key)));
        }
        _ if !state.config.conformant => {}
        Event::Written { collection, object } if &**collection == FLOW_SCHEMAS => {
            resolve(state, store, &object.key);
        }
        Event::Written { collection, object } | Event::Removed { collection, object }
            if &**collection == PRIORITY_LEVELS =>
        {
            let level = |schema: &Value| text(schema, LEVEL);
            let names = |schema: &Arc<Stored>| {
                schema.with_field("level of a flow schema", level, |level| level == object.meta.name)
            };
            for key in keys(store, FLOW_SCHEMAS, names) {
                resolve(state, store, &key);
            }
        }
        _ => {}
    }
}

/// The keys of the objects for which this is true.
fn keys(store: &Store, collection: &str, test: impl Fn(&Arc<Stored>) -> bool) -> Vec<Arc<str>> {
    let objects = store.collection(collection);
    let objects = objects.iter().flat_map(|objects| objects.objects());
    objects
        .filter(|object| test(object))
        .map(|object| object.key.clone())
        .collect()
}

fn text(value: &Value, pointer: &str) -> String {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// The definitions of a group that wait for names.
fn waiting(store: &Store, group: &str) -> Vec<Arc<str>> {
    let accepted = |definition: &Value| {
        let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
        let accepted = conditions
            .into_iter()
            .flatten()
            .find(|condition| text(condition, "/type") == "NamesAccepted");
        accepted.map_or_else(String::new, |accepted| text(accepted, "/status"))
    };
    keys(store, definition::COLLECTION, |definition| {
        definition::group_of(&definition.key) == group
            && definition.with_field(
                "whether the names of a definition are accepted",
                accepted,
                |status| status != "True",
            )
    })
}

/// Takes the next step of each of these definitions, which may free names for others. Every write leads to the next step of the
/// definition, too.
#[doc(alias = "requeueAllOtherGroupCRDs")]
fn define(state: &ServerState, store: &mut Store, keys: Vec<Arc<str>>) {
    let mut queue = VecDeque::from(keys);
    while let Some(key) = queue.pop_front() {
        if define_one(state, store, &key) {
            let others = waiting(store, definition::group_of(&key));
            queue.extend(others.into_iter().filter(|other| *other != key));
        }
    }
}

/// The next step of a definition: its names, then whether it is established. Returns whether it was written.
fn define_one(state: &ServerState, store: &mut Store, key: &str) -> bool {
    let definitions = store.collection(definition::COLLECTION);
    let Some(stored) = definitions.and_then(|definitions| definitions.get(key)).cloned() else {
        return false;
    };
    if stored.meta.deleting {
        return false;
    }
    let Some(status) = definition::next_status(state, store, &stored.value()) else {
        return false;
    };
    let now = state.clock.timestamp();
    let manager = Manager {
        name: "kube-apiserver",
        subresource: "status",
        now: &now,
    };
    let make = |live: &Value| {
        let mut new = live.clone();
        new["status"] = status.clone();
        Ok(Made::Changed(new))
    };
    let kind = (definition::GROUP, "customresourcedefinitions");
    let written = write(state, store, kind, &stored.meta.name, manager, make);
    written.is_some_and(|written| !Arc::ptr_eq(&written, &stored))
}

/// Whether the priority level of a flow schema exists.
#[doc(alias = "presyncFlowSchemaStatus")]
fn resolve(state: &ServerState, store: &mut Store, key: &str) {
    let schemas = store.collection(FLOW_SCHEMAS);
    let Some(stored) = schemas.and_then(|schemas| schemas.get(key)).cloned() else {
        return;
    };
    let schema = stored.value();
    let level = text(&schema, LEVEL);
    let exists = BUILTIN_LEVELS.contains(&level.as_str())
        || store
            .collection(PRIORITY_LEVELS)
            .is_some_and(|levels| levels.get(&level).is_some());
    let (status, reason, outcome) = if exists {
        ("False", "Found", "and it exists")
    } else {
        ("True", "NotFound", "but there is no such object")
    };
    let message =
        format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {outcome}");
    let conditions = schema.pointer("/status/conditions").and_then(Value::as_array);
    let known = conditions.into_iter().flatten().any(|condition| {
        text(condition, "/type") == "Dangling"
            && text(condition, "/status") == status
            && text(condition, "/reason") == reason
            && text(condition, "/message") == message
    });
    if known {
        return;
    }
    let now = state.clock.timestamp();
    let manager = Manager {
        name: "api-priority-and-fairness-config-consumer-v1",
        subresource: "status",
        now: &now,
    };
    let name = &stored.meta.name;
    let applied = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": { "name": name },
        "status": { "conditions": [{
            "type": "Dangling", "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
        }] },
    });
    let Some(kind) = state.registry.read().resource(FLOW_GROUP, "v1", "flowschemas") else {
        return;
    };
    let make = |live: &Value| {
        let made = patch::apply(&kind, Some(live), &applied, &manager, true);
        made.map(Made::Applied).map_err(PatchError::into_status)
    };
    write(
        state,
        store,
        (FLOW_GROUP, "flowschemas"),
        name,
        manager.clone(),
        make,
    );
}

/// Writes the status of an object as one of the server's controllers.
fn write(
    state: &ServerState,
    store: &mut Store,
    (group, plural): (&str, &str),
    name: &str,
    manager: Manager<'_>,
    make: impl FnOnce(&Value) -> Result<Made, ApiError>,
) -> Option<Arc<Stored>> {
    let kind = state.registry.read().resource(group, "v1", plural)?;
    let place = Place {
        manager: Some(manager),
        ..Place::of_test(&kind, &kind, None, name)
    };
    // It was removed if it is not found, and nothing is left to do.
    update_now(state, store, &place, Part::Status, make).ok()
}
