//! Connections that break, and readers that do not keep up.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube_informers::{Informer, Scope};
use kube_informers_e2e::Server;
use serde_json::json;

use crate::support::{Observed, Outcome, all, config_map, merge, namespace, scenarios};

scenarios! {
    a_lost_connection_is_resumed_where_it_broke_without_a_list: Setup::shared();
    a_reader_that_stops_reading_for_a_while_catches_up_exactly: Setup::shared();
}

async fn a_lost_connection_is_resumed_where_it_broke_without_a_list(server: &Server) -> Outcome {
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
        .story
        .wait_for("all three are known", |story| story.len() == 3)
        .await;

    // Cut, and open again at once.
    proxy.cut();
    merge(&maps, "changed", json!({ "data": { "value": "1" } })).await?;
    observed
        .story
        .wait_for("the change is told", |story| story.len() == 4)
        .await;
    // Down for a while, in which things happen.
    proxy.close();
    merge(&maps, "changed", json!({ "data": { "value": "2" } })).await?;
    merge(&maps, "changed", json!({ "data": { "value": "3" } })).await?;
    maps.delete("deleted", &DeleteParams::default()).await?;
    maps.create(&PostParams::default(), &config_map("new", 0)).await?;
    proxy.open();

    observed
        .story
        .wait_for("everything is told", |story| story.len() == 8)
        .await;
    assert_eq!(
        observed.story.since(3),
        [
            "updated changed",
            "updated changed",
            "updated changed",
            "deleted deleted",
            "added new"
        ],
        "nothing is skipped: the server still had every step"
    );
    observed
        .assert_exact(&[maps], &ListParams::default().labels("even"))
        .await?;
    assert_eq!(observed.lists(), 1, "never listed again");
    assert_eq!(observed.informer.stats().totals.missed, 0);
    assert!(observed.errors("transport") > 0, "it did lose its connection");
    namespace.delete().await?;
    Ok(())
}

async fn a_reader_that_stops_reading_for_a_while_catches_up_exactly(server: &Server) -> Outcome {
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
    // More than the buffers between here and there hold: 1,200 changes of 16 KiB each.
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
        observed.story.len() < 20 + 1_205,
        "the informer cannot know all of that yet"
    );
    proxy.unclog();

    observed
        .assert_exact(&[maps], &ListParams::default().labels("even"))
        .await?;
    assert_eq!(observed.lists(), 1, "the server still had every step");
    assert_eq!(observed.story.len(), 20 + 1_205, "and told each of them once");
    namespace.delete().await?;
    Ok(())
}
