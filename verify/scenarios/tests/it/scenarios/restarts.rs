//! The server restarts or loses its history.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube_informers::{Informer, Scope};
use kube_informers_e2e::{NoServer, Proxy, Server};
use serde_json::json;

use crate::scenarios::support::{Observed, Outcome, config_map, get, merge, namespace, scenarios};

scenarios! {
    graceful_server_restart_delivers_no_unchanged_objects: Setup::own();
    killed_server_restart_delivers_no_unchanged_objects: Setup::own();
    unseen_changes_before_a_restart_are_found_by_one_list: Setup::own();
    compacted_version_causes_one_list: Setup::without_watch_cache();
    compacted_page_returns_a_resumable_token: Setup::without_watch_cache();
}

/// Changes while the informer cannot watch.
async fn change_while_disconnected(maps: &Api<ConfigMap>) -> Result<(), kube::Error> {
    merge(maps, "changed", json!({ "data": { "value": "1" } })).await?;
    merge(maps, "changed", json!({ "data": { "value": "2" } })).await?;
    maps.delete("deleted", &DeleteParams::default()).await?;
    maps.delete("reborn", &DeleteParams::default()).await?;
    maps.create(&PostParams::default(), &config_map("reborn", 0))
        .await?;
    maps.create(&PostParams::default(), &config_map("new", 0)).await?;
    Ok(())
}

async fn fill(maps: &Api<ConfigMap>) -> Result<(), kube::Error> {
    for name in ["changed", "deleted", "kept", "reborn"] {
        maps.create(&PostParams::default(), &config_map(name, 0)).await?;
    }
    Ok(())
}

/// Checks the events delivered by the relist: one per object, deletions as missed deletes, nothing for unchanged
/// objects.
async fn assert_delivered_by_relist(observed: &Observed<ConfigMap>) -> Outcome {
    observed
        .log
        .wait_for("everything is delivered", |log| log.len() >= 9)
        .await;
    let mut calls = observed.log.since(4);
    calls.sort();
    assert_eq!(
        calls,
        [
            "added new",
            "added reborn",
            "deleted (missed) deleted",
            "deleted (missed) reborn",
            "updated changed"
        ]
    );
    // The handler may receive the list before it is counted.
    observed
        .wait_for("one more list", |observed| observed.lists() == 2)
        .await;
    assert_eq!(observed.relists("expired"), 1, "the version had expired");
    assert_eq!(
        observed.informer.stats().totals.unchanged,
        1,
        "unchanged objects stay in the cache"
    );
    Ok(())
}

async fn killed_server_restart_delivers_no_unchanged_objects(server: &Server) -> Outcome {
    reconnects_after(server, async || server.kill().await).await
}

async fn graceful_server_restart_delivers_no_unchanged_objects(server: &Server) -> Outcome {
    reconnects_after(server, async || server.shutdown().await).await
}

async fn reconnects_after(server: &Server, end: impl AsyncFn() -> Result<(), NoServer>) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    fill(&maps).await?;
    let scope = Scope::namespace(&namespace.name).labels("even")?;
    let observed = Observed::synced(Informer::<ConfigMap>::scoped(client.clone(), scope)).await?;
    observed
        .log
        .wait_for("all are delivered", |log| log.len() == 4)
        .await;

    end().await?;
    observed
        .wait_for("it noticed", |observed| observed.errors("transport") > 0)
        .await;
    assert_eq!(observed.informer.store().len(), 4, "the cache can still be read");
    server.start_again().await?;
    merge(&maps, "changed", json!({ "data": { "value": "1" } })).await?;

    observed
        .log
        .wait_for("the change is delivered", |log| log.len() == 5)
        .await;
    assert_eq!(
        observed.log.since(4),
        ["updated changed"],
        "nothing else is delivered"
    );
    observed
        .assert_exact(&[maps], &ListParams::default().labels("even"))
        .await?;
    // A restarted server has no history from before. Whether our version is its first one depends on other writes; if
    // not, it has expired.
    observed
        .wait_for("every further list has a reason", |observed| {
            observed.lists() == 1 + observed.relists("expired")
        })
        .await;
    assert!(observed.lists() <= 2);
    Ok(())
}

async fn unseen_changes_before_a_restart_are_found_by_one_list(server: &Server) -> Outcome {
    let blind = Disconnected::new(server).await?;
    server.kill_and_restart().await?;
    blind.catches_up_with_one_list().await
}

async fn compacted_version_causes_one_list(server: &Server) -> Outcome {
    let blind = Disconnected::new(server).await?;
    server.compact().await?;
    blind.catches_up_with_one_list().await
}

/// An informer that was synced and then disconnected, with changes it has not seen.
struct Disconnected {
    maps: Api<ConfigMap>,
    proxy: Proxy,
    observed: Observed<ConfigMap>,
}

impl Disconnected {
    async fn new(server: &Server) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let client = server.client()?;
        let namespace = namespace(&client).await?;
        let maps = namespace.config_maps();
        fill(&maps).await?;
        let proxy = server.proxy().await?;
        let scope = Scope::namespace(&namespace.name).labels("even")?;
        let informer = Informer::<ConfigMap>::scoped(server.client_through(&proxy)?, scope);
        let observed = Observed::synced(informer).await?;
        observed
            .log
            .wait_for("all are delivered", |log| log.len() == 4)
            .await;

        proxy.close();
        // Connections are reset by their own tasks: until then they forward what the server sends.
        observed
            .wait_for("all connections are closed", |_| proxy.connections() == 0)
            .await;
        change_while_disconnected(&maps).await?;
        Ok(Self {
            maps,
            proxy,
            observed,
        })
    }

    async fn catches_up_with_one_list(self) -> Outcome {
        self.proxy.open();
        assert_delivered_by_relist(&self.observed).await?;
        self.observed
            .assert_exact(&[self.maps], &ListParams::default().labels("even"))
            .await?;
        Ok(())
    }
}

async fn compacted_page_returns_a_resumable_token(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    fill(&maps).await?;
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?labelSelector=even&limit=2",
        namespace.name
    );
    let first = get(&client, &path).await?;
    assert_eq!(first.names(), ["changed", "deleted"]);
    let (token, version) = (
        first.text_at("/metadata/continue"),
        first.text_at("/metadata/resourceVersion"),
    );
    let exact = format!(
        "/api/v1/namespaces/{}/configmaps?resourceVersion={version}&resourceVersionMatch=Exact",
        namespace.name
    );
    assert_eq!(
        get(&client, &format!("{path}&continue={token}")).await?.names(),
        ["kept", "reborn"]
    );

    merge(&maps, "changed", json!({ "data": { "value": "1" } })).await?;
    server.compact().await?;

    let expired = get(&client, &format!("{path}&continue={token}")).await?;
    assert_eq!((expired.code, expired.text_at("/reason")), (410, "Expired"));
    assert!(
        expired
            .text_at("/message")
            .starts_with("The provided continue parameter is too old"),
        "{}",
        expired.text
    );
    let resumed = get(
        &client,
        &format!("{path}&continue={}", expired.text_at("/metadata/continue")),
    )
    .await?;
    assert_eq!(resumed.names(), ["kept", "reborn"]);
    assert_eq!(
        get(&client, &exact).await?.status(),
        (
            410,
            "Expired",
            "The resourceVersion for the provided list is too old."
        )
    );
    Ok(())
}
