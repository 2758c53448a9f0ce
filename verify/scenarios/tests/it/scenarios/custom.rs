//! Custom kinds: defined, used, removed and defined again.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube_informers::reflector::ReflectorState;
use kube_informers::{Informer, Scope};
use kube_informers_e2e::Server;
use serde_json::{Value, json};

use crate::scenarios::support::{
    Observed, Outcome, get, get_as, merge, namespace, scenarios, unique, wait_for,
};

scenarios! {
    custom_kind_is_watched_across_deletion_and_redefinition: Setup::shared();
    custom_kind_rejects_protobuf: Setup::shared();
    custom_object_is_pruned_defaulted_or_rejected_alike: Setup::shared();
    selectable_fields_of_a_custom_kind_can_be_selected: Setup::shared();
}

/// A kind in a unique group.
struct Widgets {
    client: Client,
    group: String,
    resource: ApiResource,
}

impl Widgets {
    fn new(client: &Client) -> Widgets {
        let group = format!("{}.example.com", unique("e2e"));
        let kind = GroupVersionKind::gvk(&group, "v1", "Widget");
        Widgets {
            client: client.clone(),
            resource: ApiResource::from_gvk_with_plural(&kind, "widgets"),
            group,
        }
    }

    fn definitions(&self) -> Api<CustomResourceDefinition> {
        Api::all(self.client.clone())
    }

    fn name(&self) -> String {
        format!("widgets.{}", self.group)
    }

    /// Posts the definition and waits until the kind is served.
    async fn define(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let schema = json!({
            "type": "object",
            "properties": { "spec": {
                "type": "object",
                "properties": {
                    "size": { "type": "integer", "minimum": 1 },
                    "color": { "type": "string", "enum": ["red", "blue"], "default": "red" },
                },
            } },
        });
        let definition = serde_json::from_value(json!({
            "metadata": { "name": self.name() },
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
                    "selectableFields": [{ "jsonPath": ".spec.size" }],
                }],
            },
        }))?;
        self.definitions()
            .create(&PostParams::default(), &definition)
            .await?;
        let is_established = |definition: &CustomResourceDefinition| {
            let conditions = definition
                .status
                .as_ref()
                .and_then(|status| status.conditions.as_deref());
            conditions
                .unwrap_or_default()
                .iter()
                .any(|condition| condition.type_ == "Established" && condition.status == "True")
        };
        wait_for("the definition is established", async || {
            let now = self.definitions().get(&self.name()).await.ok()?;
            is_established(&now).then_some(())
        })
        .await;
        // A definition is established slightly before all handlers of the server serve it.
        wait_for("the kind is served", async || {
            let list = get(&self.client, &format!("/apis/{}/v1/widgets", self.group))
                .await
                .ok()?;
            (list.code == 200).then_some(())
        })
        .await;
        Ok(())
    }

    async fn undefine(&self) -> Result<(), kube::Error> {
        self.definitions()
            .delete(&self.name(), &DeleteParams::default())
            .await?;
        wait_for("the definition is gone", async || {
            match self.definitions().get_opt(&self.name()).await {
                Ok(None) => Some(Ok(())),
                Ok(Some(_)) => None,
                Err(error) => Some(Err(error)),
            }
        })
        .await
    }

    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &self.resource)
    }

    fn widget(&self, name: &str, size: u64) -> DynamicObject {
        DynamicObject::new(name, &self.resource).data(json!({ "spec": { "size": size } }))
    }

    /// Retries quickly, so that the scenario does not wait long.
    fn observe(&self) -> Result<Observed<DynamicObject>, kube_informers::error::StoppedError> {
        let informer = Informer::dynamic(self.client.clone(), &self.resource, Scope::all());
        Observed::start(informer.configure(|config| config.backoff.max = Duration::from_secs(1)))
    }
}

async fn custom_kind_is_watched_across_deletion_and_redefinition(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let widgets = Widgets::new(&client);
    let api = widgets.api(&namespace.name);

    // Before the kind exists.
    let observed = widgets.observe()?;
    observed
        .wait_for("the informer receives a 404", |observed| {
            observed.errors("404") > 0
        })
        .await;
    assert!(!observed.informer.has_synced());

    widgets.define().await?;
    observed
        .wait_for("it is synced", |observed| observed.informer.has_synced())
        .await;
    api.create(&PostParams::default(), &widgets.widget("small", 1))
        .await?;
    api.create(&PostParams::default(), &widgets.widget("large", 9))
        .await?;
    merge(&api, "small", json!({ "spec": { "size": 2 } })).await?;
    api.delete("large", &DeleteParams::default()).await?;
    observed
        .log
        .wait_for("four events are delivered", |log| log.len() == 4)
        .await;
    assert_eq!(
        observed.log.since(0),
        ["added small", "added large", "updated small", "deleted large"]
    );
    observed
        .assert_exact(std::slice::from_ref(&api), &ListParams::default())
        .await?;

    // Deleting the kind deletes its objects.
    widgets.undefine().await?;
    observed
        .log
        .wait_for("the last object is deleted", |log| log.len() == 5)
        .await;
    observed
        .wait_for("it retries", |observed| {
            matches!(
                observed.informer.state(),
                ReflectorState::BackingOff { .. } | ReflectorState::Listing { .. }
            )
        })
        .await;
    assert!(observed.informer.store().is_empty());

    // Another kind with the same name.
    widgets.define().await?;
    api.create(&PostParams::default(), &widgets.widget("small", 3))
        .await?;
    observed
        .log
        .wait_for("the new object is delivered", |log| log.len() == 6)
        .await;
    assert_eq!(observed.log.since(5), ["added small"]);
    observed.assert_exact(&[api], &ListParams::default()).await?;
    widgets.undefine().await?;
    namespace.delete().await?;
    Ok(())
}

async fn custom_kind_rejects_protobuf(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let widgets = Widgets::new(&client);
    widgets.define().await?;
    let api = widgets.api(&namespace.name);
    api.create(&PostParams::default(), &widgets.widget("one", 1))
        .await?;
    let path = format!("/apis/{}/v1/namespaces/{}/widgets", widgets.group, namespace.name);
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

    let either = get_as(&client, &path, &format!("{PROTOBUF},application/json")).await?;
    assert_eq!(
        (either.code, either.content_type.as_str(), either.names()),
        (200, "application/json", vec!["one"])
    );
    assert_eq!(
        either.text_at("/items/0/kind"),
        "Widget",
        "items of custom kinds contain their type"
    );
    // The status of a real server is protobuf, around the same text.
    let only = get_as(&client, &path, PROTOBUF).await?;
    let words = "only the following media types are accepted: application/json, application/yaml";
    assert_eq!(only.code, 406, "{}", only.text);
    assert!(
        only.text.contains(words) && only.text.contains("NotAcceptable"),
        "{}",
        only.text
    );
    let watched = get_as(&client, &format!("{path}?watch=1&timeoutSeconds=1"), PROTOBUF).await?;
    assert_eq!(watched.code, 406, "{}", watched.text);
    widgets.undefine().await?;
    namespace.delete().await?;
    Ok(())
}

async fn selectable_fields_of_a_custom_kind_can_be_selected(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let widgets = Widgets::new(&client);
    widgets.define().await?;
    let api = widgets.api(&namespace.name);
    for (name, size) in [("one", 1), ("two", 2), ("deux", 2)] {
        api.create(&PostParams::default(), &widgets.widget(name, size))
            .await?;
    }
    let scope = Scope::namespace(&namespace.name).fields("spec.size=2")?;
    let observed = Observed::synced(Informer::dynamic(client.clone(), &widgets.resource, scope)).await?;
    let selection = ListParams::default().fields("spec.size=2");
    observed
        .assert_exact(std::slice::from_ref(&api), &selection)
        .await?;
    assert_eq!(observed.informer.store().len(), 2);

    merge(&api, "one", json!({ "spec": { "size": 2 } })).await?;
    merge(&api, "two", json!({ "spec": { "size": 3 } })).await?;
    observed
        .log
        .wait_for("one entered and two left", |log| log.len() == 4)
        .await;
    assert_eq!(observed.log.since(2), ["added one", "deleted two"]);
    observed.assert_exact(&[api], &selection).await?;

    let path = format!(
        "/apis/{}/v1/widgets?fieldSelector=spec.colour%3Dred",
        widgets.group
    );
    let refused = get(&client, &path).await?;
    assert_eq!(
        refused.status(),
        (400, "BadRequest", "field label not supported: spec.colour")
    );
    widgets.undefine().await?;
    namespace.delete().await?;
    Ok(())
}

async fn custom_object_is_pruned_defaulted_or_rejected_alike(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let widgets = Widgets::new(&client);
    widgets.define().await?;
    let api = widgets.api(&namespace.name);
    let create = async |name: &str, spec: Value| {
        let widget = DynamicObject::new(name, &widgets.resource).data(json!({ "spec": spec }));
        api.create(&PostParams::default(), &widget).await
    };

    // Unknown fields are pruned, and missing ones get their default.
    let made = create("fits", json!({ "size": 3, "weight": 7 })).await?;
    assert_eq!(made.data["spec"], json!({ "size": 3, "color": "red" }));
    merge(&api, "fits", json!({ "spec": { "color": null, "weight": 8 } })).await?;
    assert_eq!(
        api.get("fits").await?.data["spec"],
        json!({ "size": 3, "color": "red" })
    );

    let cases = [
        (
            json!({ "size": "large" }),
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (
            json!({ "size": 0 }),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            json!({ "color": "green" }),
            "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
        ),
        (
            json!([]),
            "spec: Invalid value: \"array\": spec in body must be of type object: \"array\"",
        ),
    ];
    for (spec, why) in cases {
        let refused = create("bad", spec).await;
        let Err(kube::Error::Api(status)) = refused else {
            panic!("{refused:?}")
        };
        let message = format!("Widget.{} \"bad\" is invalid: {why}", widgets.group);
        assert_eq!(
            (status.code, status.reason.as_str(), status.message),
            (422, "Invalid", message)
        );
    }
    let refused = merge(&api, "fits", json!({ "spec": { "size": 0 } })).await;
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 422),
        "{refused:?}"
    );
    widgets.undefine().await?;
    namespace.delete().await?;
    Ok(())
}
