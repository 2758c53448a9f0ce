//! `SharedInformerFactory`: one informer per kind and scope, whoever asks, and the life of them all.

pub mod accessors;
mod check;
mod errors;
mod follow;
mod key;
mod options;
mod resource;
mod resource_name;
mod slot;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tracing::{Span, warn};

use crate::informer::{Informer, InformerBuilder, SyncOutcome};
use crate::object::Object;
use crate::scope::Scope;
use crate::source::{ListWatch, ResourceType};
use crate::task::{Spawner, TaskPanicError};

use key::{InformerIdentity, InformerKey};
use options::FactoryOptions;
use slot::{AnyInformer, InformerSlot, InformerSlots};

pub use check::UnknownNamespacesError;
pub use errors::FactorySyncError;
pub use options::FactoryBuilder;
pub use resource::ResourceError;
pub use resource_name::ResourceName;

/// Gives out informers that are shared: whoever asks for the same objects gets the same cache and the same watch.
///
/// "The same" means: the same Rust type, the same resource of the API and the same [`Scope`]. Everything else is
/// chosen once for the whole factory, in its [builder](Self::builder), so that nobody silently gets options that
/// somebody else has chosen; who wants others uses [`informer_for`](Self::informer_for).
///
/// # Lifecycle
///
/// Informers run after [`start`](Self::start), which starts those asked for so far and may be called again. A factory
/// does not keep its informers alive, with one exception: what was asked for is held until the next `start`. After
/// that, an informer lives as long as it is used: as long as somebody holds an [`Informer`], a
/// [`Lister`](crate::Lister), [`Store`](crate::Store), [`Index`](crate::Index),
/// [`Subscription`](crate::Subscription) or [`Registration`](crate::Registration) of it, and as long as it has a
/// handler. When the last one goes, it stops, and whoever asks again gets a new one, to be started like the first.
/// A handle of an informer that is [shut down](Informer::shutdown) by hand is shut down for all who share it.
///
/// A clone is another handle of the same factory, as is a [scoped](Self::scoped) view.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::{Node, Pod};
/// use kube_informers::{Event, Scope, SharedInformerFactory};
///
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let factory = SharedInformerFactory::new(client);
/// let pods = factory.informer::<Pod>();
/// let again = factory.informer::<Pod>(); // the same watch and the same cache
/// let system = factory.scoped(Scope::namespace("kube-system")).informer::<Pod>(); // another one
/// factory.informer::<Node>().add_event_handler(|event: Event<Node>| println!("{event}"))?;
///
/// factory.start();
/// factory.wait_for_sync().await?;
/// println!("{} pods", pods.lister().all().len());
///
/// factory.run_until(async { tokio::signal::ctrl_c().await.ok(); }).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedInformerFactory {
    inner: Arc<FactoryInner>,
    /// What this handle asks for; the rest is the same for all handles.
    scope: Scope,
}

struct FactoryInner {
    client: kube::Client,
    options: FactoryOptions,
    slots: Mutex<InformerSlots>,
    /// Made by the first start, on the runtime it is called on.
    spawner: OnceLock<Spawner>,
}

impl SharedInformerFactory {
    /// A factory for everything in all namespaces, without resyncs.
    #[doc(alias = "NewSharedInformerFactory")]
    #[doc(alias = "NewDynamicSharedInformerFactory")]
    pub fn new(client: kube::Client) -> Self {
        Self::builder(client).build()
    }

    /// Chooses more: scope, resyncs, transforms, name, how to list and watch.
    #[doc(alias = "NewSharedInformerFactoryWithOptions")]
    #[doc(alias = "NewFilteredSharedInformerFactory")]
    pub fn builder(client: kube::Client) -> FactoryBuilder {
        FactoryBuilder::new(client)
    }

    fn from_options(client: kube::Client, scope: Scope, options: FactoryOptions) -> Self {
        Self {
            inner: Arc::new(FactoryInner {
                client,
                options,
                slots: Mutex::default(),
                spawner: OnceLock::new(),
            }),
            scope,
        }
    }

    /// The informer of a type: `Pod`, a custom resource, or `PartialObjectMeta<Pod>` for metadata only.
    ///
    /// The namespaces of the factory's scope do not apply to kinds that live in none.
    #[doc(alias = "Informer")]
    #[doc(alias = "InformerFor")]
    pub fn informer<K>(&self) -> Informer<K>
    where
        K: kube::Resource<DynamicType: Default> + DeserializeOwned + Send + Sync + 'static,
    {
        self.projected(ResourceType::of::<K>())
    }

    /// The informer of a resource known only at run time. Ask [`for_resource`](Self::for_resource) if all you have
    /// is a name.
    ///
    /// A resource that the server does not serve (yet) is waited for: the informer backs off, says so in
    /// [`state`](Informer::state), and goes on when the resource appears.
    #[doc(alias = "DynamicSharedInformerFactory")]
    #[inline] // Not generic: a plain function would compile a whole informer into the library.
    pub fn dynamic(&self, resource: impl Into<ResourceType>) -> Informer<DynamicObject> {
        self.projected(known(resource.into()))
    }

    /// The informer of a resource, read as a type of your own that has only the fields it wants.
    pub fn projected<K: Object + DeserializeOwned>(&self, resource: impl Into<ResourceType>) -> Informer<K> {
        let resource = resource.into();
        let scope = self.scope_of(&resource);
        let key = InformerKey::of::<K>(InformerIdentity::collection(&resource, &scope));
        self.ask(key, || {
            let list_watch = ListWatch::projected(self.client(), resource, scope);
            self.configure(Informer::from_list_watch(self.inner.options.wire(list_watch)))
                .fix_shard()
        })
    }

    /// The informer that a constructor of yours builds, with options of its own. The constructor is called when there
    /// is none yet; what it returns is remembered under the type of the constructor (and the scope of this handle): the
    /// same function or closure gets the same informer, another one gets another.
    ///
    /// A constructor that captures values is refused when it is compiled, because its type does not tell which
    /// values: use [`informer_named`](Self::informer_named).
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kube_informers::informer::QueueKind;
    /// # use kube_informers::{Informer, SharedInformerFactory};
    /// # fn main() { std::hint::black_box(example as fn(SharedInformerFactory)); }
    /// # fn example(factory: SharedInformerFactory) {
    /// let pods = factory.informer_for::<Pod>(|factory| {
    ///     factory.default_builder().queue(QueueKind::Keyed { capacity: 1000 })
    /// });
    /// # }
    /// ```
    ///
    /// ```compile_fail
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kube_informers::{Informer, Scope, SharedInformerFactory};
    /// # // The refusal comes when code is made, so the function must be reachable.
    /// # fn main() { std::hint::black_box(example as fn(SharedInformerFactory, String)); }
    /// # fn example(factory: SharedInformerFactory, namespace: String) {
    /// let pods = factory.informer_for::<Pod>(move |factory| Informer::namespaced(factory.client(), &namespace));
    /// # }
    /// ```
    #[doc(alias = "InformerFor")]
    pub fn informer_for<K: Object>(
        &self,
        constructor: impl FnOnce(&Self) -> InformerBuilder<K> + 'static,
    ) -> Informer<K> {
        let key = InformerKey::of::<K>(InformerIdentity::constructor(&constructor, &self.scope));
        self.ask(key, || constructor(self))
    }

    /// The same under a name of your own, for constructors that capture values: one informer per type, name and
    /// scope. It is up to you that one name stands for one set of options.
    pub fn informer_named<K: Object>(
        &self,
        name: &str,
        constructor: impl FnOnce(&Self) -> InformerBuilder<K>,
    ) -> Informer<K> {
        let key = InformerKey::of::<K>(InformerIdentity::named(name, &self.scope));
        self.ask(key, || constructor(self))
    }

    /// A builder with all options of this factory, for [`informer_for`](Self::informer_for).
    pub fn default_builder<K>(&self) -> InformerBuilder<K>
    where
        K: kube::Resource<DynamicType: Default> + DeserializeOwned + Send + Sync + 'static,
    {
        let resource = ResourceType::of::<K>();
        let scope = self.scope_of(&resource);
        let list_watch = ListWatch::projected(self.client(), resource, scope);
        self.configure(Informer::from_list_watch(self.inner.options.wire(list_watch)))
    }

    /// Gives a builder the options of this factory, those apart that are the source's own (scope, options hook,
    /// managed fields).
    pub fn configure<K: Object>(&self, builder: InformerBuilder<K>) -> InformerBuilder<K> {
        self.inner.options.apply(builder)
    }

    /// The same factory, asking for another part of the collections. Informers are shared among all handles that ask
    /// for the same.
    ///
    /// A shard is part of what is asked for, so such an informer keeps the shard it was asked with: whoever moved it would
    /// move it for others. A shard that moves needs a name: [`informer_named`](Self::informer_named).
    #[doc(alias = "WithNamespace")]
    #[doc(alias = "WithTweakListOptions")]
    #[must_use]
    pub fn scoped(&self, scope: Scope) -> Self {
        Self {
            inner: self.inner.clone(),
            scope,
        }
    }

    /// The scope this handle asks for.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The client it was made with.
    pub fn client(&self) -> kube::Client {
        self.inner.client.clone()
    }

    /// The part of a resource this handle asks for.
    fn scope_of(&self, resource: &ResourceType) -> Scope {
        match resource.is_namespaced() {
            Some(false) => self.scope.clone().in_all_namespaces(),
            _ => self.scope.clone(),
        }
    }

    /// The informer of this key, built if there is none that is alive.
    fn ask<K: Object>(&self, key: InformerKey, build: impl FnOnce() -> InformerBuilder<K>) -> Informer<K> {
        let shutdown = {
            let slots = self.inner.slots.lock();
            if let Some(informer) = slots.find(&key) {
                return informer;
            }
            slots.is_shut_down()
        };
        // Builders run code of the user: not under the lock.
        let builder = build().handlers_keep_alive();
        let builder = match shutdown {
            true => builder.rename(|name| format!("{name} (its factory was shut down)")),
            false => builder,
        };
        let (informer, task) = builder.build();
        let slot = InformerSlot::new(&informer, task);
        // Who asked for the same meanwhile and was first, decides. What is not taken ends, and says so.
        let (informer, unused) = self.inner.slots.lock().find_or_insert(key, informer, slot);
        drop(unused);
        informer
    }

    /// Runs every informer that was asked for and does not run yet, on the current tokio runtime. Call it again after
    /// asking for more. Does nothing after [`shutdown`](Self::shutdown).
    ///
    /// Informers that nobody uses end here: the factory lets go of them.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, as `tokio::spawn` does.
    #[doc(alias = "Start")]
    #[doc(alias = "StartWithContext")]
    pub fn start(&self) {
        let spawner = self.spawner();
        let (entries, shutdown) = {
            let slots = self.inner.slots.lock();
            (slots.entries(), slots.is_shut_down())
        };
        if shutdown {
            warn!("start of a factory that was shut down: nothing is started; make a new factory");
            return;
        }
        for entry in entries {
            entry.start(spawner);
        }
        let gone = self.inner.slots.lock().forget_gone();
        drop(gone);
    }

    fn spawner(&self) -> &Spawner {
        self.inner
            .spawner
            .get_or_init(|| Spawner::new(Handle::current(), Span::none()))
    }

    /// Waits until every informer has its first complete collection in the cache, through all errors. Those that stop
    /// meanwhile because nobody uses them are not waited for.
    ///
    /// # Errors
    ///
    /// At once if informers were asked for and not started, which would never sync; and when some stop.
    #[doc(alias = "WaitForCacheSync")]
    #[doc(alias = "WaitForNamedCacheSync")]
    pub async fn wait_for_sync(&self) -> Result<(), FactorySyncError> {
        self.wait_until(None).await
    }

    /// Waits for so long, and then says who is missing and reason: the last error, how often it was tried, what the
    /// informer is doing.
    ///
    /// # Errors
    ///
    /// Some informers were not synced in time, were not started, or stopped.
    pub async fn wait_for_sync_within(&self, timeout: Duration) -> Result<(), FactorySyncError> {
        self.wait_until(Some(timeout)).await
    }

    async fn wait_until(&self, timeout: Option<Duration>) -> Result<(), FactorySyncError> {
        let began = Instant::now();
        let entries = {
            let slots = self.inner.slots.lock();
            if slots.is_shut_down() {
                return Err(FactorySyncError::shutdown());
            }
            slots.entries()
        };
        let in_use: Vec<Arc<dyn AnyInformer>> =
            entries.into_iter().filter(|entry| !entry.is_gone()).collect();
        if in_use.iter().any(|entry| !entry.is_started()) {
            let unstarted = in_use.iter().filter(|entry| !entry.is_started());
            let missing = unstarted.filter_map(|entry| entry.not_synced(Duration::ZERO));
            return Err(FactorySyncError::not_started(missing.collect(), in_use.len()));
        }
        let deadline = timeout.map(|timeout| began + timeout);
        let settled = join_all(in_use.iter().map(|entry| async move {
            match deadline {
                None => Some(entry.sync_outcome().await),
                Some(deadline) => timeout_at(deadline, entry.sync_outcome()).await.ok(),
            }
        }));
        let settled = settled.await;
        let after = began.elapsed();
        let missing: Vec<_> = in_use
            .iter()
            .zip(settled)
            .filter(|(_, settled)| !matches!(settled, Some(SyncOutcome::Synced | SyncOutcome::Unused)))
            .filter_map(|(entry, _)| entry.not_synced(after))
            .collect();
        if self.inner.slots.lock().is_shut_down() && !missing.is_empty() {
            return Err(FactorySyncError::shutdown());
        }
        match missing.is_empty() {
            true => Ok(()),
            false => Err(FactorySyncError::missing(missing, in_use.len())),
        }
    }

    /// How many informers it has that are in use or wait for [`start`](Self::start).
    pub fn informers(&self) -> usize {
        let entries = self.inner.slots.lock().entries();
        entries.iter().filter(|entry| !entry.is_gone()).count()
    }

    /// Stops every informer and waits until nothing of them runs any more. The factory cannot be used again: what is
    /// asked for from now on is stopped already, and says so.
    #[doc(alias = "Shutdown")]
    pub async fn shutdown(&self) {
        let entries = self.inner.slots.lock().shutdown();
        join_all(entries.iter().map(|entry| entry.shutdown())).await;
        if let Some(spawner) = self.inner.spawner.get() {
            spawner.wait().await;
        }
    }

    /// [Starts](Self::start) what was asked for, waits for `signal`, and shuts down.
    ///
    /// # Errors
    ///
    /// One of the library's own tasks panicked, here or in an earlier run; everything is shut down then, too.
    #[doc(alias = "Run")]
    pub async fn run_until(&self, signal: impl Future<Output = ()>) -> Result<(), TaskPanicError> {
        self.start();
        // Cancel-safe both: a death is remembered, and the signal is waited for once.
        let outcome = tokio::select! {
            biased;
            died = self.spawner().died() => Err(died),
            () = signal => Ok(()),
        };
        self.shutdown().await;
        outcome
    }
}

/// Says whether the objects live in namespaces, where the caller does not and we know.
fn known(resource: ResourceType) -> ResourceType {
    let api = resource.api();
    let builtin = accessors::builtin(&api.group, &api.version, &api.plural);
    match (resource.is_namespaced(), builtin) {
        (None, Some(builtin)) => resource.namespaced(builtin.namespaced),
        _ => resource,
    }
}

impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformerFactory")
            .field("scope", &self.scope.to_string())
            .field("informers", &self.informers())
            .finish_non_exhaustive()
    }
}
