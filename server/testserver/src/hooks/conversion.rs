//! Conversion webhooks that run in the test process.

use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::{Value, json};

use super::backend::Backend;

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
    pub(crate) definition: String,
    pub(crate) backend: Backend,
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
