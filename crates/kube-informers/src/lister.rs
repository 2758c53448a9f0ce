//! Listers: the cache by label selector, namespace, name and owner. They read a store and know no informer.

use std::fmt;
use std::sync::Arc;

use kube::core::Status;
use kube::core::response::StatusDetails;

use crate::indexes;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::selector::Selector;
use crate::source::ResourceType;
use crate::store::Store;

/// Reads a cache: [`Informer::lister`](crate::Informer::lister).
///
/// Answers come from memory and are as new as the cache; nothing here asks the server. The objects of one answer
/// were in the cache at one moment. Cloning is cheap.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube_informers::{Informer, Selector};
/// # fn example(pods: Informer<Pod>) -> Result<(), Box<dyn std::error::Error>> {
/// let lister = pods.lister();
/// let web: Selector = "app=web,tier in (front, back)".parse()?;
///
/// let everywhere = lister.list(&web);
/// let in_shop = lister.namespace("shop").list(&web);
/// let cart = lister.namespace("shop").get("cart"); // an Option
/// let cart = lister.namespace("shop").try_get("cart")?; // or an error that says NotFound
/// # Ok(())
/// # }
/// ```
#[doc(alias = "GenericLister")]
#[doc(alias = "PodLister")]
#[doc(alias = "ResourceIndexer")]
pub struct Lister<K: Object> {
    store: Store<K>,
    resource: Option<Arc<ResourceType>>,
}

impl<K: Object> Lister<K> {
    /// Reads this store. Errors will not know what the server calls its objects; see [`of`](Self::of).
    pub fn new(store: Store<K>) -> Self {
        Self {
            store,
            resource: None,
        }
    }

    /// Says what the server calls the objects, for [`NotFound`].
    #[must_use]
    pub fn of(mut self, resource: impl Into<ResourceType>) -> Self {
        self.resource = Some(Arc::new(resource.into()));
        self
    }

    /// The objects whose labels are selected. Reads no labels if everything is, and nothing at all if the
    /// selector contradicts itself.
    #[doc(alias = "ListAll")]
    pub fn list(&self, selector: &Selector) -> Vec<Arc<K>> {
        if selector.is_nothing() {
            return Vec::new();
        }
        let snapshot = self.store.list();
        if selector.is_everything() {
            let mut all = Vec::with_capacity(snapshot.len());
            all.extend(snapshot.iter().cloned());
            return all;
        }
        let selected = snapshot.iter().filter(|object| selector.matches(&***object));
        selected.cloned().collect()
    }

    /// Everything.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.list(&Selector::everything())
    }

    /// The objects of one namespace.
    #[doc(alias = "ByNamespace")]
    #[doc(alias = "ListAllByNamespace")]
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> NamespaceLister<'a, K> {
        NamespaceLister {
            lister: self,
            namespace,
        }
    }

    /// The object of this key: the name of a cluster-scoped object, or `namespace/name`.
    pub fn get(&self, key: &str) -> Option<Arc<K>> {
        let (namespace, name) = split(key);
        self.store.get_by(namespace, name)
    }

    /// The object of this key.
    pub fn get_key(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.store.get(key)
    }

    /// The same as [`get`](Self::get), for those who want an error.
    ///
    /// # Errors
    ///
    /// There is no such object in the cache. Turns into the [`kube::Error`] that the server would have caused.
    pub fn try_get(&self, key: &str) -> Result<Arc<K>, NotFound> {
        let (namespace, name) = split(key);
        self.find(namespace, name)
    }

    /// The object that manages `object`, of whatever kind that is: the ReplicaSet of a pod, the Deployment of a
    /// ReplicaSet. `None` if it has no controller, or one of another kind, or one that the cache does not hold.
    ///
    /// Found by name and checked by UID, so it never is an object that took the name of the owner later.
    #[doc(alias = "GetControllerOf")]
    #[doc(alias = "GetPodReplicaSets")]
    pub fn controller_of(&self, object: &impl Object) -> Option<Arc<K>> {
        let controller = object.owners().find(|owner| owner.controller)?;
        self.by_owner_ref(object.namespace(), controller.name, controller.uid)
    }

    /// The owners of `object`, of whatever kind that is, which the cache holds.
    pub fn owners_of(&self, object: &impl Object) -> Vec<Arc<K>> {
        let owners = object.owners();
        owners
            .filter_map(|owner| self.by_owner_ref(object.namespace(), owner.name, owner.uid))
            .collect()
    }

    fn by_owner_ref(&self, namespace: Option<&str>, name: &str, uid: &str) -> Option<Arc<K>> {
        // An owner lives in the namespace of what it owns, or in none.
        [namespace, None]
            .into_iter()
            .filter_map(|namespace| self.store.get_by(namespace, name))
            .find(|owner| !uid.is_empty() && owner.uid() == Some(uid))
    }

    /// The objects owned by the object of this UID. Uses the index [`indexes::owner_uid`], which the first call
    /// adds.
    #[doc(alias = "GetPodControllers")]
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        indexes::owner_uid(&self.store).get(uid)
    }

    /// The objects that `owner` manages: the pods of a ReplicaSet, say. Those it owns without being their
    /// controller are left out.
    pub fn controlled_by(&self, owner: &impl Object) -> Vec<Arc<K>> {
        let Some(uid) = owner.uid().filter(|uid| !uid.is_empty()) else {
            return Vec::new();
        };
        let mut owned = self.owned_by(uid);
        owned.retain(|object| object.owners().any(|owner| owner.controller && owner.uid == uid));
        owned
    }

    /// The objects whose own selector, in some field, selects `object`, in its namespace: the DaemonSets, Services
    /// or PodDisruptionBudgets a pod belongs to.
    ///
    /// `selector` gives that of a candidate; one that is missing or cannot be read selects nothing, and so does,
    /// here, one that is empty. An object without labels is selected by nobody.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
    /// # use kube_informers::{Lister, Selector};
    /// # fn example(daemon_sets: Lister<DaemonSet>, pod: &Pod) {
    /// let sets = daemon_sets.selecting(pod, |set| Selector::try_from(&set.spec.selector).ok());
    /// # }
    /// ```
    #[doc(alias = "GetPodDaemonSets")]
    #[doc(alias = "GetPodJobs")]
    #[doc(alias = "GetPodStatefulSets")]
    #[doc(alias = "GetPodPodDisruptionBudgets")]
    pub fn selecting(&self, object: &impl Object, selector: impl Fn(&K) -> Option<Selector>) -> Vec<Arc<K>> {
        if object.labels().next().is_none() {
            return Vec::new();
        }
        let mut candidates = match object.namespace() {
            Some(namespace) => self.store.namespace(namespace),
            None => self.all(),
        };
        candidates.retain(|candidate| {
            selector(candidate).is_some_and(|selector| !selector.is_everything() && selector.matches(object))
        });
        candidates
    }

    /// The store behind it.
    pub fn store(&self) -> &Store<K> {
        &self.store
    }

    fn find(&self, namespace: Option<&str>, name: &str) -> Result<Arc<K>, NotFound> {
        let found = self.store.get_by(namespace, name);
        found.ok_or_else(|| NotFound {
            group: self
                .resource
                .as_ref()
                .map_or_else(String::new, |resource| resource.api().group.clone()),
            resource: self
                .resource
                .as_ref()
                .map_or_else(|| "objects".to_owned(), |resource| resource.api().plural.clone()),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        })
    }
}

fn split(key: &str) -> (Option<&str>, &str) {
    match key.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, key),
    }
}

impl<K: Object> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            resource: self.resource.clone(),
        }
    }
}

/// Numbers only: the objects may be Secrets.
impl<K: Object> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").field("store", &self.store).finish()
    }
}

/// One namespace of a cache: [`Lister::namespace`].
#[doc(alias = "PodNamespaceLister")]
#[doc(alias = "GenericNamespaceLister")]
pub struct NamespaceLister<'a, K: Object> {
    lister: &'a Lister<K>,
    namespace: &'a str,
}

impl<K: Object> NamespaceLister<'_, K> {
    /// The objects of the namespace whose labels are selected. Looks at no object of another namespace.
    pub fn list(&self, selector: &Selector) -> Vec<Arc<K>> {
        if selector.is_nothing() {
            return Vec::new();
        }
        let mut objects = self.lister.store.namespace(self.namespace);
        if !selector.is_everything() {
            objects.retain(|object| selector.matches(&**object));
        }
        objects
    }

    /// Everything in the namespace.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.list(&Selector::everything())
    }

    /// The object of this name.
    pub fn get(&self, name: &str) -> Option<Arc<K>> {
        self.lister.store.get_by(Some(self.namespace), name)
    }

    /// The same for those who want an error.
    ///
    /// # Errors
    ///
    /// There is no such object in the cache. Turns into the [`kube::Error`] that the server would have caused.
    pub fn try_get(&self, name: &str) -> Result<Arc<K>, NotFound> {
        self.lister.find(Some(self.namespace), name)
    }
}

impl<K: Object> fmt::Debug for NamespaceLister<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamespaceLister({:?})", self.namespace)
    }
}

/// The cache holds no such object.
///
/// In a function that returns [`kube::Error`], `?` turns it into the answer 404 of a server, so that
/// `Err(kube::Error::Api(status)) if status.is_not_found()` matches both.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {:?} not found in the cache", self.qualified(), self.key())]
#[doc(alias = "IsNotFound")]
pub struct NotFound {
    /// The API group; empty for the core group and where it is not known.
    pub group: String,
    /// The plural name of the kind; `objects` where it is not known.
    pub resource: String,
    /// The namespace asked for.
    pub namespace: Option<String>,
    /// The name asked for.
    pub name: String,
}

impl NotFound {
    /// The answer of a server that has no such object.
    pub fn status(&self) -> Status {
        let message = format!("{} {:?} not found", self.qualified(), self.name);
        Status::failure(&message, "NotFound")
            .with_code(404)
            .with_details(StatusDetails {
                name: self.name.clone(),
                group: self.group.clone(),
                kind: self.resource.clone(),
                uid: String::new(),
                causes: Vec::new(),
                retry_after_seconds: 0,
            })
    }

    fn qualified(&self) -> String {
        match self.group.as_str() {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }

    fn key(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

impl From<NotFound> for kube::Error {
    fn from(error: NotFound) -> Self {
        Self::Api(error.status().boxed())
    }
}
