//! Controllers with kube-runtime.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Client, ResourceExt};
use kube_perturb::FindingKind;
use kube_runtime::controller::Action;
use kube_runtime::{Controller, watcher};
use serde_json::json;

use crate::site::{
    FINALIZER, account, accounts, apply_account, ensure_account, is_missing, manifest, merge, scenario,
    sites, value,
};
use crate::{Case, Version};

/// Runs a reconciler for all sites, until the end of the process.
async fn control<F, Fut>(client: Client, config: watcher::Config, reconcile: F) -> Result<(), String>
where
    F: Fn(Arc<ConfigMap>, Client) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = kube::Result<()>> + Send + 'static,
{
    let context = Arc::new((client.clone(), reconcile));
    Controller::new(sites(&client), config)
        .run(
            |site, context: Arc<(Client, F)>| async move {
                (context.1)(site, context.0.clone()).await?;
                Ok(Action::requeue(Duration::from_secs(600)))
            },
            |_, _: &kube::Error, _| Action::requeue(Duration::from_secs(5)),
            context,
        )
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}

pub mod creates_twice_after_a_crash {
    //! The name of the child is generated and noted in the parent afterwards. A crash in between forgets the child.
    use super::*;

    pub const CASE: Case = Case {
        name: "creates_twice_after_a_crash",
        style: "kube-runtime",
        scenario: || scenario("web", &[]),
        controller: |cluster, version| {
            Box::pin(control(
                cluster.client(),
                watcher::Config::default(),
                move |site, client| reconcile(site, client, version),
            ))
        },
        shows_as: FindingKind::LeakedObject,
    };

    async fn reconcile(site: Arc<ConfigMap>, client: Client, version: Version) -> kube::Result<()> {
        let name = site.name_any();
        if version == Version::Corrected {
            return apply_account(&client, &account(&site, &format!("{name}-account")))
                .await
                .map(drop);
        }
        if value(&site, "account").is_some() {
            return Ok(());
        }
        let mut child = account(&site, "");
        child.metadata.name = None;
        child.metadata.generate_name = Some(format!("{name}-"));
        let child = accounts(&client).create(&PostParams::default(), &child).await?;
        merge(&client, &name, json!({"data": {"account": child.name_any()}})).await?;
        Ok(())
    }
}

pub mod never_removes_a_finalizer {
    //! The cleanup fails if a part of it was done already, so the finalizer is never removed.
    use super::*;

    pub const CASE: Case = Case {
        name: "never_removes_a_finalizer",
        style: "kube-runtime",
        scenario: || scenario("web", &[]).delete("delete web", "configmaps", "shop/web"),
        controller: |cluster, version| {
            Box::pin(control(
                cluster.client(),
                watcher::Config::default(),
                move |site, client| reconcile(site, client, version),
            ))
        },
        shows_as: FindingKind::StuckFinalizer,
    };

    async fn reconcile(site: Arc<ConfigMap>, client: Client, version: Version) -> kube::Result<()> {
        let name = site.name_any();
        let child = format!("{name}-account");
        if site.metadata.deletion_timestamp.is_some() {
            let deleted = accounts(&client).delete(&child, &DeleteParams::default()).await;
            if version == Version::Planted || !is_missing(&deleted) {
                deleted?;
            }
            let released = merge(&client, &name, json!({"metadata": {"finalizers": null}})).await;
            return if is_missing(&released) {
                Ok(())
            } else {
                released.map(drop)
            };
        }
        if !site.finalizers().iter().any(|name| name == FINALIZER) {
            merge(&client, &name, json!({"metadata": {"finalizers": [FINALIZER]}})).await?;
        }
        let mut child = account(&site, &child);
        child.metadata.owner_references = None;
        apply_account(&client, &child).await.map(drop)
    }
}

pub mod deletes_by_a_stale_read {
    //! A site that is switched off loses its child. A stale view shows it switched off although it is not.
    use super::*;

    pub const CASE: Case = Case {
        name: "deletes_by_a_stale_read",
        style: "kube-runtime",
        scenario: || {
            scenario("web", &[("mode", "off")])
                .patch(
                    "switch on",
                    "configmaps",
                    "shop/web",
                    json!({"data": {"mode": "on"}}),
                )
                .patch(
                    "store something in the child",
                    "serviceaccounts",
                    "shop/web-account",
                    json!({"metadata": {"annotations": {"rows": "5"}}}),
                )
        },
        controller: |cluster, version| {
            // Reads from the server's cache, as Go's informers do. With a page size kube would not ask for it.
            let config = watcher::Config {
                page_size: None,
                ..watcher::Config::default().any_semantic()
            };
            Box::pin(control(cluster.client(), config, move |site, client| {
                reconcile(site, client, version)
            }))
        },
        shows_as: FindingKind::DifferentObject,
    };

    async fn reconcile(site: Arc<ConfigMap>, client: Client, version: Version) -> kube::Result<()> {
        let name = site.name_any();
        let child = format!("{name}-account");
        if value(&site, "mode") != Some("off") {
            return ensure_account(&client, &account(&site, &child)).await;
        }
        if version == Version::Corrected {
            // Asks the storage before it deletes anything.
            let now = sites(&client).get_opt(&name).await?;
            if now.is_none_or(|now| value(&now, "mode") != Some("off")) {
                return Ok(());
            }
        }
        let deleted = accounts(&client).delete(&child, &DeleteParams::default()).await;
        if is_missing(&deleted) {
            Ok(())
        } else {
            deleted.map(drop)
        }
    }
}

pub mod relies_on_a_transient_state {
    //! The child is created while the site is starting. A controller that never observes that phase never creates it.
    use super::*;

    pub const CASE: Case = Case {
        name: "relies_on_a_transient_state",
        style: "kube-runtime",
        scenario: || {
            let phase = |phase: &str| json!({"data": {"phase": phase}});
            scenario("web", &[("phase", "new")])
                .patch("start", "configmaps", "shop/web", phase("starting"))
                .patch("run", "configmaps", "shop/web", phase("running"))
        },
        controller: |cluster, version| {
            Box::pin(control(
                cluster.client(),
                watcher::Config::default(),
                move |site, client| reconcile(site, client, version),
            ))
        },
        shows_as: FindingKind::MissingObject,
    };

    async fn reconcile(site: Arc<ConfigMap>, client: Client, version: Version) -> kube::Result<()> {
        let wanted = match version {
            Version::Planted => value(&site, "phase") == Some("starting"),
            Version::Corrected => matches!(value(&site, "phase"), Some("starting" | "running")),
        };
        if wanted {
            apply_account(&client, &account(&site, &format!("{}-account", site.name_any()))).await?;
        }
        Ok(())
    }
}

pub mod numbers_from_memory {
    //! Sites are numbered by a counter in memory, which begins at 1 again after a restart.
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    pub const CASE: Case = Case {
        name: "numbers_from_memory",
        style: "kube-runtime",
        scenario: || scenario("web", &[]).apply("create db", manifest("db", &[])),
        controller: |cluster, version| {
            let counter = Arc::new(AtomicUsize::new(0));
            Box::pin(control(
                cluster.client(),
                watcher::Config::default(),
                move |site, client| reconcile(site, client, counter.clone(), version),
            ))
        },
        shows_as: FindingKind::DifferentObject,
    };

    async fn reconcile(
        site: Arc<ConfigMap>,
        client: Client,
        counter: Arc<AtomicUsize>,
        version: Version,
    ) -> kube::Result<()> {
        if value(&site, "number").is_some() {
            return Ok(());
        }
        let number = match version {
            Version::Planted => counter.fetch_add(1, Ordering::Relaxed) + 1,
            Version::Corrected => {
                // By age, which every life of the controller finds the same.
                let mut all = sites(&client).list(&ListParams::default()).await?.items;
                all.sort_by_key(|site| (site.metadata.creation_timestamp.clone(), site.name_any()));
                let rank = all
                    .iter()
                    .position(|other| other.metadata.uid == site.metadata.uid);
                let Some(rank) = rank else { return Ok(()) };
                rank + 1
            }
        };
        merge(
            &client,
            &site.name_any(),
            json!({"data": {"number": number.to_string()}}),
        )
        .await
        .map(drop)
    }
}

pub mod panics_on_half_done_work {
    //! A site that is marked as set up must have its child, the author thought.
    use super::*;

    pub const CASE: Case = Case {
        name: "panics_on_half_done_work",
        style: "kube-runtime",
        scenario: || scenario("web", &[]),
        controller: |cluster, version| {
            Box::pin(control(
                cluster.client(),
                watcher::Config::default(),
                move |site, client| reconcile(site, client, version),
            ))
        },
        shows_as: FindingKind::Panic,
    };

    async fn reconcile(site: Arc<ConfigMap>, client: Client, version: Version) -> kube::Result<()> {
        let name = site.name_any();
        let child = format!("{name}-account");
        if version == Version::Corrected {
            apply_account(&client, &account(&site, &child)).await?;
            if value(&site, "ready").is_none() {
                merge(&client, &name, json!({"data": {"ready": "yes"}})).await?;
            }
            return Ok(());
        }
        if value(&site, "ready").is_some() {
            let child = accounts(&client).get_opt(&child).await?;
            child.expect("a site that is ready has its account");
            return Ok(());
        }
        // The wrong order: the mark first.
        merge(&client, &name, json!({"data": {"ready": "yes"}})).await?;
        apply_account(&client, &account(&site, &child)).await.map(drop)
    }
}
