//! Rejected writes: both servers must return the same error, because clients branch on it.

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube_informers_e2e::Server;
use serde_json::{Value, json};

use crate::scenarios::support::{Outcome, config_map, merge, namespace, scenarios, send};

scenarios! {
    conflicts_and_preconditions_are_rejected_alike: Setup::shared();
    invalid_metadata_is_rejected_alike: Setup::shared();
    dry_run_stores_nothing: Setup::shared();
}

fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> (u16, String, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason, status.message),
        other => panic!("not refused: {other:?}"),
    }
}

async fn conflicts_and_preconditions_are_rejected_alike(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let first = maps.create(&PostParams::default(), &config_map("map", 0)).await?;
    let second = merge(&maps, "map", json!({ "data": { "value": "1" } })).await?;
    let conflict = |why: &str| {
        let message = format!("Operation cannot be fulfilled on configmaps \"map\": {why}");
        (409, "Conflict".to_owned(), message)
    };
    let modified =
        "the object has been modified; please apply your changes to the latest version and try again";

    let exists = maps.create(&PostParams::default(), &config_map("map", 0)).await;
    let message = "configmaps \"map\" already exists".to_owned();
    assert_eq!(refusal(exists), (409, "AlreadyExists".to_owned(), message));
    let stale = maps.replace("map", &PostParams::default(), &first).await;
    assert_eq!(refusal(stale), conflict(modified));
    let stale = merge(&maps, "map", json!({ "metadata": { "resourceVersion": "1" } })).await;
    assert_eq!(refusal(stale), conflict(modified));
    let no_number = merge(&maps, "map", json!({ "metadata": { "resourceVersion": "new" } })).await;
    let message = "strconv.ParseUint: parsing \"new\": invalid syntax".to_owned();
    assert_eq!(refusal(no_number), (500, String::new(), message));

    let uid = first.metadata.uid.clone().unwrap_or_default();
    let other = "00000000-0000-0000-0000-000000000000";
    let mut changed = first.clone();
    changed.metadata.uid = Some(other.to_owned());
    changed.metadata.resource_version = None;
    let replaced = maps.replace("map", &PostParams::default(), &changed).await;
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/configmaps/{}/map, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {other}, UID in object meta: {uid}",
        namespace.name
    );
    assert_eq!(refusal(replaced), conflict(&why));
    let only = |uid: Option<&str>, version: Option<&str>| {
        DeleteParams::default().preconditions(Preconditions {
            uid: uid.map(str::to_owned),
            resource_version: version.map(str::to_owned),
        })
    };
    let of_kind = |why: String| {
        let message = format!("Operation cannot be fulfilled on ConfigMap \"map\": {why}");
        (409, "Conflict".to_owned(), message)
    };
    assert_eq!(
        refusal(maps.delete("map", &only(Some(other), None)).await),
        of_kind(format!(
            "the UID in the precondition ({other}) does not match the UID in record ({uid}). The object might have \
             been deleted and then recreated"
        ))
    );
    assert_eq!(
        refusal(maps.delete("map", &only(None, Some("1"))).await),
        of_kind(format!(
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({second}). The \
             object might have been modified"
        ))
    );
    maps.delete("map", &only(Some(&uid), Some(&second))).await?;
    let gone = maps.delete("map", &DeleteParams::default()).await;
    let message = "configmaps \"map\" not found".to_owned();
    assert_eq!(refusal(gone), (404, "NotFound".to_owned(), message));
    namespace.delete().await?;
    Ok(())
}

async fn invalid_metadata_is_rejected_alike(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let path = format!("/api/v1/namespaces/{}/configmaps", namespace.name);
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                     must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let name_part = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let empty =
        |field: &str| format!("metadata.ownerReferences[0].{field}: Required value: must not be empty");
    let cases = [
        (json!({ "name": "Map" }), "Map", format!("metadata.name: Invalid value: \"Map\": {subdomain}")),
        (
            json!({}),
            "",
            "metadata.name: Required value: name or generateName is required".to_owned(),
        ),
        (
            json!({ "name": "map", "labels": { "a b": "c" } }),
            "map",
            format!("metadata.labels: Invalid value: \"a b\": {name_part}"),
        ),
        (
            json!({ "name": "map", "finalizers": ["hold"] }),
            "map",
            "metadata.finalizers[0]: Invalid value: \"hold\": name is neither a standard finalizer name nor is it fully \
             qualified"
                .to_owned(),
        ),
        (
            json!({ "name": "map", "ownerReferences": [{ "kind": "Pod" }] }),
            "map",
            format!("[{}, {}, {}]", empty("apiVersion"), empty("name"), empty("uid")),
        ),
    ];
    for (metadata, name, why) in cases {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
        let refused = send(&client, Method::POST, &path, &map).await?;
        let message = format!("ConfigMap \"{name}\" is invalid: {why}");
        assert_eq!(refused.status(), (422, "Invalid", message.as_str()));
    }
    let elsewhere = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "map", "namespace": "other" } });
    let refused = send(&client, Method::POST, &path, &elsewhere).await?;
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!(refused.status(), (400, "BadRequest", message));
    let versioned = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "map", "resourceVersion": "5" } });
    let refused = send(&client, Method::POST, &path, &versioned).await?;
    assert_eq!(
        refused.status(),
        (
            500,
            "",
            "resourceVersion should not be set on objects to be created"
        )
    );
    namespace.delete().await?;
    Ok(())
}

async fn dry_run_stores_nothing(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps: Api<ConfigMap> = namespace.config_maps();
    let path = format!("/api/v1/namespaces/{}/configmaps", namespace.name);
    let before = maps.create(&PostParams::default(), &config_map("map", 0)).await?;
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "other" } });

    let created = send(&client, Method::POST, &format!("{path}?dryRun=All"), &map).await?;
    assert_eq!((created.code, created.text_at("/metadata/name")), (201, "other"));
    let deleted = send(
        &client,
        Method::DELETE,
        &format!("{path}/map"),
        &json!({ "dryRun": ["All"] }),
    )
    .await?;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
    let deleted = send(
        &client,
        Method::DELETE,
        &format!("{path}/map?dryRun=All"),
        &Value::Null,
    )
    .await?;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
    let refused = send(&client, Method::POST, &format!("{path}?dryRun=Some"), &map).await?;
    let message = "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"";
    assert_eq!(refused.status(), (422, "Invalid", message));
    let refused = send(
        &client,
        Method::DELETE,
        &format!("{path}/map"),
        &json!({ "propagationPolicy": "Away" }),
    )
    .await?;
    let message = "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Away\": supported \
                   values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    assert_eq!(refused.status(), (422, "Invalid", message));

    assert_eq!(maps.get("map").await?, before);
    assert_eq!(maps.get_opt("other").await?, None);
    namespace.delete().await?;
    Ok(())
}
