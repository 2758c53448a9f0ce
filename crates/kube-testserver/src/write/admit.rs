//! Writes that webhooks decide on. No lock is held while they are called: if the object changes meanwhile, the write starts
//! again, as after any other concurrent write.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::create::{self, NewObject, ValidObject};
use super::delete::{self, DeleteOptions, Deleted, check_preconditions};
use super::update::{CheckedChange, Draft, Part};
use super::{Place, definition, into_map};
use crate::server::state::ServerState;
use crate::storage::{Store, Stored};
use crate::transport::status::ApiError;
use crate::webhooks::{Attributes, Operation, Webhooks};

/// Creates an object that a client sent.
pub(crate) async fn create_admitted(
    state: &ServerState,
    place: &Place<'_>,
    object: Value,
) -> Result<Arc<Stored>, ApiError> {
    let new = NewObject::check(place, object)?;
    let Some(webhooks) = place.webhooks else {
        return state.write(|store| create::create(state, store, place, new));
    };
    let object = new.for_review(state, &state.store.read(), place)?;
    let name = name_of(&object);
    let attributes = Attributes {
        operation: Operation::Create,
        name: &name,
        old: None,
        options: webhooks.options("CreateOptions"),
    };
    let object = webhooks
        .mutate(&attributes, Some(object))
        .await?
        .unwrap_or_default();
    // Its manager is recorded, and webhooks are none.
    let place = &Place {
        manager: None,
        ..place.clone()
    };
    loop {
        let new = NewObject::check(place, object.clone())?;
        let (valid, complete, revision) = {
            let store = state.store.read();
            let mut valid = create::validate_new(state, &store, place, new)?;
            let complete = valid.complete(state, &store, place)?;
            (valid, complete, store.revision())
        };
        let shown = place.shown(&complete);
        let name = name_of(&shown);
        let attributes = Attributes {
            name: &name,
            ..attributes.clone()
        };
        webhooks.validate(&attributes, Some(&shown)).await?;
        let stored = state.write(|store| store_admitted(state, store, place, &valid, &complete, revision));
        if let Some(stored) = stored? {
            return Ok(stored);
        }
    }
}

/// Stores an object that all webhooks have allowed. `None` if it must be completed again: its generated name is taken, or what it
/// was allocated may be.
fn store_admitted(
    state: &ServerState,
    store: &mut Store,
    place: &Place<'_>,
    valid: &ValidObject,
    complete: &Map<String, Value>,
    revision: u64,
) -> Result<Option<Arc<Stored>>, ApiError> {
    let depends_on_others = place.is("", "Service") || place.is(definition::GROUP, definition::KIND);
    if depends_on_others && store.revision() != revision {
        return Ok(None);
    }
    match valid.check_free(store, place) {
        Err(_) if valid.generated => Ok(None),
        Err(taken) => Err(taken),
        Ok(()) => create::store_new(state, store, place, complete).map(Some),
    }
}

/// Has webhooks decide on a change; the store is compared with the old state afterwards.
pub(super) async fn change(
    webhooks: &Webhooks<'_>,
    place: &Place<'_>,
    part: Part,
    mut draft: Draft,
) -> Result<CheckedChange, ApiError> {
    draft.track(place, part);
    let scale = webhooks.subresource() == "scale";
    let old = reviewed(place, scale, &draft.old)?;
    let attributes = Attributes {
        operation: Operation::Update,
        name: place.name,
        old: Some(&old),
        options: webhooks.options("UpdateOptions"),
    };
    let object = reviewed(place, scale, &draft.new)?;
    let mutated = webhooks
        .mutate(&attributes, Some(object))
        .await?
        .unwrap_or_default();
    draft.new = if scale {
        let mut new = Value::Object(draft.new);
        place
            .kind
            .write_scale(&mut new, &mutated)
            .map_err(|_| ApiError::internal("a webhook has returned an invalid Scale"))?;
        into_map(place.kind, new)?
    } else {
        Draft::decode(place, mutated)?
    };
    let change = CheckedChange::new(place, part, draft)?;
    let object = reviewed(place, scale, &change.new)?;
    webhooks.validate(&attributes, Some(&object)).await?;
    Ok(change)
}

/// The object that webhooks see: the object itself, or its scale.
fn reviewed(place: &Place<'_>, scale: bool, object: &Map<String, Value>) -> Result<Value, ApiError> {
    let object = Value::Object(object.clone());
    if !scale {
        return Ok(object);
    }
    place
        .kind
        .read_scale(&object)
        .ok_or_else(ApiError::no_such_resource)
}

/// Deletes an object on behalf of a client. `collection` if it is one of many, which the request does not name.
pub(crate) async fn delete_admitted(
    state: &ServerState,
    place: &Place<'_>,
    options: &DeleteOptions,
    collection: bool,
) -> Result<Deleted, ApiError> {
    let Some(webhooks) = place.webhooks else {
        return state.write(|store| delete::delete(state, store, place, options));
    };
    loop {
        let current = place.current(&state.store.read())?;
        check_preconditions(place, &current, options)?;
        let old = place.show(&current);
        let attributes = Attributes {
            operation: Operation::Delete,
            name: if collection { "" } else { place.name },
            old: Some(&old),
            options: options.shown(place.dry_run),
        };
        webhooks.admit(&attributes, None).await?;
        let deleted = state.write(|store| {
            let latest = place.current(store)?;
            Arc::ptr_eq(&latest, &current)
                .then(|| delete::delete(state, store, place, options))
                .transpose()
        })?;
        if let Some(deleted) = deleted {
            return Ok(deleted);
        }
    }
}

/// Deletes the objects that are chosen, and returns them. Without webhooks this is one step.
pub(crate) async fn delete_collection(
    state: &ServerState,
    place: &Place<'_>,
    options: &DeleteOptions,
    choose: impl Fn(&Store) -> Vec<Arc<Stored>>,
) -> Result<Vec<Arc<Stored>>, ApiError> {
    let mut deleted = Vec::new();
    if place.webhooks.is_none() {
        return state.write(|store| {
            for object in choose(store) {
                let result = delete::delete(state, store, &place_of(place, &object), options);
                collect(&mut deleted, result)?;
            }
            Ok(deleted)
        });
    }
    let chosen = choose(&state.store.read());
    for object in &chosen {
        let result = delete_admitted(state, &place_of(place, object), options, true).await;
        collect(&mut deleted, result)?;
    }
    Ok(deleted)
}

/// The place of one object of a collection.
fn place_of<'a>(collection: &Place<'a>, object: &'a Stored) -> Place<'a> {
    Place {
        namespace: object.meta.namespace.as_deref(),
        name: &object.meta.name,
        ..collection.clone()
    }
}

fn collect(deleted: &mut Vec<Arc<Stored>>, result: Result<Deleted, ApiError>) -> Result<(), ApiError> {
    match result {
        Ok(gone) => deleted.push(gone.object().clone()),
        // Already removed by an earlier deletion.
        Err(error) if error.code() == 404 => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

fn name_of(object: &Value) -> String {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or_default().to_owned()
}
