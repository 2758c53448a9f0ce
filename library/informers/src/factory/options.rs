//! `FactoryBuilder`: the options shared by all informers of a factory.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::SharedInformerFactory;
use crate::codec::FromWire;
use crate::codec::{LazyOptions, Validate};
use crate::errors::ParseError;
use crate::informer::InformerBuilder;
use crate::object::Object;
use crate::reflector::{RecoveryGroup, ReflectorConfig, StreamEnd, Transform};
use crate::scope::Scope;
use crate::source::{Encoding, ListWatch, Query};

/// Configures a factory: [`SharedInformerFactory::builder`].
#[doc(alias = "SharedInformerOption")]
#[must_use = "nothing happens before `build`"]
pub struct FactoryBuilder {
    client: kube::Client,
    scope: Scope,
    options: FactoryOptions,
}

type RequestHook = Arc<dyn Fn(&mut Query) + Send + Sync>;
type ErrorHook = Arc<dyn Fn(&StreamEnd<'_>) + Send + Sync>;

/// The options that all informers of a factory share.
#[derive(Default)]
pub(super) struct FactoryOptions {
    name: Option<String>,
    resync: Option<Duration>,
    resync_of: HashMap<TypeId, Option<Duration>>,
    /// A `Transform<K>` for each `K`.
    transform_of: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    config: ReflectorConfig,
    drop_managed_fields: Option<bool>,
    lazy: LazyOptions,
    encoding: Encoding,
    gzip: bool,
    hook: Option<RequestHook>,
    on_stream_end: Option<ErrorHook>,
    recovery: RecoveryGroup,
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

    /// The resync period of handlers that do not set one. Default: never.
    #[doc(alias = "defaultResync")]
    pub fn resync(mut self, period: Duration) -> Self {
        self.options.resync = Some(period);
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

    /// Called for every list and every watch request of every informer; see [`ListWatch::options`].
    #[doc(alias = "WithTweakListOptions")]
    #[doc(alias = "TweakListOptionsFunc")]
    pub fn options(mut self, hook: impl Fn(&mut Query) + Send + Sync + 'static) -> Self {
        self.options.hook = Some(Arc::new(hook));
        self
    }

    /// Drops `metadata.managedFields` of every object; see [`ListWatch::drop_managed_fields`].
    #[doc(alias = "TransformStripManagedFields")]
    pub fn drop_managed_fields(mut self, drop: bool) -> Self {
        self.options.drop_managed_fields = Some(drop);
        self
    }

    /// The encoding to request; see [`ListWatch::encoding`]. With [`Encoding::Protobuf`], the informer of a kind without a
    /// schema cannot sync: an error is logged when it is built, and its requests fail.
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.options.encoding = encoding;
        self
    }

    /// When [`Lazy`](crate::lazy::Lazy) objects are checked; see [`ListWatch::validate`].
    pub fn validate(mut self, validate: Validate) -> Self {
        self.options.lazy.validate = validate;
        self
    }

    /// Keeps decoded [`Lazy`](crate::lazy::Lazy) objects, up to about this many bytes per informer; see
    /// [`ListWatch::decoded_cache`].
    pub fn decoded_cache(mut self, bytes: usize) -> Self {
        self.options.lazy.decoded_cache = bytes;
        self
    }

    /// Compresses [`Lazy`](crate::lazy::Lazy) objects against similar ones; see [`ListWatch::compressed`].
    pub fn compressed(mut self, compressed: bool) -> Self {
        self.options.lazy.compressed = compressed;
        self
    }

    /// Requests compressed lists and watch-lists; see [`ListWatch::gzip`].
    pub fn gzip(mut self, gzip: bool) -> Self {
        self.options.gzip = gzip;
        self
    }

    /// How informers list, watch and back off.
    pub fn config(mut self, config: ReflectorConfig) -> Self {
        self.options.config = config;
        self
    }

    /// Changes part of the configuration.
    pub fn configure(mut self, change: impl FnOnce(&mut ReflectorConfig)) -> Self {
        change(&mut self.options.config);
        self
    }

    /// Called when a list or watch of any informer ends; see [`InformerBuilder::on_stream_end`].
    #[doc(alias = "SetWatchErrorHandler")]
    pub fn on_stream_end(mut self, hook: impl Fn(&StreamEnd<'_>) + Send + Sync + 'static) -> Self {
        self.options.on_stream_end = Some(Arc::new(hook));
        self
    }

    /// The informers with which those of this factory recover from an outage. Default: the informers of this factory form
    /// a group. Pass the same group to all factories that read from one server.
    pub fn recovery(mut self, group: RecoveryGroup) -> Self {
        self.options.recovery = group;
        self
    }

    /// The factory. Nothing runs yet.
    pub fn build(self) -> SharedInformerFactory {
        SharedInformerFactory::from_options(self.client, self.scope, self.options)
    }
}

/// Names and numbers only: the client may carry credentials.
impl fmt::Debug for FactoryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryBuilder")
            .field("scope", &self.scope.to_string())
            .field("name", &self.options.name)
            .field("resync", &self.options.resync)
            .field("config", &self.options.config)
            .finish_non_exhaustive()
    }
}

impl FactoryOptions {
    /// Applies the options of the source.
    pub(super) fn wire<K: FromWire>(&self, list_watch: ListWatch<K>) -> ListWatch<K> {
        let mut list_watch = list_watch
            .hold(|options| *options = self.lazy)
            .encoding(self.encoding)
            .gzip(self.gzip);
        if let Some(drop) = self.drop_managed_fields {
            list_watch = list_watch.drop_managed_fields(drop);
        }
        match &self.hook {
            None => list_watch,
            Some(hook) => {
                let hook = hook.clone();
                list_watch.options(move |query| hook(query))
            }
        }
    }

    /// Applies the options of the informer.
    pub(super) fn apply<K: Object>(&self, builder: InformerBuilder<K>) -> InformerBuilder<K> {
        let kind = TypeId::of::<K>();
        let mut builder = builder
            .config(self.config.clone())
            .recovery(self.recovery.clone());
        if let Some(period) = self.resync_of.get(&kind).copied().unwrap_or(self.resync) {
            builder = builder.resync(period);
        }
        let transform = self.transform_of.get(&kind);
        if let Some(transform) = transform.and_then(|transform| transform.downcast_ref::<Transform<K>>()) {
            let transform = transform.clone();
            builder = builder.try_transform(move |object| transform(object));
        }
        if let Some(hook) = &self.on_stream_end {
            let hook = hook.clone();
            builder = builder.on_stream_end(move |end| hook(end));
        }
        match &self.name {
            Some(factory) => builder.rename(|name| format!("{name} ({factory})")),
            None => builder,
        }
    }
}
