//! Conversion webhooks: what they receive, what clients see, and the errors of failed conversions.

use http::Method;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube_informers_e2e::Server;
use serde_json::{Value, json};

use crate::scenarios::endpoint::{Endpoint, Reply};
use crate::scenarios::support::{Outcome, frames, get, namespace, scenarios, send, unique, wait_for};

scenarios! {
    objects_are_converted_alike: Setup::own();
    failed_conversions_are_alike: Setup::own();
}

/// A kind with the versions v1, which is stored and has `spec.size`, and v2, which has `spec.replicas`.
fn definition(group: &str, endpoint: &Endpoint) -> Value {
    let schema = |field: &str| {
        json!({ "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                field: { "type": "integer" }, "color": { "type": "string", "default": "red" },
            } },
        } } })
    };
    let version = |name: &str, storage: bool, field: &str| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": schema(field),
            "selectableFields": [{ "jsonPath": format!(".spec.{field}") }],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [version("v1", true, "size"), version("v2", false, "replicas")],
            "conversion": { "strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{}/convert", endpoint.port), "caBundle": endpoint.authority,
                },
            } },
        },
    })
}

/// Converts the objects of a request by renaming the field. Objects of some names are converted wrongly.
fn convert(request: &Value) -> Reply {
    let to = request["desiredAPIVersion"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let mut objects = request["objects"].as_array().cloned().unwrap_or_default();
    let name = objects
        .first()
        .and_then(|object| object.pointer("/metadata/name")?.as_str())
        .unwrap_or_default()
        .to_owned();
    for object in &mut objects {
        let (from, field) = if to.ends_with("/v2") {
            ("size", "replicas")
        } else {
            ("replicas", "size")
        };
        if let Some(spec) = object["spec"].as_object_mut()
            && let Some(number) = spec.remove(from)
        {
            spec.insert(field.to_owned(), number);
        }
        object["apiVersion"] = json!(to);
        object["metadata"]["annotations"] = json!({ "converted-to": to });
        object["metadata"]["generateName"] = json!("ignored");
    }
    let success = json!({ "status": "Success" });
    let respond =
        |objects: Vec<Value>| Reply::Review(json!({ "convertedObjects": objects, "result": success }));
    let mut changed = |change: &dyn Fn(&mut Value)| {
        if let Some(object) = objects.first_mut() {
            change(object);
        }
        respond(objects.clone())
    };
    match name.as_str() {
        "fails" => Reply::Review(json!({ "result": { "status": "Failure", "message": "no conversion" } })),
        "silent" => Reply::Review(json!({ "result": { "status": "Failure" } })),
        "none" => respond(Vec::new()),
        "other-uid" => {
            Reply::Review(json!({ "uid": "other", "convertedObjects": objects, "result": success }))
        }
        "version" => changed(&|object| object["apiVersion"] = json!("example.com/v9")),
        "kind" => changed(&|object| object["kind"] = json!("Gadget")),
        "renamed" => changed(&|object| object["metadata"]["name"] = json!("else")),
        "moved" => changed(&|object| object["metadata"]["namespace"] = json!("else")),
        "reborn" => changed(&|object| object["metadata"]["uid"] = json!("else")),
        "bare" => changed(&|object| object["metadata"]["labels"] = json!("none")),
        "label" => changed(&|object| object["metadata"]["labels"] = json!({ "a b": "c" })),
        "number" => changed(&|object| object["metadata"]["annotations"] = json!({ "a": 1 })),
        "status" => Reply::Text(500, "boom"),
        "missing" => Reply::Text(404, "gone"),
        _ => respond(objects),
    }
}

struct Widgets {
    client: Client,
    group: String,
    namespace: String,
    endpoint: Endpoint,
}

impl Widgets {
    /// Defines the kind and waits until it is served.
    async fn define(server: &Server) -> Result<Widgets, Box<dyn std::error::Error + Send + Sync>> {
        let client = server.client()?;
        let endpoint = Endpoint::start(&["127.0.0.1"], |_, request| convert(request)).await;
        let group = format!("{}.example.com", unique("e2e"));
        let namespace = namespace(&client).await?.name;
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let created = send(&client, Method::POST, path, &definition(&group, &endpoint)).await?;
        assert_eq!(created.code, 201, "{}", created.text);
        let widgets = Widgets {
            client,
            group,
            namespace,
            endpoint,
        };
        for version in ["v1", "v2"] {
            wait_for("the kind is served", || async {
                let listed = get(&widgets.client, &widgets.path(version, "")).await.ok()?;
                (listed.code == 200).then_some(())
            })
            .await;
        }
        Ok(widgets)
    }

    fn path(&self, version: &str, name: &str) -> String {
        let Widgets { group, namespace, .. } = self;
        format!("/apis/{group}/{version}/namespaces/{namespace}/widgets{name}")
    }

    fn widget(&self, version: &str, name: &str, spec: Value) -> Value {
        json!({
            "apiVersion": format!("{}/{version}", self.group), "kind": "Widget", "metadata": { "name": name }, "spec": spec,
        })
    }

    async fn create(&self, version: &str, name: &str, spec: Value) -> Result<(u16, Value), kube::Error> {
        let widget = self.widget(version, name, spec);
        let created = send(&self.client, Method::POST, &self.path(version, ""), &widget).await?;
        Ok((created.code, created.json))
    }

    async fn spec(&self, version: &str, name: &str) -> Result<Value, kube::Error> {
        let found = get(&self.client, &self.path(version, &format!("/{name}"))).await?;
        assert_eq!(found.code, 200, "{}", found.text);
        assert_eq!(found.text_at("/apiVersion"), format!("{}/{version}", self.group));
        Ok(found.json["spec"].clone())
    }
}

async fn objects_are_converted_alike(server: &Server) -> Outcome {
    let widgets = Widgets::define(server).await?;
    widgets.endpoint.received.lock().clear();
    let (code, created) = widgets.create("v2", "cart", json!({ "replicas": 3 })).await?;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"], json!({ "replicas": 3, "color": "red" }));
    assert_eq!(created["metadata"].get("generateName"), None);
    let converted = created.pointer("/metadata/annotations/converted-to");
    assert_eq!(converted, Some(&json!(format!("{}/v2", widgets.group))));
    // Once to be stored, once to be shown.
    let received = std::mem::take(&mut *widgets.endpoint.received.lock());
    let reviews: Vec<&Value> = received.iter().map(|(_, _, review)| review).collect();
    assert!(reviews.len() >= 2, "{reviews:?}");
    let (path, content_type, first) = &received[0];
    assert_eq!(
        (path.as_str(), content_type.as_str()),
        ("/convert?timeout=30s", "application/json")
    );
    assert_eq!(
        (&first["kind"], &first["apiVersion"]),
        (&json!("ConversionReview"), &json!("apiextensions.k8s.io/v1"))
    );
    assert_eq!(
        first["response"],
        json!({ "uid": "", "convertedObjects": null, "result": { "metadata": {} } })
    );
    let request = &first["request"];
    assert_eq!(request["desiredAPIVersion"], format!("{}/v1", widgets.group));
    assert_eq!(request["objects"].as_array().map(Vec::len), Some(1));
    assert_eq!(request.pointer("/objects/0/spec/replicas"), Some(&json!(3)));
    assert_eq!(request.pointer("/objects/0/metadata/resourceVersion"), None);
    assert!(request.pointer("/objects/0/metadata/managedFields").is_some());
    assert!(reviews.iter().all(|review| {
        let objects = review.pointer("/request/objects").and_then(Value::as_array);
        objects.is_some_and(|objects| objects.len() == 1)
    }));

    assert_eq!(
        widgets.spec("v1", "cart").await?,
        json!({ "size": 3, "color": "red" })
    );
    assert_eq!(
        widgets.spec("v2", "cart").await?,
        json!({ "replicas": 3, "color": "red" })
    );
    let (code, _) = widgets.create("v1", "basket", json!({ "size": 5 })).await?;
    assert_eq!(code, 201);
    let listed = get(&widgets.client, &widgets.path("v2", "")).await?;
    assert_eq!(listed.names(), ["basket", "cart"]);
    assert_eq!(listed.json.pointer("/items/0/spec/replicas"), Some(&json!(5)));
    let selected = format!("{}?fieldSelector=spec.replicas%3D5", widgets.path("v2", ""));
    assert_eq!(get(&widgets.client, &selected).await?.names(), ["basket"]);

    // A watch of v2 delivers changes that are written in v1.
    let version = listed.text_at("/metadata/resourceVersion").to_owned();
    let mut changed = get(&widgets.client, &widgets.path("v1", "/basket")).await?.json;
    changed["spec"]["size"] = json!(6);
    let updated = send(
        &widgets.client,
        Method::PUT,
        &widgets.path("v1", "/basket"),
        &changed,
    )
    .await?;
    assert_eq!(updated.code, 200, "{}", updated.text);
    let deleted = send(
        &widgets.client,
        Method::DELETE,
        &widgets.path("v1", "/basket"),
        &Value::Null,
    )
    .await?;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
    let watch = format!(
        "{}?watch=true&timeoutSeconds=2&resourceVersion={version}",
        widgets.path("v2", "")
    );
    let events: Vec<(Value, Value)> = frames(&widgets.client, &watch)
        .await?
        .into_iter()
        .map(|event| (event["type"].clone(), event["object"]["spec"].clone()))
        .collect();
    let six = json!({ "replicas": 6, "color": "red" });
    assert_eq!(
        events,
        [(json!("MODIFIED"), six.clone()), (json!("DELETED"), six)]
    );

    let kind = GroupVersionKind::gvk(&widgets.group, "v2", "Widget");
    let resource = ApiResource::from_gvk_with_plural(&kind, "widgets");
    let api: Api<DynamicObject> = Api::namespaced_with(widgets.client.clone(), &widgets.namespace, &resource);
    let merge = Patch::Merge(json!({ "spec": { "replicas": 7 } }));
    let patched = api.patch("cart", &PatchParams::default(), &merge).await?;
    assert_eq!(patched.data["spec"], json!({ "replicas": 7, "color": "red" }));
    assert_eq!(patched.metadata.generation, Some(2));
    let applied = widgets.widget("v2", "cart", json!({ "replicas": 8 }));
    let params = PatchParams::apply("me").force();
    let applied = api.patch("cart", &params, &Patch::Apply(applied)).await?;
    assert_eq!(applied.data["spec"], json!({ "replicas": 8, "color": "red" }));
    let applied = widgets.widget("v2", "new", json!({ "replicas": 1 }));
    api.patch("new", &params, &Patch::Apply(applied)).await?;
    assert_eq!(
        widgets.spec("v1", "new").await?,
        json!({ "size": 1, "color": "red" })
    );
    assert_eq!(
        widgets.spec("v1", "cart").await?,
        json!({ "size": 8, "color": "red" })
    );
    Ok(())
}

async fn failed_conversions_are_alike(server: &Server) -> Outcome {
    let widgets = Widgets::define(server).await?;
    let group = &widgets.group;
    let namespace = &widgets.namespace;
    let for_kind = format!("conversion webhook for {group}/v2, Kind=Widget");
    let cases = [
        ("fails", "failed: no conversion".to_owned()),
        (
            "silent",
            "failed: response.result.status was 'Failure', not 'Success'".to_owned(),
        ),
        ("none", "returned 0 objects, expected 1".to_owned()),
        (
            "version",
            format!(
                "returned invalid object at index 0: invalid groupVersion (expected {group}/v1, received example.com/v9)"
            ),
        ),
        (
            "kind",
            "returned invalid object at index 0: invalid kind (expected Widget, received Gadget)".to_owned(),
        ),
        (
            "renamed",
            "returned invalid object: must have the same name: renamed != else".to_owned(),
        ),
        (
            "moved",
            format!("returned invalid object: must have the same namespace: {namespace} != else"),
        ),
        (
            "bare",
            "returned invalid metadata: invalid metadata.labels of type string in converted object".to_owned(),
        ),
        (
            "label",
            "returned invalid metadata: metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric \
             characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or \
             'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                .to_owned(),
        ),
        (
            "number",
            "returned invalid metadata: metadata.annotations[a] must be a string, but is int64 in converted object"
                .to_owned(),
        ),
        (
            "status",
            "failed: an error on the server (\"boom\") has prevented the request from succeeding".to_owned(),
        ),
        (
            "missing",
            "failed: the server could not find the requested resource".to_owned(),
        ),
    ];
    for (name, why) in cases {
        let (code, error) = widgets.create("v2", name, json!({ "replicas": 1 })).await?;
        let shown = (code, error["reason"].clone(), error["message"].clone());
        let message = format!("{for_kind} {why}");
        assert_eq!(shown, (500, Value::Null, json!(message)), "{name}");
    }
    for (name, start) in [
        ("other-uid", "failed: expected response.uid=\""),
        ("reborn", "returned invalid object: must have the same UID: "),
    ] {
        let (code, error) = widgets.create("v2", name, json!({})).await?;
        let message = error["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(code, 500);
        assert!(message.starts_with(&format!("{for_kind} {start}")), "{message}");
    }

    // What is stored in v1 can be read in v1, even if it cannot be converted.
    let (code, created) = widgets.create("v1", "fails", json!({ "size": 1 })).await?;
    assert_eq!(code, 201, "{created}");
    assert_eq!(
        widgets.spec("v1", "fails").await?,
        json!({ "size": 1, "color": "red" })
    );
    let found = get(&widgets.client, &widgets.path("v2", "/fails")).await?;
    let revision = created["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    let why = format!(
        "object not decodable revision={revision}: conversion webhook for {group}/v1, Kind=Widget failed: no conversion"
    );
    let message = format!(
        "Internal error occurred: StorageError: corrupt object, Code: 7, Key: /{group}/widgets/{namespace}/fails, \
         ResourceVersion: 0, AdditionalErrorMsg: {why}"
    );
    assert_eq!(found.status(), (500, "InternalError", message.as_str()));
    let patched = send(&widgets.client, Method::PUT, &widgets.path("v2", "/fails"), &{
        let mut widget = widgets.widget("v2", "fails", json!({ "replicas": 2 }));
        widget["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
        widget
    })
    .await?;
    assert_eq!(patched.status(), (500, "", why.as_str()));
    Ok(())
}
