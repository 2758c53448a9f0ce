//! Writes of CustomResourceDefinitions: validation, status, and the served kinds.

use std::sync::Arc;

use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::status::ApiError;
use serde_json::{Map, Value};

use super::Origin;
use crate::hub::Order;
use crate::kinds::{self, TakenNames};
use crate::state::ServerState;
use crate::storage::{Store, Stored};

pub(super) const GROUP: &str = "apiextensions.k8s.io";
pub(super) const KIND: &str = "CustomResourceDefinition";
pub(super) const COLLECTION: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Holds a definition until the objects of its kind are removed.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Sets defaults and validates a definition. Compiles regular expressions, so it must run outside the lock of the
/// store.
pub(super) fn validate(object: &mut Map<String, Value>, old: Option<&Map<String, Value>>) -> Vec<FieldError> {
    let mut definition = Value::Object(std::mem::take(object));
    kinds::set_crd_defaults(&mut definition);
    let errors = match old {
        Some(old) => kinds::validate_crd_update(&definition, &Value::Object(old.clone())),
        None => kinds::validate_crd(&definition),
    };
    if let Value::Object(map) = definition {
        *object = map;
    }
    errors
}

/// Sets the status of a definition that is stored: for a client, the status before the server accepts its names, which it does in writes
/// that follow (`own_status.rs`). A definition of a test is complete at once. It depends on the names in use, so it must run under the lock
/// of the store, where no other definition can claim a name at the same time.
pub(super) fn set_status(
    state: &ServerState,
    store: &Store,
    origin: Origin,
    object: &mut Map<String, Value>,
) {
    let mut definition = Value::Object(std::mem::take(object));
    if !definition.get("status").is_some_and(Value::is_object) {
        definition["status"] = kinds::initial_crd_status(&definition);
    }
    kinds::add_stored_version(&mut definition);
    while origin == Origin::Test
        && let Some(status) = next_status(state, store, &definition)
    {
        definition["status"] = status;
    }
    if let Value::Object(map) = definition {
        *object = map;
    }
}

/// The status that the server sets next; `None` if nothing remains to be done.
pub(super) fn next_status(state: &ServerState, store: &Store, definition: &Value) -> Option<Value> {
    let text = |pointer: &str| {
        let text = definition.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default()
    };
    let taken = taken_names(state, store, text("/spec/group"), text("/spec/names/plural"));
    kinds::next_crd_status(definition, &taken, &state.clock.timestamp())
}

/// The names that were granted to the definitions of a group, to this one as well, and those of kinds without a definition.
#[doc(alias = "getAcceptedNamesForGroup")]
fn taken_names(state: &ServerState, store: &Store, group: &str, plural: &str) -> TakenNames {
    let definitions = store.collection(COLLECTION);
    let is_defined = |other: &str| {
        let key = format!("{other}.{group}");
        other == plural || definitions.is_some_and(|definitions| definitions.get(&key).is_some())
    };
    let mut taken = state.registry.read().taken_names(group, is_defined);
    for definition in definitions.iter().flat_map(|definitions| definitions.objects()) {
        if group_of(&definition.key) == group {
            definition.with_field("accepted names", kinds::accepted_names, |names| taken.add(names));
        }
    }
    taken
}

/// The group of a definition, from its name.
pub(super) fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}

/// Starts serving the kinds of a definition that is established, under the names that were accepted.
pub(super) fn serve(state: &ServerState, definition: &Map<String, Value>) -> Result<(), ApiError> {
    let mut definition = Value::Object(definition.clone());
    let accepted = definition.pointer("/status/acceptedNames").cloned();
    if let (Some(accepted), Some(names)) = (accepted, definition.pointer_mut("/spec/names"))
        && accepted.get("plural") == names.get("plural")
    {
        *names = accepted;
    }
    let name = definition
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if kinds::is_established(&definition) {
        let served = state.registry.write().insert_crd(&definition);
        served.map_err(|errors| ApiError::invalid(GROUP, KIND, name, &errors))?;
    }
    Ok(())
}

/// Stops serving the kind; its watches end after they delivered the last deletion.
pub(super) fn stop_serving(state: &ServerState, definition: &Stored) {
    let definition = definition.value();
    let text = |pointer: &str| {
        definition
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    state
        .registry
        .write()
        .remove(text("/spec/group"), text("/spec/names/plural"));
    let collection = collection_of(&definition);
    state.hub.end(Order::Finish, |watched, _| watched == &*collection);
}

/// The collection of the definition's objects.
pub(super) fn collection_of(definition: &Value) -> Arc<str> {
    let text = |pointer: &str| {
        definition
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    format!("{}.{}", text("/spec/names/plural"), text("/spec/group")).into()
}
