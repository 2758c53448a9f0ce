//! Changes of an existing object: of the whole, or of its status.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Origin, Place, check_depth, definition, into_map};
use crate::admission::field_error::{FieldError, quote};
use crate::admission::immutable;
use crate::admission::metadata::{check, differs, has_generation, is_gone, metadata_mut, same, text};
use crate::kinds::structural;
use crate::patch;
use crate::server::state::ServerState;
use crate::storage::{Store, Stored, storage_key};
use crate::transport::request::parse_version;
use crate::transport::status::ApiError;

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything, or everything but the status where that is a subresource and a client writes.
    Object,
    /// The status alone.
    Status,
}

/// How a new object comes about.
#[derive(Debug)]
pub(crate) enum Made {
    /// By a replacement or a patch: the server records who changed what.
    Changed(Value),
    /// By server-side apply, which has recorded it already.
    Applied(Value),
}

/// Replaces an object by what `make` gives for the present one, both in the version asked for.
pub(crate) fn update(
    state: &ServerState,
    store: &mut Store,
    place: &Place<'_>,
    part: Part,
    make: impl FnOnce(&Value) -> Result<Made, ApiError>,
) -> Result<Arc<Stored>, ApiError> {
    let current = place.current(store)?;
    let shown = place.show(&current);
    let (new, record) = match make(&shown)? {
        Made::Changed(new) => (new, true),
        Made::Applied(new) => (new, false),
    };
    check_depth(&new)?;
    let old = into_map(place.kind, shown)?;
    let mut new = into_map(place.kind, new)?;
    if let Some(schema) = place.schema() {
        structural::settle(schema, &mut new);
    }
    check_identity(place, &old, &mut new)?;
    check_version(place, &old, &mut new)?;
    carry_over(place, part, &old, &mut new);
    let mut errors = check(place.kind, metadata_mut(&mut new));
    if place.is(definition::GROUP, definition::KIND) && part == Part::Object {
        definition::prepare(state, &mut new, Some(&old), &mut errors);
    }
    errors.extend(check_finalizers(&old, &mut new));
    if place.origin == Origin::Client {
        errors.extend(immutable::check(place.kind, &old, &mut new));
    }
    match (place.schema(), part) {
        (Some(schema), Part::Object) => errors.extend(structural::check(schema, &new)),
        (Some(schema), Part::Status) => errors.extend(structural::check_status(schema, &new)),
        (None, _) => {}
    }
    if !errors.is_empty() {
        return Err(place.invalid(place.name, &errors));
    }
    let mut new = Value::Object(new);
    if let Some(manager) = place.manager.as_ref().filter(|_| record) {
        patch::track_update(place.kind, Some(&Value::Object(old.clone())), &mut new, manager);
    }
    let mut new = place.keep(new)?;
    if is_gone(metadata_mut(&mut new)) {
        // The last finalizer of an object that waits for deletion: the write is not stored, the object goes. The
        // answer is the object as it would have been, at the version it had.
        if !place.dry_run {
            store
                .remove(&place.collection(), &place.key())
                .ok_or_else(|| place.not_found())?;
        }
        return Ok(place.encoded(&new, current.revision));
    }
    let same = if place.same_version() {
        unchanged(&old, &new)
    } else {
        unchanged(&into_map(place.kind, current.value())?, &new)
    };
    if same {
        return Ok(current);
    }
    if place.is(definition::GROUP, definition::KIND) && !place.dry_run {
        definition::serve(state, &new)?;
    }
    Ok(place.put(store, &new))
}

/// Name, namespace and uid of what is written must be those of what is there.
fn check_identity(
    place: &Place<'_>,
    old: &Map<String, Value>,
    new: &mut Map<String, Value>,
) -> Result<(), ApiError> {
    let metadata = metadata_mut(new);
    let name = text(metadata, "name");
    if name.is_empty() && place.origin == Origin::Client {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            place.name
        )));
    }
    if !name.is_empty() && name != place.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            place.name
        )));
    }
    let namespace = text(metadata, "namespace");
    if place.kind.namespaced && !namespace.is_empty() && Some(namespace) != place.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let uid = text(metadata, "uid");
    let current = old
        .get("metadata")
        .and_then(|metadata| metadata.get("uid"))
        .and_then(Value::as_str);
    if place.origin == Origin::Client && !uid.is_empty() && Some(uid) != current {
        let key = storage_key(place.namespace, place.name);
        return Err(ApiError::conflict_because(
            &place.kind.group,
            &place.kind.plural,
            place.name,
            format_args!(
                "StorageError: invalid object, Code: 4, Key: /registry/{}/{key}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                place.kind.plural,
                current.unwrap_or_default(),
            ),
        ));
    }
    Ok(())
}

/// Built-in kinds whose updates must give the version they are made of. Custom kinds all do.
const CONDITIONAL: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("certificates.k8s.io", "ClusterTrustBundle"),
    ("coordination.k8s.io", "Lease"),
    ("coordination.k8s.io", "LeaseCandidate"),
    ("node.k8s.io", "RuntimeClass"),
    ("policy", "PodDisruptionBudget"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIStorageCapacity"),
    ("storage.k8s.io", "VolumeAttachment"),
];

/// The optimistic lock: a version that is given must be the present one, and some kinds must give one.
fn check_version(
    place: &Place<'_>,
    old: &Map<String, Value>,
    new: &mut Map<String, Value>,
) -> Result<(), ApiError> {
    if place.origin == Origin::Test {
        return Ok(());
    }
    let current = old
        .get("metadata")
        .and_then(|metadata| metadata.get("resourceVersion"));
    let version = text(metadata_mut(new), "resourceVersion");
    if matches!(version, "" | "0") {
        let (group, kind) = (place.kind.group.as_str(), place.kind.kind.as_str());
        if !place.kind.custom && !CONDITIONAL.contains(&(group, kind)) {
            return Ok(());
        }
        let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        // The complaint names the resource where others name the kind; so does the real one.
        let plural = &place.kind.plural;
        return Err(ApiError::invalid(group, plural, place.name, &[error]));
    }
    parse_version(version).map_err(ApiError::unknown)?;
    if Some(version) == current.and_then(Value::as_str) {
        Ok(())
    } else {
        Err(ApiError::conflict(
            &place.kind.group,
            &place.kind.plural,
            place.name,
        ))
    }
}

/// Carries over what this write must not change, and counts the generation.
fn carry_over(place: &Place<'_>, part: Part, old: &Map<String, Value>, new: &mut Map<String, Value>) {
    let empty = Map::new();
    let current = old.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let client = place.origin == Origin::Client;
    if part == Part::Status {
        let status = new.remove("status");
        let managed = metadata_mut(new).remove("managedFields");
        *new = old.clone();
        set(new, "status", status);
        if let Some(managed) = managed {
            metadata_mut(new).insert("managedFields".to_owned(), managed);
        }
    } else if client && place.kind.has_status() {
        set(new, "status", old.get("status").cloned());
    }
    let metadata = metadata_mut(new);
    metadata.remove("selfLink");
    set(
        metadata,
        "resourceVersion",
        current.get("resourceVersion").cloned(),
    );
    for key in ["name", "namespace", "uid", "creationTimestamp"] {
        // A test may give another uid or creation time; a client may not.
        if client || text(metadata, key).is_empty() {
            set(metadata, key, current.get(key).cloned());
        }
    }
    if client {
        for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "generateName"] {
            set(metadata, key, current.get(key).cloned());
        }
    }
    let generation = current.get("generation").cloned();
    set(metadata, "generation", generation.clone());
    if has_generation(place.kind) {
        let generation = generation.as_ref().and_then(Value::as_i64).unwrap_or(1);
        let counted = i64::from(differs(place.kind, old, new));
        set(
            metadata_mut(new),
            "generation",
            Some((generation + counted).into()),
        );
    }
}

fn set(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(key.to_owned(), value),
        None => map.remove(key),
    };
}

/// Once an object waits for its deletion, finalizers may only go.
fn check_finalizers(old: &Map<String, Value>, new: &mut Map<String, Value>) -> Vec<FieldError> {
    let list = |metadata: &Map<String, Value>| -> Vec<String> {
        let finalizers = metadata.get("finalizers").and_then(Value::as_array);
        finalizers
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    };
    let Some(current) = old.get("metadata").and_then(Value::as_object) else {
        return Vec::new();
    };
    if current.get("deletionTimestamp").is_none_or(Value::is_null) {
        return Vec::new();
    }
    let before = list(current);
    let added: Vec<String> = list(metadata_mut(new))
        .into_iter()
        .filter(|name| !before.contains(name))
        .collect();
    if added.is_empty() {
        return Vec::new();
    }
    let added: Vec<String> = added.iter().map(|name| quote(name)).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    vec![FieldError::forbidden("metadata.finalizers", detail)]
}

/// Whether the write changes nothing; then no revision is spent and no event sent.
fn unchanged(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let typed = |key: &str| matches!(key, "kind" | "apiVersion");
    old.keys()
        .chain(new.keys())
        .all(|key| typed(key) || same(old.get(key), new.get(key)))
}
