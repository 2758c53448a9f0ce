//! `ControllerExt`: informers where a kube-runtime `Controller` takes streams.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use kube::Resource;
use kube_informers::lazy::Lazy;
use kube_informers::{Event, Informer, Object};
use kube_runtime::Controller;
use kube_runtime::reflector::ObjectRef;
use serde::de::DeserializeOwned;

use crate::main_stream::reflected;
use crate::touched::{touched, touched_lazy, touched_when};

/// Feeds a kube-runtime `Controller` from informers.
///
/// Each of these also lets the controller end gracefully when the informer stops.
pub trait ControllerExt<K>: Sized
where
    K: Resource<DynamicType: Eq + Hash>,
{
    /// In place of [`Controller::new`]. Costs a copy of every object; see the [crate](crate).
    fn for_informer(informer: &Informer<K>) -> Self
    where
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Default + Debug + Clone + Unpin + Send + Sync;

    /// In place of [`Controller::owns`]. The objects are those of the informer's cache, not copies.
    ///
    /// Differs from it: an object that changes its owner wakes the old one as well.
    #[must_use]
    fn owns_informer<Child>(self, informer: &Informer<Child>) -> Self
    where
        Child: Resource<DynamicType = ()> + Send + Sync + 'static;

    /// In place of [`Controller::watches`]. The objects are those of the informer's cache, not copies.
    ///
    /// Differs from it: of a change the function is asked about both states.
    #[must_use]
    fn watches_informer<Other, I>(
        self,
        informer: &Informer<Other>,
        mapper: impl Fn(Arc<Other>) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource<DynamicType: Default + Debug + Clone> + DeserializeOwned + Debug,
        Other: Send + Sync + 'static,
        I: IntoIterator<Item = ObjectRef<K>, IntoIter: Send> + 'static;

    /// The same as [`owns_informer`](Self::owns_informer) for a cache of packed objects, which are decoded one by one. The
    /// main kind cannot be packed: kube-runtime's store holds whole objects.
    #[must_use]
    fn owns_lazy_informer<Child>(self, informer: &Informer<Lazy<Child>>) -> Self
    where
        Child: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static;

    /// Like [`owns_informer`](Self::owns_informer), for events that the predicate accepts; see
    /// [`touched_when`](crate::touched_when).
    #[must_use]
    fn owns_informer_when<Child>(
        self,
        informer: &Informer<Child>,
        predicate: impl FnMut(&Event<Child>) -> bool + Send + 'static,
    ) -> Self
    where
        Child: Resource<DynamicType = ()> + Send + Sync + 'static;

    /// Like [`watches_informer`](Self::watches_informer), for events that the predicate accepts; see
    /// [`touched_when`](crate::touched_when).
    #[must_use]
    fn watches_informer_when<Other, I>(
        self,
        informer: &Informer<Other>,
        predicate: impl FnMut(&Event<Other>) -> bool + Send + 'static,
        mapper: impl Fn(Arc<Other>) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource<DynamicType: Default + Debug + Clone> + DeserializeOwned + Debug,
        Other: Send + Sync + 'static,
        I: IntoIterator<Item = ObjectRef<K>, IntoIter: Send> + 'static;

    /// In place of [`Controller::reconcile_on`]: maps whole events, with their cause and both states, to objects to
    /// reconcile.
    #[must_use]
    fn reconcile_on_informer<Other, I>(
        self,
        informer: &Informer<Other>,
        mapper: impl FnMut(&Event<Other>) -> I + Send + 'static,
    ) -> Self
    where
        Other: Object,
        I: IntoIterator<Item = ObjectRef<K>, IntoIter: Send> + 'static;
}

impl<K> ControllerExt<K> for Controller<K>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Debug + Clone + Unpin + Send + Sync,
{
    fn for_informer(informer: &Informer<K>) -> Self
    where
        K::DynamicType: Default,
    {
        let (objects, store) = reflected(informer);
        Controller::for_shared_stream(objects, store).graceful_shutdown_on(informer.wait_for_stop())
    }

    fn owns_informer<Child>(self, informer: &Informer<Child>) -> Self
    where
        Child: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        self.owns_shared_stream(touched(informer))
            .graceful_shutdown_on(informer.wait_for_stop())
    }

    fn watches_informer<Other, I>(
        self,
        informer: &Informer<Other>,
        mapper: impl Fn(Arc<Other>) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource<DynamicType: Default + Debug + Clone> + DeserializeOwned + Debug,
        Other: Send + Sync + 'static,
        I: IntoIterator<Item = ObjectRef<K>, IntoIter: Send> + 'static,
    {
        self.watches_shared_stream(touched(informer), mapper)
            .graceful_shutdown_on(informer.wait_for_stop())
    }

    fn owns_lazy_informer<Child>(self, informer: &Informer<Lazy<Child>>) -> Self
    where
        Child: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.owns_shared_stream(touched_lazy(informer))
            .graceful_shutdown_on(informer.wait_for_stop())
    }

    fn owns_informer_when<Child>(
        self,
        informer: &Informer<Child>,
        predicate: impl FnMut(&Event<Child>) -> bool + Send + 'static,
    ) -> Self
    where
        Child: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        self.owns_shared_stream(touched_when(informer, predicate))
            .graceful_shutdown_on(informer.wait_for_stop())
    }

    fn watches_informer_when<Other, I>(
        self,
        informer: &Informer<Other>,
        predicate: impl FnMut(&Event<Other>) -> bool + Send + 'static,
        mapper: impl Fn(Arc<Other>) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource<DynamicType: Default + Debug + Clone> + DeserializeOwned + Debug,
        Other: Send + Sync + 'static,
        I: IntoIterator<Item = ObjectRef<K>, IntoIter: Send> + 'static,
    {
        self.watches_shared_stream(touched_when(informer, predicate), mapper)
            .graceful_shutdown_on(informer.wait_for_stop())
    }

    fn reconcile_on_informer<Other, I>(
        self,
        informer: &Informer<Other>,
        mut mapper: impl FnMut(&Event<Other>) -> I + Send + 'static,
    ) -> Self
    where
        Other: Object,
        I: IntoIterator<Item = ObjectRef<K>, IntoIter: Send> + 'static,
    {
        let objects = informer
            .subscribe()
            .flat_map(move |event| stream::iter(mapper(&event)));
        self.reconcile_on(objects)
            .graceful_shutdown_on(informer.wait_for_stop())
    }
}
