//! Built-in kinds of different classes: namespaced or not, old and new groups, in the watch cache or not.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube_informers::{Informer, Scope};
use kube_informers_e2e::Server;
use serde_json::{Value, json};

use crate::scenarios::support::{
    HandlerCall, Observed, Outcome, config_map, merge, namespace, scenarios, unique,
};

scenarios! {
    every_class_of_kind_is_watched_alike: Setup::shared();
    no_op_write_delivers_no_event: Setup::shared();
}

/// A kind to test: its resource and a valid object.
struct TestedKind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
    body: Value,
}

fn tested_kinds() -> Vec<TestedKind> {
    let sort = |group, version, kind, plural, namespaced, body| TestedKind {
        group,
        version,
        kind,
        plural,
        namespaced,
        body,
    };
    let rbac = "rbac.authorization.k8s.io";
    let labels = json!({ "app": "e2e" });
    let containers = json!([{ "name": "main", "image": "example.com/main:1" }]);
    let deployment = json!({
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } },
        },
    });
    let service = json!({ "spec": { "clusterIP": "None", "ports": [{ "port": 80 }] } });
    vec![
        sort(
            "",
            "v1",
            "Secret",
            "secrets",
            true,
            json!({ "stringData": { "key": "value" } }),
        ),
        sort("", "v1", "Service", "services", true, service),
        sort("apps", "v1", "Deployment", "deployments", true, deployment),
        sort(
            "coordination.k8s.io",
            "v1",
            "Lease",
            "leases",
            true,
            json!({ "spec": {} }),
        ),
        sort(
            rbac,
            "v1",
            "ClusterRole",
            "clusterroles",
            false,
            json!({ "rules": [] }),
        ),
        sort(
            "scheduling.k8s.io",
            "v1",
            "PriorityClass",
            "priorityclasses",
            false,
            json!({ "value": 7 }),
        ),
        // Events are not in the watch cache of a real server: it reads them from its storage.
        sort(
            "",
            "v1",
            "Event",
            "events",
            true,
            json!({ "involvedObject": { "name": "x" }, "reason": "Tried" }),
        ),
    ]
}

async fn every_class_of_kind_is_watched_alike(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    for sort in tested_kinds() {
        let kind = GroupVersionKind::gvk(sort.group, sort.version, sort.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, sort.plural);
        let label = unique("of");
        let (api, scope): (Api<DynamicObject>, Scope) = match sort.namespaced {
            true => (
                Api::namespaced_with(client.clone(), &namespace.name, &resource),
                Scope::namespace(&namespace.name),
            ),
            false => (Api::all_with(client.clone(), &resource), Scope::all()),
        };
        let selection = ListParams::default().labels(&format!("scenario={label}"));
        let name = unique("e2e");
        let mut object =
            DynamicObject::new(&name, &resource).data(with_namespace(sort.body, &namespace.name));
        object.metadata.labels = Some([("scenario".to_owned(), label.clone())].into());

        let informer = Informer::dynamic(
            client.clone(),
            &resource,
            scope.labels(&format!("scenario={label}"))?,
        );
        let observed = Observed::synced(informer).await?;
        api.create(&PostParams::default(), &object).await?;
        let annotated = json!({ "metadata": { "annotations": { "example.com/seen": "yes" } } });
        merge(&api, &name, annotated).await?;
        observed
            .assert_exact(std::slice::from_ref(&api), &selection)
            .await?;
        api.delete(&name, &DeleteParams::default()).await?;

        observed
            .log
            .wait_for("it is deleted", |log| {
                matches!(log.of(&name).last(), Some(HandlerCall::Deleted { .. }))
            })
            .await;
        let calls = observed.log.of(&name);
        assert!(matches!(
            calls.first(),
            Some(HandlerCall::Added { initial: false, .. })
        ));
        assert!(
            matches!(calls.get(1), Some(HandlerCall::Updated { .. })),
            "{}: {calls:?}",
            sort.plural
        );
        observed.assert_exact(&[api], &selection).await?;
        assert_eq!(observed.lists(), 1, "{}", sort.plural);
    }
    namespace.delete().await?;
    Ok(())
}

/// An event must refer to an object in its own namespace.
fn with_namespace(mut body: Value, namespace: &str) -> Value {
    if let Some(involved) = body.get_mut("involvedObject") {
        involved["namespace"] = namespace.into();
    }
    body
}

async fn no_op_write_delivers_no_event(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let scope = Scope::namespace(&namespace.name).labels("even")?;
    let observed = Observed::synced(Informer::<ConfigMap>::scoped(client.clone(), scope)).await?;
    let made = maps
        .create(&PostParams::default(), &config_map("still", 0))
        .await?;

    let patched = merge(&maps, "still", json!({ "data": { "value": "0" } })).await?;
    let replaced = maps.replace("still", &PostParams::default(), &made).await?;
    assert_eq!(Some(&patched), made.metadata.resource_version.as_ref());
    assert_eq!(replaced.metadata.resource_version, made.metadata.resource_version);
    maps.delete("still", &DeleteParams::default()).await?;

    observed.log.wait_for("it is deleted", |log| log.len() >= 2).await;
    assert_eq!(observed.log.since(0), ["added still", "deleted still"]);
    observed
        .assert_exact(&[maps], &ListParams::default().labels("even"))
        .await?;
    namespace.delete().await?;
    Ok(())
}
