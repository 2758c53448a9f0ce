//! A change of an existing object, before it is stored: decoded, completed with what it must not change, and validated. Nothing
//! here reads or locks the store.

use kube_api_protocol::field_error::{FieldError, quote};
use kube_api_protocol::request::parse_version;
use kube_api_protocol::status::ApiError;
use serde_json::{Map, Value};

use super::{Origin, Place, check_decodes, check_depth, definition, into_map};
use crate::admission::immutable;
use crate::admission::metadata::{check, check_types, differs, has_generation, metadata_mut, text};
use crate::kinds::{Kind, structural};
use crate::patch;
use crate::state::ServerState;
use crate::storage::storage_key;
use crate::typed;

/// The part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything, or everything but the status if that is a subresource and a client writes.
    Object,
    /// The status alone.
    Status,
    /// The ephemeral containers of a pod.
    EphemeralContainers,
}

/// How the new object was produced.
#[derive(Debug)]
pub(crate) enum Made {
    /// By a replacement: managed fields are still to be recorded.
    Changed(Value),
    /// By a patch: the same, but the identity of the object is validated like any other field.
    Patched(Value),
    /// By server-side apply, which has recorded managed fields already.
    Applied(Value),
}

/// A change of an object, decoded and completed with defaults, but not validated. Both states are in the requested version.
pub(super) struct Draft {
    pub(super) old: Map<String, Value>,
    pub(super) new: Map<String, Value>,
    /// Whether the manager of the change is still to be recorded.
    pub(super) record: bool,
}

impl Draft {
    pub(super) fn new(
        place: &Place<'_>,
        shown: Value,
        make: impl FnOnce(&Value) -> Result<Made, ApiError>,
    ) -> Result<Draft, ApiError> {
        let (new, record, patched) = match make(&shown)? {
            Made::Changed(new) => (new, true, false),
            Made::Patched(new) => (new, true, true),
            Made::Applied(new) => (new, false, false),
        };
        let old = into_map(place.kind, shown)?;
        let mut new = Draft::decode(place, new)?;
        check_identity(place, &old, &mut new, patched)?;
        Ok(Draft { old, new, record })
    }

    /// Decodes a new state and sets its defaults.
    pub(super) fn decode(place: &Place<'_>, new: Value) -> Result<Map<String, Value>, ApiError> {
        check_depth(&new)?;
        let mut new = into_map(place.kind, new)?;
        if place.origin == Origin::Client {
            check_types(place.kind, &new)?;
        }
        if place.is_typed() {
            check_decodes(place.kind, &new)?;
            typed::normalize(place.kind, &mut new);
            typed::complete_update(place.kind, &mut new);
        }
        if place.is_typed() || place.is("", "Secret") {
            typed::set_defaults(place.kind, &mut new);
        }
        if let Some((schema, _)) = place.schema() {
            structural::settle(schema, &mut new);
        }
        Ok(new)
    }

    /// Records the manager of the change, so that what webhooks change later has no manager.
    ///
    /// Ephemeral containers: a real server records the fields that the client sent, also those that it then drops.
    pub(super) fn track(&mut self, place: &Place<'_>, part: Part) {
        let Some(manager) = place.manager.as_ref().filter(|_| self.record) else {
            return;
        };
        let mut new = self.new.clone();
        if part != Part::EphemeralContainers {
            carry_over(place, part, &self.old, &mut new);
        }
        let (old, mut new) = (Value::Object(self.old.clone()), Value::Object(new));
        patch::track_update(place.kind, Some(&old), &mut new, manager);
        let managed = new.pointer("/metadata/managedFields").cloned();
        set(metadata_mut(&mut self.new), "managedFields", managed);
        self.record = false;
    }
}

/// A valid change of an object, and whether its manager is still to be recorded.
pub(super) struct CheckedChange {
    pub(super) old: Map<String, Value>,
    pub(super) new: Map<String, Value>,
    pub(super) record: bool,
    pub(super) part: Part,
    /// The new state in the storage version, if a webhook has converted it.
    pub(super) kept: Option<Map<String, Value>>,
}

impl CheckedChange {
    pub(super) fn new(place: &Place<'_>, part: Part, mut draft: Draft) -> Result<CheckedChange, ApiError> {
        if part == Part::EphemeralContainers {
            draft.track(place, part);
        }
        let Draft { old, mut new, record } = draft;
        check_version(place, &old, &mut new)?;
        carry_over(place, part, &old, &mut new);
        if place.is_typed() && part == Part::Object {
            typed::count_templates(place.kind, &old, &mut new);
        }
        let mut errors = check(place.kind, metadata_mut(&mut new));
        if place.is(definition::GROUP, definition::KIND) && part == Part::Object {
            errors.extend(definition::validate(&mut new, Some(&old)));
        }
        errors.extend(check_finalizers(&old, &mut new));
        if place.origin == Origin::Client {
            errors.extend(immutable::check(place.kind, &old, &mut new));
        }
        if place.is_typed() && part == Part::EphemeralContainers {
            errors.extend(typed::validate(place.kind, &new));
            errors.extend(typed::check_ephemeral_containers(&old, &new));
        }
        if place.is_typed() && part == Part::Object {
            let mut changed = typed::check_update(place.kind, &old, &new);
            let invalid = typed::validate(place.kind, &new);
            if place.is("apps", "DaemonSet") {
                // The only workload whose immutable fields are checked first.
                errors.append(&mut changed);
            }
            errors.extend(invalid);
            errors.append(&mut changed);
        }
        match (place.schema(), part) {
            (Some((schema, patterns)), Part::Object) => {
                errors.extend(structural::check(schema, patterns, &new));
            }
            (Some((schema, patterns)), Part::Status) => {
                errors.extend(structural::check_status(schema, patterns, &new));
            }
            _ => {}
        }
        if let Some((schema, _)) = place.schema() {
            let violations = place.kind.rules().check(schema, &new, Some(&old), &errors);
            place.warn(violations.kept.iter().map(ToString::to_string));
            errors.extend(violations.errors);
        }
        if !errors.is_empty() {
            return Err(place.invalid(place.name, &errors));
        }
        if place.is_typed() && part == Part::Object {
            place.warn(typed::warnings(place.kind, &new));
        }
        Ok(CheckedChange {
            old,
            new,
            record,
            part,
            kept: None,
        })
    }

    /// Records the manager of the change, and has a webhook convert the new state.
    pub(super) async fn keep(&mut self, state: &ServerState, place: &Place<'_>) -> Result<(), ApiError> {
        let mut new = Value::Object(self.new.clone());
        if let Some(manager) = place.manager.as_ref().filter(|_| self.record) {
            let old = Value::Object(self.old.clone());
            patch::track_update(place.kind, Some(&old), &mut new, manager);
        }
        self.kept = Some(place.keep(state, new).await?);
        Ok(())
    }
}

/// Name, namespace and uid must match the current object.
fn check_identity(
    place: &Place<'_>,
    old: &Map<String, Value>,
    new: &mut Map<String, Value>,
    patched: bool,
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
        if patched {
            let error = FieldError::invalid("metadata.uid", uid, "field is immutable");
            return Err(place.invalid(place.name, &[error]));
        }
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

/// Built-in kinds whose updates require a resource version. All custom kinds do.
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

/// The optimistic lock: a given version must be the current one, and some kinds require a version.
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
        // This error names the resource instead of the kind, as in a real server.
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

/// Carries over the fields that this write must not change, and increments the generation.
fn carry_over(place: &Place<'_>, part: Part, old: &Map<String, Value>, new: &mut Map<String, Value>) {
    let empty = Map::new();
    let current = old.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let client = place.origin == Origin::Client;
    if part == Part::Status {
        let status = new.remove("status");
        let sent = std::mem::take(metadata_mut(new));
        *new = old.clone();
        set(new, "status", status);
        for key in with_status(place.kind) {
            set(metadata_mut(new), key, sent.get(*key).cloned());
        }
    } else if part == Part::EphemeralContainers {
        let containers = new
            .get_mut("spec")
            .and_then(|spec| spec.get_mut("ephemeralContainers"));
        let containers = containers.map(Value::take);
        let managed = metadata_mut(new).remove("managedFields");
        *new = old.clone();
        set(metadata_mut(new), "managedFields", managed);
        if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
            set(spec, "ephemeralContainers", containers);
        }
    } else if client && place.kind.has_status() {
        set(new, "status", old.get("status").cloned());
    }
    let finalizes = place
        .manager
        .as_ref()
        .is_some_and(|manager| manager.subresource == "finalize");
    if client && place.is("", "Namespace") && !finalizes {
        // Only the subresource changes what a namespace waits for.
        set(new, "spec", old.get("spec").cloned());
    }
    let metadata = metadata_mut(new);
    metadata.remove("selfLink");
    set(
        metadata,
        "resourceVersion",
        current.get("resourceVersion").cloned(),
    );
    for key in ["name", "namespace", "uid", "creationTimestamp"] {
        // A test may change the uid and creation time; a client may not.
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
        // A write of the status may change annotations, which count elsewhere.
        let counted = i64::from(part != Part::Status && differs(place.kind, old, new));
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

/// Built-in kinds whose status is written without any change of the metadata, as with custom kinds.
const STATUS_ALONE: &[&str] = &[
    "CustomResourceDefinition",
    "CSINode",
    "DeviceTaintRule",
    "PodCertificateRequest",
    "ResourceClaim",
    "ServiceCIDR",
    "StorageVersionMigration",
    "ValidatingAdmissionPolicy",
    "VolumeAttachment",
];

/// The metadata that a write of the status may change.
fn with_status(kind: &Kind) -> &'static [&'static str] {
    match kind.kind.as_str() {
        _ if kind.custom => &["managedFields"],
        name if STATUS_ALONE.contains(&name) => &["managedFields"],
        "Deployment" => &["managedFields", "annotations", "finalizers", "ownerReferences"],
        "Pod" => &["managedFields", "annotations", "finalizers", "labels"],
        _ => &[
            "managedFields",
            "annotations",
            "finalizers",
            "labels",
            "ownerReferences",
        ],
    }
}

/// Finalizers of an object marked for deletion can only be removed.
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
