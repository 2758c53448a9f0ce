//! Field selectors and metadata-only informers.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::core::PartialObjectMeta;
use kube_informers::{Informer, Scope};
use kube_informers_e2e::Server;
use serde_json::json;

use crate::scenarios::support::{Observed, Outcome, config_map, get, get_as, merge, namespace, scenarios};

scenarios! {
    field_selectors_filter_like_label_selectors: Setup::shared();
    bound_pod_enters_the_selection_of_its_node: Setup::shared();
    unsupported_field_selectors_are_rejected_alike: Setup::shared();
    metadata_informer_receives_every_change_without_data: Setup::shared();
}

async fn field_selectors_filter_like_label_selectors(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    for name in ["one", "two"] {
        maps.create(&PostParams::default(), &config_map(name, 0)).await?;
    }
    let scope = Scope::namespace(&namespace.name).fields("metadata.name=one")?;
    let observed = Observed::synced(Informer::<ConfigMap>::scoped(client.clone(), scope)).await?;
    merge(&maps, "two", json!({ "data": { "value": "1" } })).await?;
    merge(&maps, "one", json!({ "data": { "value": "1" } })).await?;
    maps.delete("two", &DeleteParams::default()).await?;
    maps.delete("one", &DeleteParams::default()).await?;
    observed.log.wait_for("it is deleted", |log| log.len() == 3).await;
    assert_eq!(
        observed.log.since(0),
        ["added (initial) one", "updated one", "deleted one"]
    );
    observed
        .assert_exact(&[maps], &ListParams::default().fields("metadata.name=one"))
        .await?;
    namespace.delete().await?;
    Ok(())
}

async fn bound_pod_enters_the_selection_of_its_node(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace.name);
    let scope = Scope::namespace(&namespace.name).fields("spec.nodeName=node-1")?;
    let selection = ListParams::default().fields("spec.nodeName=node-1");
    let observed = Observed::synced(Informer::<Pod>::scoped(client.clone(), scope)).await?;
    let pod = |name: &str, node: Option<&str>| {
        serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "example.com/main:1" }] },
        }))
    };
    let everywhere = Observed::synced(Informer::<Pod>::namespaced(client.clone(), &namespace.name)).await?;
    pods.create(&PostParams::default(), &pod("unbound", None)?)
        .await?;
    pods.delete("unbound", &DeleteParams::default()).await?;
    everywhere
        .log
        .wait_for("it is deleted", |log| log.len() == 3)
        .await;
    pods.create(&PostParams::default(), &pod("bound", Some("node-1"))?)
        .await?;
    pods.create(&PostParams::default(), &pod("elsewhere", Some("node-2"))?)
        .await?;
    pods.create(&PostParams::default(), &pod("waiting", None)?)
        .await?;
    let target = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "waiting" },
        "target": { "kind": "Node", "name": "node-1" },
    });
    let _: serde_json::Value = pods
        .create_subresource("binding", "waiting", &PostParams::default(), &target)
        .await?;
    observed
        .log
        .wait_for("both are delivered", |log| log.len() == 2)
        .await;
    assert_eq!(observed.log.since(0), ["added bound", "added waiting"]);
    observed
        .assert_exact(std::slice::from_ref(&pods), &selection)
        .await?;

    // Bound pods have a grace period: they are marked, and removed by a second deletion without one.
    pods.delete("bound", &DeleteParams::default()).await?;
    observed.log.wait_for("it is marked", |log| log.len() == 3).await;
    pods.delete("bound", &DeleteParams::default().grace_period(0))
        .await?;
    observed.log.wait_for("it is deleted", |log| log.len() == 5).await;
    assert_eq!(
        observed.log.since(2),
        ["updated bound", "updated bound", "deleted bound"]
    );
    observed
        .assert_exact(std::slice::from_ref(&pods), &selection)
        .await?;
    assert_eq!(
        everywhere.log.of("unbound").len(),
        3,
        "an unbound pod is marked and removed: {:?}",
        everywhere.log.of("unbound")
    );
    for name in ["waiting", "elsewhere"] {
        pods.delete(name, &DeleteParams::default().grace_period(0))
            .await?;
    }
    namespace.delete().await?;
    Ok(())
}

async fn unsupported_field_selectors_are_rejected_alike(server: &Server) -> Outcome {
    let client = server.client()?;
    let cases = [
        (
            "/api/v1/pods",
            "spec.colour%3Dred",
            "field label not supported: spec.colour",
        ),
        (
            "/api/v1/configmaps",
            "spec.colour%3Dred",
            "\"spec.colour\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (
            "/api/v1/configmaps",
            "colour",
            "invalid selector: 'colour'; can't understand 'colour'",
        ),
        (
            "/api/v1/nodes",
            "spec.colour%3Dred",
            "field label not supported: spec.colour",
        ),
        (
            "/apis/apps/v1/deployments",
            "spec.colour%3Dred",
            "\"spec.colour\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (
            "/api/v1/events",
            "spec.colour%3Dred",
            "field label not supported: spec.colour",
        ),
        (
            "/api/v1/secrets",
            "spec.colour%3Dred",
            "field label not supported: spec.colour",
        ),
        (
            "/api/v1/namespaces",
            "spec.colour%3Dred",
            "field label not supported: spec.colour",
        ),
    ];
    for (path, selector, message) in cases {
        for verb in ["", "&watch=1"] {
            let response = get(&client, &format!("{path}?fieldSelector={selector}{verb}")).await?;
            assert_eq!(response.status(), (400, "BadRequest", message), "{path}{verb}");
        }
    }
    let labels = get(&client, "/api/v1/pods?labelSelector=a%20b").await?;
    assert_eq!(
        labels.status(),
        (
            400,
            "BadRequest",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
        )
    );

    // An informer reports it, too.
    let scope = Scope::all().fields("spec.colour=red")?;
    let observed = Observed::start(Informer::<Pod>::scoped(client.clone(), scope))?;
    observed
        .wait_for("it was rejected", |observed| observed.errors("400") > 0)
        .await;
    let not_synced = observed
        .informer
        .synced_within(std::time::Duration::ZERO)
        .await
        .expect_err("it cannot");
    assert!(
        not_synced
            .to_string()
            .contains("field label not supported: spec.colour"),
        "{not_synced}"
    );
    Ok(())
}

async fn metadata_informer_receives_every_change_without_data(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    maps.create(&PostParams::default(), &config_map("first", 0))
        .await?;
    let scope = || Scope::namespace(&namespace.name).labels("even");
    let streamed = Observed::synced(Informer::<PartialObjectMeta<ConfigMap>>::scoped(
        client.clone(),
        scope()?,
    ))
    .await?;
    let listed = Informer::<PartialObjectMeta<ConfigMap>>::scoped(client.clone(), scope()?);
    let listed = Observed::synced(listed.configure(|config| config.watch_list = false)).await?;

    merge(&maps, "first", json!({ "data": { "value": "1" } })).await?;
    maps.create(&PostParams::default(), &config_map("second", 0))
        .await?;
    maps.delete("first", &DeleteParams::default()).await?;

    for observed in [&streamed, &listed] {
        observed
            .log
            .wait_for("everything is delivered", |log| log.len() == 4)
            .await;
        assert_eq!(
            observed.log.since(0),
            [
                "added (initial) first",
                "updated first",
                "added second",
                "deleted first"
            ]
        );
        observed
            .assert_exact(std::slice::from_ref(&maps), &ListParams::default().labels("even"))
            .await?;
    }
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?labelSelector=even",
        namespace.name
    );
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = get_as(&client, &path, accept).await?;
    assert_eq!(list.text_at("/kind"), "PartialObjectMetadataList");
    assert_eq!(list.text_at("/items/0/kind"), "PartialObjectMetadata");
    assert!(list.json.pointer("/items/0/data").is_none());
    namespace.delete().await?;
    Ok(())
}
