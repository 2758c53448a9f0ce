//! Namespaces: watched one by one, created and deleted.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube_informers::{Informer, Scope};
use kube_informers_e2e::Server;
use serde_json::json;

use crate::scenarios::support::{
    HandlerCall, Observed, Outcome, config_map, finish_deletion, get, merge, namespace, scenarios, unique,
};

scenarios! {
    several_namespaces_share_one_cache_without_others: Setup::shared();
    namespace_is_marked_and_deleted_with_its_objects: Setup::shared();
    create_fails_in_a_missing_or_terminating_namespace: Setup::shared();
}

async fn several_namespaces_share_one_cache_without_others(server: &Server) -> Outcome {
    let client = server.client()?;
    let spaces = [
        namespace(&client).await?,
        namespace(&client).await?,
        namespace(&client).await?,
    ];
    let [one, two, other] = &spaces;
    for space in &spaces {
        space
            .config_maps()
            .create(&PostParams::default(), &config_map("first", 0))
            .await?;
    }
    let scope = Scope::namespaces([&one.name, &two.name]).labels("even")?;
    let observed = Observed::synced(Informer::<ConfigMap>::scoped(client.clone(), scope)).await?;

    for space in &spaces {
        let maps = space.config_maps();
        maps.create(&PostParams::default(), &config_map("second", 0))
            .await?;
        merge(&maps, "first", json!({ "data": { "value": "1" } })).await?;
    }
    two.config_maps()
        .delete("first", &DeleteParams::default())
        .await?;

    let watched = [one.config_maps(), two.config_maps()];
    observed
        .assert_exact(&watched, &ListParams::default().labels("even"))
        .await?;
    assert_eq!(observed.informer.stats().members.len(), 2, "one watch each");
    assert_eq!(observed.informer.store().len(), 3);
    assert!(observed.informer.store().namespace(&other.name).is_empty());
    for space in spaces {
        space.delete().await?;
    }
    Ok(())
}

async fn namespace_is_marked_and_deleted_with_its_objects(server: &Server) -> Outcome {
    let client = server.client()?;
    let spaces: Api<Namespace> = Api::all(client.clone());
    let label = unique("of");
    let scope = Scope::all().labels(&format!("scenario={label}"))?;
    let selection = ListParams::default().labels(&format!("scenario={label}"));
    let observed = Observed::synced(Informer::<Namespace>::scoped(client.clone(), scope)).await?;
    let content = Observed::synced(Informer::<ConfigMap>::scoped(
        client.clone(),
        Scope::all().labels(&format!("scenario={label}"))?,
    ))
    .await?;

    let name = unique("short-lived");
    let made =
        serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "scenario": label } } }))?;
    spaces.create(&PostParams::default(), &made).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &name);
    let mut map = config_map("inside", 0);
    map.metadata
        .labels
        .get_or_insert_default()
        .insert("scenario".to_owned(), label.clone());
    maps.create(&PostParams::default(), &map).await?;
    content
        .log
        .wait_for("the object inside is delivered", |log| log.len() == 1)
        .await;
    observed
        .assert_exact(std::slice::from_ref(&spaces), &selection)
        .await?;

    spaces.delete(&name, &DeleteParams::default()).await?;
    finish_deletion(&client, &name).await?;

    observed
        .log
        .wait_for("it is deleted", |log| {
            matches!(log.of(&name).last(), Some(HandlerCall::Deleted { .. }))
        })
        .await;
    assert!(
        matches!(observed.log.of(&name).get(1), Some(HandlerCall::Updated { .. })),
        "first it is marked"
    );
    observed.assert_exact(&[spaces], &selection).await?;
    content
        .log
        .wait_for("the object inside is deleted", |log| log.len() == 2)
        .await;
    assert_eq!(content.log.since(0), ["added inside", "deleted inside"]);
    content.assert_exact(&[maps], &selection).await?;
    Ok(())
}

async fn create_fails_in_a_missing_or_terminating_namespace(server: &Server) -> Outcome {
    let client = server.client()?;
    let missing = unique("missing");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &missing);
    let refused = maps.create(&PostParams::default(), &config_map("x", 0)).await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        (status.code, status.message),
        (404, format!("namespaces \"{missing}\" not found"))
    );
    let empty = get(&client, &format!("/api/v1/namespaces/{missing}/configmaps")).await?;
    assert_eq!((empty.code, empty.names()), (200, vec![]), "it can be listed");

    // An object with a finalizer keeps the namespace terminating.
    let leaving = namespace(&client).await?;
    let maps = leaving.config_maps();
    let mut held = config_map("held", 0);
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    maps.create(&PostParams::default(), &held).await?;
    let name = leaving.name.clone();
    leaving.delete().await?;
    let refused = maps.create(&PostParams::default(), &config_map("x", 0)).await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        (status.code, status.reason.as_str(), status.message),
        (
            403,
            "Forbidden",
            format!(
                "configmaps \"x\" is forbidden: unable to create new content in namespace {name} because it is being terminated"
            )
        )
    );
    merge(&maps, "held", json!({ "metadata": { "finalizers": [] } })).await?;
    finish_deletion(&client, &name).await?;
    Ok(())
}
