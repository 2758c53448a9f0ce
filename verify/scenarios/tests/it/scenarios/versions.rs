//! Resource versions: waiting for a version, and progress by bookmarks.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube_informers::{Informer, ResourceVersion, Scope};
use kube_informers_e2e::{Server, TIMEOUT};
use serde_json::{Value, json};

use crate::scenarios::support::{
    Observed, Outcome, config_map, frames, get, merge, namespace, scenarios, unique, wait_for,
};

scenarios! {
    write_can_be_read_back_once_its_version_is_reached: Setup::shared();
    bookmark_advances_an_idle_watch_before_it_ends: Setup::shared();
    idle_informer_reaches_versions_written_outside_its_scope: Setup::shared();
}

async fn write_can_be_read_back_once_its_version_is_reached(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let observed =
        Observed::synced(Informer::<ConfigMap>::namespaced(client.clone(), &namespace.name)).await?;
    let store = observed.informer.store();
    maps.create(&PostParams::default(), &config_map("own", 0)).await?;

    for value in 0..50 {
        let written = merge(&maps, "own", json!({ "data": { "value": format!("{value}.") } })).await?;
        observed.informer.wait_for_within(&written, TIMEOUT).await?;
        let read = store
            .get((&namespace.name, "own"))
            .and_then(|own| own.metadata.resource_version.clone());
        assert_eq!(read.as_deref(), Some(written.as_str()));
    }
    maps.delete("own", &DeleteParams::default()).await?;
    // Other writes in the scope advance the version past the deletion.
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

async fn bookmark_advances_an_idle_watch_before_it_ends(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let path = format!("/api/v1/namespaces/{}/configmaps", namespace.name);
    let idle = format!("{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=5&labelSelector=idle");
    let before = get(&client, &path)
        .await?
        .text_at("/metadata/resourceVersion")
        .to_owned();
    // Written in the same collection, outside the selection.
    let written = maps
        .create(&PostParams::default(), &config_map("elsewhere", 0))
        .await?;

    // Bookmarks are best effort: a busy server may end a watch without one.
    let sent = wait_for("a watch sends a bookmark", async || {
        let sent = frames(&client, &format!("{idle}&resourceVersion={before}")).await;
        sent.map(|sent| (!sent.is_empty()).then_some(sent)).transpose()
    })
    .await?;

    let last = sent.last().unwrap_or(&Value::Null);
    assert!(sent.iter().all(|frame| frame["type"] == "BOOKMARK"), "{sent:?}");
    let version = last["object"]["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    let written = written.metadata.resource_version.unwrap_or_default();
    assert!(
        ResourceVersion::compare(&written, version).is_some_and(|order| order.is_le()),
        "the bookmark has version {version}, but {written} was written before"
    );
    assert_eq!(
        (&last["object"]["kind"], &last["object"]["apiVersion"]),
        (&json!("ConfigMap"), &json!("v1"))
    );
    // Nothing is left after that version.
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

async fn idle_informer_reaches_versions_written_outside_its_scope(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let scope = Scope::namespace(&namespace.name).labels(&unique("idle"))?;
    let observed = Observed::synced(Informer::<ConfigMap>::scoped(client.clone(), scope)).await?;
    let written = namespace
        .config_maps()
        .create(&PostParams::default(), &config_map("elsewhere", 0))
        .await?;
    let version = written.metadata.resource_version.unwrap_or_default();

    // Bookmarks are sent about once a minute.
    observed.informer.wait_for_within(&version, TIMEOUT * 2).await?;

    let members = observed.informer.stats().members;
    assert!(members[0].reflector.bookmarks > 0);
    assert_eq!(observed.lists(), 1);
    assert_eq!(observed.log.len(), 0, "no event is delivered");
    namespace.delete().await?;
    Ok(())
}
