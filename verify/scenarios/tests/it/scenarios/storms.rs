//! Many concurrent writers.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube_informers::{Informer, Scope};
use kube_informers_e2e::Server;
use serde_json::json;

use crate::scenarios::support::{EventLog, Observed, Outcome, all, config_map, merge, namespace, scenarios};

scenarios! {
    concurrent_writes_end_in_an_exact_cache: Setup::shared();
    late_handler_receives_a_snapshot_then_changes: Setup::shared();
}

async fn concurrent_writes_end_in_an_exact_cache(server: &Server) -> Outcome {
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
    assert_eq!(observed.lists(), 1, "one list; the watch delivers the rest");
    assert_eq!(observed.informer.stats().totals.missed, 0);
    namespace.delete().await?;
    Ok(())
}

async fn late_handler_receives_a_snapshot_then_changes(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    maps.create(&PostParams::default(), &config_map("before", 1))
        .await?;
    let scope = Scope::namespace(&namespace.name).labels("even")?;
    let observed = Observed::synced(Informer::<ConfigMap>::scoped(client.clone(), scope)).await?;
    let log = EventLog::new();
    let registration = observed.informer.add_event_handler(log.handler())?;
    registration.synced().await?;
    assert!(log.since(0).contains(&"added (initial) before".to_owned()));
    let before = log.len();

    maps.create(&PostParams::default(), &config_map("after", 1))
        .await?;
    merge(&maps, "before", json!({ "data": { "value": "2" } })).await?;
    maps.delete("after", &DeleteParams::default()).await?;

    log.wait_for("three more calls", |log| log.len() == before + 3)
        .await;
    assert_eq!(
        log.since(before),
        ["added after", "updated before", "deleted after"]
    );
    observed
        .assert_exact(&[maps], &ListParams::default().labels("even"))
        .await?;
    namespace.delete().await?;
    Ok(())
}
