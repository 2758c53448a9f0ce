//! `InformerBuilder`: everything that can be chosen before an informer exists.

use std::sync::Arc;
use std::time::Duration;

use super::process::{InformerTask, Parts, Shared};
use super::{Alive, Informer};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::queue::{DEFAULT_CAPACITY, DeltaFifo, DeltaQueue, InOrderQueue, KnownKeys};
use crate::reflector::{Assignment, Reflector, ReflectorConfig, StreamEnd, StreamEndHook, Transform};
use crate::shard::Shard;
use crate::source::ListerWatcher;
use crate::store::{DeltaWriter, DuplicateIndex, Store};

/// What an informer will be. [`start`](Self::start) it, or [`build`](Self::build) it and run its task yourself.
#[doc(alias = "SharedIndexInformerOptions")]
#[doc(alias = "InformerOptions")]
#[must_use = "nothing happens before `start` or `build`"]
pub struct InformerBuilder<K: Object> {
    sources: Vec<Arc<dyn ListerWatcher<K>>>,
    writer: DeltaWriter<K>,
    name: Option<String>,
    config: ReflectorConfig,
    transform: Option<Transform<K>>,
    queue: QueueKind,
    resync: Option<Duration>,
    handlers_keep_alive: bool,
    on_stream_end: Option<StreamEndHook>,
    shard: Option<Shard>,
    shard_is_fixed: bool,
}

/// What stands between the watch and the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueKind {
    /// Changes are applied in the order in which they came: the cache always equals a version of the collection.
    #[doc(alias = "RealFIFO")]
    InOrder {
        /// How many changes may wait before the watch is read no further.
        capacity: usize,
    },
    /// Changes of one object are applied together, as client-go did up to 1.32. Across objects the order is lost,
    /// so the cache has a version only while the queue is empty. A server that repeats an old event of an object that is
    /// gone can bring it back until the next list: only the order across objects shows that the event is old.
    #[doc(alias = "DeltaFIFO")]
    Keyed {
        /// How many changes may wait before the watch is read no further.
        capacity: usize,
    },
}

impl Default for QueueKind {
    fn default() -> Self {
        Self::InOrder {
            capacity: DEFAULT_CAPACITY,
        }
    }
}

impl<K: Object> Informer<K> {
    /// An informer over any source: a [`ListWatch`](crate::ListWatch), a script, or one of your own.
    #[doc(alias = "NewSharedInformer")]
    #[doc(alias = "NewSharedIndexInformer")]
    pub fn from_source(source: impl ListerWatcher<K>) -> InformerBuilder<K> {
        Self::from_sources([Arc::new(source) as Arc<dyn ListerWatcher<K>>])
    }

    /// One cache over several sources, which must not overlap: the namespaces of a set, say.
    pub fn from_sources(sources: impl IntoIterator<Item = Arc<dyn ListerWatcher<K>>>) -> InformerBuilder<K> {
        InformerBuilder {
            sources: sources.into_iter().collect(),
            writer: DeltaWriter::new(),
            name: None,
            config: ReflectorConfig::default(),
            transform: None,
            queue: QueueKind::default(),
            resync: None,
            handlers_keep_alive: false,
            on_stream_end: None,
            shard: None,
            shard_is_fixed: false,
        }
    }
}

impl<K: Object> InformerBuilder<K> {
    /// What logs and errors call it. Default: what the source says it is.
    #[doc(alias = "InformerName")]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How it lists, watches and waits.
    pub fn config(mut self, config: ReflectorConfig) -> Self {
        self.config = config;
        self
    }

    /// Changes part of how it lists, watches and waits.
    ///
    /// ```
    /// # use kube_informers::{Informer, InitialList, ListerWatcher};
    /// # fn example(source: impl ListerWatcher<k8s_openapi::api::core::v1::Pod>) {
    /// let builder = Informer::from_source(source).configure(|config| config.initial_list = InitialList::AnyCached);
    /// # }
    /// ```
    pub fn configure(mut self, change: impl FnOnce(&mut ReflectorConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Changes each object before anybody sees it, exactly once per version.
    ///
    /// Called from the task that reads from the server: quick work only. A panic puts that object into quarantine.
    #[doc(alias = "SetTransform")]
    pub fn transform(self, change: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.try_transform(move |mut object| {
            change(&mut object);
            Ok(Some(object))
        })
    }

    /// The same for a function that may drop the object (`Ok(None)`: it is not cached, and if an earlier state of
    /// it is, that leaves with [`Cause::LeftScope`](crate::Cause::LeftScope)) or fail, which puts the object into
    /// quarantine. The text of the error is logged: it must not quote the object.
    #[doc(alias = "TransformFunc")]
    pub fn try_transform(
        mut self,
        change: impl Fn(K) -> Result<Option<K>, Box<dyn std::error::Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        self.transform = Some(Arc::new(change));
        self
    }

    /// Adds an index by name, as [`Informer::add_index`] does later.
    ///
    /// # Errors
    ///
    /// There is an index of that name.
    #[doc(alias = "Indexers")]
    pub fn index<I>(
        self,
        name: &str,
        values: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Result<Self, DuplicateIndex>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        self.writer.store().add_index(name, values)?;
        Ok(self)
    }

    /// How often handlers that do not say otherwise are told everything again. Default: never.
    #[doc(alias = "ResyncPeriod")]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// What stands between the watch and the cache.
    pub fn queue(mut self, queue: QueueKind) -> Self {
        self.queue = queue;
        self
    }

    /// Sees every end of a list or watch, the normal ones too, from the task that reads: quick work only.
    #[doc(alias = "SetWatchErrorHandler")]
    #[doc(alias = "SetWatchErrorHandlerWithContext")]
    pub fn on_stream_end(mut self, hook: impl Fn(&StreamEnd<'_>) + Send + Sync + 'static) -> Self {
        self.on_stream_end = Some(Arc::new(hook));
        self
    }

    /// Only objects of a shard, as [`Scope::shard`](crate::Scope::shard) says for a source that has a scope.
    /// [`Informer::set_shard`] moves it later.
    pub fn shard(mut self, shard: Shard) -> Self {
        self.shard = Some(shard);
        self
    }

    /// Nobody may move the shard: for informers that are shared by those who ask for the same shard.
    pub(crate) fn fix_shard(mut self) -> Self {
        self.shard_is_fixed = true;
        self
    }

    /// Handlers keep the informer alive, as handles do: for those whose handles are hard to hold on to.
    pub(crate) fn handlers_keep_alive(mut self) -> Self {
        self.handlers_keep_alive = true;
        self
    }

    /// Changes the name, whatever it is so far.
    pub(crate) fn rename(mut self, change: impl FnOnce(String) -> String) -> Self {
        let name = self.name.take().unwrap_or_else(|| describe(&self.sources));
        self.name = Some(change(name));
        self
    }

    /// The handle, and the task to run. Nothing runs yet; handlers can be added.
    pub fn build(self) -> (Informer<K>, InformerTask<K>) {
        let store = self.writer.store();
        let name = self.name.unwrap_or_else(|| describe(&self.sources));
        let resource = self.sources.first().and_then(|source| source.resource());
        let shard = self
            .shard
            .or_else(|| self.sources.first().and_then(|source| source.shard()));
        let mut queues = Vec::new();
        let mut reflectors = Vec::new();
        let mut assignments = Vec::new();
        for (member, source) in self.sources.into_iter().enumerate() {
            let queue: Arc<dyn DeltaQueue<K>> = match self.queue {
                QueueKind::InOrder { capacity } => Arc::new(InOrderQueue::new().capacity(capacity)),
                QueueKind::Keyed { capacity } => {
                    let known = MemberKeys {
                        store: store.clone(),
                        member,
                    };
                    Arc::new(DeltaFifo::new().capacity(capacity).known(known))
                }
            };
            let assignment = Assignment::default();
            if let Some(shard) = &shard {
                assignment.begin(shard.clone());
            }
            let mut reflector = Reflector::from_shared(source, queue.clone())
                // Resyncs are the dispatcher's: the reflector has none to give.
                .config(ReflectorConfig {
                    resync: None,
                    ..self.config.clone()
                })
                .known(Arc::new(store.clone()))
                .assignment(assignment.clone())
                .on_stream_end_shared(self.on_stream_end.clone());
            if let Some(transform) = &self.transform {
                reflector = reflector.transform(transform.clone());
            }
            assignments.push(assignment);
            queues.push(queue);
            reflectors.push(reflector);
        }
        let shared = Shared::new(Parts {
            name,
            resource,
            writer: self.writer,
            queues,
            reflectors: reflectors.iter().map(Reflector::handle).collect(),
            assignments,
            shard,
            shard_is_fixed: self.shard_is_fixed,
            default_resync: self.resync,
            handlers_keep_alive: self.handlers_keep_alive,
        });
        let alive = Arc::new(Alive {
            stop: shared.stop.clone(),
        });
        (
            Informer {
                shared: shared.clone(),
                alive,
            },
            InformerTask::new(shared, reflectors),
        )
    }

    /// Builds it and runs it on a task of its own, on the current tokio runtime.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, as `tokio::spawn` does.
    #[doc(alias = "Run")]
    pub fn start(self) -> Informer<K> {
        let (informer, task) = self.build();
        task.spawn();
        informer
    }
}

fn describe<K: Object>(sources: &[Arc<dyn ListerWatcher<K>>]) -> String {
    match sources {
        [] => "nothing".to_owned(),
        [source] => source.describe(),
        [first, rest @ ..] => format!("{} and {} more", first.describe(), rest.len()),
    }
}

/// What the store holds of one member, for the keyed queue.
struct MemberKeys<K> {
    store: Store<K>,
    member: usize,
}

impl<K: Object> KnownKeys<K> for MemberKeys<K> {
    fn keys(&self) -> Vec<ObjectKey> {
        self.store.known_keys_of(self.member)
    }

    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.store.get(key)
    }

    fn contains(&self, key: &ObjectKey) -> bool {
        self.store.knows(key)
    }
}
