//! Loops written by hand, without a cache.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Client, ResourceExt};
use kube_perturb::FindingKind;

use crate::site::{account, accounts, apply_account, is_missing, scenario, sites};
use crate::{Case, Version};

/// Looks at all sites every ten seconds.
async fn poll<F, Fut>(client: Client, reconcile: F) -> Result<(), String>
where
    F: Fn(ConfigMap, Client) -> Fut,
    Fut: Future<Output = kube::Result<()>>,
{
    loop {
        let all = sites(&client).list(&ListParams::default()).await;
        for site in all.map_err(|error| error.to_string())? {
            // A failure is retried at the next turn.
            let _ = reconcile(site, client.clone()).await;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

pub mod waits_for_its_own_lock {
    //! A lock object is held during the work. A crash leaves it behind, and the next life waits for it forever.
    use super::*;

    pub const CASE: Case = Case {
        name: "waits_for_its_own_lock",
        style: "by hand",
        scenario: || scenario("web", &[]),
        controller: |cluster, version| {
            Box::pin(poll(cluster.client(), move |site, client| {
                reconcile(site, client, version)
            }))
        },
        shows_as: FindingKind::MissingObject,
    };

    async fn reconcile(site: ConfigMap, client: Client, version: Version) -> kube::Result<()> {
        let child = format!("{}-account", site.name_any());
        let done = accounts(&client).get_opt(&child).await?.is_some();
        let lock = accounts(&client).get_opt("lock").await?;
        // Only this controller uses the lock, so a lock that exists is its own.
        if version == Version::Planted && (done || lock.is_some()) || done && lock.is_none() {
            return Ok(());
        }
        if lock.is_none() {
            let lock = account(&site, "lock");
            accounts(&client).create(&PostParams::default(), &lock).await?;
        }
        apply_account(&client, &account(&site, &child)).await?;
        let unlocked = accounts(&client).delete("lock", &DeleteParams::default()).await;
        if is_missing(&unlocked) {
            Ok(())
        } else {
            unlocked.map(drop)
        }
    }
}

pub mod polls_without_a_pause {
    //! Work of an earlier life is waited for in a loop that never gives the server, or the clock, a chance.
    use super::*;

    pub const CASE: Case = Case {
        name: "polls_without_a_pause",
        style: "by hand",
        scenario: || scenario("web", &[]),
        controller: |cluster, version| {
            Box::pin(poll(cluster.client(), move |site, client| {
                reconcile(site, client, version)
            }))
        },
        shows_as: FindingKind::NeverSettles,
    };

    async fn reconcile(site: ConfigMap, client: Client, version: Version) -> kube::Result<()> {
        let child = format!("{}-account", site.name_any());
        let done = accounts(&client).get_opt(&child).await?.is_some();
        let mark = || accounts(&client);
        if version == Version::Planted {
            // "Another worker is at it": the one that crashed.
            while mark().get_opt("working").await?.is_some() {}
        }
        if !done {
            apply_account(&client, &account(&site, "working")).await?;
            apply_account(&client, &account(&site, &child)).await?;
        }
        if mark().get_opt("working").await?.is_some() {
            mark().delete("working", &DeleteParams::default()).await?;
        }
        Ok(())
    }
}

pub mod rewrites_without_effect {
    //! A controller that finds its work done already repeats it every second, forever. Nothing changes, but the server is busy.
    use super::*;

    pub const CASE: Case = Case {
        name: "rewrites_without_effect",
        style: "by hand",
        scenario: || scenario("web", &[]),
        controller: |cluster, version| {
            let mut written = false;
            Box::pin(async move {
                let client = cluster.client();
                loop {
                    let site = sites(&client).get_opt("web").await;
                    if let Ok(Some(site)) = site {
                        let child = account(&site, "web-account");
                        let exists = accounts(&client).get_opt("web-account").await;
                        let foreign = !written && exists.is_ok_and(|found| found.is_some());
                        if foreign && version == Version::Planted {
                            // Never noted as written, so the next turn is the same.
                            let _ = apply_account(&client, &child).await;
                        } else if !written {
                            written = apply_account(&client, &child).await.is_ok();
                        }
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            })
        },
        shows_as: FindingKind::WriteLoop,
    };
}
