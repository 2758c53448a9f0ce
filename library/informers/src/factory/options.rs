//! `FactoryBuilder`: the options shared by all informers of a factory.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::SharedInformerFactory;
use crate::errors::ParseError;
use crate::informer::InformerBuilder;
use crate::object::Object;
use crate::reflector::{RecoveryGroup, ReflectorConfig, Transform};
use crate::scope::Scope;
use crate::source::SourceOptions;

/// Configures a factory: [`SharedInformerFactory::builder`].
#[doc(alias = "SharedInformerOption")]
#[must_use = "nothing happens before `build`"]
pub struct FactoryBuilder {
    client: kube::Client,
    scope: Scope,
    options: FactoryOptions,
}

/// The options that all informers of a factory share.
#[derive(Default)]
pub(super) struct FactoryOptions {
    name: Option<String>,
    resync_of: HashMap<TypeId, Option<Duration>>,
    /// A `Transform<K>` for each `K`.
    transform_of: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    source: SourceOptions,
    config: ReflectorConfig,
}

impl FactoryBuilder {
    pub(super) fn new(client: kube::Client) -> Self {
        Self {
            client,
            scope: Scope::all(),
            options: FactoryOptions::default(),
        }
    }

    /// The scope of each kind: namespaces, labels, fields. Namespaces do not apply to cluster-scoped kinds.
    ///
    /// Selectors apply to every kind; the server rejects fields that a kind does not support. To select for one kind only,
    /// use a [scoped](SharedInformerFactory::scoped) view.
    #[doc(alias = "WithTweakListOptions")]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Only this namespace; selectors are unchanged.
    #[doc(alias = "WithNamespace")]
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.namespaces([namespace])
    }

    /// Only these namespaces; selectors are unchanged.
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scope = self.scope.in_namespaces(namespaces);
        self
    }

    /// Only objects whose labels match, in addition to earlier selectors.
    ///
    /// # Errors
    ///
    /// The selector is malformed.
    pub fn labels(mut self, selector: &str) -> Result<Self, ParseError> {
        self.scope = self.scope.labels(selector)?;
        Ok(self)
    }

    /// Only objects whose fields match, in addition to earlier selectors.
    ///
    /// # Errors
    ///
    /// The selector is malformed.
    pub fn fields(mut self, selector: &str) -> Result<Self, ParseError> {
        self.scope = self.scope.fields(selector)?;
        Ok(self)
    }

    /// The resync period of handlers that do not set one: [`ReflectorConfig::resync`]. Default: never.
    #[doc(alias = "defaultResync")]
    pub fn resync(mut self, period: Duration) -> Self {
        self.options.config.resync = Some(period);
        self
    }

    /// The same for the informers of one type; `None` for never.
    #[doc(alias = "WithCustomResyncConfig")]
    pub fn resync_for<K: Object>(mut self, period: impl Into<Option<Duration>>) -> Self {
        self.options.resync_of.insert(TypeId::of::<K>(), period.into());
        self
    }

    /// Changes each object of a type before it is cached; see [`InformerBuilder::transform`].
    #[doc(alias = "WithTransform")]
    pub fn transform_for<K: Object>(self, change: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.try_transform_for(move |mut object: K| {
            change(&mut object);
            Ok(Some(object))
        })
    }

    /// The same for a function that may fail or drop the object; see [`InformerBuilder::try_transform`].
    pub fn try_transform_for<K: Object>(
        mut self,
        change: impl Fn(K) -> Result<Option<K>, Box<dyn std::error::Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        let transform: Transform<K> = Arc::new(change);
        let of_type = &mut self.options.transform_of;
        of_type.insert(TypeId::of::<K>(), Box::new(transform));
        self
    }

    /// A name for logs and errors, for programs with several factories.
    #[doc(alias = "WithInformerName")]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// How informers read from the server: encoding, managed fields, compression, limits. With
    /// [`Encoding::Protobuf`](crate::source::Encoding::Protobuf), the informer of a kind without a schema cannot sync: an
    /// error is logged when it is built, and its requests fail.
    pub fn source(mut self, options: SourceOptions) -> Self {
        self.options.source = options;
        self
    }

    /// How informers list, watch and back off; replaces an earlier [`resync`](Self::resync). Pass the same [`recovery`](ReflectorConfig::recovery) group to all factories
    /// that read from one server.
    pub fn config(mut self, config: ReflectorConfig) -> Self {
        self.options.config = config;
        self
    }

    /// The factory. Nothing runs yet.
    pub fn build(mut self) -> SharedInformerFactory {
        self.options.config = self.options.config.recovery_or(RecoveryGroup::new);
        SharedInformerFactory::from_options(self.client, self.scope, self.options)
    }
}

/// Names and numbers only: the client may carry credentials.
impl fmt::Debug for FactoryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryBuilder")
            .field("scope", &self.scope.to_string())
            .field("name", &self.options.name)
            .field("source", &self.options.source)
            .field("config", &self.options.config)
            .finish_non_exhaustive()
    }
}

impl FactoryOptions {
    /// How its informers read from the server.
    pub(super) fn source(&self) -> SourceOptions {
        self.source.clone()
    }

    /// Applies the options of the informer.
    pub(super) fn apply<K: Object>(&self, builder: InformerBuilder<K>) -> InformerBuilder<K> {
        let kind = TypeId::of::<K>();
        let mut builder = builder.configure(|own| {
            let mut config = self.config.clone();
            let resync = self.resync_of.get(&kind).copied().unwrap_or(config.resync);
            // What the factory leaves open is up to the builder.
            config.resync = resync.or(own.resync);
            config.on_stream_end = config.on_stream_end.or_else(|| own.on_stream_end.take());
            *own = config;
        });
        let transform = self.transform_of.get(&kind);
        if let Some(transform) = transform.and_then(|transform| transform.downcast_ref::<Transform<K>>()) {
            let transform = transform.clone();
            builder = builder.try_transform(move |object| transform(object));
        }
        match &self.name {
            Some(factory) => builder.rename(|name| format!("{name} ({factory})")),
            None => builder,
        }
    }
}
