//! Many writers at once: creations, changes and deletions on top of each other.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube_informers::{Informer, Scope};
use kube_informers_e2e::Server;
use serde_json::json;

use crate::support::{Observed, Outcome, Story, all, config_map, merge, namespace, scenarios};

scenarios! {
    a_storm_of_creations_changes_and_deletions_ends_in_an_exact_cache: Setup::shared();
    a_late_handler_is_told_what_is_there_and_then_what_follows: Setup::shared();
}

async fn a_storm_of_creations_changes_and_deletions_ends_in_an_exact_cache(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let observed =
        Observed::synced(Informer::<ConfigMap>::namespaced(client.clone(), &namespace.name)).await?;

    // Each writer has its own objects; the server interleaves them.
    all(16, 0..200, async |i: usize| {
        let name = format!("storm-{i}");
        maps.create(&PostParams::default(), &config_map(&name, i)).await?;
        for change in 1..=i % 4 {
            merge(&maps, &name, json!({ "data": { "value": change.to_string() } })).await?;
        }
        if i.is_multiple_of(3) {
            maps.delete(&name, &DeleteParams::default()).await?;
        }
        if i.is_multiple_of(6) {
            maps.create(&PostParams::default(), &config_map(&name, i + 1))
                .await?;
        }
        Ok::<(), kube::Error>(())
    })
    .await?;

    observed.assert_exact(&[maps], &ListParams::default()).await?;
    assert_eq!(observed.lists(), 1, "one list, and the watch told the rest");
    assert_eq!(observed.informer.stats().totals.missed, 0);
    namespace.delete().await?;
    Ok(())
}

async fn a_late_handler_is_told_what_is_there_and_then_what_follows(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    maps.create(&PostParams::default(), &config_map("before", 1))
        .await?;
    let scope = Scope::namespace(&namespace.name).labels("even")?;
    let observed = Observed::synced(Informer::<ConfigMap>::scoped(client.clone(), scope)).await?;
    let story = Story::new();
    let registration = observed.informer.add_event_handler(story.handler())?;
    registration.synced().await?;
    assert!(story.since(0).contains(&"added (initial) before".to_owned()));
    let told = story.len();

    maps.create(&PostParams::default(), &config_map("after", 1))
        .await?;
    merge(&maps, "before", json!({ "data": { "value": "2" } })).await?;
    maps.delete("after", &DeleteParams::default()).await?;

    story
        .wait_for("three more calls", |story| story.len() == told + 3)
        .await;
    assert_eq!(
        story.since(told),
        ["added after", "updated before", "deleted after"]
    );
    observed
        .assert_exact(&[maps], &ListParams::default().labels("even"))
        .await?;
    namespace.delete().await?;
    Ok(())
}
