//! Writes of CustomResourceDefinitions: validation, status, and the served kinds.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Origin;
use crate::admission::field_error::FieldError;
use crate::kinds;
use crate::server::state::ServerState;
use crate::storage::Stored;
use crate::transport::status::ApiError;
use crate::watch::hub::Order;

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
pub(super) fn set_status(state: &ServerState, origin: Origin, object: &mut Map<String, Value>) {
    let mut definition = Value::Object(std::mem::take(object));
    if !definition.get("status").is_some_and(Value::is_object) {
        definition["status"] = kinds::initial_crd_status(&definition);
    }
    kinds::add_stored_version(&mut definition);
    while origin == Origin::Test
        && let Some(status) = next_status(state, &definition)
    {
        definition["status"] = status;
    }
    if let Value::Object(map) = definition {
        *object = map;
    }
}

/// The status that the server sets next; `None` if nothing remains to be done.
pub(super) fn next_status(state: &ServerState, definition: &Value) -> Option<Value> {
    let text = |pointer: &str| {
        let text = definition.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default()
    };
    let registry = state.registry.read();
    let taken = registry.taken_names(text("/spec/group"), text("/spec/names/plural"));
    kinds::next_crd_status(definition, &taken, &state.clock.timestamp())
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
    let established = definition
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    if established {
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
