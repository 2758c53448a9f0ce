//! Conversion webhooks of custom resources: functions of the test, and endpoints of stored definitions.

use std::fmt;
use std::time::Duration;

use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::status::ApiError;
use serde_json::{Map, Value, json};

use super::send::{Unsent, send};
use crate::admission::metadata;
use crate::hooks::backend::{Backend, Remote};
use crate::kinds::{Conversion, Kind};
use crate::state::ServerState;

/// The timeout of a conversion, which definitions cannot set.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Converts an object of another version to that of a kind.
pub(crate) async fn convert(
    conversion: &Conversion,
    state: &ServerState,
    mut object: Value,
    to: &Kind,
) -> Result<Value, ApiError> {
    let version = metadata_of(&mut object).and_then(|metadata| metadata.remove("resourceVersion"));
    let mut converted = converted(conversion, state, object, to)
        .await
        .map_err(ApiError::unknown)?;
    if let Some(version) = version
        && let Some(metadata) = metadata_of(&mut converted)
    {
        metadata.insert("resourceVersion".to_owned(), version);
    }
    Ok(converted)
}

async fn converted(
    conversion: &Conversion,
    state: &ServerState,
    object: Value,
    to: &Kind,
) -> Result<Value, String> {
    let remote = Remote::parse(&conversion.client, &conversion.review_versions);
    let for_kind = format!("conversion webhook for {}", Shown::of(&object));
    let review_version = remote
        .versions
        .iter()
        .find(|version| matches!(version.as_str(), "v1" | "v1beta1"));
    let review_version = review_version.ok_or("no supported conversion review versions")?;
    let uid = state.new_audit_id();
    let review = json!({
        "kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{review_version}"),
        "request": { "uid": uid, "desiredAPIVersion": to.api_version(), "objects": [object] },
        "response": { "uid": "", "convertedObjects": null, "result": { "metadata": {} } },
    });
    let own = state.config.conversions.iter();
    let own = own.rev().find(|own| own.definition == conversion.definition);
    let remote = Backend::Remote(remote.clone());
    let backend = own.map_or(&remote, |own| &own.backend);
    let response = send(backend, state, review, TIMEOUT)
        .await
        .map_err(|unsent| match unsent {
            Unsent::NoClient(why) | Unsent::Failed(why) => format!("{for_kind} failed: {why}"),
        })?;
    let mut converted =
        verify(&uid, review_version, response).map_err(|why| format!("{for_kind} failed: {why}"))?;
    if converted.len() != 1 {
        let count = converted.len();
        return Err(format!("{for_kind} returned {count} objects, expected 1"));
    }
    let mut converted = converted.pop().unwrap_or_default();
    check(&object, &converted, to).map_err(|why| format!("{for_kind} returned invalid object{why}"))?;
    restore_metadata(object, &mut converted)
        .map_err(|why| format!("{for_kind} returned invalid metadata: {why}"))?;
    Ok(converted)
}

fn metadata_of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata").and_then(Value::as_object_mut)
}

/// The type of an object as Go prints it.
struct Shown<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl<'a> Shown<'a> {
    fn of(object: &'a Value) -> Shown<'a> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let (group, version) = text("apiVersion")
            .split_once('/')
            .unwrap_or(("", text("apiVersion")));
        Shown {
            group,
            version,
            kind: text("kind"),
        }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// The objects of a response, if it says that the conversion succeeded.
fn verify(uid: &str, review_version: &str, mut review: Value) -> Result<Vec<Value>, String> {
    // Older reviews need not repeat the uid and their type.
    if review_version == "v1" {
        let shown = Shown::of(&review);
        if (shown.group, shown.version, shown.kind) != ("apiextensions.k8s.io", "v1", "ConversionReview") {
            return Err(format!(
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {shown}"
            ));
        }
    }
    let response = match review.get_mut("response").map(Value::take) {
        Some(Value::Object(response)) => response,
        _ => return Err("no response provided".to_owned()),
    };
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let given = text(response.get("uid"));
    if review_version == "v1" && given != uid {
        return Err(format!("expected response.uid={uid:?}, got {given:?}"));
    }
    let result = response.get("result").unwrap_or(&Value::Null);
    let status = text(result.get("status"));
    if status != "Success" {
        return Err(match text(result.get("message")) {
            message if message.is_empty() => format!("response.result.status was '{status}', not 'Success'"),
            message => message,
        });
    }
    match response.get("convertedObjects") {
        Some(Value::Array(objects)) => Ok(objects.clone()),
        _ => Ok(Vec::new()),
    }
}

/// Checks that an object is the same one in the right version.
fn check(original: &Value, converted: &Value, to: &Kind) -> Result<(), String> {
    let shown = Shown::of(converted);
    if (shown.group, shown.version) != (to.group.as_str(), to.version.as_str()) {
        let received = converted["apiVersion"].as_str().unwrap_or_default();
        return Err(format!(
            " at index 0: invalid groupVersion (expected {}, received {received})",
            to.api_version()
        ));
    }
    if shown.kind != original["kind"].as_str().unwrap_or_default() {
        return Err(format!(
            " at index 0: invalid kind (expected {}, received {})",
            to.kind, shown.kind
        ));
    }
    let text = |object: &Value, field: &str| {
        let value = object.pointer(&format!("/metadata/{field}"));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    for (field, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, actual) = (text(original, field), text(converted, field));
        if expected != actual {
            return Err(format!(": must have the same {name}: {expected} != {actual}"));
        }
    }
    Ok(())
}

/// The name of a type in Go, for errors.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Gives a converted object the metadata of the original, except for labels and annotations.
fn restore_metadata(mut original: Value, converted: &mut Value) -> Result<(), String> {
    let Some(object) = converted.as_object_mut() else {
        return Ok(());
    };
    let returned = match object.remove("metadata") {
        Some(Value::Object(returned)) => returned,
        Some(other) => {
            return Err(format!(
                "invalid metadata of type {} in converted object",
                go_type(&other)
            ));
        }
        None => return Err("missing metadata in converted object".to_owned()),
    };
    let mut kept = match original.get_mut("metadata").map(Value::take) {
        Some(Value::Object(kept)) => kept,
        _ => Map::new(),
    };
    for field in ["labels", "annotations"] {
        let before = kept.remove(field);
        let Some(given) = returned.get(field).filter(|given| !given.is_null()) else {
            continue;
        };
        let Some(entries) = given.as_object() else {
            return Err(format!(
                "invalid metadata.{field} of type {} in converted object",
                go_type(given)
            ));
        };
        if let Some((key, value)) = entries.iter().find(|(_, value)| !value.is_string()) {
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {} in converted object",
                go_type(value)
            ));
        }
        if before.as_ref() != Some(given) {
            let errors = match field {
                "labels" => metadata::check_labels("metadata.labels", entries),
                _ => metadata::check_annotations("metadata.annotation", entries),
            };
            let errors: Vec<String> = errors.iter().map(FieldError::to_string).collect();
            match errors.as_slice() {
                [] => {}
                [one] => return Err(one.clone()),
                several => return Err(format!("[{}]", several.join(", "))),
            }
        }
        kept.insert(field.to_owned(), given.clone());
    }
    object.insert("metadata".to_owned(), Value::Object(kept));
    Ok(())
}
