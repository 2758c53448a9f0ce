//! Resource versions: waited for, and kept fresh by bookmarks.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube_informers::{Informer, ResourceVersion, Scope};
use kube_informers_e2e::{Server, TIMEOUT};
use serde_json::{Value, json};

use crate::support::{
    Observed, Outcome, config_map, frames, get, merge, namespace, scenarios, unique, wait_for,
};

scenarios! {
    a_write_can_be_read_back_once_its_version_is_reached: Setup::shared();
    a_bookmark_brings_an_idle_watch_up_to_date_before_it_ends: Setup::shared();
    an_idle_informer_reaches_versions_that_were_written_elsewhere: Setup::shared();
}

async fn a_write_can_be_read_back_once_its_version_is_reached(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let observed =
        Observed::synced(Informer::<ConfigMap>::namespaced(client.clone(), &namespace.name)).await?;
    let store = observed.informer.store();
    maps.create(&PostParams::default(), &config_map("own", 0)).await?;

    for value in 0..50 {
        let written = merge(&maps, "own", json!({ "data": { "value": format!("{value}.") } })).await?;
        observed.informer.wait_for(&written, TIMEOUT).await?;
        let read = store
            .get((&namespace.name, "own"))
            .and_then(|own| own.metadata.resource_version.clone());
        assert_eq!(read.as_deref(), Some(written.as_str()));
    }
    maps.delete("own", &DeleteParams::default()).await?;
    // What others write in the scope takes us past the deletion.
    let after = maps
        .create(&PostParams::default(), &config_map("after", 0))
        .await?;
    observed
        .reaches(after.metadata.resource_version.as_deref().unwrap_or_default())
        .await?;
    assert!(store.get((&namespace.name, "own")).is_none());
    observed.assert_exact(&[maps], &ListParams::default()).await?;
    namespace.delete().await?;
    Ok(())
}

async fn a_bookmark_brings_an_idle_watch_up_to_date_before_it_ends(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let path = format!("/api/v1/namespaces/{}/configmaps", namespace.name);
    let idle = format!("{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=5&labelSelector=idle");
    let before = get(&client, &path)
        .await?
        .text_at("/metadata/resourceVersion")
        .to_owned();
    // Written elsewhere in the collection, outside of the selection.
    let written = maps
        .create(&PostParams::default(), &config_map("elsewhere", 0))
        .await?;

    // Bookmarks are usual but never promised: a busy server may end a watch without one.
    let told = wait_for("a watch brings a bookmark", async || {
        let told = frames(&client, &format!("{idle}&resourceVersion={before}")).await;
        told.map(|told| (!told.is_empty()).then_some(told)).transpose()
    })
    .await?;

    let last = told.last().unwrap_or(&Value::Null);
    assert!(told.iter().all(|frame| frame["type"] == "BOOKMARK"), "{told:?}");
    let version = last["object"]["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    let written = written.metadata.resource_version.unwrap_or_default();
    assert!(
        ResourceVersion::compare(&written, version).is_some_and(|order| order.is_le()),
        "the bookmark is of {version}, and {written} was written before"
    );
    assert_eq!(
        (&last["object"]["kind"], &last["object"]["apiVersion"]),
        (&json!("ConfigMap"), &json!("v1"))
    );
    // From there nothing is left to tell.
    assert_eq!(
        frames(
            &client,
            &format!("{path}?watch=1&timeoutSeconds=1&resourceVersion={version}")
        )
        .await?,
        [] as [Value; 0]
    );
    namespace.delete().await?;
    Ok(())
}

async fn an_idle_informer_reaches_versions_that_were_written_elsewhere(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let scope = Scope::namespace(&namespace.name).labels(&unique("idle"))?;
    let observed = Observed::synced(Informer::<ConfigMap>::scoped(client.clone(), scope)).await?;
    let written = namespace
        .config_maps()
        .create(&PostParams::default(), &config_map("elsewhere", 0))
        .await?;
    let version = written.metadata.resource_version.unwrap_or_default();

    // A bookmark comes about once a minute.
    observed.informer.wait_for(&version, TIMEOUT * 2).await?;

    let members = observed.informer.stats().members;
    assert!(members[0].reflector.bookmarks > 0);
    assert_eq!(observed.lists(), 1);
    assert_eq!(observed.story.len(), 0, "nobody is told of it");
    namespace.delete().await?;
    Ok(())
}
