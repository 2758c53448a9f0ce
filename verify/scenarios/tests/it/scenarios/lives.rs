//! The lifecycle of single objects: entering and leaving a selector, finalizers, recreation.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube_informers::{Cause, Event, Informer, Scope};
use kube_informers_e2e::Server;
use serde_json::json;

use crate::scenarios::support::{
    HandlerCall, Observed, Outcome, config_map, labelled, merge, namespace, scenarios,
};

scenarios! {
    entering_and_leaving_a_selector_is_delivered_as_add_and_delete: Setup::shared();
    object_with_finalizers_is_updated_first_and_deleted_after_their_removal: Setup::shared();
    recreated_object_is_delivered_as_delete_and_add: Setup::shared();
}

async fn entering_and_leaving_a_selector_is_delivered_as_add_and_delete(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let scope = Scope::namespace(&namespace.name).labels("stage=live")?;
    maps.create(&PostParams::default(), &labelled("flip", "stage", "draft", 0))
        .await?;
    let observed = Observed::synced(Informer::<ConfigMap>::scoped(client.clone(), scope)).await?;
    let live = ListParams::default().labels("stage=live");

    let entered = merge(
        &maps,
        "flip",
        json!({ "metadata": { "labels": { "stage": "live" } } }),
    )
    .await?;
    merge(&maps, "flip", json!({ "data": { "value": "1" } })).await?;
    observed
        .log
        .wait_for("it was added and updated", |log| log.len() == 2)
        .await;
    observed.assert_exact(std::slice::from_ref(&maps), &live).await?;
    let left = merge(
        &maps,
        "flip",
        json!({ "metadata": { "labels": { "stage": "draft" } } }),
    )
    .await?;
    // Not selected, so not delivered.
    merge(&maps, "flip", json!({ "data": { "value": "2" } })).await?;
    merge(
        &maps,
        "flip",
        json!({ "metadata": { "labels": { "stage": "live" } } }),
    )
    .await?;
    maps.delete("flip", &DeleteParams::default()).await?;

    observed.log.wait_for("it is deleted", |log| log.len() == 5).await;
    assert_eq!(
        observed.log.since(0),
        [
            "added flip",
            "updated flip",
            "deleted flip",
            "added flip",
            "deleted flip"
        ]
    );
    let calls = observed.log.of("flip");
    assert!(matches!(&calls[0], HandlerCall::Added { now, .. } if now.version == entered));
    assert!(
        matches!(&calls[2], HandlerCall::Deleted { last, cause: Cause::Observed } if last.version == left),
        "the deletion carries the version at which the object left: {:?}, not {left}",
        calls[2]
    );
    observed.assert_exact(&[maps], &live).await?;
    namespace.delete().await?;
    Ok(())
}

async fn object_with_finalizers_is_updated_first_and_deleted_after_their_removal(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let mut held = config_map("held", 0);
    held.metadata.finalizers = Some(vec![
        "example.com/hold".to_owned(),
        "example.com/hold-more".to_owned(),
    ]);
    let informer =
        Informer::<ConfigMap>::scoped(client.clone(), Scope::namespace(&namespace.name).labels("even")?);
    let observed = Observed::synced(informer).await?;
    let mut events = observed.informer.subscribe();
    maps.create(&PostParams::default(), &held).await?;

    maps.delete("held", &DeleteParams::default()).await?;
    observed.log.wait_for("it is marked", |log| log.len() == 2).await;
    let marked = observed.informer.store().get((&namespace.name, "held"));
    assert!(marked.is_some_and(|marked| marked.metadata.deletion_timestamp.is_some()));
    // A second deletion changes nothing.
    maps.delete("held", &DeleteParams::default()).await?;
    merge(
        &maps,
        "held",
        json!({ "metadata": { "finalizers": ["example.com/hold"] } }),
    )
    .await?;
    merge(&maps, "held", json!({ "metadata": { "finalizers": [] } })).await?;

    observed.log.wait_for("it is deleted", |log| log.len() == 4).await;
    assert_eq!(
        observed.log.since(0),
        ["added held", "updated held", "updated held", "deleted held"]
    );
    let last = loop {
        match events.next().await {
            Some(Event::Deleted { object, .. }) => break object,
            Some(_) => {}
            None => panic!("the informer stopped"),
        }
    };
    assert_eq!(
        last.metadata.finalizers.as_deref(),
        Some(["example.com/hold".to_owned()].as_slice()),
        "the last state is the one before the last finalizer was removed: that change was never stored"
    );
    observed
        .assert_exact(&[maps], &ListParams::default().labels("even"))
        .await?;
    namespace.delete().await?;
    Ok(())
}

async fn recreated_object_is_delivered_as_delete_and_add(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let proxy = server.proxy().await?;
    let scope = Scope::namespace(&namespace.name).labels("even")?;
    let first = maps
        .create(&PostParams::default(), &config_map("phoenix", 1))
        .await?;
    let direct = Observed::synced(Informer::<ConfigMap>::scoped(client.clone(), scope.clone())).await?;
    let cut = Observed::synced(Informer::<ConfigMap>::scoped(
        server.client_through(&proxy)?,
        scope,
    ))
    .await?;

    // One informer observes it, the other reconnects later.
    proxy.close();
    maps.delete("phoenix", &DeleteParams::default()).await?;
    let second = maps
        .create(&PostParams::default(), &config_map("phoenix", 1))
        .await?;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    direct.log.wait_for("it is recreated", |log| log.len() == 3).await;
    proxy.open();
    cut.log.wait_for("it is recreated", |log| log.len() == 3).await;

    for observed in [&direct, &cut] {
        assert_eq!(
            observed.log.since(0),
            ["added (initial) phoenix", "deleted phoenix", "added phoenix"]
        );
        observed
            .assert_exact(std::slice::from_ref(&maps), &ListParams::default().labels("even"))
            .await?;
        assert_eq!(observed.lists(), 1);
    }
    namespace.delete().await?;
    Ok(())
}
