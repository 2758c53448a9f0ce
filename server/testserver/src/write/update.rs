//! Updates an existing object: as a whole, or its status. What the new object may be is decided in `change.rs`.

use std::sync::Arc;

use kube_api_protocol::status::ApiError;
use serde_json::{Map, Value};

use super::change::{CheckedChange, Draft, Made, Part};
use super::finalizers::is_held;
use super::{Place, admit, definition, into_map};
use crate::admission::metadata::{is_gone, metadata_mut, same};
use crate::patch;
use crate::select::corrupt;
use crate::state::ServerState;
use crate::storage::{Store, Stored};
use crate::typed;

/// Replaces an object by what `make` returns for the current one, both in the requested version.
///
/// The new object is made and validated outside the lock of the store, because schemas evaluate regular expressions. If
/// another write comes in between, everything is done again, as in `GuaranteedUpdate` of the real server.
#[doc(alias = "GuaranteedUpdate")]
pub(crate) async fn update(
    state: &ServerState,
    place: &Place<'_>,
    part: Part,
    make: impl Fn(&Value) -> Result<Made, ApiError>,
) -> Result<Arc<Stored>, ApiError> {
    loop {
        place.clear_warnings();
        let current = place.current(&state.store.read())?;
        let shown = place.show(state, &current).await;
        let shown = shown.map_err(|why| corrupt::undecodable(current.revision, &why))?;
        let draft = Draft::new(place, shown, &make)?;
        let mut change = match place.webhooks {
            Some(webhooks) => admit::change(state, webhooks, place, part, draft).await?,
            None => {
                place.check_grants(state, &draft.new, Some(&draft.old))?;
                CheckedChange::new(place, part, draft)?
            }
        };
        if place.converts() {
            change.keep(state, place).await?;
        }
        let written = state.write(|store| {
            let latest = place.current(store)?;
            Arc::ptr_eq(&latest, &current)
                .then(|| store_change(state, store, place, current, change))
                .transpose()
        })?;
        if let Some(written) = written {
            return Ok(written);
        }
    }
}

/// The same under the lock of the store: for writes by the test itself, which no schema checks.
pub(crate) fn update_now(
    state: &ServerState,
    store: &mut Store,
    place: &Place<'_>,
    part: Part,
    make: impl FnOnce(&Value) -> Result<Made, ApiError>,
) -> Result<Arc<Stored>, ApiError> {
    let current = place.current(store)?;
    let shown = place.show_now(&current);
    let change = CheckedChange::new(place, part, Draft::new(place, shown, make)?)?;
    store_change(state, store, place, current, change)
}

fn store_change(
    state: &ServerState,
    store: &mut Store,
    place: &Place<'_>,
    current: Arc<Stored>,
    change: CheckedChange,
) -> Result<Arc<Stored>, ApiError> {
    let CheckedChange {
        old,
        new,
        record,
        part,
        kept,
    } = change;
    let mut new = match kept {
        Some(kept) => kept,
        None => {
            let mut new = Value::Object(new);
            if let Some(manager) = place.manager.as_ref().filter(|_| record) {
                patch::track_update(place.kind, Some(&Value::Object(old.clone())), &mut new, manager);
            }
            place.keep_now(new)?
        }
    };
    // What the server sets has no manager.
    if place.is(definition::GROUP, definition::KIND) && part == Part::Object {
        definition::set_status(state, store, place.origin, &mut new);
    }
    if place.is_typed() && part == Part::Status {
        typed::time_phase(place.kind, &old, &mut new, &state.clock.timestamp());
    }
    if place.is_typed() && place.is("", "Service") {
        // A service that becomes a node port service needs ports.
        typed::allocate(place.stored_as, &mut new, store);
    }
    if is_gone(metadata_mut(&mut new)) && !is_held(place.kind, &new) {
        // The last finalizer of an object marked for deletion: the object is removed instead of stored. The response
        // is the object as it would have been, at its previous version.
        if !place.dry_run {
            store
                .remove(&place.collection(), &place.key())
                .ok_or_else(|| place.not_found())?;
        }
        return Ok(place.encoded(&new, current.revision));
    }
    // Writing an object of an earlier storage version stores it in the present one, even if nothing else changes.
    let same_version = !place.kind.custom || current.api_version() == place.version_of(&new);
    let same = if place.same_version() {
        unchanged(&old, &new)
    } else {
        unchanged(&into_map(place.kind, current.value())?, &new)
    };
    if same && same_version {
        return Ok(current);
    }
    if place.is(definition::GROUP, definition::KIND) && !place.dry_run {
        definition::serve(state, &new)?;
    }
    Ok(place.put(store, &new))
}

/// Whether the write changes nothing; then no revision is used and no event is sent.
fn unchanged(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let typed = |key: &str| matches!(key, "kind" | "apiVersion");
    old.keys()
        .chain(new.keys())
        .all(|key| typed(key) || same(old.get(key), new.get(key)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::super::Origin;
    use super::*;
    use crate::TestServer;
    use crate::builders::config_map;

    fn with_label(object: &Value, key: &str) -> Value {
        let mut object = object.clone();
        object["metadata"]["labels"][key] = json!("yes");
        object
    }

    /// Schemas evaluate regular expressions on the same path.
    #[tokio::test(start_paused = true)]
    async fn new_object_is_made_and_validated_without_a_lock() {
        let server = TestServer::new();
        server.create(config_map("shop", "settings"));
        let state = server.state();
        let kind = state.registry.read().resource("", "v1", "configmaps").unwrap();
        let place = Place {
            kind: &kind,
            stored_as: &kind,
            namespace: Some("shop"),
            name: "settings",
            origin: Origin::Client,
            conformant: false,
            dry_run: false,
            manager: None,
            webhooks: None,
            grantor: None,
            warnings: None,
        };

        let updated = update(state, &place, Part::Object, |current| {
            assert!(state.store.try_write().is_some(), "the store is locked");
            Ok(Made::Changed(with_label(current, "a")))
        })
        .await;

        assert_eq!(updated.unwrap().value()["metadata"]["labels"]["a"], "yes");
    }

    #[tokio::test(start_paused = true)]
    async fn update_is_repeated_on_the_latest_object_after_a_concurrent_write() {
        let server = TestServer::new();
        server.create(config_map("shop", "settings"));
        let state = server.state();
        let kind = state.registry.read().resource("", "v1", "configmaps").unwrap();
        let place = Place {
            kind: &kind,
            stored_as: &kind,
            namespace: Some("shop"),
            name: "settings",
            origin: Origin::Test,
            conformant: false,
            dry_run: false,
            manager: None,
            webhooks: None,
            grantor: None,
            warnings: None,
        };
        let attempts = Cell::new(0);

        let updated = update(state, &place, Part::Object, |current| {
            attempts.set(attempts.get() + 1);
            if attempts.get() == 1 {
                let concurrent = |store: &mut Store| {
                    update_now(state, store, &place, Part::Object, |object| {
                        Ok(Made::Changed(with_label(object, "other")))
                    })
                };
                state.write(concurrent)?;
            }
            Ok(Made::Changed(with_label(current, "mine")))
        })
        .await;

        assert_eq!(attempts.get(), 2);
        let labels = updated.unwrap().value()["metadata"]["labels"].clone();
        assert_eq!(labels, json!({ "mine": "yes", "other": "yes" }));
    }
}
