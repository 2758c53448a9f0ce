//! An informer with a handler whose story is kept, and the comparison with the server.

use std::collections::BTreeMap;
use std::fmt::Debug;

use kube::api::{Api, ListParams};
use kube_informers::{Informer, InformerBuilder, Object, ObjectKey, Registration};
use kube_informers_e2e::TIMEOUT;
use serde::de::DeserializeOwned;

use super::story::{ObjectState, Story};
use super::{Outcome, wait_for};

/// A running informer and what its handler was told.
pub struct Observed<K: Object> {
    pub informer: Informer<K>,
    pub story: Story,
    _registration: Registration,
}

impl<K: Object> Observed<K> {
    /// Starts the informer, without waiting for it.
    pub fn start(builder: InformerBuilder<K>) -> Result<Observed<K>, kube_informers::error::AddHandlerError> {
        let informer = builder.start();
        let story = Story::new();
        let registration = informer.add_event_handler(story.handler())?;
        Ok(Observed {
            informer,
            story,
            _registration: registration,
        })
    }

    /// Starts the informer and waits for its first list.
    pub async fn synced(
        builder: InformerBuilder<K>,
    ) -> Result<Observed<K>, Box<dyn std::error::Error + Send + Sync>> {
        let observed = Observed::start(builder)?;
        observed.informer.synced_within(TIMEOUT).await?;
        Ok(observed)
    }

    /// How often the whole collection was fetched, over all watches.
    pub fn lists(&self) -> u64 {
        self.informer
            .stats()
            .members
            .iter()
            .map(|member| member.reflector.lists)
            .sum()
    }

    /// How often it listed again for a reason.
    pub fn relists(&self, reason: &str) -> u64 {
        let members = self.informer.stats().members;
        members
            .iter()
            .filter_map(|member| member.reflector.relists.get(reason))
            .sum()
    }

    /// How many errors of a class it met.
    pub fn errors(&self, class: &str) -> u64 {
        let members = self.informer.stats().members;
        members
            .iter()
            .filter_map(|member| member.reflector.errors.get(class))
            .sum()
    }

    /// Waits until something is true of the informer.
    pub async fn wait_for(&self, what: &str, condition: impl Fn(&Observed<K>) -> bool) {
        wait_for(what, async || condition(self).then_some(())).await;
    }

    /// Waits until a write has arrived here, and the handler has been told.
    pub async fn reaches(&self, version: &str) -> Outcome {
        self.informer.wait_for(version, TIMEOUT).await?;
        self.wait_for("the handler has been told", |observed| {
            observed.informer.stats().backlog() == 0
        })
        .await;
        Ok(())
    }

    /// Checks that the cache is the server's collection, name by name, uid by uid, version by version, and that the
    /// handler's story is a possible one that ends there. Nobody may write meanwhile.
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
        self.story
            .wait_for("the handler knows what is there", |story| {
                story.believed() == there
            })
            .await;
        let cached: BTreeMap<ObjectKey, ObjectState> = self
            .informer
            .store()
            .list()
            .iter()
            .map(|object| (ObjectKey::of(&**object), ObjectState::of(&**object)))
            .collect();
        assert_eq!(cached, there, "the cache is not the server's collection");
        assert_eq!(self.informer.quarantine().len(), 0, "nothing is in quarantine");
        Ok(())
    }
}
