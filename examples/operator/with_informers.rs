//! The operator with informers and `kube-controller`.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use kube_controller::metrics::Metrics;
use kube_controller::{Action, Controller, Reconcile, Recorder, Watch, condition, set_condition};
use kube_informers::{Lister, Object, ObjectKey, SharedInformerFactory};
use kube_leases::{Ended, Leadership};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::site::{Dns, Error, FINALIZER, OPERATOR, Site, election};

struct Operator {
    client: Client,
    sites: Lister<Site>,
    pages: Lister<ConfigMap>,
    recorder: Recorder,
    dns: Dns,
}

/// Runs until `stop`. Returns the metrics at the end.
pub async fn run(client: Client, dns: Dns, stop: CancellationToken) -> Result<String, Error> {
    let election = election(client.clone(), &stop);
    let lead = async |leadership: Leadership| lead(client.clone(), dns.clone(), leadership).await;
    match election.run_while_leading(lead).await? {
        Ended::Finished(outcome) | Ended::Lost(Some(outcome)) => outcome,
        Ended::Lost(None) | Ended::NeverLed => Err("never led".into()),
    }
}

async fn lead(client: Client, dns: Dns, leadership: Leadership) -> Result<String, Error> {
    let factory = SharedInformerFactory::new(client.clone());
    let (sites, pages) = (factory.informer::<Site>(), factory.informer::<ConfigMap>());
    let recorder = Recorder::start(client.clone(), OPERATOR, "replica-1");
    let operator = Arc::new(Operator {
        client,
        sites: sites.lister(),
        pages: pages.lister(),
        recorder: recorder.clone(),
        dns,
    });
    let controller = Controller::new("sites")
        .watches(Watch::object(&sites))
        .watches(Watch::owner::<Site>(&pages))
        .workers(4)
        .grace(Duration::from_secs(20))
        .start(operator)?;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(
        Metrics::new()
            .informer(&sites)
            .informer(&pages)
            .controller(&controller)
            .recorder("sites", &recorder),
    ));
    factory.start();

    leadership.lost().await;
    let mut metrics = String::new();
    encode(&mut metrics, &registry)?;
    controller.shutdown().await?;
    recorder.shutdown_within(Duration::from_secs(5)).await;
    factory.shutdown().await;
    Ok(metrics)
}

impl Reconcile<ObjectKey> for Operator {
    type Error = kube::Error;

    async fn reconcile(&self, key: ObjectKey) -> Result<Action, kube::Error> {
        let Some(site) = self.sites.get(&key) else {
            return Ok(Action::Done);
        };
        let api = Api::<Site>::namespaced(self.client.clone(), site.namespace());
        if site.metadata.deletion_timestamp.is_some() {
            return self.clean_up(&api, &site).await;
        }
        if !has_finalizer(&site) {
            set_finalizer(&api, &site, true).await?;
        }
        self.dns.add(&site);

        let page = site.page();
        let present = self.pages.get(&ObjectKey::of(&page));
        if present.is_none_or(|present| present.data != page.data) {
            let pages = Api::<ConfigMap>::namespaced(self.client.clone(), site.namespace());
            let apply = PatchParams::apply(OPERATOR).force();
            pages
                .patch(page.object_name(), &apply, &Patch::Apply(&page))
                .await?;
            self.recorder
                .normal(&*site, "Published", "Publishing", "the page is published");
        }

        let mut conditions = site.conditions();
        let ready = Condition {
            observed_generation: site.metadata.generation,
            ..condition("Ready", true, "Published", "the page is published")
        };
        if set_condition(&mut conditions, ready) {
            let status = json!({"status": {"conditions": conditions}});
            api.patch_status(site.name(), &PatchParams::default(), &Patch::Merge(status))
                .await?;
        }
        Ok(Action::Done)
    }
}

impl Operator {
    async fn clean_up(&self, api: &Api<Site>, site: &Site) -> Result<Action, kube::Error> {
        if has_finalizer(site) {
            self.dns.remove(site);
            self.recorder
                .normal(site, "Removed", "Removing", "the DNS record is removed");
            set_finalizer(api, site, false).await?;
        }
        Ok(Action::Done)
    }
}

fn has_finalizer(site: &Site) -> bool {
    let finalizers = site.metadata.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|finalizer| finalizer == FINALIZER)
}

/// Adds or removes the finalizer. Carries the version that was read, so that those of others are not lost.
async fn set_finalizer(api: &Api<Site>, site: &Site, present: bool) -> Result<(), kube::Error> {
    let mut finalizers = site.metadata.finalizers.clone().unwrap_or_default();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    finalizers.extend(present.then(|| FINALIZER.to_owned()));
    let version = &site.metadata.resource_version;
    let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
    api.patch(site.name(), &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}
