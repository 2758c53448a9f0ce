//! Broken connections and slow readers.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube_informers::{Informer, Scope};
use kube_informers_e2e::Server;
use serde_json::json;

use crate::scenarios::support::{Observed, Outcome, all, config_map, merge, namespace, scenarios};

scenarios! {
    watch_resumes_after_a_lost_connection_without_a_list: Setup::shared();
    slow_reader_catches_up_exactly: Setup::shared();
}

async fn watch_resumes_after_a_lost_connection_without_a_list(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let proxy = server.proxy().await?;
    let scope = Scope::namespace(&namespace.name).labels("even")?;
    for name in ["kept", "changed", "deleted"] {
        maps.create(&PostParams::default(), &config_map(name, 0)).await?;
    }
    let observed = Observed::synced(Informer::<ConfigMap>::scoped(
        server.client_through(&proxy)?,
        scope,
    ))
    .await?;
    observed
        .log
        .wait_for("all three are delivered", |log| log.len() == 3)
        .await;

    // Cut, with immediate reconnects.
    proxy.cut();
    merge(&maps, "changed", json!({ "data": { "value": "1" } })).await?;
    observed
        .log
        .wait_for("the change is delivered", |log| log.len() == 4)
        .await;
    // Closed for a while, during which objects change.
    proxy.close();
    merge(&maps, "changed", json!({ "data": { "value": "2" } })).await?;
    merge(&maps, "changed", json!({ "data": { "value": "3" } })).await?;
    maps.delete("deleted", &DeleteParams::default()).await?;
    maps.create(&PostParams::default(), &config_map("new", 0)).await?;
    proxy.open();

    observed
        .log
        .wait_for("everything is delivered", |log| log.len() == 8)
        .await;
    assert_eq!(
        observed.log.since(3),
        [
            "updated changed",
            "updated changed",
            "updated changed",
            "deleted deleted",
            "added new"
        ],
        "no change is skipped: the server still has the history"
    );
    observed
        .assert_exact(&[maps], &ListParams::default().labels("even"))
        .await?;
    assert_eq!(observed.lists(), 1, "no relist");
    assert_eq!(observed.informer.stats().totals.missed, 0);
    assert!(observed.errors("transport") > 0, "the connection was lost");
    namespace.delete().await?;
    Ok(())
}

async fn slow_reader_catches_up_exactly(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let proxy = server.proxy().await?;
    let scope = Scope::namespace(&namespace.name).labels("even")?;
    for i in 0..20 {
        maps.create(&PostParams::default(), &config_map(&format!("slow-{i}"), i))
            .await?;
    }
    let observed = Observed::synced(Informer::<ConfigMap>::scoped(
        server.client_through(&proxy)?,
        scope,
    ))
    .await?;

    proxy.clog();
    // More than all buffers hold: 1,200 changes of 16 KiB each.
    let filling = "x".repeat(16 * 1024);
    all(16, 0..20, async |i: usize| {
        for change in 0..60 {
            merge(
                &maps,
                &format!("slow-{i}"),
                json!({ "data": { "value": format!("{change} {filling}") } }),
            )
            .await?;
        }
        if i.is_multiple_of(4) {
            maps.delete(&format!("slow-{i}"), &DeleteParams::default())
                .await?;
        }
        Ok::<(), kube::Error>(())
    })
    .await?;
    assert!(
        observed.log.len() < 20 + 1_205,
        "the informer cannot have received everything yet"
    );
    proxy.unclog();

    observed
        .assert_exact(&[maps], &ListParams::default().labels("even"))
        .await?;
    assert_eq!(observed.lists(), 1, "the server still has the history");
    assert_eq!(observed.log.len(), 20 + 1_205, "each change is delivered once");
    namespace.delete().await?;
    Ok(())
}
