//! Conversion webhooks of custom resources: functions of the test, and endpoints of stored definitions.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::status::ApiError;
use serde_json::{Map, Value, json};

use super::backend::{Backend, Remote, Unsent};
use crate::admission::metadata;
use crate::kinds::Kind;
use crate::server::state::ServerState;

/// The timeout of a conversion, which definitions cannot set.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A conversion webhook that runs in the test process: a function that converts the objects of a custom resource between its
/// versions.
///
/// Add it with [`TestServerBuilder::conversion_webhook`](crate::TestServerBuilder::conversion_webhook). It is called in place of
/// the endpoint in the definition, if the definition has the strategy `Webhook`. Objects are stored in the storage version, and
/// converted when they are read or written in another one; what it returns is checked as on a real server.
///
/// Objects that the test writes itself, with [`TestServer::create`](crate::TestServer::create) and the like, are stored in the
/// version in which they are given, and converted when a client reads them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
/// use kube_testserver::{ConversionWebhook, TestServer};
/// use serde_json::json;
///
/// // `spec.size` of v1 is `spec.replicas` of v2.
/// let rename = ConversionWebhook::new("widgets.example.com", |mut widget, version| {
///     let (from, to) = if version == "example.com/v2" { ("size", "replicas") } else { ("replicas", "size") };
///     let spec = widget["spec"].as_object_mut().ok_or("spec is required")?;
///     if let Some(number) = spec.remove(from) {
///         spec.insert(to.to_owned(), number);
///     }
///     Ok(widget)
/// });
/// let server = TestServer::builder().conversion_webhook(rename).build();
/// let any = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
/// server.create(json!({
///     "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
///     "metadata": { "name": "widgets.example.com" },
///     "spec": {
///         "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
///         "versions": [
///             { "name": "v1", "served": true, "storage": true, "schema": any },
///             { "name": "v2", "served": true, "storage": false, "schema": any },
///         ],
///         "conversion": { "strategy": "Webhook", "webhook": {
///             "conversionReviewVersions": ["v1"], "clientConfig": { "url": "https://localhost/unused" },
///         } },
///     },
/// }));
/// server.create(json!({
///     "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "namespace": "shop", "name": "cart" },
///     "spec": { "size": 3 },
/// }));
///
/// let v2 = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v2", "Widget"));
/// let widgets: Api<DynamicObject> = Api::namespaced_with(server.client(), "shop", &v2);
/// assert_eq!(widgets.get("cart").await?.data["spec"], json!({ "replicas": 3 }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a webhook is called only after it is added to a server"]
pub struct ConversionWebhook {
    /// The name of the definition.
    definition: String,
    backend: Backend,
}

impl ConversionWebhook {
    /// A webhook for the definition of this name, such as `widgets.example.com`. The function receives an object and the
    /// `apiVersion` to convert it to, which it need not set; an error is reported to the client. It must not block.
    pub fn new<F>(definition: impl Into<String>, convert: F) -> ConversionWebhook
    where
        F: Fn(Value, &str) -> Result<Value, String> + Send + Sync + 'static,
    {
        let respond = move |review: Value| {
            let response = convert_review(&review, &convert);
            async move { response }.boxed()
        };
        ConversionWebhook {
            definition: definition.into(),
            backend: Backend::Reviews(Arc::new(respond)),
        }
    }

    /// A webhook that receives a `ConversionReview` as JSON and returns one, as an HTTP handler does: for the handler of an
    /// operator, without a socket.
    pub fn reviews<F, R>(definition: impl Into<String>, respond: F) -> ConversionWebhook
    where
        F: Fn(Value) -> R + Send + Sync + 'static,
        R: Future<Output = Value> + Send + 'static,
    {
        let respond = move |review: Value| respond(review).boxed();
        ConversionWebhook {
            definition: definition.into(),
            backend: Backend::Reviews(Arc::new(respond)),
        }
    }
}

/// Answers a review by a function that converts one object.
fn convert_review(review: &Value, convert: &impl Fn(Value, &str) -> Result<Value, String>) -> Value {
    let request = &review["request"];
    let version = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().into_iter().flatten();
    let converted: Result<Vec<Value>, String> = objects
        .map(|object| {
            let mut object = convert(object.clone(), version)?;
            if let Some(object) = object.as_object_mut() {
                object.insert("apiVersion".to_owned(), version.into());
            }
            Ok(object)
        })
        .collect();
    let (converted, result) = match converted {
        Ok(converted) => (converted, json!({ "status": "Success" })),
        Err(why) => (Vec::new(), json!({ "status": "Failure", "message": why })),
    };
    json!({
        "kind": review["kind"], "apiVersion": review["apiVersion"],
        "response": { "uid": request["uid"], "convertedObjects": converted, "result": result },
    })
}

/// How the objects of a definition are converted.
pub(crate) struct Conversion {
    /// Distinguishes the conversions of a definition before and after it is changed.
    pub(crate) id: u64,
    definition: String,
    remote: Remote,
}

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.definition, self.remote)
    }
}

impl Conversion {
    /// The conversion of a definition; `None` if versions differ in their name only.
    pub(crate) fn of(definition: &Value) -> Option<Conversion> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let conversion = definition.pointer("/spec/conversion")?;
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let webhook = &conversion["webhook"];
        let name = definition.pointer("/metadata/name").and_then(Value::as_str);
        Some(Conversion {
            id: LAST.fetch_add(1, Ordering::Relaxed),
            definition: name.unwrap_or_default().to_owned(),
            remote: Remote::parse(&webhook["clientConfig"], &webhook["conversionReviewVersions"]),
        })
    }

    /// Converts an object of another version to that of a kind.
    pub(crate) async fn convert(
        &self,
        state: &ServerState,
        mut object: Value,
        to: &Kind,
    ) -> Result<Value, ApiError> {
        let version = metadata_of(&mut object).and_then(|metadata| metadata.remove("resourceVersion"));
        let mut converted = self
            .converted(state, object, to)
            .await
            .map_err(ApiError::unknown)?;
        if let Some(version) = version
            && let Some(metadata) = metadata_of(&mut converted)
        {
            metadata.insert("resourceVersion".to_owned(), version);
        }
        Ok(converted)
    }

    async fn converted(&self, state: &ServerState, object: Value, to: &Kind) -> Result<Value, String> {
        let for_kind = format!("conversion webhook for {}", Shown::of(&object));
        let review_version = self
            .remote
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
        let own = own.rev().find(|own| own.definition == self.definition);
        let remote = Backend::Remote(self.remote.clone());
        let backend = own.map_or(&remote, |own| &own.backend);
        let response = backend
            .send(state, review, TIMEOUT)
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
