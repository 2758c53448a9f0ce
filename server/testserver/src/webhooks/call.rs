//! Calls one webhook, and checks its response.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_api_protocol::status::ApiError;
use serde_json::{Map, Value};

use super::send::{Unsent, send};
use crate::hooks::Phase;
use crate::hooks::backend::{Backend, Remote};
use crate::hooks::hook::{Decider, DryRun, Hook};
use crate::hooks::request::{Admission, AdmissionRequest, Verdict};
use crate::state::ServerState;

/// Why a webhook has not decided.
#[derive(Debug)]
pub(super) enum Failure {
    /// It must not be called for this request. Its failure policy does not matter.
    Unsupported(ApiError),
    /// The call failed; the failure policy decides.
    Call(String),
}

/// Calls a webhook within its timeout.
pub(super) async fn call(
    state: &ServerState,
    hook: &Hook,
    phase: Phase,
    request: &AdmissionRequest,
) -> Result<Admission, Failure> {
    if request.dry_run {
        match hook.dry_run {
            DryRun::Supported => {}
            DryRun::Unknown => return Err(Failure::Call("Webhook SideEffects is nil".to_owned())),
            DryRun::Refused => {
                return Err(Failure::Unsupported(ApiError::bad_request(format!(
                    "admission webhook {:?} does not support dry run",
                    hook.name
                ))));
            }
        }
    }
    let review = match &hook.decider {
        Decider::Function(decide) => {
            let admission = decide(request);
            return match (phase, &admission.verdict) {
                (Phase::Validating, Verdict::Patch(_) | Verdict::Replace(_)) => {
                    Err(invalid("validating webhook may not return response.patch"))
                }
                _ => decodable(admission),
            };
        }
        Decider::Reviewer(backend) => {
            let mut review = request.to_review();
            if let Backend::Remote(remote) = backend {
                review["apiVersion"] = review_version(remote)?.into();
            }
            send(backend, state, review, hook.timeout)
                .await
                .map_err(|unsent| match unsent {
                    Unsent::NoClient(why) => Failure::Call(format!("could not get REST client: {why}")),
                    Unsent::Failed(why) => Failure::Call(format!("failed to call webhook: {why}")),
                })?
        }
    };
    let admission = decodable(verify(phase, &request.uid, &review).map_err(|why| invalid(&why))?)?;
    check_patch_type(&admission, &review)?;
    Ok(admission)
}

/// Only JSON patches are supported. An empty patch of another type has no effect.
fn check_patch_type(admission: &Admission, review: &Value) -> Result<(), Failure> {
    let patch_type = review.pointer("/response/patchType");
    match (&admission.verdict, patch_type) {
        (Verdict::Patch(patch), Some(Value::String(other))) if other != "JSONPatch" && patch != b"[]" => {
            Err(Failure::Call(format!("unsupported patch type {other:?}")))
        }
        _ => Ok(()),
    }
}

fn invalid(why: &str) -> Failure {
    Failure::Call(format!("received invalid webhook response: {why}"))
}

/// Checks that the patch of a decision is one.
fn decodable(admission: Admission) -> Result<Admission, Failure> {
    if let Verdict::Patch(patch) = &admission.verdict {
        let decoded = serde_json::from_slice::<json_patch::Patch>(patch);
        decoded.map_err(|error| {
            Failure::Call(format!("received undecodable patch in webhook response: {error}"))
        })?;
    }
    Ok(admission)
}

/// The first version of reviews that a webhook accepts and the server knows.
fn review_version(remote: &Remote) -> Result<&'static str, Failure> {
    if remote.versions.is_empty() {
        return Ok("admission.k8s.io/v1");
    }
    let known = remote.versions.iter().find_map(|version| match version.as_str() {
        "v1" => Some("admission.k8s.io/v1"),
        "v1beta1" => Some("admission.k8s.io/v1beta1"),
        _ => None,
    });
    known.ok_or_else(|| {
        let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        Failure::Call(format!("could not create admission objects: {why}"))
    })
}

/// Checks a response as a real server does, and returns its decision.
fn verify(phase: Phase, uid: &str, review: &Value) -> Result<Admission, String> {
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let Some(response) = review.get("response").filter(|response| response.is_object()) else {
        return Err("webhook response was absent".to_owned());
    };
    let (version, kind) = (text(review, "apiVersion"), text(review, "kind"));
    // Older reviews need not repeat the uid, nor say what their patch is.
    let older = version == "admission.k8s.io/v1beta1";
    let patch = text(response, "patch");
    let patch_type = response.get("patchType").filter(|value| !value.is_null());
    if !older {
        if text(response, "uid") != uid {
            return Err(format!(
                "expected response.uid={uid:?}, got {:?}",
                text(response, "uid")
            ));
        }
        if (version.as_str(), kind.as_str()) != ("admission.k8s.io/v1", "AdmissionReview") {
            let (group, version) = version.split_once('/').unwrap_or(("", &version));
            return Err(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {group}/{version}, Kind={kind}"
            ));
        }
        match (phase, patch.is_empty(), patch_type) {
            (Phase::Validating, false, _) => {
                return Err("validating webhook may not return response.patch".to_owned());
            }
            (Phase::Validating, true, Some(_)) => {
                return Err("validating webhook may not return response.patchType".to_owned());
            }
            (Phase::Mutating, false, None) => {
                return Err("webhook returned response.patch but not response.patchType".to_owned());
            }
            (Phase::Mutating, true, Some(_)) => {
                return Err("webhook returned response.patchType but not response.patch".to_owned());
            }
            (Phase::Mutating, false, Some(kind)) if kind == "" => {
                return Err("webhook returned invalid response.patchType of \"\"".to_owned());
            }
            _ => {}
        }
    }
    let allowed = response.get("allowed").and_then(Value::as_bool).unwrap_or(false);
    let warnings = response.get("warnings").and_then(Value::as_array);
    let verdict = if !allowed {
        let status = response.get("status").and_then(Value::as_object);
        Verdict::Deny(status.cloned().unwrap_or_else(Map::new))
    } else if patch.is_empty() || phase == Phase::Validating {
        Verdict::Allow
    } else {
        let decoded = STANDARD.decode(&patch);
        Verdict::Patch(decoded.map_err(|error| format!("response.patch is not base64: {error}"))?)
    };
    let warnings = warnings.into_iter().flatten().filter_map(Value::as_str);
    Ok(Admission {
        verdict,
        warnings: warnings.map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(phase: Phase, response: Value) -> Result<Verdict, String> {
        let review =
            json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response });
        verify(phase, "u1", &review).map(|admission| admission.verdict)
    }

    #[test]
    fn response_must_repeat_the_uid_and_the_kind() {
        let wrong = check(Phase::Mutating, json!({ "uid": "u2", "allowed": true }));
        assert_eq!(wrong.err().unwrap(), "expected response.uid=\"u1\", got \"u2\"");
        let other =
            json!({ "kind": "Pod", "apiVersion": "v1", "response": { "uid": "u1", "allowed": true } });
        assert_eq!(
            verify(Phase::Mutating, "u1", &other).err().unwrap(),
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /v1, Kind=Pod"
        );
        let absent = verify(Phase::Mutating, "u1", &json!({ "kind": "AdmissionReview" }));
        assert_eq!(absent.err().unwrap(), "webhook response was absent");
    }

    #[test]
    fn only_mutating_webhooks_return_patches_and_their_type() {
        let patch = STANDARD.encode("[]");
        let full = json!({ "uid": "u1", "allowed": true, "patch": patch, "patchType": "JSONPatch" });
        assert!(matches!(
            check(Phase::Mutating, full.clone()),
            Ok(Verdict::Patch(_))
        ));
        assert!(
            check(Phase::Validating, full)
                .err()
                .unwrap()
                .contains("may not return response.patch")
        );
        let untyped = json!({ "uid": "u1", "allowed": true, "patch": patch });
        assert!(
            check(Phase::Mutating, untyped)
                .err()
                .unwrap()
                .contains("but not response.patchType")
        );
        let unnamed = json!({ "uid": "u1", "allowed": true, "patch": patch, "patchType": "" });
        assert_eq!(
            check(Phase::Mutating, unnamed).err().unwrap(),
            "webhook returned invalid response.patchType of \"\""
        );
    }
}
