//! The server dies and comes back, or forgets its history.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube_informers::{Informer, Scope};
use kube_informers_e2e::{NoServer, Proxy, Server};
use serde_json::json;

use crate::support::{Observed, Outcome, config_map, get, merge, namespace, scenarios};

scenarios! {
    a_server_that_stops_in_order_is_found_again_and_nobody_is_told_what_did_not_change: Setup::own();
    a_killed_and_restarted_server_is_found_again_and_nobody_is_told_what_did_not_change: Setup::own();
    changes_from_before_a_restart_that_nobody_saw_are_found_by_one_list: Setup::own();
    a_version_that_was_compacted_away_leads_to_one_list: Setup::without_watch_cache();
    a_page_whose_version_was_compacted_away_says_how_to_go_on: Setup::without_watch_cache();
}

/// What happens while nobody can watch.
async fn change_behind_its_back(maps: &Api<ConfigMap>) -> Result<(), kube::Error> {
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

/// What a handler is told of that by a list: each object once, deletions as missed ones, nothing of what is unchanged.
async fn assert_told_by_a_list(observed: &Observed<ConfigMap>) -> Outcome {
    observed
        .story
        .wait_for("everything is told", |story| story.len() >= 9)
        .await;
    let mut told = observed.story.since(4);
    told.sort();
    assert_eq!(
        told,
        [
            "added new",
            "added reborn",
            "deleted (missed) deleted",
            "deleted (missed) reborn",
            "updated changed"
        ]
    );
    // The handler may hear of a list before it is counted.
    observed
        .wait_for("one list more", |observed| observed.lists() == 2)
        .await;
    assert_eq!(observed.relists("expired"), 1, "because the version had expired");
    assert_eq!(
        observed.informer.stats().totals.unchanged,
        1,
        "what was kept is known"
    );
    Ok(())
}

async fn a_killed_and_restarted_server_is_found_again_and_nobody_is_told_what_did_not_change(
    server: &Server,
) -> Outcome {
    is_found_again(server, async || server.kill().await).await
}

async fn a_server_that_stops_in_order_is_found_again_and_nobody_is_told_what_did_not_change(
    server: &Server,
) -> Outcome {
    is_found_again(server, async || server.shutdown().await).await
}

async fn is_found_again(server: &Server, end: impl AsyncFn() -> Result<(), NoServer>) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    fill(&maps).await?;
    let scope = Scope::namespace(&namespace.name).labels("even")?;
    let observed = Observed::synced(Informer::<ConfigMap>::scoped(client.clone(), scope)).await?;
    observed
        .story
        .wait_for("all are known", |story| story.len() == 4)
        .await;

    end().await?;
    observed
        .wait_for("it noticed", |observed| observed.errors("transport") > 0)
        .await;
    assert_eq!(
        observed.informer.store().len(),
        4,
        "what is cached can still be read"
    );
    server.start_again().await?;
    merge(&maps, "changed", json!({ "data": { "value": "1" } })).await?;

    observed
        .story
        .wait_for("the change is told", |story| story.len() == 5)
        .await;
    assert_eq!(observed.story.since(4), ["updated changed"], "and nothing else");
    observed
        .assert_exact(&[maps], &ListParams::default().labels("even"))
        .await?;
    // A server that was restarted remembers no changes from before. Whether our version is the one it began with
    // depends on what else was written meanwhile: if not, it has expired.
    observed
        .wait_for("every list more has its reason", |observed| {
            observed.lists() == 1 + observed.relists("expired")
        })
        .await;
    assert!(observed.lists() <= 2);
    Ok(())
}

async fn changes_from_before_a_restart_that_nobody_saw_are_found_by_one_list(server: &Server) -> Outcome {
    let blind = Blind::new(server).await?;
    server.kill_and_restart().await?;
    blind.finds_out_by_one_list().await
}

async fn a_version_that_was_compacted_away_leads_to_one_list(server: &Server) -> Outcome {
    let blind = Blind::new(server).await?;
    server.compact().await?;
    blind.finds_out_by_one_list().await
}

/// An informer that was synced, then cut off, and behind whose back things have changed.
struct Blind {
    maps: Api<ConfigMap>,
    proxy: Proxy,
    observed: Observed<ConfigMap>,
}

impl Blind {
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
            .story
            .wait_for("all are known", |story| story.len() == 4)
            .await;

        proxy.close();
        change_behind_its_back(&maps).await?;
        Ok(Self {
            maps,
            proxy,
            observed,
        })
    }

    async fn finds_out_by_one_list(self) -> Outcome {
        self.proxy.open();
        assert_told_by_a_list(&self.observed).await?;
        self.observed
            .assert_exact(&[self.maps], &ListParams::default().labels("even"))
            .await?;
        Ok(())
    }
}

async fn a_page_whose_version_was_compacted_away_says_how_to_go_on(server: &Server) -> Outcome {
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
