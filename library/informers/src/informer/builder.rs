//! `InformerBuilder`: the options of an informer.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::member::MemberTemplate;
use super::process::{InformerInner, InformerParts};
use super::run::InformerTask;
use super::{Alive, Informer};
use crate::codec::{FromWire, LazyCounters};
use crate::object::Object;
use crate::reflector::{RecoveryGroup, ReflectorConfig, Transform};
use crate::shard::Shard;
use crate::source::{EncodingError, ListWatch, ListerWatcher, ResourceType, SourceOptions};
use crate::store::{DeltaWriter, IndexError};

/// Configures an informer. [`start`](Self::start) runs it; [`build`](Self::build) returns it with the task to run.
#[doc(alias = "SharedIndexInformerOptions")]
#[doc(alias = "InformerOptions")]
#[must_use = "nothing happens before `start` or `build`"]
pub struct InformerBuilder<K: Object> {
    sources: Sources<K>,
    writer: DeltaWriter<K>,
    name: Option<String>,
    config: ReflectorConfig,
    transform: Option<Transform<K>>,
    shard: Option<Shard>,
    scope_is_fixed: bool,
}

/// The sources of an informer. A `ListWatch` is kept until the informer is built, so that its options can change.
enum Sources<K> {
    ListWatch(Box<ListWatch<K>>),
    Other(Vec<Arc<dyn ListerWatcher<K>>>),
}

impl<K: Object> Sources<K> {
    fn into_vec(self) -> Vec<Arc<dyn ListerWatcher<K>>> {
        match self {
            Self::ListWatch(list_watch) => {
                let members = list_watch.members().into_iter();
                members
                    .map(|member| Arc::new(member) as Arc<dyn ListerWatcher<K>>)
                    .collect()
            }
            Self::Other(sources) => sources,
        }
    }

    /// What the first source says, or the `ListWatch` of which all sources are parts.
    fn first<T: Default>(&self, read: impl FnOnce(&dyn ListerWatcher<K>) -> T) -> T {
        match self {
            Self::ListWatch(list_watch) => read(&**list_watch),
            Self::Other(sources) => sources.first().map(|source| read(&**source)).unwrap_or_default(),
        }
    }

    /// The `ListWatch`, if it is of named namespaces.
    fn namespaced(&self) -> Option<ListWatch<K>> {
        match self {
            Self::ListWatch(list_watch) => {
                let is_named = list_watch.scope().selected_namespaces().is_some();
                is_named.then(|| (**list_watch).clone())
            }
            Self::Other(_) => None,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::ListWatch(list_watch) => list_watch.describe(),
            Self::Other(sources) => describe(sources),
        }
    }
}

impl<K: Object> Informer<K> {
    /// An informer for any source: a [`ListWatch`], a script, or your own implementation.
    #[doc(alias = "NewSharedIndexInformerWithOptions")]
    #[doc(alias = "NewTypedSharedIndexInformer")]
    #[doc(alias = "NewSharedInformer")]
    #[doc(alias = "NewSharedIndexInformer")]
    pub fn from_source(source: impl ListerWatcher<K>) -> InformerBuilder<K> {
        Self::from_sources([Arc::new(source) as Arc<dyn ListerWatcher<K>>])
    }

    /// One cache for several sources that do not overlap, such as several namespaces.
    pub fn from_sources(sources: impl IntoIterator<Item = Arc<dyn ListerWatcher<K>>>) -> InformerBuilder<K> {
        Self::builder(Sources::Other(sources.into_iter().collect()))
    }

    /// The objects of a [`ListWatch`], with its options. Each namespace of the scope has its own watch; all share one
    /// cache.
    pub fn from_list_watch(list_watch: ListWatch<K>) -> InformerBuilder<K> {
        Self::builder(Sources::ListWatch(Box::new(list_watch)))
    }

    fn builder(sources: Sources<K>) -> InformerBuilder<K> {
        InformerBuilder {
            sources,
            writer: DeltaWriter::new(),
            name: None,
            config: ReflectorConfig::default(),
            transform: None,
            shard: None,
            scope_is_fixed: false,
        }
    }
}

impl<K: FromWire> InformerBuilder<K> {
    /// How the [`ListWatch`] of this informer reads from the server: encoding, managed fields, compression, limits.
    ///
    /// # Errors
    ///
    /// The encoding is [`Encoding::Protobuf`](crate::source::Encoding::Protobuf) and the kind has no schema, or the source
    /// is not a [`ListWatch`].
    pub fn source(mut self, options: SourceOptions) -> Result<Self, EncodingError> {
        match self.sources {
            Sources::ListWatch(list_watch) => {
                let list_watch = list_watch.options(options);
                list_watch.check_schema()?;
                self.sources = Sources::ListWatch(Box::new(list_watch));
                Ok(self)
            }
            Sources::Other(sources) => Err(EncodingError::NotAListWatch {
                informer: self.name.unwrap_or_else(|| describe(&sources)),
            }),
        }
    }
}

impl<K: Object> InformerBuilder<K> {
    /// Its name in logs and errors. Default: the description of its source.
    #[doc(alias = "NewInformerName")]
    #[doc(alias = "InformerName")]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How it lists, watches and backs off, and the default resync period of its handlers. Replaces the configuration of a
    /// factory; [`configure`](Self::configure) changes a part of it. An informer of a factory leaves the factory's recovery group
    /// only if the configuration names another one.
    pub fn config(mut self, config: ReflectorConfig) -> Self {
        let group = self.config.recovery.take();
        self.config = config;
        self.config.recovery = self.config.recovery.or(group);
        self
    }

    /// Changes part of the configuration.
    ///
    /// ```
    /// # use kube_informers::reflector::InitialList;
    /// # use kube_informers::source::ListerWatcher;
    /// # use kube_informers::Informer;
    /// # fn example(source: impl ListerWatcher<k8s_openapi::api::core::v1::Pod>) {
    /// let builder = Informer::from_source(source).configure(|config| config.initial_list = InitialList::AnyCached);
    /// # }
    /// ```
    pub fn configure(mut self, change: impl FnOnce(&mut ReflectorConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Changes each object before it is cached, exactly once per version.
    ///
    /// Called on the task that reads from the server, so it must return quickly. A panic quarantines the object.
    #[doc(alias = "WithTransformer")]
    #[doc(alias = "TransformingStore")]
    #[doc(alias = "SetTransform")]
    pub fn transform(self, change: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.try_transform(move |mut object| {
            change(&mut object);
            Ok(Some(object))
        })
    }

    /// Like [`transform`](Self::transform), for a function that may fail or drop the object. `Ok(None)` drops it: if an
    /// earlier state is cached, it is deleted with [`Cause::LeftScope`](crate::Cause::LeftScope). An error quarantines the
    /// object; its text is logged and must not quote the object.
    #[doc(alias = "TransformFunc")]
    pub fn try_transform(
        mut self,
        change: impl Fn(K) -> Result<Option<K>, Box<dyn std::error::Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        self.transform = Some(Arc::new(change));
        self
    }

    /// Adds an index; see [`Informer::add_index`].
    ///
    /// # Errors
    ///
    /// An index of that name exists.
    #[doc(alias = "Indexers")]
    pub fn index<I>(
        self,
        name: &str,
        values: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Result<Self, IndexError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        self.writer.store().add_index(name, values)?;
        Ok(self)
    }

    /// Restricts the informer to a shard, like [`Scope::shard`](crate::Scope::shard) for a source with a scope.
    /// [`Informer::set_shard`] moves it later.
    pub fn shard(mut self, shard: Shard) -> Self {
        self.shard = Some(shard);
        self
    }

    /// Rejects [`Informer::set_shard`] and [`Informer::set_namespaces`]: for informers that are shared by scope.
    pub(crate) fn fix_scope(mut self) -> Self {
        self.scope_is_fixed = true;
        self
    }

    /// The resource of its objects, if the source has one.
    pub(crate) fn resource(&self) -> Option<ResourceType> {
        match &self.sources {
            Sources::ListWatch(list_watch) => Some(list_watch.resource().clone()),
            Sources::Other(sources) => sources.first().and_then(|source| source.resource()),
        }
    }

    /// Changes the current name.
    pub(crate) fn rename(mut self, change: impl FnOnce(String) -> String) -> Self {
        let name = self.name.take().unwrap_or_else(|| self.sources.describe());
        self.name = Some(change(name));
        self
    }

    /// Returns the handle and the task to run. Nothing runs yet; handlers can be added.
    pub fn build(self) -> (Informer<K>, InformerTask<K>) {
        let name = self.name.unwrap_or_else(|| self.sources.describe());
        let (resource, lazy, shard) = self
            .sources
            .first(|source| (source.resource(), lazy_counters(source), source.shard()));
        let template = MemberTemplate {
            store: self.writer.store(),
            transform: self.transform,
            list_watch: self.sources.namespaced(),
            config: self.config.recovery_or(RecoveryGroup::new),
        };
        let default_resync = template.config.resync;
        let shared = InformerInner::new(InformerParts {
            name,
            resource,
            lazy,
            writer: self.writer,
            template,
            sources: self.sources.into_vec(),
            shard: self.shard.or(shard),
            scope_is_fixed: self.scope_is_fixed,
            default_resync,
        });
        let alive = Arc::new(Alive {
            stop: shared.stop.clone(),
        });
        (
            Informer {
                shared: shared.clone(),
                alive,
            },
            InformerTask::new(shared),
        )
    }

    /// Builds the informer and spawns its task on the current tokio runtime.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, like `tokio::spawn`.
    #[doc(alias = "Run")]
    pub fn start(self) -> Informer<K> {
        let (informer, task) = self.build();
        task.spawn();
        informer
    }
}

/// Names and numbers only.
impl<K: Object> fmt::Debug for InformerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerBuilder")
            .field(
                "name",
                &self.name.clone().unwrap_or_else(|| self.sources.describe()),
            )
            .field("config", &self.config)
            .field("shard", &self.shard)
            .finish_non_exhaustive()
    }
}

/// The counters of objects that are decoded on access. Only our own source has such objects.
fn lazy_counters<K: Object>(source: &dyn ListerWatcher<K>) -> Option<Arc<LazyCounters>> {
    let source: &dyn Any = source;
    source.downcast_ref::<ListWatch<K>>()?.lazy_counters()
}

fn describe<K: Object>(sources: &[Arc<dyn ListerWatcher<K>>]) -> String {
    match sources {
        [] => "nothing".to_owned(),
        [source] => source.describe(),
        [first, rest @ ..] => format!("{} and {} more", first.describe(), rest.len()),
    }
}
