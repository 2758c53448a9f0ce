//! Subresources that are not a part of the object: scale and binding.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Response, StatusCode};
use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::status::ApiError;
use serde_json::{Value, json};

use super::change::Made;
use super::review::AUDIENCE;
use super::{Origin, Part, Place, update};
use crate::kinds::ScaleError;
use crate::patch::{self, PatchError};
use crate::read::Target;
use crate::response;
use crate::response::body::TestBody;
use crate::state::ServerState;
use crate::storage::Stored;

/// The Scale of an object.
async fn read_scale(state: &ServerState, place: &Place<'_>, stored: &Arc<Stored>) -> Result<Value, ApiError> {
    let shown = place.show(state, stored).await?;
    place
        .kind
        .read_scale(&shown)
        .ok_or_else(ApiError::no_such_resource)
}

/// Writes the number of replicas that `make` returns for the current Scale.
pub(crate) async fn write_scale(
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
    })
    .await?;
    read_scale(state, place, &updated).await
}

/// Applies a Scale: the number of replicas becomes a field of the manager.
pub(crate) async fn apply_scale(
    state: &ServerState,
    place: &Place<'_>,
    scale: &Value,
    force: bool,
) -> Result<Value, ApiError> {
    let Some(manager) = &place.manager else {
        return Err(ApiError::bad_request("an apply needs a field manager"));
    };
    let mut applied = json!({
        "apiVersion": place.kind.api_version(),
        "kind": place.kind.kind,
        "metadata": { "name": place.name, "namespace": place.namespace },
    });
    place
        .kind
        .write_scale(&mut applied, scale)
        .map_err(|error| match error {
            ScaleError::NotScalable => ApiError::internal("the object has no place for a number of replicas"),
            ScaleError::Invalid(error) => ApiError::invalid("autoscaling", "Scale", place.name, &[error]),
        })?;
    let updated = update(state, place, Part::Object, |object| {
        patch::apply(place.kind, Some(object), &applied, manager, force)
            .map(Made::Applied)
            .map_err(PatchError::into_status)
    })
    .await?;
    read_scale(state, place, &updated).await
}

/// The shortest lifetime of a token that may be requested, and the default, in seconds.
const TOKEN_LIFETIMES: (i64, i64) = (600, 3600);

/// Answers a TokenRequest for a service account. The token has the form of a JSON web token; it is not signed, because
/// nothing verifies it.
pub(crate) fn issue_token(
    state: &ServerState,
    account: &Stored,
    mut request: Value,
) -> Result<Value, ApiError> {
    let (shortest, usual) = TOKEN_LIFETIMES;
    let seconds = request
        .pointer("/spec/expirationSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(usual);
    if seconds < shortest {
        let error = FieldError::invalid(
            "spec.expirationSeconds",
            seconds,
            "may not specify a duration less than 10 minutes",
        );
        return Err(ApiError::invalid(
            "authentication.k8s.io",
            "TokenRequest",
            "",
            &[error],
        ));
    }
    let namespace = account.meta.namespace.as_deref().unwrap_or_default();
    let lifetime = u64::try_from(seconds).unwrap_or_default();
    if request.pointer("/spec/audiences").is_none_or(Value::is_null) {
        request["spec"]["audiences"] = json!([AUDIENCE]);
    }
    let claims = json!({
        "iss": AUDIENCE,
        "aud": request["spec"]["audiences"],
        "sub": format!("system:serviceaccount:{namespace}:{}", account.meta.name),
        "exp": state.clock.now().as_second().saturating_add(seconds),
        "jti": state.new_uid(),
    });
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let token = format!(
        "{}.{}.{}",
        part(json!({ "alg": "none", "typ": "JWT" })),
        part(claims),
        "test"
    );
    request["kind"] = json!("TokenRequest");
    request["apiVersion"] = json!("authentication.k8s.io/v1");
    request["metadata"] = json!({
        "name": account.meta.name, "namespace": namespace, "creationTimestamp": state.clock.timestamp(),
    });
    request["spec"]["expirationSeconds"] = seconds.into();
    request["status"] = json!({ "token": token, "expirationTimestamp": state.clock.timestamp_in(lifetime) });
    Ok(request)
}

/// Binds a pod to a node, as the scheduler does.
pub(crate) async fn bind(
    state: &ServerState,
    place: &Place<'_>,
    binding: &Value,
) -> Result<Arc<Stored>, ApiError> {
    let node = binding
        .pointer("/target/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if node.is_empty() {
        let error = FieldError::required("target.name", "");
        return Err(ApiError::invalid("", "Binding", place.name, &[error]));
    }
    // Only this subresource may set the node. Webhooks have decided on the binding, not on the pod.
    let place = &Place {
        conformant: false,
        webhooks: None,
        ..place.clone()
    };
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
    .await
}

/// `GET` of the scale of one object.
pub(crate) async fn get_scale(
    state: &ServerState,
    target: Target<'_>,
) -> Result<Response<TestBody>, ApiError> {
    let stored_as = state.registry.read().stored(target.kind);
    let place = Place {
        kind: target.kind,
        stored_as: &stored_as,
        namespace: target.namespace,
        name: target.name.unwrap_or_default(),
        origin: Origin::Client,
        conformant: false,
        dry_run: true,
        manager: None,
        webhooks: None,
        grantor: None,
        warnings: None,
    };
    let object = place.current(&state.store.read())?;
    Ok(response::json(
        StatusCode::OK,
        read_scale(state, &place, &object).await?.to_string(),
    ))
}
