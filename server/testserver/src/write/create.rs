//! Creates an object.

use std::sync::Arc;

use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::status::ApiError;
use serde_json::{Map, Value, json};

use super::{Origin, Place, check_decodes, check_depth, definition, into_map};
use crate::admission::metadata::{check, check_types, has_generation, metadata_mut, text};
use crate::kinds::{Kind, structural};
use crate::patch;
use crate::state::ServerState;
use crate::storage::{Store, Stored, storage_key};
use crate::typed;

/// The maximum length of a `generateName` before the random suffix.
const GENERATED_BASE: usize = 58;
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";

/// An object to create, validated as far as possible without the store.
#[derive(Debug)]
pub(crate) struct NewObject {
    object: Map<String, Value>,
    /// Errors from the definition or the schema.
    errors: Vec<FieldError>,
    /// The paths of the lists that were sent empty.
    empty_lists: Vec<String>,
}

impl NewObject {
    /// Validates an object. Schemas evaluate regular expressions, so this must run outside the lock of the store.
    pub(crate) fn check(place: &Place<'_>, object: Value) -> Result<NewObject, ApiError> {
        check_depth(&object)?;
        let mut object = into_map(place.kind, object)?;
        if place.origin == Origin::Client {
            check_types(place.kind, &object)?;
        }
        if place.is_typed() {
            check_decodes(place.kind, &object)?;
        }
        let mut empty_lists = Vec::new();
        if place.is_completed() {
            find_empty_lists(&object, "", &mut empty_lists);
            typed::normalize(place.kind, &mut object);
        }
        if place.is_typed()
            && place.kind.group == "admissionregistration.k8s.io"
            && let Some(webhooks) = object.get("webhooks")
        {
            typed::webhooks::compile_conditions(webhooks);
        }
        let mut errors = Vec::new();
        if place.is(definition::GROUP, definition::KIND) {
            errors = definition::validate(&mut object, None);
        }
        if let Some((schema, patterns)) = place.schema() {
            structural::settle(schema, &mut object);
            let mut checked = object.clone();
            if place.kind.has_status() {
                checked.remove("status");
            }
            errors.extend(structural::check(schema, patterns, &checked));
            errors.extend(place.kind.rules().check(schema, &checked, None, &errors).errors);
        }
        Ok(NewObject {
            object,
            errors,
            empty_lists,
        })
    }

    /// Rejects an object that grants permissions which its writer does not have.
    pub(super) fn check_grants(&self, state: &ServerState, place: &Place<'_>) -> Result<(), ApiError> {
        // Defaults are set later, and the default group of a role is the only one.
        place.check_grants(state, &self.object, None)
    }

    /// The object as mutating webhooks see it: with defaults and managed fields, whether it is valid or not.
    pub(super) fn for_review(
        self,
        state: &ServerState,
        store: &Store,
        place: &Place<'_>,
    ) -> Result<Value, ApiError> {
        let mut object = self.object;
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ] {
            metadata_mut(&mut object).remove(field);
        }
        let namespace = settle_namespace(place, metadata_mut(&mut object))?;
        let name = text(metadata_mut(&mut object), "name").to_owned();
        if state.config.require_namespaces {
            require_namespace(store, place, namespace.as_deref(), &name)?;
        }
        if place.is_completed() || place.is("", "Namespace") || place.is("", "Secret") {
            typed::set_defaults(place.kind, &mut object);
        }
        if place.kind.has_status() {
            object.remove("status");
        }
        Ok(track(place, object, &self.empty_lists))
    }
}

/// Creates an object. The name comes from the object (or `generateName`), not from the place.
pub(crate) fn create(
    state: &ServerState,
    store: &mut Store,
    place: &Place<'_>,
    new: NewObject,
) -> Result<Arc<Stored>, ApiError> {
    let mut valid = validate_new(state, store, place, new)?;
    valid.check_free(store, place)?;
    let object = place.keep_now(valid.complete(state, place))?;
    let object = begin(state, store, place, object);
    store_new(state, store, place, &object)
}

/// A valid object with its name.
#[derive(Debug)]
pub(super) struct ValidObject {
    object: Map<String, Value>,
    empty_lists: Vec<String>,
    pub(super) name: String,
    key: String,
    /// Whether the server has generated the name.
    pub(super) generated: bool,
}

/// Names an object, sets its defaults and validates it.
pub(super) fn validate_new(
    state: &ServerState,
    store: &Store,
    place: &Place<'_>,
    new: NewObject,
) -> Result<ValidObject, ApiError> {
    let NewObject {
        mut object,
        errors: rejected,
        empty_lists,
    } = new;
    let collection = place.collection();
    if place.origin == Origin::Client {
        // The storage checks the version, and a dry run does not reach it.
        if !place.dry_run && !matches!(text(metadata_mut(&mut object), "resourceVersion"), "" | "0") {
            return Err(ApiError::unknown(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if place.kind.has_status() {
            object.remove("status");
        }
    }
    let namespace = settle_namespace(place, metadata_mut(&mut object))?;
    let generated = text(metadata_mut(&mut object), "name").is_empty();
    settle_name(
        state,
        store,
        &collection,
        namespace.as_deref(),
        metadata_mut(&mut object),
    );
    let mut errors = check(place.kind, metadata_mut(&mut object));
    let name = text(metadata_mut(&mut object), "name").to_owned();
    errors.extend(rejected);
    if place.is_completed() || place.is("", "Namespace") || place.is("", "Secret") {
        typed::set_defaults(place.kind, &mut object);
    }
    if place.is_typed() {
        let completed = typed::to_validate(place.kind, &object, || state.new_uid());
        errors.extend(typed::validate(place.kind, completed.as_ref().unwrap_or(&object)));
        errors.extend(typed::validate_new(place.kind, &object));
        if place.kind.has_status() {
            // Its defaults are set when the object is stored.
            object.remove("status");
        }
    }
    if !errors.is_empty() {
        return Err(place.invalid(&name, &errors));
    }
    if place.is_typed() {
        place.warn(typed::warnings(place.kind, &object));
    }
    if state.config.require_namespaces && place.origin == Origin::Client {
        require_namespace(store, place, namespace.as_deref(), &name)?;
    }
    let key = storage_key(namespace.as_deref(), &name);
    Ok(ValidObject {
        object,
        empty_lists,
        name,
        key,
        generated,
    })
}

impl ValidObject {
    /// Whether the name is free.
    pub(super) fn check_free(&self, store: &Store, place: &Place<'_>) -> Result<(), ApiError> {
        let taken = store
            .collection(&place.collection())
            .is_some_and(|objects| objects.get(&self.key).is_some());
        if taken {
            let (group, plural) = (&place.kind.group, &place.kind.plural);
            return Err(ApiError::already_exists(group, plural, &self.name));
        }
        Ok(())
    }

    /// Takes the object out, with the fields that only the server sets.
    pub(super) fn complete(&mut self, state: &ServerState, place: &Place<'_>) -> Value {
        let mut object = std::mem::take(&mut self.object);
        own_fields(state, place, &mut object);
        track(place, object, &self.empty_lists)
    }
}

/// The paths of the empty lists in an object, but not of those inside other lists.
fn find_empty_lists(object: &Map<String, Value>, path: &str, found: &mut Vec<String>) {
    for (name, value) in object {
        let path = || format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        match value {
            Value::Array(items) if items.is_empty() => found.push(path()),
            Value::Object(fields) => find_empty_lists(fields, &path(), found),
            _ => {}
        }
    }
}

/// Records the manager of a new object, if there is one.
fn track(place: &Place<'_>, mut object: Map<String, Value>, sent_empty: &[String]) -> Value {
    let empty_spec = object.get("spec").is_some_and(|spec| *spec == json!({}));
    if empty_spec {
        // An empty spec has no manager.
        object.remove("spec");
    }
    let mut object = Value::Object(object);
    if let Some(manager) = &place.manager {
        // Lists that are sent empty have a manager, also those that are stored as null.
        let is_null = |path: &&String| object.pointer(path) == Some(&Value::Null);
        let nulls: Vec<&String> = sent_empty.iter().filter(is_null).collect();
        set_all(&mut object, &nulls, &json!([]));
        patch::track_update(place.kind, None, &mut object, manager);
        set_all(&mut object, &nulls, &Value::Null);
    }
    if empty_spec {
        object["spec"] = json!({});
    }
    object
}

fn set_all(object: &mut Value, paths: &[&String], value: &Value) {
    for path in paths {
        if let Some(place) = object.pointer_mut(path) {
            *place = value.clone();
        }
    }
}

/// Stores a complete object under a free name.
pub(super) fn store_new(
    state: &ServerState,
    store: &mut Store,
    place: &Place<'_>,
    object: &Map<String, Value>,
) -> Result<Arc<Stored>, ApiError> {
    if place.is(definition::GROUP, definition::KIND) && !place.dry_run {
        definition::serve(state, object)?;
    }
    if place.dry_run {
        // An object that is not stored has no version.
        return Ok(place.encoded(object, 0));
    }
    Ok(place.put(store, object))
}

/// The namespace of the object: its own, that of the path, or `default` for a test's object without one.
fn settle_namespace(
    place: &Place<'_>,
    metadata: &mut Map<String, Value>,
) -> Result<Option<String>, ApiError> {
    let own = text(metadata, "namespace").to_owned();
    if !place.kind.namespaced {
        if !own.is_empty() && place.origin == Origin::Client {
            return Err(ApiError::bad_request(OTHER_NAMESPACE));
        }
        metadata.remove("namespace");
        return Ok(None);
    }
    let namespace = match place.namespace {
        Some(namespace) if !own.is_empty() && own != namespace => {
            return Err(ApiError::bad_request(OTHER_NAMESPACE));
        }
        Some(namespace) => namespace.to_owned(),
        None if own.is_empty() => "default".to_owned(),
        None => own,
    };
    metadata.insert("namespace".to_owned(), namespace.clone().into());
    Ok(Some(namespace))
}

/// Generates a free name from `generateName` if the object has no name.
fn settle_name(
    state: &ServerState,
    store: &Store,
    collection: &str,
    namespace: Option<&str>,
    metadata: &mut Map<String, Value>,
) {
    let base = text(metadata, "generateName");
    if !text(metadata, "name").is_empty() || base.is_empty() {
        return;
    }
    let base: String = base.chars().take(GENERATED_BASE).collect();
    loop {
        let name = format!("{base}{}", random_suffix(state));
        let key = storage_key(namespace, &name);
        if store
            .collection(collection)
            .is_none_or(|objects| objects.get(&key).is_none())
        {
            metadata.insert("name".to_owned(), name.into());
            return;
        }
    }
}

fn random_suffix(state: &ServerState) -> String {
    let mut rng = state.rng.lock();
    (0..5)
        .filter_map(|_| rng.choice(SUFFIX))
        .map(|&byte| char::from(byte))
        .collect()
}

/// Sets the fields that only the server may set. A test may set them, too.
fn own_fields(state: &ServerState, place: &Place<'_>, object: &mut Map<String, Value>) {
    let client = place.origin == Origin::Client;
    let metadata = metadata_mut(object);
    metadata.remove("resourceVersion");
    metadata.remove("selfLink");
    if client || text(metadata, "uid").is_empty() {
        metadata.insert("uid".to_owned(), state.new_uid().into());
    }
    if client || text(metadata, "creationTimestamp").is_empty() {
        metadata.insert("creationTimestamp".to_owned(), state.clock.timestamp().into());
    }
    if client {
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
    }
    if has_generation(place.kind) {
        if client || !metadata.get("generation").is_some_and(Value::is_number) {
            metadata.insert("generation".to_owned(), 1.into());
        }
    } else if client {
        metadata.remove("generation");
    }
}

/// Sets the fields of a new object that have no manager, after managed fields are recorded. The object is in its storage version.
pub(super) fn begin(
    state: &ServerState,
    store: &Store,
    place: &Place<'_>,
    mut new: Map<String, Value>,
) -> Map<String, Value> {
    let object = &mut new;
    if place.is(definition::GROUP, definition::KIND) {
        definition::set_status(state, store, place.origin, object);
    }
    if place.is_completed() {
        typed::allocate(place.stored_as, object, store);
    }
    if place.is("", "Namespace") {
        let spec = object.entry("spec").or_insert_with(|| json!({}));
        if !spec.is_object() {
            *spec = json!({});
        }
        if spec.get("finalizers").is_none() {
            spec["finalizers"] = json!(["kubernetes"]);
        }
        object
            .entry("status")
            .or_insert_with(|| json!({ "phase": "Active" }));
    }
    if place.origin == Origin::Client
        && let Some(status) = typed::empty_parts(place.kind).get("status")
    {
        object.entry("status").or_insert_with(|| status.clone());
    }
    if place.is_completed() {
        typed::set_defaults(place.stored_as, object);
    }
    if place.is_typed() {
        typed::time_phase(place.stored_as, &Map::new(), object, &state.clock.timestamp());
    }
    if place.is("", "Pod") {
        let quality = quality_of_service(object);
        let status = object.entry("status").or_insert_with(|| json!({}));
        if let Some(status) = status.as_object_mut() {
            status.entry("phase").or_insert_with(|| json!("Pending"));
            status.entry("qosClass").or_insert_with(|| json!(quality));
        }
    }
    new
}

/// The QoS class of a pod, from the resources of its containers.
fn quality_of_service(pod: &Map<String, Value>) -> &'static str {
    let containers = |key: &str| pod.get("spec").and_then(|spec| spec.get(key)?.as_array());
    let all = ["containers", "initContainers"]
        .into_iter()
        .filter_map(containers)
        .flatten();
    let (mut asks, mut guaranteed) = (false, true);
    for container in all {
        let of = |kind: &str, name: &str| container.pointer(&format!("/resources/{kind}/{name}")).cloned();
        for name in ["cpu", "memory"] {
            let (limit, request) = (of("limits", name), of("requests", name));
            asks |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (asks, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn require_namespace(
    store: &Store,
    place: &Place<'_>,
    namespace: Option<&str>,
    name: &str,
) -> Result<(), ApiError> {
    let Some(namespace) = namespace else { return Ok(()) };
    match store
        .collection("namespaces")
        .and_then(|objects| objects.get(namespace))
    {
        None => Err(ApiError::not_found("", "namespaces", namespace)),
        Some(found) if found.meta.deleting => Err(terminating(place.kind, name, namespace)),
        Some(_) => Ok(()),
    }
}

/// 403 of a create in a namespace that is being deleted.
fn terminating(kind: &Kind, name: &str, namespace: &str) -> ApiError {
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = json!({
        "reason": "NamespaceTerminating",
        "message": format!("namespace {namespace} is being terminated"),
        "field": "metadata.namespace",
    });
    ApiError::forbidden_because(&kind.group, &kind.plural, name, &why).causes(vec![cause])
}
