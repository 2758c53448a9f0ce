//! Controllers with kube-informers and kube-controller.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use kube_controller::{Action, Controller, OwnWrites, Watch};
use kube_informers::{Event, Informer, Object, ObjectKey, Store};
use kube_perturb::FindingKind;
use serde_json::json;

use crate::site::{account, accounts, apply_account, manifest, merge, scenario, value};
use crate::{Case, Version};

/// Runs a reconciler for the keys of all sites.
async fn control<F, Fut>(sites: Informer<ConfigMap>, reconcile: F) -> Result<(), String>
where
    F: Fn(ObjectKey, Store<ConfigMap>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = kube::Result<Action>> + Send + 'static,
{
    let store = sites.store();
    Controller::new("sites")
        .watches(Watch::object(&sites))
        .run_until(std::future::pending(), move |key: ObjectKey| {
            reconcile(key, store.clone())
        })
        .await
        .map_err(|error| error.to_string())
}

pub mod misses_a_deletion {
    //! The child is deleted by the handler of the delete event, which a controller that is down does not receive.
    use super::*;

    pub const CASE: Case = Case {
        name: "misses_a_deletion",
        style: "kube-controller",
        scenario: || scenario("web", &[]).delete("delete web", "configmaps", "shop/web"),
        controller: |cluster, version| Box::pin(run(cluster.client(), version)),
        shows_as: FindingKind::LeakedObject,
    };

    async fn run(client: Client, version: Version) -> Result<(), String> {
        let sites = Informer::<ConfigMap>::all(client.clone()).start();
        if version == Version::Planted {
            let client = client.clone();
            let on_delete = move |event: Event<ConfigMap>| {
                let client = client.clone();
                async move {
                    if let Event::Deleted { object, .. } = event {
                        let child = format!("{}-account", object.name_any());
                        let _ = accounts(&client).delete(&child, &DeleteParams::default()).await;
                    }
                }
            };
            sites
                .add_event_handler(on_delete)
                .map_err(|error| error.to_string())?;
        }
        control(sites, move |key, store| {
            let client = client.clone();
            async move {
                let Some(site) = store.get(&key) else {
                    return Ok(Action::Done);
                };
                let mut child = account(&site, &format!("{}-account", site.name_any()));
                if version == Version::Planted {
                    child.metadata.owner_references = None;
                }
                apply_account(&client, &child).await?;
                Ok(Action::Done)
            }
        })
        .await
    }
}

pub mod counts_children_in_a_stale_cache {
    //! Children are counted in the cache, which does not hold those of the last run yet.
    use super::*;

    pub const CASE: Case = Case {
        name: "counts_children_in_a_stale_cache",
        style: "kube-controller",
        scenario: || {
            scenario("web", &[("replicas", "2")]).patch(
                "scale",
                "configmaps",
                "shop/web",
                json!({"data": {"replicas": "3"}}),
            )
        },
        controller: |cluster, version| Box::pin(run(cluster.client(), version)),
        shows_as: FindingKind::LeakedObject,
    };

    async fn run(client: Client, version: Version) -> Result<(), String> {
        let sites = Informer::<ConfigMap>::all(client.clone()).start();
        let pods = Informer::<Pod>::all(client.clone()).start();
        let (store, writes) = (sites.store(), OwnWrites::new());
        let mut controller = Controller::new("replicas")
            .watches(Watch::object(&sites))
            .watches(Watch::owner::<ConfigMap>(&pods));
        if version == Version::Corrected {
            controller = controller.own_writes(&writes);
        }
        controller
            .run_until(std::future::pending(), move |key: ObjectKey| {
                let (client, store, pods, writes) =
                    (client.clone(), store.clone(), pods.clone(), writes.clone());
                async move {
                    let Some(site) = store.get(&key) else {
                        return Ok(Action::Done);
                    };
                    let wanted = value(&site, "replicas").and_then(|text| text.parse().ok());
                    let api = Api::<Pod>::namespaced(client, key.namespace().unwrap_or_default());
                    let api = writes.api(&key, api, &pods);
                    let children = pods.lister().controlled_by(&*site).len();
                    for _ in children..wanted.unwrap_or(0) {
                        api.create(&PostParams::default(), &pod_of(&site)).await?;
                    }
                    Ok::<_, kube::Error>(Action::RequeueAfter(Duration::from_secs(10)))
                }
            })
            .await
            .map_err(|error| error.to_string())
    }

    fn pod_of(site: &ConfigMap) -> Pod {
        Pod {
            metadata: ObjectMeta {
                namespace: site.namespace(),
                generate_name: Some(format!("{}-", site.object_name())),
                owner_references: Some(Vec::from_iter(site.controller_owner_ref(&()))),
                ..ObjectMeta::default()
            },
            ..Pod::default()
        }
    }
}

pub mod takes_its_own_object_for_a_foreign_one {
    //! A create that fails because the object exists is taken for a conflict with somebody else.
    use super::*;

    pub const CASE: Case = Case {
        name: "takes_its_own_object_for_a_foreign_one",
        style: "kube-controller",
        scenario: || scenario("web", &[]).apply("create db", manifest("db", &[])),
        controller: |cluster, version| Box::pin(run(cluster.client(), version)),
        shows_as: FindingKind::DifferentObject,
    };

    async fn run(client: Client, version: Version) -> Result<(), String> {
        let sites = Informer::<ConfigMap>::all(client.clone()).start();
        control(sites, move |key, store| {
            let client = client.clone();
            async move {
                let Some(site) = store.get(&key).filter(|site| value(site, "state").is_none()) else {
                    return Ok(Action::Done);
                };
                let child = account(&site, &format!("{}-account", site.name_any()));
                let created = accounts(&client).create(&PostParams::default(), &child).await;
                let state = match created {
                    Ok(_) => "ready",
                    Err(kube::Error::Api(status)) if status.code == 409 => {
                        let found = accounts(&client).get(&child.name_any()).await?;
                        let mine = found.metadata.owner_references == child.metadata.owner_references;
                        if version == Version::Corrected && mine {
                            "ready"
                        } else {
                            "conflict"
                        }
                    }
                    Err(error) => return Err(error),
                };
                merge(&client, &site.name_any(), json!({"data": {"state": state}})).await?;
                Ok(Action::Done)
            }
        })
        .await
    }
}

pub mod rewrites_forever_after_a_restart {
    //! The revision of a site is raised when its contents differ from those in memory. After a restart they always do.
    use parking_lot::Mutex;

    use super::*;

    pub const CASE: Case = Case {
        name: "rewrites_forever_after_a_restart",
        style: "kube-controller",
        scenario: || {
            scenario("web", &[("color", "red")]).patch(
                "paint",
                "configmaps",
                "shop/web",
                json!({"data": {"color": "blue"}}),
            )
        },
        controller: |cluster, version| Box::pin(run(cluster.client(), version)),
        shows_as: FindingKind::NeverSettles,
    };

    async fn run(client: Client, version: Version) -> Result<(), String> {
        let sites = Informer::<ConfigMap>::all(client.clone()).start();
        let seen: Arc<Mutex<HashMap<ObjectKey, String>>> = Arc::default();
        control(sites, move |key, store| {
            let (client, seen) = (client.clone(), seen.clone());
            async move {
                let Some(site) = store.get(&key) else {
                    return Ok(Action::Done);
                };
                let color = value(&site, "color").unwrap_or_default().to_owned();
                let painted = match version {
                    Version::Planted => seen.lock().get(&key).cloned(),
                    Version::Corrected => value(&site, "painted").map(str::to_owned),
                };
                if painted.as_ref() == Some(&color) {
                    return Ok(Action::Done);
                }
                let revision = match version {
                    Version::Planted => {
                        let last = value(&site, "revision").and_then(|text| text.parse::<u64>().ok());
                        if last.is_none() || seen.lock().contains_key(&key) {
                            // Forgotten for a site that has a revision from an earlier life.
                            seen.lock().insert(key.clone(), color.clone());
                        }
                        (last.unwrap_or(0) + 1).to_string()
                    }
                    Version::Corrected => color.clone(),
                };
                let data = json!({"data": {"revision": revision, "painted": color}});
                merge(&client, &site.name_any(), data).await?;
                Ok(Action::Done)
            }
        })
        .await
    }
}
