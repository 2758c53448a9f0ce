//! An informer whose handler logs its events, and the comparison with the server.

use std::collections::BTreeMap;
use std::fmt::Debug;

use kube::api::{Api, ListParams};
use kube_informers::{Informer, InformerBuilder, Object, ObjectKey, Registration};
use kube_informers_e2e::TIMEOUT;
use serde::de::DeserializeOwned;

use super::event_log::{EventLog, ObjectState};
use super::{Outcome, wait_for};

/// A running informer and the log of its handler.
pub struct Observed<K: Object> {
    pub informer: Informer<K>,
    pub log: EventLog,
    _registration: Registration,
}

impl<K: Object> Observed<K> {
    /// Starts the informer without waiting for it.
    pub fn start(builder: InformerBuilder<K>) -> Result<Observed<K>, kube_informers::error::StoppedError> {
        let informer = builder.start();
        let log = EventLog::new();
        let registration = informer.add_event_handler(log.handler())?;
        Ok(Observed {
            informer,
            log,
            _registration: registration,
        })
    }

    /// Starts the informer and waits for its initial list.
    pub async fn synced(
        builder: InformerBuilder<K>,
    ) -> Result<Observed<K>, Box<dyn std::error::Error + Send + Sync>> {
        let observed = Observed::start(builder)?;
        observed.informer.synced_within(TIMEOUT).await?;
        Ok(observed)
    }

    /// The number of full lists, over all watches.
    pub fn lists(&self) -> u64 {
        self.informer
            .stats()
            .members
            .iter()
            .map(|member| member.reflector.lists)
            .sum()
    }

    /// The number of relists with a reason.
    pub fn relists(&self, reason: &str) -> u64 {
        let members = self.informer.stats().members;
        members
            .iter()
            .filter_map(|member| member.reflector.relists.get(reason))
            .sum()
    }

    /// The number of errors of a class.
    pub fn errors(&self, class: &str) -> u64 {
        let members = self.informer.stats().members;
        members
            .iter()
            .filter_map(|member| member.reflector.errors.get(class))
            .sum()
    }

    /// Waits for a condition on the informer.
    pub async fn wait_for(&self, what: &str, condition: impl Fn(&Observed<K>) -> bool) {
        wait_for(what, async || condition(self).then_some(())).await;
    }

    /// Waits until a write has reached the cache and the handler.
    pub async fn reaches(&self, version: &str) -> Outcome {
        self.informer.wait_for_within(version, TIMEOUT).await?;
        self.wait_for("the handler has received it", |observed| {
            observed.informer.stats().backlog() == 0
        })
        .await;
        Ok(())
    }

    /// Checks that the cache equals the server's collection (names, uids and versions), and that the event log is
    /// consistent and ends in the same state. No other client may write meanwhile.
    pub async fn assert_exact<S>(&self, apis: &[Api<S>], selection: &ListParams) -> Outcome
    where
        S: kube::Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let mut there = BTreeMap::new();
        for api in apis {
            let list = api.list(selection).await?;
            there.extend(
                list.items
                    .iter()
                    .map(|object| (ObjectKey::of(object), ObjectState::of(object))),
            );
        }
        self.log
            .wait_for("the handler has received everything", |log| {
                log.believed() == there
            })
            .await;
        let cached: BTreeMap<ObjectKey, ObjectState> = self
            .informer
            .store()
            .list()
            .iter()
            .map(|object| (ObjectKey::of(&**object), ObjectState::of(&**object)))
            .collect();
        assert_eq!(cached, there, "the cache differs from the server's collection");
        assert_eq!(self.informer.quarantine().len(), 0, "an object is quarantined");
        Ok(())
    }
}
