//! The same operator with kube-runtime's controller.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use kube_leases::{Ended, Leadership};
use kube_runtime::controller::Action;
use kube_runtime::events::{Event, EventType, Recorder, Reporter};
use kube_runtime::finalizer::{Event as Finalizing, finalizer};
use kube_runtime::{Controller, watcher};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::site::{Dns, Error, FINALIZER, OPERATOR, Site, election};

type FinalizerError = kube_runtime::finalizer::Error<kube::Error>;

struct Operator {
    client: Client,
    recorder: Recorder,
    dns: Dns,
    reconciliations: Counter,
    failures: Counter,
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
    let reporter = Reporter {
        controller: OPERATOR.into(),
        instance: Some("replica-1".into()),
    };
    let operator = Arc::new(Operator {
        recorder: Recorder::new(client.clone(), reporter),
        client: client.clone(),
        dns,
        reconciliations: Counter::default(),
        failures: Counter::default(),
    });
    let mut registry = Registry::default();
    let (all, failed) = (operator.reconciliations.clone(), operator.failures.clone());
    registry.register("site_reconciliations", "Reconciliations", all);
    registry.register("site_reconciliation_failures", "Failed reconciliations", failed);

    Controller::new(Api::<Site>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client), watcher::Config::default())
        .graceful_shutdown_on(async move { leadership.lost().await })
        .run(reconcile, error_policy, operator)
        .for_each(|_| std::future::ready(()))
        .await;
    let mut metrics = String::new();
    encode(&mut metrics, &registry)?;
    Ok(metrics)
}

async fn reconcile(site: Arc<Site>, operator: Arc<Operator>) -> Result<Action, FinalizerError> {
    operator.reconciliations.inc();
    let api = Api::<Site>::namespaced(operator.client.clone(), site.namespace());
    finalizer(&api, FINALIZER, site, |event| async {
        match event {
            Finalizing::Apply(site) => operator.publish(&api, &site).await,
            Finalizing::Cleanup(site) => operator.clean_up(&site).await,
        }
    })
    .await
}

fn error_policy(_: Arc<Site>, _: &FinalizerError, operator: Arc<Operator>) -> Action {
    operator.failures.inc();
    Action::requeue(Duration::from_secs(1))
}

impl Operator {
    async fn publish(&self, api: &Api<Site>, site: &Site) -> Result<Action, kube::Error> {
        self.dns.add(site);
        let page = site.page();
        let name = page.metadata.name.as_deref().unwrap_or_default();
        // The store of owned objects is not accessible, so this is a request per run.
        let pages = Api::<ConfigMap>::namespaced(self.client.clone(), site.namespace());
        let present = pages.get_opt(name).await?;
        if present.is_none_or(|present| present.data != page.data) {
            let apply = PatchParams::apply(OPERATOR).force();
            pages.patch(name, &apply, &Patch::Apply(&page)).await?;
            self.report(site, "Published", "Publishing", "the page is published")
                .await?;
        }

        let conditions = site.conditions();
        let ready = conditions.iter().find(|present| present.type_ == "Ready");
        let is_current = ready.is_some_and(|ready| {
            ready.status == "True" && ready.observed_generation == site.metadata.generation
        });
        if !is_current {
            let since = ready.filter(|ready| ready.status == "True");
            let since = since.map(|ready| ready.last_transition_time.clone());
            let ready = Condition {
                type_: "Ready".to_owned(),
                status: "True".to_owned(),
                reason: "Published".to_owned(),
                message: "the page is published".to_owned(),
                observed_generation: site.metadata.generation,
                last_transition_time: since.unwrap_or_else(|| Time(Timestamp::now())),
            };
            let others = conditions
                .into_iter()
                .filter(|condition| condition.type_ != "Ready");
            let conditions: Vec<Condition> = others.chain([ready]).collect();
            let status = json!({"status": {"conditions": conditions}});
            api.patch_status(site.name(), &PatchParams::default(), &Patch::Merge(status))
                .await?;
        }
        Ok(Action::await_change())
    }

    async fn clean_up(&self, site: &Site) -> Result<Action, kube::Error> {
        self.dns.remove(site);
        self.report(site, "Removed", "Removing", "the DNS record is removed")
            .await?;
        Ok(Action::await_change())
    }

    async fn report(&self, site: &Site, reason: &str, action: &str, note: &str) -> Result<(), kube::Error> {
        let event = Event {
            type_: EventType::Normal,
            reason: reason.to_owned(),
            note: Some(note.to_owned()),
            action: action.to_owned(),
            secondary: None,
        };
        self.recorder.publish(&event, &site.object_ref(&())).await
    }
}
