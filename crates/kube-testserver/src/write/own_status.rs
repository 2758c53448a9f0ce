//! Status that the server itself sets: of definitions and of flow schemas. A real server has controllers for it, which write a moment
//! after the object. Here these writes follow at once, but the response to the write that caused them, and every watch, show the object
//! as it was before.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Made, Part, Place, definition, update_now};
use crate::patch::{self, Manager};
use crate::server::state::ServerState;
use crate::storage::{Event, Store, Stored};
use crate::transport::status::ApiError;

const FLOW_GROUP: &str = "flowcontrol.apiserver.k8s.io";
const FLOW_SCHEMAS: &str = "flowschemas.flowcontrol.apiserver.k8s.io";
const PRIORITY_LEVELS: &str = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io";

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
            define(state, store, &object.key);
        }
        Event::Removed { collection, object } if &**collection == definition::COLLECTION => {
            // It has freed its names.
            let group = text(&object.value(), "/spec/group");
            for other in all(store, definition::COLLECTION) {
                if other.with_field("group of a definition that waits", waiting, |waits| {
                    waits == group
                }) {
                    define(state, store, &other.key);
                }
            }
        }
        Event::Written { collection, .. } | Event::Removed { collection, .. }
            if state.config.conformant && matches!(&**collection, FLOW_SCHEMAS | PRIORITY_LEVELS) =>
        {
            for schema in all(store, FLOW_SCHEMAS) {
                resolve(state, store, &schema);
            }
        }
        _ => {}
    }
}

fn all(store: &Store, collection: &str) -> Vec<Arc<Stored>> {
    let objects = store.collection(collection);
    objects
        .map(|objects| objects.objects().cloned().collect())
        .unwrap_or_default()
}

fn text(value: &Value, pointer: &str) -> String {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// The group of a definition that waits for names; empty if it does not.
fn waiting(definition: &Value) -> String {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    let accepted = conditions
        .into_iter()
        .flatten()
        .any(|condition| text(condition, "/type") == "NamesAccepted" && text(condition, "/status") == "True");
    if accepted {
        String::new()
    } else {
        text(definition, "/spec/group")
    }
}

/// The next step of a definition: its names, then whether it is established. Each is written, which leads to the next one.
fn define(state: &ServerState, store: &mut Store, key: &str) {
    let definitions = store.collection(definition::COLLECTION);
    let Some(stored) = definitions.and_then(|definitions| definitions.get(key)).cloned() else {
        return;
    };
    if stored.meta.deleting {
        return;
    }
    let Some(status) = definition::next_status(state, &stored.value()) else {
        return;
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
    write(state, store, kind, &stored.meta.name, manager, make);
}

/// Whether the priority level of a flow schema exists.
#[doc(alias = "presyncFlowSchemaStatus")]
fn resolve(state: &ServerState, store: &mut Store, stored: &Stored) {
    let schema = stored.value();
    let level = text(&schema, "/spec/priorityLevelConfiguration/name");
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
        made.map(Made::Applied).map_err(|error| ApiError::patch(&error))
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
) {
    let Some(kind) = state.registry.read().resource(group, "v1", plural) else {
        return;
    };
    let place = Place {
        manager: Some(manager),
        ..Place::of_test(&kind, &kind, None, name)
    };
    // It was removed if it is not found, and nothing is left to do.
    let _ = update_now(state, store, &place, Part::Status, make);
}
