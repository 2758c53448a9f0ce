//! `SharedInformerFactory`: one shared informer per kind and scope.

pub mod accessors;
mod check;
mod follow;
mod health;
mod key;
mod options;
pub(crate) mod resource;
mod resource_name;
mod slot;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tracing::{Span, error, warn};

use crate::informer::{Informer, InformerBuilder, ShutdownReport, SyncOutcome};
use crate::object::Object;
use crate::reflector::SyncError;
use crate::scope::Scope;
use crate::source::{FromWire, KnownResource, ListWatch, ResourceType};
use crate::task::{Spawner, TaskPanicError};
use crate::time::after;

use key::{InformerIdentity, InformerKey};
use options::FactoryOptions;
use slot::{AnyInformer, InformerSlot, InformerSlots};

pub use options::FactoryBuilder;
pub use resource_name::ResourceName;

/// Returns shared informers: requests for the same objects share one cache and one watch.
///
/// Two requests are the same if they have the same Rust type, API resource and [`Scope`]. All other options are set
/// once for the factory, in its [builder](Self::builder), so no caller gets options that another caller chose. Use
/// [`informer_for`](Self::informer_for) for different options.
///
/// # Lifetime
///
/// Informers run after [`start`](Self::start), which starts those requested so far and may be called again. A factory
/// keeps a requested informer alive until the next `start`. After that it lives as long as it is in use: while there is
/// an [`Informer`], [`Lister`](crate::Lister), [`Store`](crate::Store), [`Index`](crate::store::Index),
/// [`Subscription`](crate::Subscription) or [`Registration`](crate::Registration) for it, or it has a handler. When the
/// last of these is dropped, the informer stops; a later request creates a new one, which must be started again.
/// [Shutting down](Informer::shutdown) a shared informer stops it for all its users.
///
/// A clone is another handle to the same factory, as is a [scoped](Self::scoped) view.
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
    /// The scope of this handle; everything else is shared by all handles.
    scope: Scope,
}

struct FactoryInner {
    client: kube::Client,
    options: FactoryOptions,
    slots: Mutex<InformerSlots>,
    /// Created by the first start, on its runtime.
    spawner: OnceLock<Spawner>,
}

impl SharedInformerFactory {
    /// A factory for everything in all namespaces, without resyncs.
    #[doc(alias = "NewSharedInformerFactory")]
    #[doc(alias = "NewDynamicSharedInformerFactory")]
    pub fn new(client: kube::Client) -> Self {
        Self::builder(client).build()
    }

    /// Configures a factory: scope, resyncs, transforms, name, lists and watches.
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
    /// The namespaces of the factory's scope do not apply to cluster-scoped kinds.
    #[doc(alias = "Informer")]
    #[doc(alias = "InformerFor")]
    pub fn informer<K>(&self) -> Informer<K>
    where
        K: FromWire + KnownResource,
    {
        self.projected(K::resource_type())
    }

    /// The informer of a resource known only at run time. To look a resource up by its name, use
    /// [`for_resource`](Self::for_resource).
    ///
    /// If the server does not serve the resource (yet), the informer backs off, reports that in
    /// [`state`](Informer::state), and continues when the resource appears.
    #[doc(alias = "DynamicSharedInformerFactory")]
    #[inline] // Not generic: a plain function would compile a whole informer into the library.
    #[doc(alias = "NewFilteredDynamicSharedInformerFactory")]
    pub fn dynamic(&self, resource: impl Into<ResourceType>) -> Informer<DynamicObject> {
        self.projected(known(resource.into()))
    }

    /// The informer of a resource, decoded into your own type with only the fields it declares.
    pub fn projected<K: FromWire>(&self, resource: impl Into<ResourceType>) -> Informer<K> {
        let resource = resource.into();
        let scope = self.scope_of(&resource);
        let key = InformerKey::of::<K>(InformerIdentity::collection(&resource, &scope));
        self.get_or_build(key, || {
            let list_watch = ListWatch::projected(self.client(), resource, scope);
            let list_watch = list_watch.options(self.inner.options.source());
            if let Err(error) = list_watch.check_schema() {
                // Its requests fail with the same words; this is said before anything waits for them.
                error!(%error, "this informer of the factory cannot sync");
            }
            self.configure(Informer::from_list_watch(list_watch)).fix_scope()
        })
    }

    /// The informer built by a constructor, with its own options. The constructor is called if there is no such informer
    /// yet. Informers are identified by the type of the constructor and the scope of this handle: the same function or
    /// closure returns the same informer.
    ///
    /// A constructor that captures values does not compile, because its type does not identify the values: use
    /// [`informer_named`](Self::informer_named).
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kube_informers::{Informer, SharedInformerFactory};
    /// # fn main() { std::hint::black_box(example as fn(SharedInformerFactory)); }
    /// # fn example(factory: SharedInformerFactory) {
    /// let pods = factory.informer_for::<Pod>(|factory| {
    ///     factory.default_builder().configure(|config| config.queue_capacity = 10_000)
    /// });
    /// # }
    /// ```
    ///
    /// ```compile_fail
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kube_informers::{Informer, Scope, SharedInformerFactory};
    /// # // The error occurs when code is generated, so the function must be reachable.
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
        self.get_or_build(key, || constructor(self))
    }

    /// Like [`informer_for`](Self::informer_for), identified by a name, for constructors that capture values: one informer
    /// per type, name and scope. The caller ensures that one name stands for one set of options.
    pub fn informer_named<K: Object>(
        &self,
        name: &str,
        constructor: impl FnOnce(&Self) -> InformerBuilder<K>,
    ) -> Informer<K> {
        let key = InformerKey::of::<K>(InformerIdentity::named(name, &self.scope));
        self.get_or_build(key, || constructor(self))
    }

    /// A builder with all options of this factory, for [`informer_for`](Self::informer_for).
    pub fn default_builder<K>(&self) -> InformerBuilder<K>
    where
        K: FromWire + KnownResource,
    {
        let resource = K::resource_type();
        let scope = self.scope_of(&resource);
        let list_watch = ListWatch::projected(self.client(), resource, scope);
        self.configure(Informer::from_list_watch(
            list_watch.options(self.inner.options.source()),
        ))
    }

    /// Applies the options of this factory to a builder, except those of the source (scope, request hook, managed
    /// fields).
    pub fn configure<K: Object>(&self, builder: InformerBuilder<K>) -> InformerBuilder<K> {
        self.inner.options.apply(builder)
    }

    /// The same factory with another scope. Informers are shared among all handles with the same scope.
    ///
    /// A shard is part of the scope, so the shard of a shared informer cannot be moved: that would move it for other users.
    /// For a shard that moves, use [`informer_named`](Self::informer_named).
    #[doc(alias = "WithNamespace")]
    #[doc(alias = "WithTweakListOptions")]
    #[must_use]
    pub fn scoped(&self, scope: Scope) -> Self {
        Self {
            inner: self.inner.clone(),
            scope,
        }
    }

    /// The scope of this handle.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The client of the factory.
    pub fn client(&self) -> kube::Client {
        self.inner.client.clone()
    }

    /// The scope of this handle, as it applies to a resource.
    fn scope_of(&self, resource: &ResourceType) -> Scope {
        match resource.is_namespaced() {
            Some(false) => self.scope.clone().in_all_namespaces(),
            _ => self.scope.clone(),
        }
    }

    /// The informer of this key, built if there is none in use.
    fn get_or_build<K: Object>(
        &self,
        key: InformerKey,
        build: impl FnOnce() -> InformerBuilder<K>,
    ) -> Informer<K> {
        let shutdown = {
            let slots = self.inner.slots.lock();
            if let Some(informer) = slots.find(&key) {
                return informer;
            }
            slots.is_shut_down()
        };
        // Builders run user code: not under the lock.
        let builder = build();
        let builder = match shutdown {
            true => builder.rename(|name| format!("{name} (its factory was shut down)")),
            false => builder,
        };
        let (informer, task) = builder.build();
        let slot = InformerSlot::new(&informer, task);
        // A concurrent request for the same key may have won; then this informer is dropped.
        let (informer, unused) = self.inner.slots.lock().find_or_insert(key, informer, slot);
        drop(unused);
        informer
    }

    /// Runs every requested informer that does not run yet, on the current tokio runtime. Call it again after requesting
    /// more. Does nothing after [`shutdown`](Self::shutdown).
    ///
    /// The factory drops its own handles here, so unused informers stop.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, like `tokio::spawn`.
    #[doc(alias = "Start")]
    #[doc(alias = "StartWithContext")]
    pub fn start(&self) {
        let spawner = self.spawner();
        let (entries, shutdown) = {
            let slots = self.inner.slots.lock();
            (slots.entries(), slots.is_shut_down())
        };
        if shutdown {
            warn!("start was called on a factory that was shut down; create a new factory");
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

    /// Waits until every informer is synced, retrying through all errors. Informers that stop because they are unused are
    /// not waited for.
    ///
    /// # Errors
    ///
    /// A requested informer was not started and would never sync (returned at once), or an informer stopped.
    #[doc(alias = "WaitForCacheSync")]
    #[doc(alias = "WaitForNamedCacheSync")]
    pub async fn wait_for_sync(&self) -> Result<(), SyncError> {
        self.wait_until(None).await
    }

    /// Waits for at most `timeout`. The error lists the informers that are not synced, each with its last error, the number
    /// of attempts and its state.
    ///
    /// # Errors
    ///
    /// Some informers were not synced in time, were not started, or stopped.
    pub async fn wait_for_sync_within(&self, timeout: Duration) -> Result<(), SyncError> {
        self.wait_until(Some(timeout)).await
    }

    async fn wait_until(&self, timeout: Option<Duration>) -> Result<(), SyncError> {
        let began = Instant::now();
        let entries = {
            let slots = self.inner.slots.lock();
            if slots.is_shut_down() {
                return Err(SyncError::shut_down(Duration::ZERO));
            }
            slots.entries()
        };
        let in_use: Vec<Arc<dyn AnyInformer>> =
            entries.into_iter().filter(|entry| !entry.is_gone()).collect();
        if in_use.iter().any(|entry| !entry.is_started()) {
            let unstarted = in_use.iter().filter(|entry| !entry.is_started());
            let missing = unstarted.filter_map(|entry| entry.not_synced(Duration::ZERO));
            return Err(SyncError::not_started(missing.collect()));
        }
        let deadline = timeout.map(|timeout| after(began, timeout));
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
            return Err(SyncError::shut_down(after));
        }
        match missing.is_empty() {
            true => Ok(()),
            false => Err(SyncError::missing_of(missing, in_use.len(), after)),
        }
    }

    /// The number of informers that are in use or wait for [`start`](Self::start).
    pub fn informers(&self) -> usize {
        let entries = self.inner.slots.lock().entries();
        entries.iter().filter(|entry| !entry.is_gone()).count()
    }

    /// Stops every informer, like [`Informer::shutdown`], and reports the handlers that did not return. The factory cannot be used again: informers requested
    /// later are stopped from the start.
    #[doc(alias = "Shutdown")]
    pub async fn shutdown(&self) -> ShutdownReport {
        let entries = self.inner.slots.lock().shutdown();
        let mut report = ShutdownReport::default();
        for informer in join_all(entries.iter().map(|entry| entry.shutdown())).await {
            report.merge(informer);
        }
        if let Some(spawner) = self.inner.spawner.get() {
            spawner.wait().await;
        }
        report
    }

    /// [Starts](Self::start) the requested informers, waits for `signal`, and shuts down.
    ///
    /// # Errors
    ///
    /// One of the library's own tasks panicked, now or in an earlier run. The factory is shut down in this case as
    /// well.
    #[doc(alias = "Run")]
    pub async fn run_until(&self, signal: impl Future<Output = ()>) -> Result<(), TaskPanicError> {
        self.start();
        // Both are cancel-safe: a panic is recorded, and the signal is awaited once.
        let outcome = tokio::select! {
            biased;
            died = self.spawner().died() => Err(died),
            () = signal => Ok(()),
        };
        self.shutdown().await;
        outcome
    }
}

/// Completes a resource with whether it is namespaced, if it is a built-in kind.
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
