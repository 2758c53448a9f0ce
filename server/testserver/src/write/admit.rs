//! Writes that webhooks decide on. No lock is held while they are called: if the object changes meanwhile, the write starts
//! again, as after any other concurrent write.

use std::sync::Arc;

use kube_api_protocol::status::ApiError;
use serde_json::{Map, Value};

use super::change::{CheckedChange, Draft, Part};
use super::create::{self, NewObject, ValidObject};
use super::delete::{self, DeleteOptions, Deleted, check_preconditions};
use super::{Place, into_map};
use crate::hooks::Operation;
use crate::select::selection::Selection;
use crate::state::ServerState;
use crate::storage::{Store, Stored};
use crate::webhooks::{Attributes, Webhooks};

/// Creates an object that a client sent. Without webhooks this is one step.
pub(crate) async fn create_admitted(
    state: &ServerState,
    place: &Place<'_>,
    object: Value,
) -> Result<Arc<Stored>, ApiError> {
    if place.webhooks.is_none() && !place.converts() {
        let new = NewObject::check(place, object)?;
        new.check_grants(state, place)?;
        return state.write(|store| create::create(state, store, place, new));
    }
    let (mut object, mut place) = (object, place.clone());
    if let Some(webhooks) = place.webhooks {
        let new = NewObject::check(&place, object)?;
        let reviewed = new.for_review(state, &state.store.read(), &place)?;
        let name = name_of(&reviewed);
        let mutated = webhooks
            .mutate(&creation(webhooks, &name), Some(reviewed))
            .await?;
        object = mutated.unwrap_or_default();
        // Its manager is recorded, and webhooks are none.
        place.manager = None;
    }
    loop {
        let new = NewObject::check(&place, object.clone())?;
        new.check_grants(state, &place)?;
        let (valid, shown, begun, revision) = {
            let store = state.store.read();
            let mut valid = create::validate_new(state, &store, &place, new)?;
            let complete = valid.complete(state, &place);
            if place.converts() {
                (valid, complete, None, store.revision())
            } else {
                let begun = create::begin(state, &store, &place, place.keep_now(complete)?);
                (valid, place.shown(&begun), Some(begun), store.revision())
            }
        };
        if let Some(webhooks) = place.webhooks {
            let name = name_of(&shown);
            webhooks
                .validate(&creation(webhooks, &name), Some(&shown))
                .await?;
        }
        let complete = match begun {
            Some(begun) => begun,
            None => place.keep(state, shown).await?,
        };
        let stored = state.write(|store| store_admitted(state, store, &place, &valid, &complete, revision));
        if let Some(stored) = stored? {
            return Ok(stored);
        }
    }
}

/// A create as webhooks see it.
fn creation<'r>(webhooks: &Webhooks<'_>, name: &'r str) -> Attributes<'r> {
    Attributes {
        operation: Operation::Create,
        name,
        old: None,
        options: webhooks.options("CreateOptions"),
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
    if place.is("", "Service") && store.revision() != revision {
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
    state: &ServerState,
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
    place.check_grants(state, &draft.new, Some(&draft.old))?;
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
        if place.converts() {
            // A real server reads the object first, in the version of the request.
            let current = place.current(&state.store.read())?;
            let shown = place.show(state, &current).await;
            shown.map_err(|why| place.corrupt(&current, &why))?;
        }
        return state.write(|store| delete::delete(state, store, place, options));
    };
    loop {
        let current = place.current(&state.store.read())?;
        let old = place.show(state, &current).await;
        let old = old.map_err(|why| place.corrupt(&current, &why))?;
        check_preconditions(place, &current, options)?;
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

/// Deletes the objects that are selected, and returns them. Without webhooks this is one step.
pub(crate) async fn delete_collection(
    state: &ServerState,
    place: &Place<'_>,
    options: &DeleteOptions,
    selection: &Selection,
) -> Result<Vec<Arc<Stored>>, ApiError> {
    let mut deleted = Vec::new();
    let choose = |store: &Store| {
        let prefix = selection.key_prefix();
        let objects = store.collection(&place.collection());
        selection.select(
            objects
                .into_iter()
                .flat_map(|objects| objects.with_prefix(&prefix)),
        )
    };
    let chosen = loop {
        let unconverted = if place.webhooks.is_none() {
            let done = state.write(|store| {
                let chosen = match choose(store) {
                    Ok(chosen) => chosen,
                    Err(unconverted) => return Ok(Some(unconverted)),
                };
                for object in chosen {
                    let result = delete::delete(state, store, &place_of(place, &object), options);
                    collect(&mut deleted, result)?;
                }
                Ok(None)
            });
            match done? {
                Some(unconverted) => unconverted,
                None => return Ok(deleted),
            }
        } else {
            let chosen = choose(&state.store.read());
            match chosen {
                Ok(chosen) => break chosen,
                Err(unconverted) => unconverted,
            }
        };
        selection.lens().prepare(state, unconverted).await?;
    };
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
