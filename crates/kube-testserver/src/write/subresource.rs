//! Subresources that are not a part of the object: scale and binding.

use std::sync::Arc;

use serde_json::{Value, json};

use super::update::Made;
use super::{Part, Place, update};
use crate::kinds::ScaleError;
use crate::server::state::ServerState;
use crate::storage::Stored;
use crate::transport::status::ApiError;

/// The Scale of an object.
pub(crate) fn read_scale(place: &Place<'_>, stored: &Stored) -> Result<Value, ApiError> {
    place
        .kind
        .read_scale(&place.show(stored))
        .ok_or_else(ApiError::no_such_resource)
}

/// Writes the number of replicas that `make` returns for the current Scale.
pub(crate) fn write_scale(
    state: &ServerState,
    place: &Place<'_>,
    make: impl Fn(&Value) -> Result<Value, ApiError>,
) -> Result<Value, ApiError> {
    let updated = update(state, place, Part::Object, |object| {
        let present = place
            .kind
            .read_scale(object)
            .ok_or_else(ApiError::no_such_resource)?;
        let scale = make(&present)?;
        let version = scale
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let mut object = object.clone();
        place
            .kind
            .write_scale(&mut object, &scale)
            .map_err(|error| match error {
                ScaleError::NotScalable => {
                    ApiError::internal("the object has no place for a number of replicas")
                }
                ScaleError::Invalid(error) => ApiError::invalid("autoscaling", "Scale", place.name, &[error]),
            })?;
        if !version.is_empty() {
            object["metadata"]["resourceVersion"] = version.into();
        }
        Ok(Made::Changed(object))
    })?;
    read_scale(place, &updated)
}

/// Binds a pod to a node, as the scheduler does.
pub(crate) fn bind(state: &ServerState, place: &Place<'_>, binding: &Value) -> Result<Arc<Stored>, ApiError> {
    let node = binding
        .pointer("/target/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if node.is_empty() {
        let error = crate::admission::field_error::FieldError::required("target.name", "");
        return Err(ApiError::invalid("", "Binding", place.name, &[error]));
    }
    update(state, place, Part::Object, |pod| {
        let bound = pod
            .pointer("/spec/nodeName")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !bound.is_empty() {
            return Err(ApiError::conflict_because(
                "",
                "pods/binding",
                place.name,
                format_args!("pod {} is already assigned to node \"{bound}\"", place.name),
            ));
        }
        let mut pod = pod.clone();
        if !pod["spec"].is_object() {
            pod["spec"] = json!({});
        }
        pod["spec"]["nodeName"] = node.as_str().into();
        Ok(Made::Changed(pod))
    })
}
