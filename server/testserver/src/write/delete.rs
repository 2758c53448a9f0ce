//! Deletes an object: at once, or after its finalizers are removed.

use std::sync::Arc;

use jiff::Timestamp;
use kube_api_protocol::status::ApiError;
use serde_json::{Map, Value, json};

use super::finalizers::{CONTENTS, FOREGROUND, ORPHAN, is_held};
use super::{Origin, Place, definition, into_map};
use crate::admission::metadata::metadata_mut;
use crate::state::ServerState;
use crate::storage::{Store, Stored};

/// The propagation policy for owned objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) grace_period_seconds: Option<u64>,
    pub(crate) propagation: Option<Propagation>,
}

impl DeleteOptions {
    /// The options as webhooks see them.
    pub(super) fn shown(&self, dry_run: bool) -> Value {
        let mut shown = json!({ "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1" });
        if let Some(grace) = self.grace_period_seconds {
            shown["gracePeriodSeconds"] = grace.into();
        }
        if let Some(propagation) = self.propagation {
            shown["propagationPolicy"] = format!("{propagation:?}").into();
        }
        if let Some(uid) = &self.uid {
            shown["preconditions"]["uid"] = uid.as_str().into();
        }
        if let Some(version) = &self.resource_version {
            shown["preconditions"]["resourceVersion"] = version.as_str().into();
        }
        if dry_run {
            shown["dryRun"] = json!(["All"]);
        }
        shown
    }
}

/// The result of a deletion.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object was removed; its last state.
    Gone(Arc<Stored>),
    /// The object waits for its finalizers or its grace period.
    Marked(Arc<Stored>),
}

impl Deleted {
    pub(crate) fn object(&self) -> &Arc<Stored> {
        match self {
            Deleted::Gone(object) | Deleted::Marked(object) => object,
        }
    }
}

/// Deletes one object.
pub(crate) fn delete(
    state: &ServerState,
    store: &mut Store,
    place: &Place<'_>,
    options: &DeleteOptions,
) -> Result<Deleted, ApiError> {
    let current = place.current(store)?;
    check_preconditions(place, &current, options)?;
    let waits = current.meta.has_finalizers || options.propagation.is_some() || state.config.graceful_pods;
    if !waits
        && !place.dry_run
        && !place.is("", "Namespace")
        && !place.is(definition::GROUP, definition::KIND)
    {
        // The common case, without parsing the object.
        let gone = store
            .remove(&place.collection(), &place.key())
            .ok_or_else(|| place.not_found())?;
        return Ok(Deleted::Gone(gone));
    }
    let mut object = into_map(place.kind, current.value())?;
    if current.meta.deleting && is_held(place.kind, &object) {
        // Only the first deletion of a namespace changes it, until its contents are removed.
        return Ok(Deleted::Marked(current));
    }
    let terminates = place.is("", "Namespace") && !current.meta.deleting;
    let finalizers = wanted_finalizers(place, &mut object, options.propagation);
    let grace = grace_period(state, place, &object, options);
    if finalizers.is_empty() && grace.is_none() && !terminates {
        if place.dry_run {
            return Ok(Deleted::Gone(current));
        }
        let gone = store
            .remove(&place.collection(), &place.key())
            .ok_or_else(|| place.not_found())?;
        return Ok(Deleted::Gone(gone));
    }

    let metadata = metadata_mut(&mut object);
    let same_finalizers = metadata.get("finalizers") == Some(&json!(finalizers));
    let shortened = grace.filter(|grace| {
        let known = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_u64);
        current.meta.deleting && known.is_some_and(|known| *grace < known)
    });
    if current.meta.deleting && shortened.is_none() && (same_finalizers || finalizers.is_empty()) {
        return Ok(Deleted::Marked(current));
    }
    if !finalizers.is_empty() {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    if let Some(grace) = shortened {
        bring_forward(metadata, grace);
    } else if !current.meta.deleting {
        let grace = grace.unwrap_or(0);
        metadata.insert(
            "deletionTimestamp".to_owned(),
            state.clock.timestamp_in(grace).into(),
        );
        if !place.is("", "Namespace") {
            metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        }
        if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
            metadata.insert("generation".to_owned(), (generation + 1).into());
        }
    }
    if terminates {
        terminate(&mut object);
    }
    let marked = place.put(store, &object);
    if grace == Some(0) && finalizers.is_empty() && !place.dry_run {
        // A pod without grace period is still marked, and removed by a second write: watches deliver both.
        let gone = store
            .remove(&place.collection(), &place.key())
            .ok_or_else(|| place.not_found())?;
        return Ok(Deleted::Gone(gone));
    }
    Ok(Deleted::Marked(marked))
}

/// Shortens the grace period of a marked object, counted from the time of its deletion.
fn bring_forward(metadata: &mut Map<String, Value>, grace: u64) {
    let known = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_u64);
    let earlier = i64::try_from(known.unwrap_or(grace).saturating_sub(grace)).unwrap_or(0);
    let end = metadata.get("deletionTimestamp").and_then(Value::as_str);
    let end = end.and_then(|end| end.parse::<Timestamp>().ok());
    if let Some(end) =
        end.and_then(|end| Timestamp::from_second(end.as_second().saturating_sub(earlier)).ok())
    {
        metadata.insert("deletionTimestamp".to_owned(), end.to_string().into());
    }
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
}

pub(super) fn check_preconditions(
    place: &Place<'_>,
    current: &Stored,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    // This message names the kind where others name the resource, as on a real server.
    let conflict =
        |why: String| ApiError::conflict_because(&place.kind.group, &place.kind.kind, place.name, why);
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current.meta.uid) {
        return Err(conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
             deleted and then recreated",
            current.meta.uid
        )));
    }
    let version = current.revision.to_string();
    if let Some(asked) = options
        .resource_version
        .as_deref()
        .filter(|asked| *asked != version)
    {
        return Err(conflict(format!(
            "the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        )));
    }
    Ok(())
}

/// The finalizers of a marked object: its own, and those of the propagation policy.
///
/// Definitions always wait for their objects, which are removed right after.
fn wanted_finalizers(
    place: &Place<'_>,
    object: &mut Map<String, Value>,
    propagation: Option<Propagation>,
) -> Vec<String> {
    let list = metadata_mut(object).get("finalizers").and_then(Value::as_array);
    let mut finalizers: Vec<String> = list
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let kept: &[&str] = match propagation {
        None => &[FOREGROUND, ORPHAN],
        Some(Propagation::Background) => &[],
        Some(Propagation::Foreground) => &[FOREGROUND],
        Some(Propagation::Orphan) => &[ORPHAN],
    };
    finalizers.retain(|name| !matches!(name.as_str(), FOREGROUND | ORPHAN) || kept.contains(&name.as_str()));
    let added = match propagation {
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
        _ => None,
    };
    if let Some(added) = added
        && !finalizers.iter().any(|name| name == added)
    {
        finalizers.push(added.to_owned());
    }
    if place.is(definition::GROUP, definition::KIND)
        && !finalizers.iter().any(|name| name == definition::CLEANUP)
    {
        finalizers.push(definition::CLEANUP.to_owned());
    }
    finalizers
}

/// Marks a namespace: it waits for its contents, which are removed right after.
fn terminate(namespace: &mut Map<String, Value>) {
    let spec = namespace.entry("spec").or_insert_with(|| json!({}));
    if !spec.is_object() {
        *spec = json!({});
    }
    let finalizers = spec.get("finalizers").and_then(Value::as_array);
    let mut finalizers = finalizers.cloned().unwrap_or_default();
    if !finalizers.iter().any(|name| name == CONTENTS) {
        finalizers.push(CONTENTS.into());
    }
    spec["finalizers"] = finalizers.into();
    let status = namespace.entry("status").or_insert_with(|| json!({}));
    if !status.is_object() {
        *status = json!({});
    }
    status["phase"] = "Terminating".into();
}

/// The grace period of a pod: zero unless it is bound to a node. `None` for other kinds, and for pods unless graceful
/// deletion is enabled.
fn grace_period(
    state: &ServerState,
    place: &Place<'_>,
    object: &Map<String, Value>,
    options: &DeleteOptions,
) -> Option<u64> {
    if !state.config.graceful_pods || !place.is("", "Pod") || place.origin == Origin::Test {
        return None;
    }
    let at = |pointer: &[&str]| {
        let (first, rest) = pointer.split_first()?;
        rest.iter()
            .try_fold(object.get(*first)?, |value, key| value.get(*key))
    };
    let scheduled = at(&["spec", "nodeName"])
        .and_then(Value::as_str)
        .is_some_and(|node| !node.is_empty());
    let ended = matches!(
        at(&["status", "phase"]).and_then(Value::as_str),
        Some("Succeeded" | "Failed")
    );
    if !scheduled || ended {
        return Some(0);
    }
    let own = at(&["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_u64);
    Some(options.grace_period_seconds.or(own).unwrap_or(30))
}
