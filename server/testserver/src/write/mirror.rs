//! Copies of objects of another server: stored as they are, without checks and without consequences.

use kube_api_protocol::status::ApiError;
use serde_json::Value;

use super::{Place, check_depth, definition};
use crate::state::ServerState;
use crate::storage::{Store, storage_key};

/// Creates or replaces an object. Only its resource version is this server's own.
pub(crate) fn mirror(
    state: &ServerState,
    store: &mut Store,
    place: &Place<'_>,
    object: Value,
) -> Result<(), ApiError> {
    check_depth(&object)?;
    let object = place.keep_now(object)?;
    if place.is(definition::GROUP, definition::KIND) {
        definition::serve(state, &object)?;
    }
    place.put(store, &object);
    drop_consequences(store);
    Ok(())
}

/// Removes an object; returns whether there was one.
pub(crate) fn mirror_deletion(state: &ServerState, store: &mut Store, place: &Place<'_>) -> bool {
    let key = storage_key(place.namespace, place.name);
    let removed = store.remove(&place.collection(), &key);
    drop_consequences(store);
    if let Some(definition) = removed
        .as_ref()
        .filter(|_| place.is(definition::GROUP, definition::KIND))
    {
        definition::stop_serving(state, definition);
    }
    removed.is_some()
}

/// The other server has decided what follows from the change, and its consequences are copied as well.
fn drop_consequences(store: &mut Store) {
    while store.next_event().is_some() {}
}
